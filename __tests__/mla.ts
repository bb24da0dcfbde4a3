import { type DeviceName, type FloatDType, type Tensor, tensor } from 'warpgraph'
import { uniform } from './arbitraries'
import type { MlaCase } from './definitions'
import { relativeL2, roundedBound, roundoff } from './tolerance'

/** Relative L2 against float64 that whole results keep to. */
export const mlaBounds = { float32: 2e-6, float16: 2e-3, bfloat16: 1e-2, tf32: 2e-3 } as const

export type MlaShape = Pick<MlaCase, 'B' | 'Tq' | 'Tk' | 'H' | 'D' | 'Dv' | 'R' | 'Dr'>

/** What a test asks of a call besides its shape. */
export interface MlaVariant {
  readonly causal?: boolean
  readonly scale?: number
  readonly lengths?: readonly number[]
  readonly queryOffset?: number
  /** Lay the keys out in pages of this size. Tk is then rounded up to whole pages. */
  readonly pageSize?: number
}

/** How a call is computed, which must not show. */
export interface MlaHow {
  readonly algorithm?: 'auto' | 'absorb' | 'expand'
  readonly numSplits?: number
  readonly precision?: 'float32' | 'tf32'
}

export type MlaData = Record<'q' | 'kvLatent' | 'wUpK' | 'wUpV' | 'qRope' | 'kRope', Float32Array>

const product = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1)

export function mlaShapes({ B, Tq, Tk, H, D, Dv, R, Dr }: MlaShape) {
  return {
    q: [B, Tq, H, D],
    kvLatent: [B, Tk, R],
    wUpK: [R, H, D],
    wUpV: [R, H, Dv],
    qRope: [B, Tq, H, Dr],
    kRope: [B, Tk, Dr],
  } as const
}

export function randomMlaData(shape: MlaShape, seed: number): MlaData {
  const entries = Object.entries(mlaShapes(shape)).map(([name, lengths], i) => [
    name,
    uniform(seed + i, product(lengths)),
  ])
  return Object.fromEntries(entries) as MlaData
}

/** Tk as a whole number of pages. */
export function wholePages<S extends { readonly Tk: number }>(shape: S, pageSize: number | undefined): S {
  return pageSize === undefined ? shape : { ...shape, Tk: Math.ceil(shape.Tk / pageSize) * pageSize }
}

/**
 * The tensors and options of a call, and its inputs as rounded to the dtype, for the definitions. Rows past a length
 * and pages that no sequence reads hold NaN; the pages of the sequences are dealt out in turn, last key first, so that
 * none lies where it would without a table.
 */
export function mlaCall(
  shape: MlaShape,
  data: MlaData,
  variant: MlaVariant,
  on: { readonly dtype: FloatDType; readonly device: DeviceName },
) {
  const { B, Tk, R, Dr } = shape
  const { causal = true, scale, lengths, queryOffset, pageSize } = variant
  const shapes = mlaShapes(shape)
  const make = <const S extends readonly number[]>(values: Float32Array, lengths: S) =>
    tensor(values, { shape: lengths, ...on })
  const [latents, ropes] = [
    poisoned(data.kvLatent, B, Tk, R, lengths),
    poisoned(data.kRope, B, Tk, Dr, lengths),
  ]
  const tensors = {
    q: make(data.q, shapes.q),
    kvLatent: make(latents, shapes.kvLatent),
    wUpK: make(data.wUpK, shapes.wUpK),
    wUpV: make(data.wUpV, shapes.wUpV),
    qRope: make(data.qRope, shapes.qRope),
    kRope: make(ropes, shapes.kRope),
  }
  const rounded = Object.fromEntries(
    Object.entries(tensors).map(([name, values]) => [name, values.dataSync()]),
  ) as MlaData
  let cache: { kvLatent: Tensor<FloatDType, 3>; kRope: Tensor<FloatDType, 3> } = tensors
  let blockTable: Tensor<'int32', 2> | undefined
  if (pageSize !== undefined) {
    const perSequence = Tk / pageSize
    const numPages = B * perSequence + 2
    const table = new Int32Array(B * perSequence).fill(-1)
    const pages = { kvLatent: new Float32Array(numPages * pageSize * R).fill(NaN), kRope: new Float32Array() }
    pages.kRope = new Float32Array(numPages * pageSize * Dr).fill(NaN)
    for (let b = 0; b < B; b++) {
      for (let entry = 0; entry * pageSize < (lengths?.[b] ?? Tk); entry++) {
        const page = numPages - 2 - (entry * B + b)
        table[b * perSequence + entry] = page
        const from = b * Tk + entry * pageSize
        pages.kvLatent.set(latents.subarray(from * R, (from + pageSize) * R), page * pageSize * R)
        pages.kRope.set(ropes.subarray(from * Dr, (from + pageSize) * Dr), page * pageSize * Dr)
      }
    }
    blockTable = tensor(table, { shape: [B, perSequence], device: on.device })
    cache = {
      kvLatent: make(pages.kvLatent, [numPages, pageSize, R]),
      kRope: make(pages.kRope, [numPages, pageSize, Dr]),
    }
  }
  const kvLengths = lengths && tensor(Int32Array.from(lengths), { shape: [B], device: on.device })
  const shared = {
    ...(kvLengths === undefined ? {} : { kvLengths }),
    ...(blockTable === undefined ? {} : { blockTable }),
  }
  const settings = { causal, ...(queryOffset === undefined ? {} : { queryOffset }) }
  const { D } = shape
  const exact: MlaCase = {
    ...shape,
    ...rounded,
    causal,
    scale: scale ?? 1 / Math.sqrt(D + Dr || 1),
    lengths,
    queryOffset,
  }
  return {
    q: tensors.q,
    kvLatent: cache.kvLatent,
    wUpK: tensors.wUpK,
    wUpV: tensors.wUpV,
    options: {
      ...(Dr > 0 ? { qRope: tensors.qRope, kRope: cache.kRope } : {}),
      ...(scale === undefined ? {} : { scale }),
      ...shared,
      ...settings,
    },
    /** For mlaDecode. */
    cache: { kvLatent: cache.kvLatent, ...(Dr > 0 ? { kRope: cache.kRope } : {}), ...shared },
    settings,
    exact,
  }
}

