import { checkOptions, describe, formatShape } from '../argument'
import { Csr, Segments } from '../csr'
import { typedArrayName } from '../elements'
import { Tensor } from '../tensor'
import { difference, explain, resolveTolerance, type Tolerance } from './difference'

/** What a tensor can be compared with. Typed arrays are flat, in row-major order, and tell no shape. */
export type ExpectedTensor = Tensor | ArrayBufferView | number | readonly ExpectedRows[]
type ExpectedRows = number | ArrayBufferView | readonly ExpectedRows[]

interface CloseToTensor<Result> {
  /**
   * Passes when the received tensor has the expected shape and every element is within tolerance:
   * |received − expected| ≤ atol + rtol·|expected|, equal infinities, NaN where and only where NaN is expected.
   *
   * A tensor or nested arrays must have the same shape, a typed array the same number of elements. dtypes may differ:
   * what counts is the values. Waits for the device.
   *
   * @param tolerance with neither `rtol` nor `atol` given, PyTorch's for the received dtype; with one given, the
   * other is 0
   */
  toBeCloseToTensor(expected: ExpectedTensor, tolerance?: Tolerance): Result
}

declare global {
  namespace jest {
    interface Matchers<R, T> extends CloseToTensor<R> {}
  }
}

// `expect` of @jest/globals. Where jest's packages are not installed there is nothing to extend, which is no error.
// biome-ignore lint/suspicious/noTsIgnore: an error in one user's project is none in another's
/** @ts-ignore */
declare module 'expect' {
  interface Matchers<R extends void | Promise<void>, T> extends CloseToTensor<R> {}
}

interface MatcherContext {
  readonly isNot?: boolean
  readonly utils: {
    matcherHint(name: string, received?: string, expected?: string, options?: object): string
  }
}

interface MatcherResult {
  readonly pass: boolean
  message(): string
}

const name = 'toBeCloseToTensor'

function toBeCloseToTensor(
  this: MatcherContext,
  received: unknown,
  expected: ExpectedTensor,
  tolerance?: Tolerance,
): MatcherResult {
  const hint = this.utils.matcherHint(name, 'received', 'expected', { isNot: this.isNot })
  const result = (pass: boolean, text: string) => ({ pass, message: () => `${hint}\n\n${text}` })
  if (!(received instanceof Tensor)) {
    throw new TypeError(`${hint}\n\nreceived must be a Tensor, got ${describe(received)}`)
  }
  // ts-jest often checks no types, and jest's own toBeCloseTo takes a number here.
  const given = checkOptions(name, tolerance, ['rtol', 'atol'], 'tolerance', 'be an object { rtol?, atol? }')
  const limits = resolveTolerance(name, received.dtype, given)
  const { flat, shape } = flatten(hint, expected)
  if (shape === null && flat.length !== received.size) {
    return result(false, `expected ${flat.length} elements, received ${received.size}`)
  }
  if (shape !== null && formatShape(shape) !== formatShape(received.shape)) {
    return result(false, `expected shape ${formatShape(shape)}, received ${formatShape(received.shape)}`)
  }
  const found = difference(received.dataSync(), flat, received.shape, limits)
  if (!found.ok) return result(false, explain(found, limits))
  const { maxAbsolute } = found
  const within = `atol ${limits.atol} + rtol ${limits.rtol}·|expected|`
  return result(
    true,
    `all elements are within ${within}, the largest difference is ${maxAbsolute.difference}`,
  )
}

/** The expected numbers in row-major order; the shape where it is told. */
function flatten(hint: string, expected: unknown): { flat: ArrayLike<number>; shape: number[] | null } {
  if (expected instanceof Tensor) return { flat: expected.dataSync(), shape: [...expected.shape] }
  if (typedArrayName(expected) !== undefined) return { flat: numbers(expected), shape: null }
  const flat: number[] = []
  const shape = appendLevel(hint, expected, flat)
  return { flat, shape }
}

/** Appends all numbers of a level and gives its shape. */
function appendLevel(hint: string, level: unknown, flat: number[]): number[] {
  if (typeof level === 'number') {
    flat.push(level)
    return []
  }
  if (typedArrayName(level) !== undefined) {
    const row = numbers(level)
    for (let i = 0; i < row.length; i++) flat.push(row[i]!)
    return [row.length]
  }
  if (!Array.isArray(level)) {
    const what = 'a Tensor, a typed array, or numbers nested in arrays'
    throw new TypeError(`${hint}\n\nexpected must be ${what}, got ${describe(level)}`)
  }
  const shapes = level.map((item) => appendLevel(hint, item, flat))
  const inner = shapes[0] ?? []
  const odd = shapes.findIndex((shape) => formatShape(shape) !== formatShape(inner))
  if (odd >= 0) throw new TypeError(`${hint}\n\nexpected must be nested evenly, row ${odd} is not`)
  return [level.length, ...inner]
}

/** 64-bit integers as numbers; every other typed array as it is. */
function numbers(array: unknown): ArrayLike<number> {
  const name = typedArrayName(array)
  const is64Bit = name === 'BigInt64Array' || name === 'BigUint64Array'
  return is64Bit ? Array.from(array as BigInt64Array, Number) : (array as Float64Array)
}

/**
 * Lets `toEqual` and its kin see a tensor's elements, which are private to it: without this, any two tensors of one
 * dtype and shape would pass as equal. Equal are equal values, NaN equal to NaN.
 */
function tensorsEqual(a: unknown, b: unknown): boolean | undefined {
  if (!(a instanceof Tensor) && !(b instanceof Tensor)) return undefined
  if (!(a instanceof Tensor) || !(b instanceof Tensor)) return false
  if (a.dtype !== b.dtype || formatShape(a.shape) !== formatShape(b.shape)) return false
  const [left, right] = [a.dataSync(), b.dataSync()]
  return left.every((value, i) => value === right[i] || (Number.isNaN(value) && Number.isNaN(right[i])))
}

/** The same for graphs and segments: equal are those of equal row pointers, columns and numbers of sources. */
function graphsEqual(this: Equality, a: unknown, b: unknown): boolean | undefined {
  if (!(a instanceof Segments) && !(b instanceof Segments)) return undefined
  if (!(a instanceof Segments) || !(b instanceof Segments)) return false
  return this.equals(structure(a), structure(b))
}

function structure(graph: Segments): unknown[] {
  return graph instanceof Csr ? [graph.rowPtr, graph.colIdx, graph.numSrc] : [graph.rowPtr]
}

interface Equality {
  equals(a: unknown, b: unknown): boolean
}

interface Expect {
  extend(matchers: object): void
  addEqualityTesters?(testers: readonly unknown[]): void
}

/** jest's `expect`: the global one, or that of @jest/globals where `injectGlobals` is off. */
function jestExpect(): Expect {
  const { expect } = globalThis as { expect?: Expect }
  if (typeof expect?.extend === 'function') return expect
  return (require('@jest/globals') as { expect: Expect }).expect
}

const expect = jestExpect()
expect.extend({ toBeCloseToTensor })
expect.addEqualityTesters?.([tensorsEqual, graphsEqual])
