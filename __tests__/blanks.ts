import { csr, type DeviceName, tensor } from 'warpgraph'

/** Makers of tensors of zeros, alive or disposed, for tests that only care about shape, dtype and device. */
export function blanks(device: DeviceName) {
  const make = (...shape: number[]) => {
    return tensor(new Float32Array(shape.reduce((a, b) => a * b, 1)), { shape, device })
  }
  return {
    make,
    half: (...shape: number[]) => make(...shape).cast('float16'),
    int: (...shape: number[]) => make(...shape).cast('int32'),
    gone: (...shape: number[]) => {
      const result = make(...shape)
      result.dispose()
      return result
    },
    goneGraph: () => {
      const result = csr([0, 1], [0])
      result.dispose()
      return result
    },
  }
}