/** The rows of each sequence, NaN from its length on. */
function poisoned(
  rows: Float32Array,
  B: number,
  Tk: number,
  width: number,
  lengths: readonly number[] | undefined,
): Float32Array {
  const out = rows.slice()
  for (let b = 0; b < B; b++) {
    if (lengths) out.fill(NaN, (b * Tk + lengths[b]!) * width, (b + 1) * Tk * width)
  }
  return out
}

/** Half types and TF32 are rounded between products on a GPU: queries or keys, weights of the mean, values. */
function roundoffBetween(dtype: FloatDType, device: DeviceName, tf32: boolean): number {
  if (device === 'cpu') return 0
  return dtype === 'float32' ? (tf32 ? 2 ** -11 : 0) : roundoff[dtype]
}

/**
 * How far off a logit may be for inputs within [−1, 1]. Logits are random sums of R·D + Dr terms, so of the size
 * scale·√(R·D + Dr); 16 roundings of that size leave room for any order of summation, and 4 for each that a half type
 * takes.
 */
export function logitBound(
  { R, D, Dr, scale }: Pick<MlaCase, 'R' | 'D' | 'Dr' | 'scale'>,
  dtype: FloatDType,
  device: DeviceName,
  tf32 = false,
): number {
  const perLogit = 16 * 2 ** -24 + 4 * roundoffBetween(dtype, device, tf32)
  return perLogit * Math.abs(scale) * Math.sqrt(R * D + Dr)
}

/** How far off an element may be whose absolute terms sum to `magnitude`, before it is rounded to its dtype. */
export function elementBound(
  c: Pick<MlaCase, 'R' | 'D' | 'Dr' | 'scale'>,
  dtype: FloatDType,
  device: DeviceName,
  tf32 = false,
): (magnitude: number, exact: number) => number {
  const relative = 2e-6 + logitBound(c, dtype, device, tf32) + 3 * roundoffBetween(dtype, device, tf32)
  return (magnitude, exact) => roundedBound(dtype, relative * magnitude, exact)
}

/** How far off an lse may be. */
export function lseBound(
  c: Pick<MlaCase, 'R' | 'D' | 'Dr' | 'scale'>,
  dtype: FloatDType,
  device: DeviceName,
  tf32 = false,
): (exact: number) => number {
  const logits = logitBound(c, dtype, device, tf32)
  return (exact) => (Number.isFinite(exact) ? logits + 2e-6 + 2 ** -22 * Math.abs(exact) : 0)
}

/**
 * The relative L2 that results of (B, Tq, H, width) keep to. Queries that see nothing are left out by it: zeros on both
 * sides. So are results of few independent elements, which may cancel to so little that no relative bound can hold.
 */
export function expectRelativeL2(
  actual: Float32Array,
  expected: Float64Array,
  { B, Tq, R }: Pick<MlaShape, 'B' | 'Tq' | 'R'>,
  dtype: keyof typeof mlaBounds,
): void {
  const perSequence = expected.length / B
  let independent = 0
  for (let b = 0; b < B; b++) {
    const own = expected.subarray(b * perSequence, (b + 1) * perSequence)
    // Heads and queries project the same R columns, with weights that may be alike.
    if (own.some((value) => value !== 0)) independent += Math.min(R, perSequence / Tq)
  }
  if (independent >= 12) expect(relativeL2(actual, expected)).toBeLessThanOrEqual(mlaBounds[dtype])
}
