import type { ArgumentErrorCode } from 'warpgraph'

const classes: Readonly<Record<ArgumentErrorCode, 'TypeError' | 'RangeError'>> = {
  ERR_ARG_TYPE: 'TypeError',
  ERR_DTYPE: 'TypeError',
  ERR_DEVICE_MISMATCH: 'TypeError',
  ERR_DISPOSED: 'TypeError',
  ERR_CAPTURE: 'TypeError',
  ERR_ARG_VALUE: 'RangeError',
  ERR_SHAPE: 'RangeError',
}

/** An argument error: its message in full, its code, and the class that goes with the code. */
export function argumentErrorWith(code: ArgumentErrorCode, message: string): Error {
  return expect.objectContaining({ name: classes[code], code, message })
}

/** A test for each call that must be refused, named by its message. */
export function refused(code: ArgumentErrorCode, calls: readonly (readonly [string, () => unknown])[]): void {
  test.each(calls)(`${code}: %s`, (message, call) => {
    expect(call).toThrow(argumentErrorWith(code, message))
  })
}
