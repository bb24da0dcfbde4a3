import type { MlaAttention } from '../../backend'
import { type KeyArrays, keyRows, keysSeen, rowsOf, softmax } from './mla_keys'
import { addWeightedSum, dots } from './vectors'

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
  inputs: MlaInputs,
  keys: KeyArrays,
  sizes: MlaAttention,
  out: Float32Array,
  lse: Float32Array | null,
): void {
  const { batch, numQueries, heads, headDim, valueDim, ropeDim, rank, scale } = sizes
  const q = new Float64Array(inputs.q)
  const qRope = inputs.qRope && new Float64Array(inputs.qRope)
  const weights = new Float64Array(keys.numKeys)
  const ropeLogits = new Float64Array(keys.numKeys)
  const wUpK = inDoubles(inputs.wUpK, heads * headDim)
  const wUpV = inDoubles(inputs.wUpV, heads * valueDim)
  // Of one sequence.
  const means = new Float64Array(numQueries * heads * valueDim)
  for (let b = 0; b < batch; b++) {
    const rows = keyRows('mlaAttention', keys, b)
    const latents = rowsOf(keys.kvLatent, rows, rank)
    const kRope = keys.kRope && rowsOf(keys.kRope, rows, ropeDim)
    const k = projectUp(latents, rows.length, inputs.wUpK, wUpK, heads * headDim, rank)
    const v = projectUp(latents, rows.length, inputs.wUpV, wUpV, heads * valueDim, rank)
    means.fill(0)
    for (let h = 0; h < heads; h++) {
      for (let t = 0; t < numQueries; t++) {
        const own = t * heads + h
        const query = b * numQueries * heads + own
        const seen = keysSeen(sizes, rows.length, t)
        dots(q, query * headDim, headDim, k, h * headDim, heads * headDim, seen, weights)
        if (qRope && kRope) {
          dots(qRope, query * ropeDim, ropeDim, kRope, 0, ropeDim, seen, ropeLogits)
          for (let s = 0; s < seen; s++) weights[s] = weights[s]! + ropeLogits[s]!
        }
        const logSum = softmax(weights, seen, scale)
        addWeightedSum(weights, 0, seen, v, h * valueDim, heads * valueDim, valueDim, means, own * valueDim)
        if (lse) lse[(b * heads + h) * numQueries + t] = logSum
      }
    }
    out.set(means, b * means.length)
  }
}

/** How many weights are converted to doubles at a time: 256 KiB of them, which stay in a second-level cache. */
const mostConverted = 2 ** 15

/** Fewer weights are converted once for all sequences: with few keys each, converting takes longer than multiplying. */
const isPiecewise = (weights: Float32Array) => weights.length > 2 * mostConverted

/** The weights as doubles, or room for a piece of them: whole rows. */
function inDoubles(weights: Float32Array, width: number): Float64Array {
  return isPiecewise(weights)
    ? new Float64Array(Math.ceil(mostConverted / width) * width)
    : new Float64Array(weights)
}

/**
 * All heads' keys or values of one sequence: its latents (length, rank) times weights (rank, width), (length, width).
 *
 * @param doubles what `inDoubles` gives of the weights
 */
function projectUp(
  latents: Float64Array,
  length: number,
  weights: Float32Array,
  doubles: Float64Array,
  width: number,
  rank: number,
): Float64Array {
  const out = new Float64Array(length * width)
  const piecewise = isPiecewise(weights)
  const mostRows = piecewise ? doubles.length / width : rank
  for (let first = 0; first < rank; first += mostRows) {
    const count = Math.min(mostRows, rank - first)
    if (piecewise) doubles.set(weights.subarray(first * width, (first + count) * width))
    for (let s = 0; s < length; s++)
      addWeightedSum(latents, s * rank + first, count, doubles, 0, width, width, out, s * width)
  }
  return out
}
