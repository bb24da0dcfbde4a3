/**
 * What went wrong, in a form a program can test:
 *
 * - `ERR_ARG_TYPE`: a value of the wrong kind (`TypeError`);
 * - `ERR_ARG_VALUE`: a value of the right kind that is not allowed (`RangeError`);
 * - `ERR_DTYPE`: a tensor of the wrong dtype (`TypeError`);
 * - `ERR_SHAPE`: a tensor or array of the wrong shape or length (`RangeError`);
 * - `ERR_DEVICE_MISMATCH`: tensors of one call on different devices (`TypeError`);
 * - `ERR_DISPOSED`: a tensor or graph used after `dispose()` (`TypeError`).
 */
export type ArgumentErrorCode =
  | 'ERR_ARG_TYPE'
  | 'ERR_ARG_VALUE'
  | 'ERR_DTYPE'
  | 'ERR_SHAPE'
  | 'ERR_DEVICE_MISMATCH'
  | 'ERR_DISPOSED'

/** An argument error as thrown by every public function: a `TypeError` or `RangeError` with a `code`. */
export type ArgumentError = (TypeError | RangeError) & { readonly code: ArgumentErrorCode }

/**
 * What a device reports:
 *
 * - `ERR_DEVICE_UNAVAILABLE`: the device that was chosen cannot be used; the message says why;
 * - `ERR_DEVICE_OUT_OF_MEMORY`: an allocation failed after the cache was freed; the message has the figures;
 * - `ERR_DEVICE`: any other CUDA error;
 * - `ERR_DEVICE_LOST`: an earlier error ended the process's use of this device.
 */
export type DeviceErrorCode =
  | 'ERR_DEVICE'
  | 'ERR_DEVICE_UNAVAILABLE'
  | 'ERR_DEVICE_OUT_OF_MEMORY'
  | 'ERR_DEVICE_LOST'

/** An error of a device or its driver. `cudaName` is CUDA's own name for it, for example `cudaErrorMemoryAllocation`. */
export class DeviceError extends Error {
  override readonly name = 'DeviceError'

  constructor(
    message: string,
    readonly code: DeviceErrorCode,
    readonly cudaName: string | null = null,
  ) {
    super(message)
  }
}

const typeErrors: ReadonlySet<ArgumentErrorCode> = new Set([
  'ERR_ARG_TYPE',
  'ERR_DTYPE',
  'ERR_DEVICE_MISMATCH',
  'ERR_DISPOSED',
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

/** A value as error messages show it: short, and with what usually is the mistake. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  if (typeof value === 'string') return JSON.stringify(value)
  if (typeof value === 'function') return 'a function'
  if (typeof value !== 'object') return `${typeof value} ${String(value)}`
  if (Array.isArray(value)) return `an array of length ${value.length}`
  // Tensors and graphs tell what they are by their Symbol.toStringTag.
  const kind = Object.prototype.toString.call(value).slice(8, -1)
  return kind === 'Promise' ? 'a Promise (is an await missing?)' : kind
}

/** `[6911, 8]`. */
export function formatShape(shape: readonly number[]): string {
  return `[${shape.join(', ')}]`
}
