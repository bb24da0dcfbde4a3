import { argumentError, checkAlive, describe, formatShape } from './argument'
import { Csr, Segments } from './csr'
import { type DType, dtypes } from './dtype'
import { Tensor } from './tensor'

const floatDTypes = (Object.keys(dtypes) as DType[]).filter((dtype) => dtypes[dtype].isFloat)

/** `float32, float16 or bfloat16`. */
function orList(words: readonly string[]): string {
  return words.length === 1 ? words[0]! : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}

/** The tensor itself, alive. */
export function checkIsTensor(op: string, name: string, value: unknown): Tensor {
  if (!(value instanceof Tensor)) {
    throw argumentError('ERR_ARG_TYPE', op, name, 'be a Tensor', describe(value))
  }
  checkAlive(op, name, value)
  return value
}

/** The tensor itself, alive, of fewest to most dimensions and an allowed dtype: without a list, one that ops compute on. */
export function checkTensor(
  op: string,
  name: string,
  value: unknown,
  fewest: number,
  most = fewest,
  allowed: readonly DType[] = floatDTypes,
): Tensor {
  const tensor = checkIsTensor(op, name, value)
  if (!allowed.includes(tensor.dtype)) {
    throw argumentError('ERR_DTYPE', op, name, `have dtype ${orList(allowed)}`, tensor.dtype)
  }
  if (tensor.rank < fewest || tensor.rank > most) {
    const expected = fewest === most ? `have rank ${fewest}` : `have rank ${fewest} or more`
    throw argumentError('ERR_SHAPE', op, name, expected, `shape ${formatShape(tensor.shape)}`)
  }
  return tensor
}

/** A dimension of a tensor: `scores must have 6912 rows (the graph's edges)`. */
export function checkDimension(
  op: string,
  name: string,
  tensor: Tensor,
  axis: number,
  length: number,
  meaning: string,
): void {
  if (tensor.lengths[axis] === length) return
  const isRows = axis === 0 && tensor.rank <= 2
  const what = isRows ? `have ${length} rows (${meaning})` : `have ${length} in axis ${axis} (${meaning})`
  throw argumentError('ERR_SHAPE', op, name, what, `shape ${formatShape(tensor.shape)}`)
}

/** Arguments that make sense only together: all given or none. */
export function checkTogether(op: string, values: Readonly<Record<string, unknown>>): void {
  const missing = Object.keys(values).filter((name) => values[name] === undefined)
  if (missing.length === 0 || missing.length === Object.keys(values).length) return
  const given = Object.keys(values).filter((name) => values[name] !== undefined)
  throw argumentError(
    'ERR_ARG_TYPE',
    op,
    missing.join(', '),
    `come together with ${given.join(', ')}`,
    'undefined',
  )
}

/** A tensor lies on the device of the call's first; one that was not given lies anywhere. */
export function checkSameDevice(
  op: string,
  name: string,
  tensor: Tensor | undefined,
  firstName: string,
  first: Tensor,
): void {
  if (tensor === undefined || tensor.device === first.device) return
  const expected = `be on ${firstName}'s device ${first.device}`
  throw argumentError('ERR_DEVICE_MISMATCH', op, name, expected, tensor.device)
}

/** The same, and a tensor has the dtype of the call's first. */
export function checkAlike(
  op: string,
  name: string,
  tensor: Tensor | undefined,
  firstName: string,
  first: Tensor,
): void {
  if (tensor !== undefined && tensor.dtype !== first.dtype) {
    throw argumentError('ERR_DTYPE', op, name, `have ${firstName}'s dtype ${first.dtype}`, tensor.dtype)
  }
  checkSameDevice(op, name, tensor, firstName, first)
}

export function checkSegments(op: string, value: unknown): Segments {
  if (!(value instanceof Segments)) {
    throw argumentError('ERR_ARG_TYPE', op, 'segments', 'be made by segments() or csr()', describe(value))
  }
  checkAlive(op, 'segments', value)
  return value
}

export function checkCsr(op: string, value: unknown): Csr {
  if (!(value instanceof Csr)) {
    throw argumentError('ERR_ARG_TYPE', op, 'graph', 'be made by csr()', describe(value))
  }
  checkAlive(op, 'graph', value)
  return value
}

export function checkBoolean(op: string, name: string, value: unknown): boolean {
  if (typeof value !== 'boolean') {
    throw argumentError('ERR_ARG_TYPE', op, name, 'be a boolean', describe(value))
  }
  return value
}

/** An integer that doubles hold exactly, of at least `least`. */
export function checkInteger(op: string, name: string, value: unknown, least = -Infinity): number {
  const number = checkNumber(op, name, value)
  if (!Number.isSafeInteger(number) || number < least) {
    const expected = least === -Infinity ? 'be an integer' : `be an integer of at least ${least}`
    throw argumentError('ERR_ARG_VALUE', op, name, expected, String(number))
  }
  return number
}

/** One of a few strings. */
export function checkChoice<T extends string>(
  op: string,
  name: string,
  value: unknown,
  choices: readonly T[],
): T {
  if (choices.includes(value as T)) return value as T
  const expected = `be ${orList(choices.map((choice) => `'${choice}'`))}`
  const code = typeof value === 'string' ? 'ERR_ARG_VALUE' : 'ERR_ARG_TYPE'
  throw argumentError(code, op, name, expected, describe(value))
}

export function checkNumber(op: string, name: string, value: unknown): number {
  if (typeof value !== 'number') throw argumentError('ERR_ARG_TYPE', op, name, 'be a number', describe(value))
  return value
}
