import type { GraphArrays } from './arbitraries'

/**
 * The ops as their definitions say, in double precision and by other ways than the library goes: the independent
 * side of the tests. Inputs are the numbers that the op was given, after rounding to its dtype.
 */

// Globals are slow to look up in jest's sandbox, and these are used per element.
const { abs, exp, floor, log, max: maxOf } = Math

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
  /** Keys of each sequence; Tk when absent. */
  readonly lengths?: Numbers | undefined
  /** The position of query 0; length − Tq when absent. */
  readonly queryOffset?: number | undefined
}

/** The inputs of one mlaDecode call: rows of qLatent hold R numbers, then Dr of the rotated part. */
export type MlaLatentCase = Omit<MlaCase, 'D' | 'Dv' | 'q' | 'qRope' | 'wUpK' | 'wUpV'> & {
  readonly qLatent: Numbers
}

/** Σ a[aAt + i]·b[bAt + i·bStride] for i in [0, length). A loop: a function per term takes twenty times as long. */
function dot(a: Numbers, aAt: number, b: Numbers, bAt: number, bStride: number, length: number): number {
  let total = 0
  for (let i = 0; i < length; i++) total += a[aAt + i]! * b[bAt + i * bStride]!
  return total
}

/** The logits as exponentials, over the greatest's, with their sum. */
function expAll(logits: readonly number[]): { exps: number[]; total: number; max: number } {
  const max = logits.reduce((a, b) => maxOf(a, b), -Infinity)
  const exps = logits.map((logit) => exp(logit - max))
  return { exps, total: exps.reduce((a, b) => a + b, 0), max }
}

/** Calls `each` for every query and head with the number of keys it sees: the first ones of its sequence. */
function forEachQuery(
  c: Pick<MlaCase, 'B' | 'Tq' | 'Tk' | 'H' | 'causal' | 'lengths' | 'queryOffset'>,
  each: (b: number, t: number, h: number, seen: number) => void,
): void {
  for (let b = 0; b < c.B; b++) {
    const length = c.lengths === undefined ? c.Tk : c.lengths[b]!
    for (let t = 0; t < c.Tq; t++) {
      const position = c.queryOffset === undefined ? length - (c.Tq - t) : t + c.queryOffset
      let seen = 0
      for (let s = 0; s < length; s++) if (!c.causal || position >= s) seen++
      for (let h = 0; h < c.H; h++) each(b, t, h, seen)
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
  forEachQuery(c, (b, t, h, seen) => {
    const query = (b * c.Tq + t) * c.H + h
    const logits = Array.from({ length: seen }, (_, s) => {
      const key = b * c.Tk + s
      const content = dot(c.q, query * c.D, keys, (key * c.H + h) * c.D, 1, c.D)
      return c.scale * (content + dot(c.qRope, query * c.Dr, c.kRope, key * c.Dr, 1, c.Dr))
    })
    const { exps, total } = expAll(logits)
    for (let d = 0; d < c.Dv; d++) {
      const mean = dot(exps, 0, values, (b * c.Tk * c.H + h) * c.Dv + d, c.H * c.Dv, seen) / total
      out[query * c.Dv + d] = seen === 0 ? 0 : mean
    }
  })
  return out
}

/**
 * In the latents' space: softmax(scale·(qLatent·latent + qRope·kRope))·latent (B, Tq, H, R), and the logarithm of each
 * query's sum of exponentials (B, H, Tq).
 */
export function latentMla(c: MlaLatentCase): { out: Float64Array; lse: Float64Array } {
  const out = new Float64Array(c.B * c.Tq * c.H * c.R)
  const lse = new Float64Array(c.B * c.H * c.Tq)
  forEachQuery(c, (b, t, h, seen) => {
    const query = (b * c.Tq + t) * c.H + h
    const qAt = query * (c.R + c.Dr)
    const logits = Array.from({ length: seen }, (_, s) => {
      const key = b * c.Tk + s
      const content = dot(c.qLatent, qAt, c.kvLatent, key * c.R, 1, c.R)
      return c.scale * (content + dot(c.qLatent, qAt + c.R, c.kRope, key * c.Dr, 1, c.Dr))
    })
    const { exps, total, max } = expAll(logits)
    for (let r = 0; r < c.R; r++) {
      const mean = dot(exps, 0, c.kvLatent, b * c.Tk * c.R + r, c.R, seen) / total
      out[query * c.R + r] = seen === 0 ? 0 : mean
    }
    lse[(b * c.H + h) * c.Tq + t] = seen === 0 ? -Infinity : max + log(total)
  })
  return { out, lse }
}

/** The queries taken down to the latents by wUpK, with their rotated part behind: what mlaDecode takes. */
export function absorbQueries(c: MlaCase): Float64Array {
  const width = c.R + c.Dr
  const out = new Float64Array(c.B * c.Tq * c.H * width)
  for (let at = 0; at < out.length; at++) {
    const [query, r] = [floor(at / width), at % width]
    const wAt = (r * c.H + (query % c.H)) * c.D
    out[at] = r < c.R ? dot(c.q, query * c.D, c.wUpK, wAt, 1, c.D) : c.qRope[query * c.Dr + r - c.R]!
  }
  return out
}

/** Results in the latents' space (B, Tq, H, R) taken up to values (B, Tq, H, Dv). */
export function projectUp(c: Pick<MlaCase, 'H' | 'R' | 'Dv' | 'wUpV'>, latent: Numbers): Float64Array {
  const out = new Float64Array(c.R === 0 ? 0 : (latent.length / c.R) * c.Dv)
  for (let at = 0; at < out.length; at++) {
    const [query, d] = [floor(at / c.Dv), at % c.Dv]
    out[at] = dot(latent, query * c.R, c.wUpV, (query % c.H) * c.Dv + d, c.H * c.Dv, c.R)
  }
  return out
}

/** Absorbed (DeepSeek-V2, section 2.1.2): queries go down to the latents, the weighted latents come up to values. */
export function absorbedMla(c: MlaCase): Float64Array {
  if (c.R === 0) return new Float64Array(c.B * c.Tq * c.H * c.Dv)
  return projectUp(c, latentMla({ ...c, qLatent: absorbQueries(c) }).out)
}

/** The logarithm of each query's sum of exponentials, (B, H, Tq). */
export function mlaLse(c: MlaCase): Float64Array {
  return latentMla({ ...c, qLatent: absorbQueries(c) }).lse
}
