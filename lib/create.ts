import { argumentError, checkOptions, describe, formatShape } from './argument'
import { backendFor, type DeviceChoice } from './device'
import type { DType } from './dtype'
import { checkDType, checkElement, inferDType, type NumericArray, toRaw, typedArrayName } from './elements'
import { refuseInCapture } from './recording'
import { type RankOf, resolveShape, Tensor } from './tensor'

/** Arrays of numbers nested to some depth, all rows of one level equally long. */
export type NestedNumbers = number | readonly NestedNumbers[]

/** Typed arrays that tell a dtype. A `Uint16Array` tells none: it may hold numbers or the bits of either half type. */
export type SelfDescribing = Exclude<NumericArray, Uint16Array>

/** The dtype that a tensor made from this data has when none is asked for; none for a `Uint16Array`. */
export type InferredDType<T> = T extends
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | Int16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  ? 'int32'
  : T extends Uint16Array
    ? never
    : 'float32'

export interface TensorOptions<D extends DType = DType, S extends readonly number[] = readonly number[]> {
  /** Lengths of the dimensions; the data's own nesting when absent. One may be −1. */
  readonly shape?: S | undefined
  /** float32 when absent, int32 for typed arrays of integers. A `Uint16Array` needs one. */
  readonly dtype?: D | undefined
  /** `'cpu'`, `'cuda'` or `'cuda:N'`; the default device when absent. */
  readonly device?: DeviceChoice | undefined
}

/**
 * A tensor holding a copy of the data.
 *
 * @param data a number, nested arrays, or a typed array in row-major order. For half dtypes a `Uint16Array` holds
 * bits; every other array holds values, rounded to nearest even. An array that may be a `Uint16Array` by its type, as one of
 * a generic function, needs a dtype.
 * @throws TypeError (`ERR_ARG_TYPE`, `ERR_DTYPE`) or RangeError (`ERR_SHAPE`, `ERR_ARG_VALUE`) for data that does not
 * fit shape or dtype; `DeviceError` when the device cannot be used or is out of memory
 */
export function tensor<
  T extends NumericArray | NestedNumbers,
  D extends DType,
  // biome-ignore lint/suspicious/noExplicitAny: without a shape the rank is unknown
  const S extends readonly number[] = any,
>(data: T, options: TensorOptions<D, S> & { readonly dtype: D }): Tensor<NoInfer<D>, RankOf<S>>
/** The same, of the dtype that the data tells. */
export function tensor<
  T extends SelfDescribing | NestedNumbers,
  D extends DType = InferredDType<T>,
  // biome-ignore lint/suspicious/noExplicitAny: without a shape the rank is unknown
  const S extends readonly number[] = any,
>(data: T, options?: TensorOptions<D, S>): Tensor<NoInfer<D>, RankOf<S>>
export function tensor(data: NumericArray | NestedNumbers, options: TensorOptions = {}): Tensor {
  const op = 'tensor'
  refuseInCapture(op, 'data', 'become a tensor outside of capture()')
  checkOptions(op, options, ['shape', 'dtype', 'device'])
  if (options.dtype !== undefined) checkDType(op, options.dtype)
  const { flat, shape } = flatten(op, data)
  const dtype = options.dtype ?? inferDType(op, flat)
  const full = resolveShape(op, options.shape ?? shape, flat.length)
  const backend = backendFor(op, options.device)
  const raw = toRaw(op, dtype, flat as ArrayLike<number>)
  return new Tensor(backend.upload(dtype, raw).withBoundsOf(raw), full)
}

/** An array seen through strides, in elements: what the ndarray package makes. */
export interface StridedArray<T> {
  readonly data: T
  readonly shape: readonly number[]
  readonly stride: readonly number[]
  readonly offset: number
}

/**
 * A tensor with a copy of an ndarray's elements in row-major order; strides and offset are honoured. Data that may be a
 * `Uint16Array` by its type, as of an `NdArray<TypedArray>`, needs a dtype.
 *
 * @throws RangeError (`ERR_SHAPE`) when the view reaches outside its data; otherwise as {@link tensor}
 */
