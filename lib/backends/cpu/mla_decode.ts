import type { MlaSizes } from '../../backend'
import { type KeyArrays, keyRows, keysSeen, rowsOf, softmax } from './mla_keys'
import { dots, weightedSum } from './vectors'

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
  const mean = new Float64Array(rank)
  for (let b = 0; b < batch; b++) {
    const rows = keyRows('mlaDecode', keys, b)
    const latents = rowsOf(keys.kvLatent, rows, rank)
    const kRope = keys.kRope && rowsOf(keys.kRope, rows, ropeDim)
    for (let h = 0; h < heads; h++) {
      for (let t = 0; t < numQueries; t++) {
        const query = (b * numQueries + t) * heads + h
        const start = query * (rank + ropeDim)
        const seen = keysSeen(sizes, rows.length, t)
        dots(queries, start, rank, latents, 0, rank, seen, weights)
        if (kRope) {
          dots(queries, start + rank, ropeDim, kRope, 0, ropeDim, seen, ropeLogits)
          for (let s = 0; s < seen; s++) weights[s] = weights[s]! + ropeLogits[s]!
        }
        const logSum = softmax(weights, seen, scale)
        weightedSum(weights, 0, seen, latents, 0, rank, rank, mean, 0)
        out.set(mean, query * rank)
        if (lse) lse[(b * heads + h) * numQueries + t] = logSum
      }
    }
  }
}
