import type { GraphArrays } from './arbitraries'

/**
 * The ops as their definitions say, in double precision and by other ways than the library goes: the independent
 * side of the tests. Inputs are the numbers that the op was given, after rounding to its dtype.
 */

// Globals are slow to look up in jest's sandbox, and these are used per element.
const { abs, exp, floor, max: maxOf } = Math

type Numbers = ArrayLike<number>

/** exp(x) / Σ exp(x), without subtracting a maximum: doubles hold exp of all |x| < 700. */
export function softmax(rowPtr: Int32Array, scores: Numbers, heads: number): Float64Array {
  const exps = Float64Array.from({ length: scores.length }, (_, i) => exp(scores[i]!))
  const out = new Float64Array(scores.length)
  for (let e = 0, row = 0; e * heads < scores.length; e++) {
    while (rowPtr[row + 1]! <= e) row++
    if (e > rowPtr[row]!) continue
    for (let h = 0; h < heads; h++) {
      let sum = 0
      for (let j = rowPtr[row]!; j < rowPtr[row + 1]!; j++) sum += exps[j * heads + h]!
      for (let j = rowPtr[row]!; j < rowPtr[row + 1]!; j++) out[j * heads + h] = exps[j * heads + h]! / sum
    }
  }
  return out
}

/** D_dst^-1/2 · A · D_src^-1/2 · X with a dense A that counts the edges; a degree of 0 has the factor 0. */
export function denseGcn(
  { rowPtr, colIdx, numDst, numSrc }: GraphArrays,
  x: Numbers,
  features: number,
  dstDegrees: Numbers,
  srcDegrees: Numbers,
): Float64Array {
  const adjacency = new Float64Array(numDst * numSrc)
  for (let i = 0; i < numDst; i++) {
    for (const src of colIdx.subarray(rowPtr[i], rowPtr[i + 1])) adjacency[i * numSrc + src]! += 1
  }
  const factor = (degree: number) => (degree === 0 ? 0 : degree ** -0.5)
  const scaled = Float64Array.from({ length: numSrc * features }, (_, at) => {
    return factor(srcDegrees[floor(at / features)]!) * x[at]!
  })
  const out = new Float64Array(numDst * features)
  for (let i = 0; i < numDst; i++) {
    for (let s = 0; s < numSrc; s++) {
      const weight = adjacency[i * numSrc + s]! * factor(dstDegrees[i]!)
      if (weight === 0) continue
      for (let f = 0; f < features; f++) out[i * features + f]! += weight * scaled[s * features + f]!
    }
  }
  return out
}

/** A fold with Math.max from −∞ over each row's column; NaN wins there too. */
export function foldMax({ rowPtr, colIdx, numDst }: GraphArrays, x: Numbers, features: number): Float64Array {
  return Float64Array.from({ length: numDst * features }, (_, at) => {
    const [i, f] = [floor(at / features), at % features]
    const sources = colIdx.subarray(rowPtr[i], rowPtr[i + 1])
    return sources.reduce((max, src) => maxOf(max, x[src * features + f]!), -Infinity)
  })
}

/** The inputs of one mlaAttention call as plain numbers. */
export interface MlaCase {
  readonly B: number
  readonly Tq: number
  readonly Tk: number
  readonly H: number
  readonly D: number
  readonly Dv: number
  readonly R: number
  readonly Dr: number
  readonly q: Numbers
  readonly kvLatent: Numbers
  readonly wUpK: Numbers
  readonly wUpV: Numbers
  readonly qRope: Numbers
  readonly kRope: Numbers
  readonly scale: number
  readonly causal: boolean
}

/** Σ f(i) for i in [0, length). */
function sum(length: number, f: (i: number) => number): number {
  let total = 0
  for (let i = 0; i < length; i++) total += f(i)
  return total
}

function expAll(logits: number[]): number[] {
  const max = logits.reduce((a, b) => maxOf(a, b), -Infinity)
  return logits.map((logit) => exp(logit - max))
}