export function fromNdarray<T extends NumericArray | number[], D extends DType>(
  view: StridedArray<T>,
  options: { readonly dtype: D; readonly device?: DeviceChoice | undefined },
): Tensor<NoInfer<D>>
/** The same, of the dtype that the data tells. */
export function fromNdarray<T extends SelfDescribing | number[], D extends DType = InferredDType<T>>(
  view: StridedArray<T>,
  options?: { readonly dtype?: D | undefined; readonly device?: DeviceChoice | undefined },
): Tensor<NoInfer<D>>
export function fromNdarray(
  view: StridedArray<NumericArray | number[]>,
  options: { readonly dtype?: DType | undefined; readonly device?: DeviceChoice | undefined } = {},
): Tensor {
  const op = 'fromNdarray'
  refuseInCapture(op, 'view', 'become a tensor outside of capture()')
  checkOptions(op, options, ['dtype', 'device'])
  const { data, shape, stride, offset } = checkNdarray(op, view)
  const dtype = checkDType(op, options.dtype ?? inferDType(op, data))
  const name = typedArrayName(data)
  // Of the data's own kind; a Buffer counts as the bytes it is.
  const kinds = globalThis as unknown as Record<string, Float64ArrayConstructor>
  const flat = withRoom(op, shape, name === undefined ? Float64Array : kinds[name]!)
  const index = shape.map(() => 0)
  for (let i = 0, at = offset; i < flat.length; i++) {
    flat[i] = name === undefined ? checkElement(op, data[at], at) : data[at]!
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      at += stride[axis]!
      if (++index[axis]! < shape[axis]!) break
      at -= stride[axis]! * shape[axis]!
      index[axis] = 0
    }
  }
  const backend = backendFor(op, options.device)
  const raw = toRaw(op, dtype, flat)
  return new Tensor(backend.upload(dtype, raw).withBoundsOf(raw), [...shape])
}

/** The numbers of nested arrays in row-major order, with the shape that the nesting tells. */
function flatten(
  op: string,
  data: NumericArray | NestedNumbers,
): { flat: ArrayLike<number | bigint>; shape: number[] } {
  if (typeof data === 'number') return { flat: [data], shape: [] }
  if (typedArrayName(data) !== undefined) {
    const flat = data as NumericArray
    return { flat, shape: [flat.length] }
  }
  if (!Array.isArray(data)) {
    const expected = 'be a number, an array or a typed array (an ndarray goes to fromNdarray)'
    throw argumentError('ERR_ARG_TYPE', op, 'data', expected, describe(data))
  }
  const shape: number[] = []
  for (let level: unknown = data; Array.isArray(level); level = level[0]) {
    if (shape.push(level.length) > mostAxes) {
      throw argumentError('ERR_SHAPE', op, 'data', `be nested at most ${mostAxes} deep`, 'deeper arrays')
    }
  }
  if (shape.length === 1) return { flat: data as number[], shape }
  const flat = withRoom(op, shape, Float64Array)
  fillFrom(op, data, shape, 0, flat, 0)
  return { flat, shape }
}

/** An array that holds itself has no end. */
const mostAxes = 64

/** An array of a kind; those of JavaScript's own, where they get too long, end the process. */
function withRoom(op: string, shape: readonly number[], Kind: Float64ArrayConstructor): Float64Array {
  const size = shape.reduce((a, b) => a * b, 1)
  try {
    return new Kind(size)
  } catch {
    const actual = `${size} in shape ${formatShape(shape)}`
    throw argumentError('ERR_SHAPE', op, 'data', 'have as many elements as memory has room for', actual)
  }
}

/** Writes the numbers of a level to `flat` from `at` on; gives the place behind them. */
function fillFrom(
  op: string,
  level: unknown,
  shape: readonly number[],
  axis: number,
  flat: Float64Array,
  at: number,
): number {
  if (!Array.isArray(level) || level.length !== shape[axis]) {
    const expected = `be nested evenly as ${formatShape(shape)}`
    throw argumentError('ERR_SHAPE', op, 'data', expected, `${describe(level)} in axis ${axis}`)
  }
  let next = at
  if (axis < shape.length - 1) {
    for (const item of level) next = fillFrom(op, item, shape, axis + 1, flat, next)
    return next
  }
  for (const item of level) {
    flat[next] = checkElement(op, item, next)
    next++
  }
  return next
}

/** The parts of an ndarray, every element of it inside its data. */
function checkNdarray(op: string, view: unknown): StridedArray<ArrayLike<number>> {
  const { data, shape, stride, offset } = (view ?? {}) as Partial<StridedArray<ArrayLike<number>>>
  const hasData = Array.isArray(data) || typedArrayName(data) !== undefined
  if (!hasData || !Array.isArray(shape) || !Array.isArray(stride) || typeof offset !== 'number') {
    throw argumentError('ERR_ARG_TYPE', op, 'view', 'be an ndarray over an array of numbers', describe(view))
  }
  const whole = [...stride, offset].every(Number.isInteger) && shape.every((length) => length >= 0)
  if (!whole || !shape.every(Number.isSafeInteger) || stride.length !== shape.length) {
    const actual = `shape ${formatShape(shape)}, strides ${formatShape(stride)}, offset ${offset}`
    throw argumentError('ERR_SHAPE', op, 'view', 'have a whole length and stride per axis', actual)
  }
  let lowest = offset
  let highest = offset
  for (const [axis, length] of shape.entries()) {
    const reach = stride[axis]! * (length - 1)
    if (reach < 0) lowest += reach
    else highest += reach
  }
  if (!shape.includes(0) && (lowest < 0 || highest >= data!.length)) {
    const actual = `offsets ${lowest} to ${highest} in ${data!.length} elements`
    throw argumentError('ERR_SHAPE', op, 'view', 'stay inside its data', actual)
  }
  return { data: data!, shape, stride, offset }
}
