import fc from 'fast-check'
import { tensor } from 'warpgraph'
import { type DType, dtypes, narrow, widen } from '../lib/dtype'
import { onEachDevice } from './devices'

type HalfDType = 'float16' | 'bfloat16'

/**
 * The values of the bit patterns 0, 1, 2, … of a half type, the pattern of infinity among them: it stands for the
 * next power of two, which is what rounding compares with. Built by adding one unit in the last place after another,
 * not by taking bits apart.
 */
function valuesOf(smallest: number, perBinade: number, infinity: number): number[] {
  const values = [0]
  for (let unit = smallest, inBinade = -perBinade; values.length <= infinity; ) {
    values.push(values.at(-1)! + unit)
    if (++inBinade < perBinade) continue
    inBinade = 0
    unit *= 2
  }
  return values
}

const formats = {
  float16: { infinity: 0x7c00, values: valuesOf(2 ** -24, 1024, 0x7c00) },
  bfloat16: { infinity: 0x7f80, values: valuesOf(2 ** -133, 128, 0x7f80) },
}

/** The bits of the nearest value of the half type, the even ones on a tie, found by bisection in float64. */
function roundedBits(dtype: HalfDType, x: number): number {
  const { infinity, values } = formats[dtype]
  const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0
  const magnitude = Math.abs(x)
  if (magnitude >= values[infinity]!) return sign | infinity
  let [low, high] = [0, infinity]
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (values[middle]! <= magnitude) low = middle
    else high = middle
  }
  const [below, above] = [magnitude - values[low]!, values[high]! - magnitude]
  if (below === above) return sign | (low % 2 === 0 ? low : high)
  return sign | (below < above ? low : high)
}

function valueOfBits(dtype: HalfDType, bits: number): number {
  const { infinity, values } = formats[dtype]
  const magnitude = bits & 0x7fff
  if (magnitude > infinity) return NaN
  return (bits & 0x8000 ? -1 : 1) * (magnitude === infinity ? Infinity : values[magnitude]!)
}

function bitsOf(dtype: DType, ...numbers: number[]): number[] {
  const raw = new dtypes[dtype].array(numbers.length)
  narrow(dtype, numbers, raw)
  return Array.from(raw)
}

const allBits = Uint16Array.from({ length: 65536 }, (_, bits) => bits)

describe.each(['float16', 'bfloat16'] as const)('%s', (dtype) => {
  const { infinity } = formats[dtype]

  test('the independent table ends where the format does', () => {
    const largest = formats[dtype].values[infinity - 1]
    expect(largest).toBe(dtype === 'float16' ? 65504 : 3.3895313892515355e38)
  })

  test('every bit pattern has its value', () => {
    const values = widen(dtype, allBits)
    const wrong = allBits.filter((bits) => !Object.is(values[bits], valueOfBits(dtype, bits)))
    expect(Array.from(wrong)).toEqual([])
  })

  test('every bit pattern survives the way to float32 and back; NaN stays a NaN of its sign', () => {
    const back = bitsOf(dtype, ...widen(dtype, allBits))
    for (const bits of allBits) {
      if ((bits & 0x7fff) <= infinity) {
        if (back[bits] !== bits) throw new Error(`${bits} came back as ${back[bits]}`)
      } else expect(back[bits]! & 0x7fff).toBeGreaterThan(infinity)
    }
  })

  test('rounds as the independent definition does, for any float32', () => {
    const words = new Uint32Array(1)
    const floats = new Float32Array(words.buffer)
    const anyFloat32 = fc.integer({ min: 0, max: 2 ** 32 - 1 }).map((word) => {
      words[0] = word
      return floats[0]!
    })
    // Halfway between neighbours and just beside it: where rounding goes wrong.
    const nearHalfway = fc.tuple(fc.nat(infinity - 1), fc.constantFrom(-1, 0, 1)).map(([bits, side]) => {
      const { values } = formats[dtype]
      floats[0] = (values[bits]! + values[bits + 1]!) / 2
      words[0]! += words[0] === 0 ? 0 : side
      return floats[0]!
    })
    const near = fc.oneof(anyFloat32, nearHalfway, fc.float({ noNaN: true }))
    const property = fc.property(near, fc.boolean(), (value, negate) => {
      if (Number.isNaN(value)) return
      const x = negate ? -value : value
      expect(bitsOf(dtype, x)).toEqual([roundedBits(dtype, x)])
    })
    fc.assert(property, { numRuns: 5000 })
  })
})

