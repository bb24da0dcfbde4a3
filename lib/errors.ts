/**
 * What went wrong, in a form a program can test:
 *
 * - `ERR_ARG_TYPE`: a value of the wrong kind (`TypeError`);
 * - `ERR_ARG_VALUE`: a value of the right kind that is not allowed (`RangeError`);
 * - `ERR_DTYPE`: a tensor of the wrong dtype (`TypeError`);
 * - `ERR_SHAPE`: a tensor or array of the wrong shape or length (`RangeError`);
 * - `ERR_DEVICE_MISMATCH`: tensors of one call on different devices (`TypeError`);
 * - `ERR_DISPOSED`: a tensor or graph used after `dispose()` (`TypeError`);
 * - `ERR_CAPTURE`: what cannot be captured was called inside `capture()` (`TypeError`).
 */
export type ArgumentErrorCode =
  | 'ERR_ARG_TYPE'
  | 'ERR_ARG_VALUE'
  | 'ERR_DTYPE'
  | 'ERR_SHAPE'
  | 'ERR_DEVICE_MISMATCH'
  | 'ERR_DISPOSED'
  | 'ERR_CAPTURE'

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
