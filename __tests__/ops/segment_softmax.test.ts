import fc from 'fast-check'
import { segmentSoftmax, segments, tensor } from 'warpgraph'
import { compareDevices } from 'warpgraph/testing'
import { edgyLengths, rowLengths, rowPtrOf, uniform } from '../arbitraries'
import { softmax } from '../definitions'
import { onEachDevice } from '../devices'
import { float32, type GoldenCase, goldenCases, int32 } from '../golden'
import {
  ErrorTable,
  expectSameBits,
  expectWithin,
  floatDTypes,
  maxAbsolute,
  roundedBound,
} from '../tolerance'
import 'warpgraph/testing/jest'

/** Largest absolute error of the float32 computation; the weights are at most 1. */
const computed = 1e-6

const table = new ErrorTable('segmentSoftmax, max|Δ| against float64')
let golden: GoldenCase[]
beforeAll(async () => {
  golden = await goldenCases('segment_softmax')
})

onEachDevice('segmentSoftmax', (device) => {
  test.each(['seed_multi_head', 'seed_single_head', 'empty_segments', 'odd_heads', 'long_rows'])(
    'golden %s',
    (name) => {
      const { inputs, out } = golden.find((found) => found.name === name)!
      const rowPtr = int32(inputs.row_ptr)
      const { shape } = inputs.scores!
      for (const dtype of floatDTypes) {
        const scores = tensor(float32(inputs.scores), { shape, dtype, device })
        const weights = segmentSoftmax(segments(rowPtr), scores)
        expect([weights.dtype, weights.shape, weights.device]).toEqual([dtype, shape, device])
        // Half types: the exact result is that of the rounded scores.
        const exact = dtype === 'float32' ? out.data : softmax(rowPtr, scores.dataSync(), shape[1] ?? 1)
        table.check(
          name,
          dtype,
          device,
          maxAbsolute(weights.dataSync(), exact),
          roundedBound(dtype, computed, 1),
        )
      }
    },
  )

  test('the definition written in these tests agrees with the golden values', () => {
    for (const { inputs, out } of golden) {
      const exact = softmax(int32(inputs.row_ptr), float32(inputs.scores), inputs.scores!.shape[1] ?? 1)
      expect(maxAbsolute(exact, out.data)).toBeLessThanOrEqual(1e-14)
    }
  })

  describe.each(floatDTypes)('%s', (dtype) => {
    // Weights are at most 1.
    const atol = roundedBound(dtype, computed, 1)
    const ln = Math.log

    test.each([
      ['thirds', [0, 3], [0, 0, 0], [1 / 3, 1 / 3, 1 / 3]],
      ['an empty segment first', [0, 0, 2], [5, 5], [0.5, 0.5]],
      ['empty segments between and last', [0, 1, 1, 1, 3, 3], [-7, 2, 2], [1, 0.5, 0.5]],
      ['one edge each', [0, 1, 2, 3], [-1000, 0, 1000], [1, 1, 1]],
      ['large scores', [0, 2], [30000, 30000], [0.5, 0.5]],
      ['far apart', [0, 2], [-30000, 30000], [0, 1]],
      ['−∞ beside a number', [0, 2], [-Infinity, 3], [0, 1]],
      ['all −∞', [0, 2, 3], [-Infinity, -Infinity, 1], [0, 0, 1]],
      ['NaN stays in its segment', [0, 2, 4], [NaN, 0, 0, 0], [NaN, NaN, 0.5, 0.5]],
      ['+∞ makes NaN of its segment', [0, 1, 3, 4], [1, Infinity, 0, 1], [1, NaN, NaN, 1]],
      ['NaN beside −∞', [0, 2], [NaN, -Infinity], [NaN, NaN]],
    ])('by hand: %s', (_, rowPtr, scores, expected) => {
      const result = segmentSoftmax(segments(rowPtr), tensor(scores, { dtype, device }))
      expect(result).toBeCloseToTensor(expected, { atol })
    })

    test('by hand: heads are separate', () => {
      // Head 0: equal scores. Head 1: ln 3 against 0, so 3 to 1. Head 2: NaN. Head 3: −∞ alone.
      const row0 = [0, ln(3), NaN, -Infinity]
      const row1 = [0, 0, 1, -Infinity]
      const result = segmentSoftmax(segments([0, 2]), tensor([row0, row1], { dtype, device }))
      // ln 3 is rounded to the dtype before the softmax: at most 2^-8·1.1 off in bfloat16, times the slope 3/16.
      const rounding = { float32: 1e-7, float16: 2e-4, bfloat16: 1e-3 }[dtype]
      const expected = [
        [0.5, 0.75, NaN, 0],
        [0.5, 0.25, NaN, 0],
      ]
      expect(result).toBeCloseToTensor(expected, { atol: atol + rounding })
    })

    test('the definition, on random segments and heads', () => {
      fc.assert(
        fc.property(rowLengths, fc.integer({ min: 1, max: 9 }), fc.nat(), (lengths, heads, seed) => {
          const rowPtr = rowPtrOf(lengths)
          const data = uniform(seed, rowPtr.at(-1)! * heads, -20, 20)
          const scores = tensor(data, { shape: [rowPtr.at(-1)!, heads], dtype, device })
          const result = segmentSoftmax(segments(rowPtr), scores)
          const exact = softmax(rowPtr, scores.dataSync(), heads)
          expectWithin(result.dataSync(), exact, (i) => roundedBound(dtype, computed, exact[i]!))
        }),
        { numRuns: 40 },
      )
    })

    test('sums to 1 in every segment and head', () => {
      fc.assert(
        fc.property(rowLengths, fc.integer({ min: 1, max: 9 }), fc.nat(), (lengths, heads, seed) => {
          const rowPtr = rowPtrOf(lengths)
          const data = uniform(seed, rowPtr.at(-1)! * heads, -8, 8)
          const scores = tensor(data, {
            shape: [rowPtr.at(-1)!, heads],
            dtype,
            device,
          })
          const weights = segmentSoftmax(segments(rowPtr), scores).dataSync()
          lengths.forEach((length, row) => {
            if (length === 0) return
            for (let h = 0; h < heads; h++) {
              let sum = 0
              for (let e = rowPtr[row]!; e < rowPtr[row + 1]!; e++) sum += weights[e * heads + h]!
              // The roundings of the weights add up: u·Σ|w| and a float32 error per weight.
              expect(Math.abs(sum - 1)).toBeLessThanOrEqual(
                roundedBound(dtype, 0, 1) + length * 2 ** -24 + 1e-6,
              )
            }
          })
        }),
        { numRuns: 40 },
      )
    })

    test('a shift of all scores changes nothing', () => {
      // Integers up to 47 are exact in every dtype.
      fc.assert(
        fc.property(rowLengths, fc.nat(), (lengths, seed) => {
          const rowPtr = rowPtrOf(lengths)
          const data = uniform(seed, rowPtr.at(-1)!, -15, 15).map(Math.round)
          const run = (shift: number) => {
            const scores = tensor(
              data.map((x) => x + shift),
              { dtype, device },
            )
            return segmentSoftmax(segments(rowPtr), scores).dataSync()
          }
          expectSameBits(run(32), run(0))
        }),
        { numRuns: 30 },
      )
    })

    test.each([1, 2, 31, 32, 33, 127, 128, 129])('rows of edgy lengths, a hub, %i heads', (heads) => {
      const lengths = [...edgyLengths, 3000, ...edgyLengths.toReversed(), ...Array(500).fill(1)]
      const rowPtr = rowPtrOf(lengths)
      const data = uniform(heads, rowPtr.at(-1)! * heads, -5, 5)
      const scores = tensor(data, { shape: [rowPtr.at(-1)!, heads], dtype, device })
      const exact = softmax(rowPtr, scores.dataSync(), heads)
      const result = segmentSoftmax(segments(rowPtr), scores)
      expectWithin(result.dataSync(), exact, (i) => roundedBound(dtype, computed, exact[i]!))
    })

    test.each([1, 8, 33])('rows of all lengths, more than a card takes at a time, %i heads', (heads) => {
      const lengths = Array.from({ length: 6000 }, (_, i) => (i % 50 === 0 ? (i * 7) % 300 : (i * 7919) % 36))
      const rowPtr = rowPtrOf(lengths)
      const data = uniform(heads, rowPtr.at(-1)! * heads, -5, 5)
      const scores = tensor(data, { shape: [rowPtr.at(-1)!, heads], dtype, device })
      const exact = softmax(rowPtr, scores.dataSync(), heads)
      const result = segmentSoftmax(segments(rowPtr), scores)
      expectWithin(result.dataSync(), exact, (i) => roundedBound(dtype, computed, exact[i]!))
    })

    test('heads in several dimensions are the same heads', () => {
      const rowPtr = rowPtrOf([3, 0, 40, 1])
      const data = uniform(5, 44 * 6, -3, 3)
      const [flat, deep] = [
        [44, 6],
        [44, 3, 2],
      ].map((shape) => segmentSoftmax(segments(rowPtr), tensor(data, { shape, dtype, device })))
      expect(deep!.shape).toEqual([44, 3, 2])
      expectSameBits(deep!.dataSync(), flat!.dataSync())
      expectWithin(
        flat!.reshape([-1]).dataSync(),
        softmax(rowPtr, tensor(data, { dtype }).dataSync(), 6),
        () => atol,
      )
    })

    test('no heads, no edges, no segments', () => {
      const shapes: [number[], number[]][] = [
        [
          [0, 2, 3],
          [3, 0],
        ],
        [
          [0, 2, 3],
          [3, 4, 0],
        ],
        [[0, 0, 0], [0]],
        [
          [0, 0, 0],
          [0, 5],
        ],
        [[0], [0]],
        [[0], [0, 3]],
      ]
      for (const [rowPtr, shape] of shapes) {
        const result = segmentSoftmax(segments(rowPtr), tensor(new Float32Array(0), { shape, dtype, device }))
        expect([result.shape, result.dataSync().length]).toEqual([shape, 0])
      }
    })

    test('the same inputs give the same bits, and the inputs stay as they were', () => {
      const rowPtr = rowPtrOf([0, 5000, 1, 2, 33, 700])
      const graph = segments(rowPtr)
      const scores = tensor(uniform(9, 5736 * 3, -9, 9), { shape: [5736, 3], dtype, device })
      const before = scores.dataSync()
      const first = segmentSoftmax(graph, scores).dataSync()
      for (let i = 0; i < 3; i++) expectSameBits(segmentSoftmax(graph, scores).dataSync(), first)
      expectSameBits(scores.dataSync(), before)
    })

    test('agrees with the CPU', async () => {
      const graph = segments(rowPtrOf([...edgyLengths, 1000, 3]))
      const scores = tensor(uniform(3, graph.numEdges * 7, -9, 9), { shape: [graph.numEdges, 7], dtype })
      const result = await compareDevices((x) => segmentSoftmax(graph, x), [scores], {
        devices: [device],
        // Two results, each within the bound of the exact one.
        atol: 2 * computed + 2 ** -24,
        rtol: dtype === 'float32' ? 0 : 2 * roundedBound(dtype, 0, 1),
      })
      expect(result).toMatchObject({ ok: true, devices: [{ device, outputs: [{ nanMismatches: 0 }] }] })
    })
  })
})
