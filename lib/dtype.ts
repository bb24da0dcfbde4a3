/** Element types of a tensor. Half types are stored as their 16 bits and computed in float32. */
export type DType = 'float32' | 'float16' | 'bfloat16' | 'int32'

/** The dtypes that ops compute on. */
export type FloatDType = Exclude<DType, 'int32'>

/** What `data()` gives for a dtype: half types come back widened to float32, which is exact. */
export type DataOf<D extends DType> = D extends 'int32' ? Int32Array : Float32Array

/** A tensor's elements as they lie in memory: half types as their bits. */
export type RawArray = Float32Array | Uint16Array | Int32Array

interface DTypeRow {
  /** Bytes per element. */
  readonly bytes: number
  /** The dtype's number in the addon (`enum class DType` in csrc/cuda/dtype.h). */
  readonly code: number
  readonly isFloat: boolean
  /** The array type of the elements in memory. */
  readonly array: Float32ArrayConstructor | Uint16ArrayConstructor | Int32ArrayConstructor
}

/** The one table of dtypes. */
export const dtypes: Readonly<Record<DType, DTypeRow>> = {
  float32: { bytes: 4, code: 0, isFloat: true, array: Float32Array },
  float16: { bytes: 2, code: 1, isFloat: true, array: Uint16Array },
  bfloat16: { bytes: 2, code: 2, isFloat: true, array: Uint16Array },
  int32: { bytes: 4, code: 3, isFloat: false, array: Int32Array },
}

/** The elements as numbers: the array itself for 32-bit types, a widened copy for half types. */
export function widen(dtype: DType, raw: RawArray): Float32Array | Int32Array {
  switch (dtype) {
    case 'float32':
      return raw as Float32Array
    case 'int32':
      return raw as Int32Array
    case 'float16':
      return widenFloat16(raw as Uint16Array)
    case 'bfloat16':
      return widenBfloat16(raw as Uint16Array)
    default:
      return dtype satisfies never
  }
}

/**
 * Writes numbers into an array of the dtype's own layout. Half types round to nearest even, after float32 where the
 * values come in double precision; int32 truncates towards zero and saturates, NaN becomes 0 (as CUDA converts).
 */
export function narrow(dtype: DType, values: ArrayLike<number>, into: RawArray): void {
  switch (dtype) {
    case 'float32':
      into.set(values)
      return
    case 'int32':
      for (let i = 0; i < values.length; i++) into[i] = saturateInt32(values[i]!)
      return
    case 'float16':
      narrowHalf(values, into, float16FromFloat32Bits)
      return
    case 'bfloat16':
      narrowHalf(values, into, bfloat16FromFloat32Bits)
      return
    default:
      dtype satisfies never
  }
}

/** A number as an element of the dtype would hold it. */
export function rounded(dtype: DType, value: number): number {
  const raw = new dtypes[dtype].array(1)
  narrow(dtype, [value], raw)
  return widen(dtype, raw)[0]!
}

function saturateInt32(value: number): number {
  if (Number.isNaN(value)) return 0
  return Math.trunc(Math.min(Math.max(value, -2147483648), 2147483647))
}

const float = new Float32Array(1)
const floatBits = new Uint32Array(float.buffer)

function narrowHalf(values: ArrayLike<number>, into: RawArray, round: (bits: number) => number): void {
  for (let i = 0; i < values.length; i++) {
    float[0] = values[i]!
    into[i] = round(floatBits[0]!)
  }
}

/** The 65,536 values of float16, made when first needed: decoding is then one look-up. */
let float16Values: Float32Array | undefined

function widenFloat16(bits: Uint16Array): Float32Array {
  float16Values ??= Float32Array.from({ length: 65536 }, (_, b) => float16Value(b))
  const table = float16Values
  const out = new Float32Array(bits.length)
  for (let i = 0; i < bits.length; i++) out[i] = table[bits[i]!]!
  return out
}

function float16Value(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> 10) & 0x1f
  const fraction = bits & 0x3ff
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN
  if (exponent === 0) return sign * fraction * 2 ** -24
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
}

function widenBfloat16(bits: Uint16Array): Float32Array {
  const out = new Float32Array(bits.length)
  const outBits = new Uint32Array(out.buffer)
  for (let i = 0; i < bits.length; i++) outBits[i] = bits[i]! << 16
  return out
}

/** `value >> shift`, rounded to nearest, ties to even. */
function shiftRoundingToEven(value: number, shift: number): number {
  const quotient = value >>> shift
  const rest = value & ((1 << shift) - 1)
  const half = 1 << (shift - 1)
  return rest > half || (rest === half && quotient & 1) ? quotient + 1 : quotient
}

function float16FromFloat32Bits(bits: number): number {
  const sign = (bits >>> 16) & 0x8000
  const magnitude = bits & 0x7fffffff
  if (magnitude > 0x7f800000) return sign | 0x7e00 // NaN, quiet
  if (magnitude >= 0x477ff000) return sign | 0x7c00 // 65520 and above round to infinity
  if (magnitude < 0x33000000) return sign // below 2^-25
  if (magnitude >= 0x38800000) return sign | shiftRoundingToEven(magnitude - 0x38000000, 13)
  // Subnormal in float16: the significand in units of 2^-24.
  const significand = (magnitude & 0x7fffff) | 0x800000
  return sign | shiftRoundingToEven(significand, 126 - (magnitude >>> 23))
}

function bfloat16FromFloat32Bits(bits: number): number {
  const magnitude = bits & 0x7fffffff
  if (magnitude > 0x7f800000) return ((bits >>> 16) & 0x8000) | 0x7fc0
  return ((bits >>> 16) & 0x8000) | shiftRoundingToEven(magnitude, 16)
}
