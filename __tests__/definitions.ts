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

/** Calls `each` for every query and head with the keys it sees. */
function forEachQuery(
  c: Pick<MlaCase, 'B' | 'Tq' | 'Tk' | 'H' | 'causal' | 'lengths' | 'queryOffset'>,
  each: (b: number, t: number, h: number, seen: number[]) => void,
): void {
  for (let b = 0; b < c.B; b++) {
    const length = c.lengths === undefined ? c.Tk : c.lengths[b]!
    for (let t = 0; t < c.Tq; t++) {
      const position = c.queryOffset === undefined ? length - (c.Tq - t) : t + c.queryOffset
      const seen: number[] = []
      for (let s = 0; s < length; s++) if (!c.causal || position >= s) seen.push(s)
      for (let h = 0; h < c.H; h++) each(b, t, h, seen)
    }
  }
}

/** The rope part of a logit. */
function ropeOf(c: MlaCase, b: number, t: number, h: number, s: number): number {
  const qAt = ((b * c.Tq + t) * c.H + h) * c.Dr
  const kAt = (b * c.Tk + s) * c.Dr
  return sum(c.Dr, (d) => c.qRope[qAt + d]! * c.kRope[kAt + d]!)
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
    const qAt = ((b * c.Tq + t) * c.H + h) * c.D
    const kAt = (s: number) => ((b * c.Tk + s) * c.H + h) * c.D
    const dot = (s: number) => sum(c.D, (d) => c.q[qAt + d]! * keys[kAt(s) + d]!)
    const exps = expAll(seen.map((s) => c.scale * (dot(s) + ropeOf(c, b, t, h, s))))
    const total = sum(seen.length, (i) => exps[i]!)
    for (let d = 0; d < c.Dv; d++) {
      const at = (s: number) => ((b * c.Tk + s) * c.H + h) * c.Dv + d
      const mean = sum(seen.length, (i) => exps[i]! * values[at(seen[i]!)]!) / total
      out[((b * c.Tq + t) * c.H + h) * c.Dv + d] = seen.length === 0 ? 0 : mean
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
    const row = (s: number) => b * c.Tk + s
    const latent = (s: number) => sum(c.R, (r) => c.qLatent[qAt + r]! * c.kvLatent[row(s) * c.R + r]!)
    const rope = (s: number) => sum(c.Dr, (d) => c.qLatent[qAt + c.R + d]! * c.kRope[row(s) * c.Dr + d]!)
    const logits = seen.map((s) => c.scale * (latent(s) + rope(s)))
    const exps = expAll(logits)
    const total = sum(seen.length, (i) => exps[i]!)
    for (let r = 0; r < c.R; r++) {
      out[query * c.R + r] = sum(
        seen.length,
        (i) => (exps[i]! / total) * c.kvLatent[row(seen[i]!) * c.R + r]!,
      )
    }
    const max = logits.reduce((a, b) => maxOf(a, b), -Infinity)
    lse[(b * c.H + h) * c.Tq + t] = seen.length === 0 ? -Infinity : max + log(total)
  })
  return { out, lse }
}

/** The queries taken down to the latents by wUpK, with their rotated part behind: what mlaDecode takes. */
export function absorbQueries(c: MlaCase): Float64Array {
  const width = c.R + c.Dr
  return Float64Array.from({ length: c.B * c.Tq * c.H * width }, (_, at) => {
    const [query, r] = [floor(at / width), at % width]
    if (r >= c.R) return c.qRope[query * c.Dr + r - c.R]!
    const wAt = (r * c.H + (query % c.H)) * c.D
    return sum(c.D, (d) => c.wUpK[wAt + d]! * c.q[query * c.D + d]!)
  })
}

/** Results in the latents' space (B, Tq, H, R) taken up to values (B, Tq, H, Dv). */
export function projectUp(c: Pick<MlaCase, 'H' | 'R' | 'Dv' | 'wUpV'>, latent: Numbers): Float64Array {
  return Float64Array.from({ length: c.R === 0 ? 0 : (latent.length / c.R) * c.Dv }, (_, at) => {
    const [query, d] = [floor(at / c.Dv), at % c.Dv]
    return sum(c.R, (r) => latent[query * c.R + r]! * c.wUpV[(r * c.H + (query % c.H)) * c.Dv + d]!)
  })
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
