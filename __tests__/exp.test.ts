import fc from 'fast-check'
import { exp, prepareExp } from 'lib/backends/cpu/exp'
import { segmentSoftmax, segments, tensor } from 'warpgraph'
import { softmax } from './definitions'

const expectMathExp = (x: number) =>
  expect(Math.abs(exp(x) - Math.exp(x))).toBeLessThanOrEqual(4e-16 * Math.exp(x))

// Before anything prepares it.
const unprepared = [-1000, -1, 0, 1, 1000].map(exp)

describe("the CPU's exponential", () => {
  beforeAll(prepareExp)

  test('is NaN until it is prepared', () => {
    expect(unprepared).toEqual(Array(5).fill(NaN))
  })

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
  // The first score of a segment stands for its greatest as long as no other lies 24 above it. Four heads are computed side
  // by side, the others one by one; one head has the scores, the others small ones.
  describe.each([
    [1, 0],
    [3, 2],
    [4, 3],
    [5, 4],
    [8, 7],
    [9, 1],
  ])('of %d heads, in head %d', (heads, head) => {
    test.each([
      ['just below 24', [0, 23.9, 12]],
      ['at 24', [0, 24, 23.99]],
      ['far above', [-60, 3, 45]],
      ['far above, not at once', [0, 10, 20, 30, 40]],
      ['far below', [0, -100, -103]],
      ['above −∞', [-Infinity, 1, 2]],
    ])('scores %s the first one', (_, scores) => {
      const numEdges = scores.length
      const data = Float32Array.from({ length: numEdges * heads }, (_, at) => Math.sin(at))
      for (const [e, score] of scores.entries()) data[e * heads + head] = score
      const exact = softmax(Int32Array.of(0, numEdges), data, heads)
      const given = tensor(data, { shape: [numEdges, heads], device: 'cpu' })
      const result = segmentSoftmax(segments([0, numEdges]), given).dataSync()
      result.forEach((weight, i) => {
        // A rounding to float32, or half of its least number, after few in double precision.
        expect(Math.abs(weight - exact[i]!)).toBeLessThanOrEqual(
          1.001 * Math.max(2 ** -24 * exact[i]!, 2 ** -150),
        )
      })
    })

    test.each([NaN, Infinity, -Infinity])('an edge alone of score %d', (score) => {
      const data = new Float32Array(heads).fill(1)
      data[head] = score
      const given = tensor(data, { shape: [1, heads], device: 'cpu' })
      const expected = new Float32Array(heads).fill(1)
      expected[head] = score === -Infinity ? 0 : NaN
      expect(segmentSoftmax(segments([0, 1]), given).dataSync()).toEqual(expected)
    })
  })

  // Of segments up to the first length, four heads are computed side by side.
  test.each([2 ** 13, 2 ** 13 + 1])('a segment of %d edges, and one of one edge', (numEdges) => {
    const scores = tensor(new Float32Array(5 * (numEdges + 1)), { shape: [numEdges + 1, 5], device: 'cpu' })
    const weights = segmentSoftmax(segments([0, numEdges, numEdges + 1]), scores).dataSync()
    expect(new Set(weights.subarray(0, -5))).toEqual(new Set([Math.fround(1 / numEdges)]))
    expect(weights.slice(-5)).toEqual(new Float32Array(5).fill(1))
  })
})
