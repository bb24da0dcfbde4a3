import fc from 'fast-check'
import { type DType, tensor } from 'warpgraph'
import { compareDevices } from 'warpgraph/testing'
import { uniform } from '../arbitraries'
import { onEachDevice } from '../devices'
import { expectSameBits, expectWithin, floatDTypes } from '../tolerance'
import 'warpgraph/testing/jest'

const everyHalf = Uint16Array.from({ length: 65536 }, (_, bits) => bits)

/** A half type by its definition: exponent and fraction fields of 16 bits. */
const formats = {
  float16: { fractionBits: 10, bias: 15 },
  bfloat16: { fractionBits: 7, bias: 127 },
} as const

/** The value of 16 bits, from the fields. */
function halfValue(bits: number, { fractionBits, bias }: { fractionBits: number; bias: number }): number {
  const sign = bits >= 32768 ? -1 : 1
  const fraction = (bits % 2 ** fractionBits) / 2 ** fractionBits
  const exponent = Math.floor((bits % 32768) / 2 ** fractionBits)
  if (exponent === 2 * bias + 1) return fraction > 0 ? NaN : sign * Infinity
  return exponent === 0 ? sign * fraction * 2 ** (1 - bias) : sign * (1 + fraction) * 2 ** (exponent - bias)
}

onEachDevice('cast', (device) => {
  describe.each(['float16', 'bfloat16'] as const)('%s', (dtype) => {
    const format = formats[dtype]

    test('all 65,536 bit patterns widen to their values, and come back', () => {
      const half = tensor(everyHalf, { dtype, device })
      const wide = half.cast('float32')
      const values = Float64Array.from(everyHalf, (bits) => halfValue(bits, format))
      expectWithin(wide.dataSync(), values, () => 0)
      expectWithin(half.dataSync(), values, () => 0)
      const back = wide.cast(dtype)
      expect(back.dtype).toBe(dtype)
      expectWithin(back.dataSync(), values, () => 0)
      // The sign of zero too, which the comparison of values does not see.
      expect(1 / back.dataSync()[32768]!).toBe(-Infinity)
    })

    test('between two neighbours: the nearer one, in the middle the even one', () => {
      const largest = everyHalf.findIndex((bits) => halfValue(bits, format) === Infinity) - 1
      const inputs: number[] = []
      const expected: number[] = []
      for (let bits = 0; bits <= largest; bits++) {
        const low = halfValue(bits, format)
        // The next value after the largest is where infinity would be, were it a number.
        const high = bits < largest ? halfValue(bits + 1, format) : low + (low - halfValue(bits - 1, format))
        const middle = (low + high) / 2
        const above = bits < largest ? high : Infinity
        const step = (high - low) / 8
        inputs.push(middle, middle - step, middle + step, -middle, -(middle + step))
        const even = bits % 2 === 0 ? low : above
        expected.push(even, low, above, -even, -above)
      }
      const result = tensor(inputs, { device }).cast(dtype).dataSync()
      // bfloat16's smallest subnormals and their middles are float32 numbers too; nothing is lost on the way.
      expectWithin(result, expected, () => 0)
    })

    test('±∞, NaN and values past the largest', () => {
      const beyond = dtype === 'float16' ? 65520 : 3.4e38
      const result = tensor([Infinity, -Infinity, NaN, beyond, -beyond], { device }).cast(dtype)
      expect(result).toBeCloseToTensor([Infinity, -Infinity, NaN, Infinity, -Infinity], { atol: 0 })
    })
  })

  test('by hand: every dtype to every other', () => {
    const table: [DType, DType, number[], number[]][] = [
      ['float32', 'int32', [1.9, -1.9, 0.5, -0.5, 7], [1, -1, 0, 0, 7]],
      [
        'float32',
        'int32',
        [3e9, -3e9, Infinity, -Infinity, NaN],
        [2147483647, -2147483648, 2147483647, -2147483648, 0],
      ],
      ['float32', 'int32', [2147483520, -2147483648], [2147483520, -2147483648]],
      ['float16', 'int32', [1.5, -2.75, 65504, Infinity, NaN], [1, -2, 65504, 2147483647, 0]],
      ['bfloat16', 'int32', [1.5, -2.75, 2 ** 40, -Infinity, NaN], [1, -2, 2147483647, -2147483648, 0]],
      ['int32', 'float32', [0, -5, 16777217, 16777219], [0, -5, 16777216, 16777220]],
      ['int32', 'float16', [2049, 2051, -65504, 65519, 65520], [2048, 2052, -65504, 65504, Infinity]],
      ['int32', 'bfloat16', [257, 259, -2147483648], [256, 260, -2147483648]],
      ['float16', 'bfloat16', [1.00390625, 1.01171875, 2 ** -24], [1, 1.015625, 2 ** -24]],
      ['bfloat16', 'float16', [1.5, 65536, 2 ** -25, 2 ** -24 * 1.5], [1.5, Infinity, 0, 2 ** -23]],
    ]
    for (const [from, to, values, expected] of table) {
      const input = tensor(values, { dtype: from, device })
      const result = input.cast(to)
      expect([result.dtype, result.device, result.shape]).toEqual([to, device, [values.length]])
      expect(result).toBeCloseToTensor(expected, { atol: 0 })
    }
  })

  test.each([0, 1, 2, 3, 7, 8, 31, 32, 33, 127, 128, 129, 1_000_003])('%i elements', (length) => {
    const values = uniform(length, length, -100, 100)
    const x = tensor(values, { shape: [length, 1], device })
    const halved = x.cast('bfloat16')
    expect(halved.shape).toEqual([length, 1])
    // Rounding of values below 128 in bfloat16 is at most 2^-2, and idempotent.
    expectWithin(halved.dataSync(), values, (i) => Math.abs(values[i]!) * 2 ** -8)
    expectSameBits(halved.cast('float32').cast('bfloat16').dataSync(), halved.dataSync())
    expectWithin(x.cast('int32').dataSync(), values.map(Math.trunc), () => 0)
  })

  test('to its own dtype: the same values, and the first tensor may go', () => {
    for (const dtype of [...floatDTypes, 'int32'] as const) {
      const x = tensor([1, 2, 3], { dtype, device })
      const same = x.cast(dtype)
      x.dispose()
      expect(same).toBeCloseToTensor([1, 2, 3], { atol: 0 })
    }
  })

  test('agrees with the CPU on random float32 bits and integers, for every pair', async () => {
    const dtypes = ['float32', 'float16', 'bfloat16', 'int32'] as const
    await fc.assert(
      fc.asyncProperty(fc.int32Array({ maxLength: 300 }), async (raw) => {
        const bits = Int32Array.from(raw)
        const floats = tensor(new Float32Array(bits.buffer))
        const inputs = [floats, tensor(bits), floats.cast('float16'), floats.cast('bfloat16')] as const
        const cast = (...all: (typeof inputs)[number][]) =>
          all.flatMap((x) => dtypes.map((dtype) => x.cast(dtype)))
        const result = await compareDevices(cast, inputs, { devices: [device], atol: 0 })
        expect(result).toMatchObject({ ok: true, devices: [{ outputs: { length: 16 } }] })
      }),
      { numRuns: 40 },
    )
  })

  test('by hand: bad arguments', () => {
    const x = tensor([1], { device })
    expect(() => x.cast('float64' as DType)).toThrow(
      'cast: dtype must be float32, float16, bfloat16, int32, got "float64"',
    )
    x.dispose()
    expect(() => x.cast('int32')).toThrow('cast: tensor must be alive, got one that was disposed')
  })
})
