import type { MlaSizes } from '../../backend'

/** The elements of mlaAttention's tensors; shapes as in the public function. */
export interface MlaInputs {
  readonly q: Float32Array
  readonly kvLatent: Float32Array
  readonly wUpK: Float32Array
  readonly wUpV: Float32Array
  readonly qRope: Float32Array | null
  readonly kRope: Float32Array | null
}

/**
 * Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434) as it is defined: keys and values are projected up
 * from the latents, and each query takes the softmax-weighted mean of the values whose keys it sees.
 *
 * Query t sees key s when not causal or s ≤ t + Tk − Tq; a query that sees no key gives zeros.
 */
export function mlaAttention(inputs: MlaInputs, sizes: MlaSizes, out: Float32Array): void {
  const { batch, numQueries, numKeys, heads, headDim, valueDim, ropeDim, scale, causal } = sizes
  const { q, qRope, kRope } = inputs
  const weights = new Float64Array(numKeys)
  const result = new Float64Array(valueDim)
  for (let b = 0; b < batch; b++) {
    const keys = projectUp(inputs.kvLatent, inputs.wUpK, b, heads * headDim, sizes)
    const values = projectUp(inputs.kvLatent, inputs.wUpV, b, heads * valueDim, sizes)
    for (let h = 0; h < heads; h++) {
      for (let t = 0; t < numQueries; t++) {
        const query = (b * numQueries + t) * heads + h
        const seen = causal ? Math.min(Math.max(t + 1 + numKeys - numQueries, 0), numKeys) : numKeys
        let max = -Infinity
        for (let s = 0; s < seen; s++) {
          let logit = dot(q, query * headDim, keys, (s * heads + h) * headDim, headDim)
          if (qRope && kRope)
            logit += dot(qRope, query * ropeDim, kRope, (b * numKeys + s) * ropeDim, ropeDim)
          weights[s] = logit * scale
          max = Math.max(max, weights[s]!)
        }
        if (max === -Infinity) max = 0
        let sum = 0
        result.fill(0)
        for (let s = 0; s < seen; s++) {
          const weight = Math.exp(weights[s]! - max)
          const value = (s * heads + h) * valueDim
          sum += weight
          for (let d = 0; d < valueDim; d++) result[d] = result[d]! + weight * values[value + d]!
        }
        for (let d = 0; d < valueDim; d++) out[query * valueDim + d] = sum === 0 ? 0 : result[d]! / sum
      }
    }
  }
}

/** All heads' keys or values of one batch entry: latents (Tk, R) times weights (R, width), (Tk, width). */
function projectUp(
  kvLatent: Float32Array,
  weights: Float32Array,
  b: number,
  width: number,
  { numKeys, rank }: MlaSizes,
): Float64Array {
  const out = new Float64Array(numKeys * width)
  for (let s = 0; s < numKeys; s++) {
    const key = s * width
    for (let r = 0; r < rank; r++) {
      const latent = kvLatent[(b * numKeys + s) * rank + r]!
      const row = r * width
      for (let d = 0; d < width; d++) out[key + d] = out[key + d]! + latent * weights[row + d]!
    }
  }
  return out
}

function dot(
  a: ArrayLike<number>,
  aStart: number,
  b: ArrayLike<number>,
  bStart: number,
  length: number,
): number {
  let sum = 0
  for (let i = 0; i < length; i++) sum += a[aStart + i]! * b[bStart + i]!
  return sum
}
