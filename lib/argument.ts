import type { ArgumentError, ArgumentErrorCode } from './errors'

const typeErrors: ReadonlySet<ArgumentErrorCode> = new Set([
  'ERR_ARG_TYPE',
  'ERR_DTYPE',
  'ERR_DEVICE_MISMATCH',
  'ERR_DISPOSED',
  'ERR_CAPTURE',
])

/**
 * The one builder of argument errors, so that all of them read alike:
 * `segmentSoftmax: scores must have 6912 rows (the graph's edges), got shape [6911, 8]`.
 */
export function argumentError(
  code: ArgumentErrorCode,
  op: string,
  argument: string,
  expected: string,
  actual: string,
): ArgumentError {
  const message = `${op}: ${argument} must ${expected}, got ${actual}`
  const error = typeErrors.has(code) ? new TypeError(message) : new RangeError(message)
  return Object.assign(error, { code })
}

/** Throws when a tensor or graph was disposed. */
export function checkAlive(op: string, argument: string, value: { readonly disposed: boolean }): void {
  if (value.disposed) throw argumentError('ERR_DISPOSED', op, argument, 'be alive', 'one that was disposed')
}

/** Where tensors and graphs tell which copy of the package made them: several may be installed. */
export const madeBy = Symbol.for('warpgraph.madeBy')

/** This copy of the package. */
export const thisCopy = Symbol('warpgraph')

/** A value as error messages show it: short, and with what usually is the mistake. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  if (typeof value === 'string') return JSON.stringify(value)
  if (typeof value === 'function') return 'a function'
  if (typeof value !== 'object') return `${typeof value} ${String(value)}`
  if (Array.isArray(value)) return `an array of length ${value.length}`
  // Tensors and graphs tell what they are by their Symbol.toStringTag.
  const kind = Object.prototype.toString.call(value).slice(8, -1)
  if (kind === 'Promise') return 'a Promise (is an await missing?)'
  const { [madeBy]: maker = thisCopy } = value as { [madeBy]?: symbol }
  return maker === thisCopy ? kind : `${kind}, made by another copy of warpgraph`
}

/** `[6911, 8]`. */
export function formatShape(shape: readonly number[]): string {
  return `[${shape.join(', ')}]`
}

/** One for all calls without options. */
const noOptions = Object.freeze({})

/** An object of named arguments: undefined counts as empty, an unknown key is a mistake and named as one. */
export function checkOptions<T extends object>(
  op: string,
  value: T | undefined,
  known: readonly (keyof T & string)[],
  argument = 'options',
  expected = 'be an object',
): T {
  if (value === undefined) return noOptions as T
  if (Object.prototype.toString.call(value) !== '[object Object]') {
    throw argumentError('ERR_ARG_TYPE', op, argument, expected, describe(value))
  }
  for (const key of Object.keys(value)) {
    if (!(known as readonly string[]).includes(key)) {
      throw argumentError('ERR_ARG_VALUE', op, argument, `have only ${known.join(', ')}`, JSON.stringify(key))
    }
  }
  return value
}