test.each<[number, number, string]>([
  [1 + 2 ** -11, 0x3c00, 'halfway above 1: down to even'],
  [1 + 3 * 2 ** -11, 0x3c02, 'halfway above 1 + 2^-10: up to even'],
  [1 + 2 ** -11 + 2 ** -23, 0x3c01, 'just above halfway: up'],
  [2048 + 1, 0x6800, '2049 lies between 2048 and 2050'],
  [2048 + 3, 0x6802, '2051 lies between 2050 and 2052'],
  [2 ** -24, 0x0001, 'smallest subnormal'],
  [2 ** -25, 0x0000, 'half of it: to zero, which is even'],
  [2 ** -25 + 2 ** -40, 0x0001, 'more than half of it'],
  [3 * 2 ** -25, 0x0002, 'halfway between subnormals 1 and 2'],
  [2 ** -14 - 2 ** -25, 0x0400, 'largest subnormal and a half: into the normals'],
  [-(2 ** -26), 0x8000, 'underflow keeps the sign'],
  [65504, 0x7bff, 'largest'],
  [65519.99609375, 0x7bff, 'below the halfway mark to infinity'],
  [65520, 0x7c00, 'halfway: overflow'],
  [-1e30, 0xfc00, 'far beyond'],
  [-Infinity, 0xfc00, 'infinity'],
  [-0, 0x8000, 'minus zero'],
])('float16 of %d is %i: %s', (value, bits) => {
  expect(bitsOf('float16', value)).toEqual([bits])
})

test.each<[number, number, string]>([
  [1 + 2 ** -8, 0x3f80, 'halfway above 1: down to even'],
  [1 + 3 * 2 ** -8, 0x3f82, 'halfway above 1 + 2^-7: up to even'],
  [1 + 2 ** -8 + 2 ** -23, 0x3f81, 'just above halfway: up'],
  [2 ** -133, 0x0001, 'smallest subnormal'],
  [2 ** -134, 0x0000, 'half of it: to zero, which is even'],
  [3.4028234663852886e38, 0x7f80, 'largest float32: overflow'],
  [3.3895313892515355e38, 0x7f7f, 'largest'],
  [-Infinity, 0xff80, 'infinity'],
  [-0, 0x8000, 'minus zero'],
])('bfloat16 of %d is %i: %s', (value, bits) => {
  expect(bitsOf('bfloat16', value)).toEqual([bits])
})

test('a number in double precision is rounded to float32 first, as every other value is', () => {
  // In one step the value, a little above the halfway mark 1 + 2^-11, would go up.
  expect(bitsOf('float16', 1 + 2 ** -11 + 2 ** -40)).toEqual([0x3c00])
})

onEachDevice('cast', (device) => {
  test.each(['float16', 'bfloat16'] as const)('all values of %s widen exactly', (dtype) => {
    using half = tensor(allBits, { dtype, device })
    using wide = half.cast('float32')
    expect(wide.dtype).toBe('float32')
    const values = wide.dataSync()
    const wrong = allBits.filter((bits) => !Object.is(values[bits], valueOfBits(dtype, bits)))
    expect(Array.from(wrong)).toEqual([])
    expect(half.dataSync()).toEqual(values)
  })

  test.each(['float16', 'bfloat16'] as const)('to %s rounds to nearest even', (dtype) => {
    const { values, infinity } = formats[dtype]
    const numbers = [0, -0, 1e-30, -1e-30, 1e30, Infinity, -Infinity]
    for (let bits = 0; bits < infinity; bits += 7) {
      const [low, high] = [values[bits]!, values[bits + 1]!]
      numbers.push((low + high) / 2, -(low * 3 + high) / 4, (low + high * 3) / 4)
    }
    const floats = Float32Array.from(numbers)
    using wide = tensor(floats, { device })
    using half = wide.cast(dtype)
    const expected = Array.from(floats, (x) => valueOfBits(dtype, roundedBits(dtype, x)))
    expect(Array.from(half.dataSync())).toEqual(expected)
  })

  test.each(['float16', 'bfloat16'] as const)('NaN stays NaN in %s', (dtype) => {
    using t = tensor([NaN, 1], { device }).cast(dtype)
    expect(Array.from(t.dataSync())).toEqual([NaN, 1])
  })

  test('float32 to int32 truncates towards zero and saturates; NaN becomes 0', () => {
    using t = tensor([1.9, -1.9, 0.5, -0.5, 3e9, -3e9, Infinity, -Infinity, NaN, 16777216], { device })
    const expected = [1, -1, 0, 0, 2147483647, -2147483648, 2147483647, -2147483648, 0, 16777216]
    expect(t.cast('int32').dataSync()).toEqual(Int32Array.from(expected))
  })

  test('int32 to float32 rounds to nearest even', () => {
    using t = tensor(Int32Array.of(16777217, 16777219, -2147483648, 7), { device })
    expect(Array.from(t.cast('float32').dataSync())).toEqual([16777216, 16777220, -2147483648, 7])
  })

  test('between half types goes through float32', () => {
    // 1 + 2^-10 is a float16; bfloat16 has no such value. 2^-24 and 1e5 are the other way round.
    using t = tensor([1 + 2 ** -10, 2 ** -24, 65504], { dtype: 'float16', device })
    expect(Array.from(t.cast('bfloat16').dataSync())).toEqual([1, 2 ** -24, 65536])
    using u = tensor([2 ** 17, 2 ** -25, 1.5], { dtype: 'bfloat16', device })
    expect(Array.from(u.cast('float16').dataSync())).toEqual([Infinity, 0, 1.5])
  })
})
