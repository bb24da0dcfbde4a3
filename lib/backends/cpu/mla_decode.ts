import type { MlaSizes } from '../../backend'
import { type KeyArrays, keyRows, keysSeen, rowsOf, softmax } from './mla_keys'
import { addWeightedSum, dots } from './vectors'

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
  const queries = new Float64Array(qLatent)
  const weights = new Float64Array(keys.numKeys)
  const ropeLogits = new Float64Array(keys.numKeys)
  // Of one sequence.
  const means = new Float64Array(numQueries * heads * rank)
  for (let b = 0; b < batch; b++) {
    const rows = keyRows('mlaDecode', keys, b)
    const latents = rowsOf(keys.kvLatent, rows, rank)
    const kRope = keys.kRope && rowsOf(keys.kRope, rows, ropeDim)
    means.fill(0)
    for (let h = 0; h < heads; h++) {
      for (let t = 0; t < numQueries; t++) {
        const own = t * heads + h
        const start = (b * numQueries * heads + own) * (rank + ropeDim)
        const seen = keysSeen(sizes, rows.length, t)
        dots(queries, start, rank, latents, 0, rank, seen, weights)
        if (kRope) {
          dots(queries, start + rank, ropeDim, kRope, 0, ropeDim, seen, ropeLogits)
          for (let s = 0; s < seen; s++) weights[s] = weights[s]! + ropeLogits[s]!
        }
        const logSum = softmax(weights, seen, scale)
        addWeightedSum(weights, 0, seen, latents, 0, rank, rank, means, own * rank)
        if (lse) lse[(b * heads + h) * numQueries + t] = logSum
      }
    }
    out.set(means, b * means.length)
  }
}
