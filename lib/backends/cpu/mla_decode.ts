import type { MlaSizes } from '../../backend'
import { dot, type KeyArrays, keyRows, keysSeen, softmax } from './mla_keys'

/**
 * Multi-head latent attention in the latents' space (DeepSeek-V2, arXiv:2405.04434, section 2.1.2): the latents
 * themselves are keys and values, for all heads alike. Each row of qLatent is the absorbed query, then its rotated part.
 *
 * A query that sees no key gives zeros and an lse of −∞.
 */
export function mlaDecode(
  qLatent: Float32Array,
  keys: KeyArrays,
  sizes: MlaSizes,
  out: Float32Array,
  lse: Float32Array | null,
): void {
  const { batch, numQueries, heads, rank, ropeDim, scale } = sizes
  const { kvLatent, kRope } = keys
  const mean = new Float64Array(rank)
  for (let b = 0; b < batch; b++) {
    const rows = keyRows('mlaDecode', keys, b)
    for (let h = 0; h < heads; h++) {
      for (let t = 0; t < numQueries; t++) {
        const query = (b * numQueries + t) * heads + h
        const start = query * (rank + ropeDim)
        const weights = new Float64Array(keysSeen(sizes, rows.length, t))
        for (let s = 0; s < weights.length; s++) {
          let logit = dot(qLatent, start, kvLatent, rows[s]! * rank, rank)
          if (kRope) logit += dot(qLatent, start + rank, kRope, rows[s]! * ropeDim, ropeDim)
          weights[s] = logit * scale
        }
        const logSum = softmax(weights)
        mean.fill(0)
        for (let s = 0; s < weights.length; s++) {
          for (let r = 0; r < rank; r++) mean[r] = mean[r]! + weights[s]! * kvLatent[rows[s]! * rank + r]!
        }
        out.set(mean, query * rank)
        if (lse) lse[(b * heads + h) * numQueries + t] = logSum
      }
    }
  }
}
