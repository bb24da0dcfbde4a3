import { argumentError, describe } from './argument'
import { type DType, dtypes, narrow, type RawArray } from './dtype'

/** Typed arrays that tensors are made from. */
export type NumericArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array

/** The class name of a typed array, of whatever realm; undefined for everything else. */
export function typedArrayName(value: unknown): string | undefined {
  if (!ArrayBuffer.isView(value)) return undefined
  const name = Object.prototype.toString.call(value).slice(8, -1)
  return name === 'DataView' ? undefined : name
}

const inferred: Readonly<Record<string, DType>> = {
  Float32Array: 'float32',
  Float64Array: 'float32',
  Float16Array: 'float16',
  Int8Array: 'int32',
  Uint8Array: 'int32',
  Uint8ClampedArray: 'int32',
  Int16Array: 'int32',
  Int32Array: 'int32',
  Uint32Array: 'int32',
  BigInt64Array: 'int32',
  BigUint64Array: 'int32',
}

/** A dtype by its name. @throws TypeError (`ERR_DTYPE`) for anything else */
export function checkDType<D>(op: string, dtype: D): D & DType {
  if (typeof dtype === 'string' && Object.hasOwn(dtypes, dtype)) return dtype as D & DType
  throw argumentError('ERR_DTYPE', op, 'dtype', `be ${Object.keys(dtypes).join(', ')}`, describe(dtype))
}

/** The dtype of a tensor made from this data when none is asked for. */
export function inferDType(op: string, data: unknown): DType {
  const name = typedArrayName(data)
  if (name === undefined) return 'float32'
  const dtype = inferred[name]
  if (dtype === undefined) {
    const expected = 'come with a dtype: float16 or bfloat16 for bits, float32 or int32 for numbers'
    throw argumentError('ERR_ARG_TYPE', op, 'data', expected, name)
  }
  return dtype
}

/**
 * The elements in the dtype's memory layout, always a copy.
 *
 * `Uint16Array` (and a newer Node's `Float16Array`) given for a half dtype are its bits; everything else is converted
 * by value. int32 takes integers in range only: a fraction, NaN or an overflow is an error, not a rounded value.
 */
export function toRaw(
  op: string,
  dtype: DType,
  data: ArrayLike<number> | BigInt64Array | BigUint64Array,
): RawArray {
  const name = typedArrayName(data)
  checkAttached(op, 'data', data)
  if (dtypes[dtype].bytes === 2 && name === 'Uint16Array') return Uint16Array.from(data as Uint16Array)
  if (dtype === 'float16' && name === 'Float16Array') {
    const view = data as unknown as ArrayBufferView
    return new Uint16Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength))
  }
  if (name === 'BigInt64Array' || name === 'BigUint64Array') {
    if (dtype !== 'int32') {
      throw argumentError('ERR_DTYPE', op, 'dtype', `be int32 for a ${name}`, dtype)
    }
    return int32FromBigInts(op, 'data', data as BigInt64Array | BigUint64Array)
  }
  const numbers = data as ArrayLike<number>
  if (name === undefined) checkNumbers(op, numbers)
  if (dtype === 'int32') return int32FromNumbers(op, 'data', numbers)
  const raw = new dtypes[dtype].array(numbers.length)
  narrow(dtype, numbers, raw)
  return raw
}

/** Throws for a typed array whose buffer went to a worker: it has no elements left, and nobody means to pass none. */
export function checkAttached(op: string, argument: string, array: unknown): void {
  if (!ArrayBuffer.isView(array) || array.byteLength > 0) return
  try {
    new Uint8Array(array.buffer)
  } catch {
    const actual = 'an array whose buffer was transferred'
    throw argumentError('ERR_ARG_TYPE', op, argument, 'have its elements', actual)
  }
}

function checkNumbers(op: string, data: ArrayLike<number>): void {
  for (let i = 0; i < data.length; i++) checkElement(op, data[i], i)
}

/** An element of plain arrays. */
export function checkElement(op: string, element: unknown, index: number): number {
  if (typeof element === 'number') return element
  throw argumentError('ERR_ARG_TYPE', op, 'data', 'hold numbers', `${kindOf(element)} at index ${index}`)
}

/** A copy as int32. Throws at the first element that is not an integer in int32's range, naming its index. */
export function int32FromNumbers(op: string, argument: string, data: ArrayLike<number>): Int32Array {
  const out = new Int32Array(data.length)
  if (typedArrayName(data) === 'Int32Array') {
    out.set(data)
    return out
  }
  for (let i = 0; i < data.length; i++) {
    const value: unknown = data[i]
    if (typeof value === 'number') out[i] = value
    if (out[i] === value) continue
    const [code, what] =
      typeof value === 'number'
        ? (['ERR_ARG_VALUE', String(value)] as const)
        : (['ERR_ARG_TYPE', kindOf(value)] as const)
    throw argumentError(code, op, argument, 'hold integers within int32', `${what} at index ${i}`)
  }
  return out
}

/** The same for 64-bit integers. */
export function int32FromBigInts(
  op: string,
  argument: string,
  data: BigInt64Array | BigUint64Array,
): Int32Array {
  const out = new Int32Array(data.length)
  for (let i = 0; i < data.length; i++) {
    const value = Number(data[i])
    out[i] = value
    if (out[i] === value) continue
    const actual = `${data[i]} at index ${i}`
    throw argumentError('ERR_ARG_VALUE', op, argument, 'hold integers within int32', actual)
  }
  return out
}

/** What stands where a number should: its kind, and of an array also its length. */
function kindOf(value: unknown): string {
  return typeof value === 'object' ? describe(value) : typeof value
}
