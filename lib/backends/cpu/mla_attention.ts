import type { MlaAttention } from '../../backend'
import { dot, type KeyArrays, keyRows, keysSeen, softmax } from './mla_keys'

/** The elements of mlaAttention's tensors but for the keys; shapes as in the public function. */
export interface MlaInputs {
  readonly q: Float32Array
  readonly qRope: Float32Array | null
  readonly wUpK: Float32Array
  readonly wUpV: Float32Array
}

/**
 * Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434) as it is defined: keys and values are projected up
 * from the latents, and each query takes the softmax-weighted mean of the values whose keys it sees.
 *
 * A query that sees no key gives zeros and an lse of −∞.
 */
export function mlaAttention(
  { q, qRope, wUpK, wUpV }: MlaInputs,
  keys: KeyArrays,
  sizes: MlaAttention,
  out: Float32Array,
  lse: Float32Array | null,
): void {
  const { batch, numQueries, heads, headDim, valueDim, ropeDim, scale } = sizes
  const { kRope } = keys
  const mean = new Float64Array(valueDim)
  for (let b = 0; b < batch; b++) {
    const rows = keyRows('mlaAttention', keys, b)
    const k = projectUp(keys.kvLatent, rows, wUpK, heads * headDim, sizes.rank)
    const v = projectUp(keys.kvLatent, rows, wUpV, heads * valueDim, sizes.rank)
    for (let h = 0; h < heads; h++) {
      for (let t = 0; t < numQueries; t++) {
        const query = (b * numQueries + t) * heads + h
        const weights = new Float64Array(keysSeen(sizes, rows.length, t))
        for (let s = 0; s < weights.length; s++) {
          let logit = dot(q, query * headDim, k, (s * heads + h) * headDim, headDim)
          if (qRope && kRope) logit += dot(qRope, query * ropeDim, kRope, rows[s]! * ropeDim, ropeDim)
          weights[s] = logit * scale
        }
        const logSum = softmax(weights)
        mean.fill(0)
        for (let s = 0; s < weights.length; s++) {
          const value = (s * heads + h) * valueDim
          for (let d = 0; d < valueDim; d++) mean[d] = mean[d]! + weights[s]! * v[value + d]!
        }
        out.set(mean, query * valueDim)
        if (lse) lse[(b * heads + h) * numQueries + t] = logSum
      }
    }
  }
}

/** All heads' keys or values of one sequence: its latents (rows, rank) times weights (rank, width), (rows, width). */
function projectUp(
  latents: Float32Array,
  rows: Float64Array,
  weights: Float32Array,
  width: number,
  rank: number,
): Float64Array {
  const out = new Float64Array(rows.length * width)
  for (let s = 0; s < rows.length; s++) {
    for (let r = 0; r < rank; r++) {
      const latent = latents[rows[s]! * rank + r]!
      for (let i = 0; i < width; i++) {
        out[s * width + i] = out[s * width + i]! + latent * weights[r * width + i]!
      }
    }
  }
  return out
}
