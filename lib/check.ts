import { argumentError, checkAlive, describe, formatShape } from './argument'
import type { Backend } from './backend'
import { Csr, Segments } from './csr'
import { type DType, dtypes } from './dtype'
import { Tensor } from './tensor'

/** What an op says of one of its tensors. */
interface TensorRule {
  /** The only dtype allowed; float dtypes when absent. */
  readonly dtype?: DType
  /** Fewest and most dimensions. */
  readonly rank?: readonly [number, number]
}

/** The tensor itself, alive, of an allowed dtype and rank. */
export function checkTensor(op: string, name: string, value: unknown, rule: TensorRule = {}): Tensor {
  if (!(value instanceof Tensor))
    throw argumentError('ERR_ARG_TYPE', op, name, 'be a Tensor', describe(value))
  const tensor: Tensor = value
  checkAlive(op, name, tensor)
  const allowed = rule.dtype === undefined ? dtypes[tensor.dtype].isFloat : tensor.dtype === rule.dtype
  if (!allowed) {
    const expected = rule.dtype ?? 'float32, float16 or bfloat16'
    throw argumentError('ERR_DTYPE', op, name, `have dtype ${expected}`, tensor.dtype)
  }
  const [fewest, most] = rule.rank ?? [0, Infinity]
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
  if (tensor.shape[axis] === length) return
  const what = axis === 0 ? `have ${length} rows (${meaning})` : `have ${length} in axis ${axis} (${meaning})`
  throw argumentError('ERR_SHAPE', op, name, what, `shape ${formatShape(tensor.shape)}`)
}

/** All tensors of a call share one dtype. The first is the measure. */
export function checkSameDType(op: string, first: [string, Tensor], ...others: [string, Tensor][]): void {
  for (const [name, tensor] of others) {
    if (tensor.dtype === first[1].dtype) continue
    throw argumentError('ERR_DTYPE', op, name, `have ${first[0]}'s dtype ${first[1].dtype}`, tensor.dtype)
  }
}

/** All tensors of a call lie on one device. Gives that device's backend. */
export function checkSameDevice(op: string, first: [string, Tensor], ...others: [string, Tensor][]): Backend {
  for (const [name, tensor] of others) {
    if (tensor.device === first[1].device) continue
    throw argumentError(
      'ERR_DEVICE_MISMATCH',
      op,
      name,
      `be on ${first[0]}'s device ${first[1].device}`,
      tensor.device,
    )
  }
  return first[1].storage.backend
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

/** A number; NaN only where `allowNaN`. */
export function checkNumber(op: string, name: string, value: unknown, expected = 'be a number'): number {
  if (typeof value !== 'number') throw argumentError('ERR_ARG_TYPE', op, name, expected, describe(value))
  return value
}
