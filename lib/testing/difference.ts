import { argumentError, describe, formatShape } from '../argument'
import type { DType } from '../dtype'

/**
 * How far two numbers may lie apart: |actual − expected| ≤ atol + rtol·|expected|.
 *
 * With neither given, the tolerances of PyTorch's `assert_close` for the dtype; with one given, the other is 0.
 */
export interface Tolerance {
  readonly rtol?: number | undefined
  readonly atol?: number | undefined
}

/** A tolerance with both its parts. */
interface Limits {
  readonly rtol: number
  readonly atol: number
}

/** A largest difference and where it is; the index is null when no element could be compared. */
export interface LargestDifference {
  readonly difference: number
  readonly index: readonly number[] | null
}

/** The element that exceeds its tolerance by most. */
export interface WorstElement {
  readonly index: readonly number[]
  readonly actual: number
  readonly expected: number
  readonly difference: number
  /** What the difference could have been: atol + rtol·|expected|, 0 for an infinity. */
  readonly tolerance: number
}

/** Two arrays of one shape, compared element by element. */
export interface TensorDifference {
  /** Every element within tolerance, and NaN only where NaN is expected. */
  readonly ok: boolean
  /** Largest |actual − expected|. Equal infinities differ by 0, others by ∞. NaN does not take part. */
  readonly maxAbsolute: LargestDifference
  /** Largest |actual − expected| / |expected|; ∞ for anything but 0 where 0 is expected. NaN does not take part. */
  readonly maxRelative: LargestDifference
  /** Number of elements out of tolerance, apart from NaN mismatches. */
  readonly outOfTolerance: number
  readonly worst: WorstElement | null
  /** Number of elements that are NaN on one side only. */
  readonly nanMismatches: number
  readonly firstNanMismatch: readonly number[] | null
}

/** https://docs.pytorch.org/docs/stable/testing.html */
const defaults: Readonly<Record<DType, Limits>> = {
  float32: { rtol: 1.3e-6, atol: 1e-5 },
  float16: { rtol: 1e-3, atol: 1e-5 },
  bfloat16: { rtol: 1.6e-2, atol: 1e-5 },
  int32: { rtol: 0, atol: 0 },
}

/** The tolerance to use for a dtype, checked: NaN or a negative number would let anything or nothing pass. */
export function resolveTolerance(op: string, dtype: DType, { rtol, atol }: Tolerance): Limits {
  for (const [name, value] of Object.entries({ rtol, atol })) {
    if (value === undefined) continue
    if (typeof value !== 'number') {
      throw argumentError('ERR_ARG_TYPE', op, name, 'be a number', describe(value))
    }
    if (!(value >= 0 && value < Infinity)) {
      throw argumentError('ERR_ARG_VALUE', op, name, 'be finite and at least 0', String(value))
    }
  }
  if (rtol === undefined && atol === undefined) return defaults[dtype]
  return { rtol: rtol ?? 0, atol: atol ?? 0 }
}

/** Compares arrays of equal length, elements in row-major order of `shape`. */
export function difference(
  actual: ArrayLike<number>,
  expected: ArrayLike<number>,
  shape: readonly number[],
  { rtol, atol }: Limits,
): TensorDifference {
  if (actual.length !== expected.length) throw new RangeError(`lengths ${actual.length}, ${expected.length}`)
  const absolute = { difference: 0, at: -1 }
  const relative = { difference: 0, at: -1 }
  const worst = { excess: 0, at: -1 }
  let outOfTolerance = 0
  let nanMismatches = 0
  let firstNaN = -1
  for (let i = 0; i < actual.length; i++) {
    const a = actual[i]!
    const b = expected[i]!
    if (Number.isNaN(a) || Number.isNaN(b)) {
      if (Number.isNaN(a) && Number.isNaN(b)) continue
      if (nanMismatches++ === 0) firstNaN = i
      continue
    }
    // ∞ − ∞ is NaN, and every number is within rtol·∞ of ∞: infinities are equal or infinitely far.
    const distance = a === b ? 0 : Math.abs(a - b)
    const tolerance = Number.isFinite(b) ? atol + rtol * Math.abs(b) : 0
    if (absolute.at < 0 || distance > absolute.difference)
      Object.assign(absolute, { difference: distance, at: i })
    const ratio = distance === 0 ? 0 : Number.isFinite(distance) ? distance / Math.abs(b) : Infinity
    if (relative.at < 0 || ratio > relative.difference) Object.assign(relative, { difference: ratio, at: i })
    if (distance <= tolerance) continue
    outOfTolerance++
    if (worst.at < 0 || distance - tolerance > worst.excess) {
      Object.assign(worst, { excess: distance - tolerance, at: i })
    }
  }
  const at = (i: number) => (i < 0 ? null : unravel(i, shape))
  return {
    ok: outOfTolerance === 0 && nanMismatches === 0,
    maxAbsolute: { difference: absolute.difference, index: at(absolute.at) },
    maxRelative: { difference: relative.difference, index: at(relative.at) },
    outOfTolerance,
    worst: worst.at < 0 ? null : element(worst.at),
    nanMismatches,
    firstNanMismatch: at(firstNaN),
  }

  function element(i: number): WorstElement {
    const [a, b] = [actual[i]!, expected[i]!]
    return {
      index: unravel(i, shape),
      actual: a,
      expected: b,
      difference: Math.abs(a - b),
      tolerance: Number.isFinite(b) ? atol + rtol * Math.abs(b) : 0,
    }
  }
}

/** What is wrong, in a few lines; the empty string when nothing is. */
export function explain(found: TensorDifference, { rtol, atol }: Limits): string {
  const lines: string[] = []
  if (found.worst) {
    const { index, actual, expected, difference, tolerance } = found.worst
    lines.push(
      `worst at ${formatShape(index)}: expected ${expected}, received ${actual}, ` +
        `difference ${difference}, tolerance ${tolerance} (atol ${atol} + rtol ${rtol}·|expected|)`,
      `elements out of tolerance: ${found.outOfTolerance}`,
    )
  }
  if (found.firstNanMismatch) {
    const first = formatShape(found.firstNanMismatch)
    lines.push(`elements that are NaN on one side only: ${found.nanMismatches}, the first at ${first}`)
  }
  return lines.join('\n')
}

/** The multi-dimensional index of a row-major position. */
function unravel(position: number, shape: readonly number[]): number[] {
  const index = new Array<number>(shape.length)
  let rest = position
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    index[axis] = rest % shape[axis]!
    rest = Math.floor(rest / shape[axis]!)
  }
  return index
}
