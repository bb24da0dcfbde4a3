import fc from 'fast-check'
import { exp } from 'lib/backends/cpu/exp'
import { segmentSoftmax, segments, tensor } from 'warpgraph'
import { softmax } from './definitions'

const expectMathExp = (x: number) =>
  expect(Math.abs(exp(x) - Math.exp(x))).toBeLessThanOrEqual(4e-16 * Math.exp(x))

describe("the CPU's exponential", () => {
  test('is Math.exp to within 4e-16, on random numbers', () => {
    const within = fc.double({ min: -103.9, max: 23.9, noNaN: true })
    const small = fc.double({ min: -1, max: 1, noNaN: true })
    fc.assert(fc.property(fc.oneof(within, small), expectMathExp), { numRuns: 20_000 })
  })

  test('is Math.exp to within 4e-16, at and beside all multiples and odd multiples of half a step', () => {
    for (let i = -103.9 * 512; i < 23.9 * 512; i++) {
      for (const x of [i / 512, (i / 512) * (1 + 2 ** -52), (i / 512) * (1 - 2 ** -52)]) {
        if (!(Math.abs(exp(x) - Math.exp(x)) <= 4e-16 * Math.exp(x))) expectMathExp(x)
      }
    }
  })

  test.each([
    [0, 1],
    [-0, 1],
    [Number.MIN_VALUE, 1],
    [-Number.MIN_VALUE, 1],
    [-104, 0],
    [-1000, 0],
    [-2147483648, 0],
    [-Number.MAX_VALUE, 0],
    [-Infinity, 0],
    [24, NaN],
    [1000, NaN],
    [4294967296, NaN],
    [Number.MAX_VALUE, NaN],
    [Infinity, NaN],
    [NaN, NaN],
  ])('of %d is %d', (x, expected) => {
    expect(exp(x)).toBe(expected)
  })

  test('what it takes for 0 is 0 in single precision beside a weight of 1', () => {
    expect(Math.fround(Math.exp(-104))).toBe(0)
  })
})

describe('segmentSoftmax on the CPU', () => {
  // The first score of a segment stands for its greatest as long as no other lies 24 above it.
  test.each([
    ['just below 24', [0, 23.9, 12]],
    ['at 24', [0, 24, 23.99]],
    ['far above', [-60, 3, 45]],
    ['far above, not at once', [0, 10, 20, 30, 40]],
    ['far below', [0, -100, -103]],
  ])('scores %s the first one', (_, scores) => {
    const data = Float32Array.from(scores)
    const exact = softmax(Int32Array.of(0, data.length), data, 1)
    const result = segmentSoftmax(segments([0, data.length]), tensor(data, { device: 'cpu' })).dataSync()
    result.forEach((weight, i) => {
      // A rounding to float32, or half of its least number, after few in double precision.
      expect(Math.abs(weight - exact[i]!)).toBeLessThanOrEqual(
        1.001 * Math.max(2 ** -24 * exact[i]!, 2 ** -150),
      )
    })
  })
})
