import type { Matrix } from './dense'

/** Sizes of a model with one layer of multi-head latent attention. */
export interface ModelShape {
  readonly vocabulary: number
  readonly hidden: number
  readonly heads: number
  readonly headDim: number
  readonly valueDim: number
  readonly rank: number
  /** Even: dimensions are rotated in pairs. */
  readonly ropeDim: number
}

/** What attention takes of one token. */
export interface TokenParts {
  /** (H, D) */
  readonly q: Float32Array
  /** (H, Dr), rotated */
  readonly qRope: Float32Array
  /** (R) */
  readonly latent: Float32Array
  /** (Dr), rotated; all heads share it */
  readonly kRope: Float32Array
}

/**
 * A language model of one layer with random weights: embedding, multi-head latent attention with a residual, and the
 * embedding again to score the next token. Its words mean nothing; its shapes and data flow are those of decoding.
 */
export class LatentModel {
  readonly shape: ModelShape
  /** Factor of the logits: 1/√(D + Dr). */
  readonly scale: number
  /** (R, H, D) and (R, H, Dv), as mlaAttention takes them. */
  readonly wUpK: Float32Array
  readonly wUpV: Float32Array
  readonly #embedding: Matrix
  readonly #wQuery: Matrix
  readonly #wQueryRope: Matrix
  readonly #wDown: Matrix
  readonly #wKeyRope: Matrix
  readonly #wOut: Matrix

  constructor(shape: ModelShape, seed = 1) {
    this.shape = shape
    this.scale = 1 / Math.sqrt(shape.headDim + shape.ropeDim)
    const { vocabulary, hidden, heads, headDim, valueDim, rank, ropeDim } = shape
    const random = randomNumbers(seed)
    // Sums of `inputs` products keep the size of their inputs.
    const weights = (inputs: number, outputs: number): Matrix => {
      const bound = Math.sqrt(3 / inputs)
      const data = Float32Array.from({ length: inputs * outputs }, () => bound * random())
      return { rows: inputs, cols: outputs, data }
    }
    this.#embedding = {
      rows: vocabulary,
      cols: hidden,
      data: new Float32Array(vocabulary * hidden).map(random),
    }
    this.#wQuery = weights(hidden, heads * headDim)
    this.#wQueryRope = weights(hidden, heads * ropeDim)
    this.#wDown = weights(hidden, rank)
    this.#wKeyRope = weights(hidden, ropeDim)
    this.#wOut = weights(heads * valueDim, hidden)
    this.wUpK = weights(rank, heads * headDim).data
    this.wUpV = weights(rank, heads * valueDim).data
  }

  /** What a token at a position brings to attention. */
  project(token: number, position: number): TokenParts {
    const x = this.#embed(token)
    const { heads, ropeDim } = this.shape
    const qRope = timesMatrix(x, this.#wQueryRope)
    for (let h = 0; h < heads; h++) rotate(qRope.subarray(h * ropeDim, (h + 1) * ropeDim), position)
    const kRope = timesMatrix(x, this.#wKeyRope)
    rotate(kRope, position)
    return { q: timesMatrix(x, this.#wQuery), qRope, latent: timesMatrix(x, this.#wDown), kRope }
  }

  /** (H, R + Dr): q·wUpKᵀ per head, then the rotated part: what mlaDecode takes. */
  absorb({ q, qRope }: TokenParts): Float32Array {
    const { heads, headDim, rank, ropeDim } = this.shape
    const out = new Float32Array(heads * (rank + ropeDim))
    for (let h = 0; h < heads; h++) {
      const at = h * (rank + ropeDim)
      for (let r = 0; r < rank; r++) {
        const row = (r * heads + h) * headDim
        let sum = 0
        for (let d = 0; d < headDim; d++) sum += q[h * headDim + d]! * this.wUpK[row + d]!
        out[at + r] = sum
      }
      out.set(qRope.subarray(h * ropeDim, (h + 1) * ropeDim), at + rank)
    }
    return out
  }

  /** (H, R) means of latents times wUpV: (H, Dv) means of values. */
  projectUp(context: Float32Array): Float32Array {
    const { heads, valueDim, rank } = this.shape
    const out = new Float32Array(heads * valueDim)
    for (let h = 0; h < heads; h++) {
      for (let r = 0; r < rank; r++) {
        const weight = context[h * rank + r]!
        const row = (r * heads + h) * valueDim
        for (let d = 0; d < valueDim; d++) {
          out[h * valueDim + d] = out[h * valueDim + d]! + weight * this.wUpV[row + d]!
        }
      }
    }
    return out
  }

  /** The likeliest token after `token`, given what its query attended to, (H, Dv). */
  next(token: number, values: Float32Array): number {
    const attended = timesMatrix(values, this.#wOut)
    const x = this.#embed(token)
    const { rows, cols, data } = this.#embedding
    let [best, bestScore] = [0, -Infinity]
    for (let word = 0; word < rows; word++) {
      let score = 0
      for (let i = 0; i < cols; i++) score += (attended[i]! + 0.1 * x[i]!) * data[word * cols + i]!
      if (score > bestScore && word !== token) [best, bestScore] = [word, score]
    }
    return best
  }

  #embed(token: number): Float32Array {
    const { cols, data } = this.#embedding
    return data.subarray(token * cols, (token + 1) * cols)
  }
}

/** x (inputs) times a matrix (inputs, outputs). */
function timesMatrix(x: Float32Array, { rows, cols, data }: Matrix): Float32Array {
  const out = new Float32Array(cols)
  for (let i = 0; i < rows; i++) {
    const factor = x[i]!
    for (let j = 0; j < cols; j++) out[j] = out[j]! + factor * data[i * cols + j]!
  }
  return out
}

/** Rotary position embedding (arXiv:2104.09864), in place: pair i turns by position · 10000^(−2i/n). */
function rotate(x: Float32Array, position: number): void {
  for (let i = 0; i < x.length; i += 2) {
    const angle = position * 10000 ** (-i / x.length)
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)]
    const [a, b] = [x[i]!, x[i + 1]!]
    x[i] = a * cos - b * sin
    x[i + 1] = a * sin + b * cos
  }
}

/** Numbers of [−1, 1) that depend on the seed alone (a 32-bit LCG; the high bits are used). */
function randomNumbers(seed: number): () => number {
  let state = (Math.imul(seed, 2654435761) + 12345) >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return (state >>> 8) / 2 ** 23 - 1
  }
}