/** Calls `each` for every query and head with the number of keys it sees and its rope part of the logits. */
function forEachQuery(
  c: MlaCase,
  each: (b: number, t: number, h: number, seen: number[], rope: (s: number) => number) => void,
): void {
  for (let b = 0; b < c.B; b++) {
    for (let t = 0; t < c.Tq; t++) {
      const seen: number[] = []
      for (let s = 0; s < c.Tk; s++) if (!c.causal || s - c.Tk <= t - c.Tq) seen.push(s)
      for (let h = 0; h < c.H; h++) {
        const qAt = ((b * c.Tq + t) * c.H + h) * c.Dr
        const rope = (s: number) => {
          const kAt = (b * c.Tk + s) * c.Dr
          return sum(c.Dr, (d) => c.qRope[qAt + d]! * c.kRope[kAt + d]!)
        }
        each(b, t, h, seen, rope)
      }
    }
  }
}

/**
 * Expanded: K and V (B, Tk, H, ·) are made first, for all heads. With `magnitudes`, the values are sums of absolute
 * terms: the size that rounding errors of the result are measured against.
 */
export function expandedMla(c: MlaCase, magnitudes = false): Float64Array {
  const expand = (w: Numbers, width: number, absolute = false) => {
    const out = new Float64Array(c.B * c.Tk * c.H * width)
    for (let token = 0; token < c.B * c.Tk; token++) {
      for (let r = 0; r < c.R; r++) {
        const latent = c.kvLatent[token * c.R + r]!
        for (let j = 0; j < c.H * width; j++) {
          const term = latent * w[r * c.H * width + j]!
          out[token * c.H * width + j]! += absolute ? abs(term) : term
        }
      }
    }
    return out
  }
  const keys = expand(c.wUpK, c.D)
  const values = expand(c.wUpV, c.Dv, magnitudes)
  const out = new Float64Array(c.B * c.Tq * c.H * c.Dv)
  forEachQuery(c, (b, t, h, seen, rope) => {
    const qAt = ((b * c.Tq + t) * c.H + h) * c.D
    const kAt = (s: number) => ((b * c.Tk + s) * c.H + h) * c.D
    const exps = expAll(
      seen.map((s) => c.scale * (sum(c.D, (d) => c.q[qAt + d]! * keys[kAt(s) + d]!) + rope(s))),
    )
    const total = sum(seen.length, (i) => exps[i]!)
    for (let d = 0; d < c.Dv; d++) {
      const at = (s: number) => ((b * c.Tk + s) * c.H + h) * c.Dv + d
      const mean = sum(seen.length, (i) => exps[i]! * values[at(seen[i]!)]!) / total
      out[((b * c.Tq + t) * c.H + h) * c.Dv + d] = seen.length === 0 ? 0 : mean
    }
  })
  return out
}

/** Absorbed (DeepSeek-V2, section 2.1.2): queries go down to the latents, the weighted latents come up to values. */
export function absorbedMla(c: MlaCase): Float64Array {
  const out = new Float64Array(c.B * c.Tq * c.H * c.Dv)
  forEachQuery(c, (b, t, h, seen, rope) => {
    const qAt = ((b * c.Tq + t) * c.H + h) * c.D
    const latentAt = (s: number) => (b * c.Tk + s) * c.R
    const absorbed = Array.from({ length: c.R }, (_, r) =>
      sum(c.D, (d) => c.wUpK[(r * c.H + h) * c.D + d]! * c.q[qAt + d]!),
    )
    const exps = expAll(
      seen.map((s) => c.scale * (sum(c.R, (r) => absorbed[r]! * c.kvLatent[latentAt(s) + r]!) + rope(s))),
    )
    const total = sum(seen.length, (i) => exps[i]!)
    const context = Array.from({ length: c.R }, (_, r) =>
      sum(seen.length, (i) => (exps[i]! / total) * c.kvLatent[latentAt(seen[i]!) + r]!),
    )
    for (let d = 0; d < c.Dv; d++) {
      const value = sum(c.R, (r) => context[r]! * c.wUpV[(r * c.H + h) * c.Dv + d]!)
      out[((b * c.Tq + t) * c.H + h) * c.Dv + d] = value
    }
  })
  return out
}
