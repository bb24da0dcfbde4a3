import type { FloatDType } from 'warpgraph'

// Globals are slow to look up in jest's sandbox, and these are used per element.
const { abs, sqrt } = Math
const { isNaN: isNotANumber } = Number

export const floatDTypes = ['float32', 'float16', 'bfloat16'] as const

/** Unit roundoff: the largest relative error of rounding to nearest. 24, 11 and 8 significant bits. */
export const roundoff: Readonly<Record<FloatDType, number>> = {
  float32: 2 ** -24,
  float16: 2 ** -11,
  bfloat16: 2 ** -8,
}

/**
 * How far a result may be from the exact value, when it was computed in float32 to within `computed` and then rounded
 * once to its own type: computed·(1 + u) + u·|exact|, plus half a subnormal of float16 (2^-25) where relative
 * precision ends. float32 results are not rounded again.
 */
export function roundedBound(dtype: FloatDType, computed: number, exact: number): number {
  if (dtype === 'float32') return computed
  const u = roundoff[dtype]
  return computed * (1 + u) + u * abs(exact) + 2 ** -25
}

/** max|a − b|; ∞ when only one of two elements is NaN or the lengths differ. */
export function maxAbsolute(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  if (actual.length !== expected.length) return Infinity
  let max = 0
  for (let i = 0; i < actual.length; i++) {
    const [a, b] = [actual[i]!, expected[i]!]
    if (a === b || (isNotANumber(a) && isNotANumber(b))) continue
    const distance = abs(a - b)
    if (!(distance <= max)) max = isNotANumber(distance) ? Infinity : distance
  }
  return max
}

/** ‖a − b‖₂ / ‖b‖₂; NaN when an element is NaN, and NaN is not within any bound. */
export function relativeL2(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  if (actual.length !== expected.length) return Infinity
  let distance = 0
  let norm = 0
  for (let i = 0; i < actual.length; i++) {
    distance += (actual[i]! - expected[i]!) ** 2
    norm += expected[i]! ** 2
  }
  return norm === 0 ? sqrt(distance) : sqrt(distance / norm)
}

/** Fails at the first element farther from the expected one than its bound. NaN is only equal to NaN. */
export function expectWithin(
  actual: ArrayLike<number>,
  expected: ArrayLike<number>,
  bound: (i: number) => number,
): void {
  if (actual.length !== expected.length) {
    throw new Error(`expected ${expected.length} elements, received ${actual.length}`)
  }
  for (let i = 0; i < actual.length; i++) {
    const [a, b] = [actual[i]!, expected[i]!]
    if (a === b || (isNotANumber(a) && isNotANumber(b)) || abs(a - b) <= bound(i)) continue
    throw new Error(`element ${i}: expected ${b}, received ${a}, off by ${abs(a - b)} > ${bound(i)}`)
  }
}

/** Fails unless the arrays hold the same bits: NaN equals NaN of the same bits, and 0 is not −0. */
export function expectSameBits(actual: Float32Array | Int32Array, expected: Float32Array | Int32Array): void {
  const [a, b] = [actual, expected].map((array) =>
    Buffer.from(array.buffer, array.byteOffset, array.byteLength),
  )
  expect(a!.equals(b!)).toBe(true)
}

/** Measured errors against their bounds, printed as one table when a file's tests are done. */
export class ErrorTable {
  readonly #rows: string[] = []

  constructor(title: string) {
    afterAll(() => console.log([title, ...this.#rows].join('\n')))
  }

  /** Notes the error and fails when it is above the bound. */
  check(name: string, dtype: string, device: string, measured: number, bound: number): void {
    const cells = [name.padEnd(26), dtype.padEnd(9), device.padEnd(7)]
    this.#rows.push(`${cells.join(' ')} ${measured.toExponential(2)} (bound ${bound.toExponential(2)})`)
    expect(measured).toBeLessThanOrEqual(bound)
  }
}
