import type { FloatDType } from 'warpgraph'
import { type MlaData, type MlaShape, type MlaVariant, randomMlaData } from './mla'
import { expectWithin, relativeL2 } from './tolerance'

/**
 * The dimensions of models, which the kernels on tensor cores take: which of them depends on the dimensions, the
 * numbers of heads and queries, the dtype and the options. What a kernel works on at a time are 64 or 128 keys.
 */

// Globals are slow to look up in jest's sandbox, and this one is used per element; Math.round is slow anywhere.
const { floor } = Math

export const pageSizes = [16, 64, 128] as const

/** Lengths at the edges of tiles, pages past one tile, offsets inside a tile and at its end. */
export const wideVariants: readonly (readonly [string, MlaVariant])[] = [
  ['lengths at the edges of tiles', { lengths: [0, 1, 63, 64, 65, 200] }],
  ['a negative offset', { queryOffset: -1 }],
  ['all keys', {}],
  ['ragged lengths', { lengths: [200, 129, 128, 127, 2, 66] }],
  ['lengths without causality', { lengths: [65, 0, 128, 200], causal: false }],
  ['an offset, lengths below and above it', { queryOffset: 100, lengths: [200, 50, 101] }],
  ['an offset at the end of a tile', { queryOffset: 63, lengths: [65, 200] }],
  ['all keys without causality', { causal: false }],
  ['a negative scale', { scale: -0.1, lengths: [200, 1, 65] }],
]

/** Data that every dtype holds exactly, so that one expected result serves all of them. */
export function coarseMlaData(shape: MlaShape, seed: number): MlaData {
  const data = randomMlaData(shape, seed)
  for (const values of Object.values(data)) {
    for (let i = 0; i < values.length; i++) values[i] = floor(values[i]! * 128 + 0.5) / 128
  }
  return data
}

/** One call: the sequences that the variant has lengths of, else two. */
export function sizesFor(shape: Omit<MlaShape, 'B'>, variant: MlaVariant): MlaShape {
  return { ...shape, B: variant.lengths?.length ?? 2 }
}

/** The variant with no length above Tk. */
export function clipped(variant: MlaVariant, Tk: number): MlaVariant {
  const { lengths, ...rest } = variant
  return lengths === undefined ? rest : { ...rest, lengths: lengths.map((length) => Math.min(length, Tk)) }
}

/** The same keys in pages: room for whole pages, and the lengths they had. */
export function paged(shape: MlaShape, data: MlaData, variant: MlaVariant, pageSize: number) {
  const { B, Tk } = shape
  const capacity = Math.ceil(Tk / pageSize) * pageSize
  const spread = (rows: Float32Array, width: number) => {
    const out = new Float32Array(B * capacity * width)
    for (let b = 0; b < B; b++)
      out.set(rows.subarray(b * Tk * width, (b + 1) * Tk * width), b * capacity * width)
    return out
  }
  return {
    shape: { ...shape, Tk: capacity },
    data: { ...data, kvLatent: spread(data.kvLatent, shape.R), kRope: spread(data.kRope, shape.Dr) },
    variant: { ...variant, pageSize, lengths: variant.lengths ?? Array<number>(B).fill(Tk) },
  }
}

/** The rows of sequence b of B. */
export function rowsOf(values: Float32Array, b: number, B: number): Float32Array {
  return values.slice((b * values.length) / B, ((b + 1) * values.length) / B)
}

/** The data of sequence b alone. */
export function dataOf(data: MlaData, b: number, B: number): MlaData {
  const own = { ...data }
  for (const name of ['q', 'kvLatent', 'qRope', 'kRope'] as const) own[name] = rowsOf(data[name], b, B)
  return own
}

/** The whole within the bound, each row (of one query and head) within a few times of it; rows of zeros exactly. */
export function expectRowsWithin(
  actual: Float32Array,
  expected: Float64Array,
  width: number,
  bound: number,
): void {
  expect(actual.length).toBe(expected.length)
  for (let at = 0; at < expected.length; at += width) {
    const [a, e] = [actual.subarray(at, at + width), expected.subarray(at, at + width)]
    const allowed = e.every((value) => value === 0) ? 0 : 4 * bound
    const error = relativeL2(a, e)
    if (!(error <= allowed)) throw new Error(`row ${at / width}: relative L2 ${error} > ${allowed}`)
  }
  expect(relativeL2(actual, expected)).toBeLessThanOrEqual(bound)
}

/** Logits are a few units in size: they, and so the logarithms of sums of exponentials, are as far off as results. */
export function expectLseWithin(actual: Float32Array, expected: Float64Array, bound: number): void {
  expectWithin(actual, expected, (i) => {
    return Number.isFinite(expected[i]!) ? 4 * bound + 2 ** -22 * Math.abs(expected[i]!) : 0
  })
}

/** On the CPU every shape goes the same way: some of the table stand for all of it. */
export function tableFor(device: string, dtypes: readonly FloatDType[]) {
  return device === 'cpu'
    ? { dtypes: dtypes.slice(0, 1), variants: wideVariants.slice(0, 2) }
    : { dtypes, variants: wideVariants }
}
