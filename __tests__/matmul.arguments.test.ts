import { withMatmul } from './matmul'

withMatmul('arguments of the matrix product of the addon', ({ addon, hold }) => {
  test('wrong buffers, sizes and dtypes are refused', () => {
    const floats = (length: number) => hold(new Float32Array(length))
    const table = hold(Int32Array.of(0, 1))
    const [limits, flag] = [hold(Int32Array.of(4)), hold(Int32Array.of(0))]
    // m 4, n 3, k 2; two pages of two rows.
    const right: unknown[] = [
      floats(8),
      floats(6),
      floats(12),
      0,
      1,
      4,
      3,
      2,
      2,
      8,
      3,
      6,
      false,
      3,
      12,
      false,
      false,
    ]
    right.push(table, 2, 2, 2, 0, limits, 0, flag)
    // biome-ignore lint/suspicious/noExplicitAny: wrong arguments are the point
    const call = (args: unknown[]) => () => (addon as any).matmul(...args)
    expect(call(right)).not.toThrow()
    const refused = expect.objectContaining({ message: expect.stringMatching(/^matmul: .+/) })
    const tiny = addon.allocate(0, 1)
    for (const position of [0, 1, 2, 17, 22, 24]) {
      for (const wrong of [tiny, 987654321, -1, NaN, '1', undefined]) {
        expect(call(right.with(position, wrong))).toThrow(refused)
      }
    }
    for (const position of [4, 5, 6, 7, 8, 10, 13, 18, 19, 20]) {
      for (const wrong of [2 ** 32 + 1, 2 ** 52, -1, 1.5, NaN, '2', undefined]) {
        expect(call(right.with(position, wrong))).toThrow(refused)
      }
    }
    expect(call(right.with(19, 0))).toThrow(refused)
    for (const wrong of [3, 4, -1, NaN, 'float32', undefined])
      expect(call(right.with(3, wrong))).toThrow(refused)
    for (const position of [12, 15, 16]) expect(call(right.with(position, 1))).toThrow(refused)
    expect(call(right.slice(1))).toThrow(refused)
    addon.synchronize(0)
    addon.release(tiny)
  })
})
