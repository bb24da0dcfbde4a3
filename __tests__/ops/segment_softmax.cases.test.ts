import { csr, type Segments, segmentSoftmax, segments, tensor } from 'warpgraph'
import { rowPtrOf } from '../arbitraries'
import { onEachDevice } from '../devices'
import { expectWithin, floatDTypes, roundedBound } from '../tolerance'
import 'warpgraph/testing/jest'

// Public reports about other systems, each named by where it was filed.

onEachDevice('segmentSoftmax', (device) => {
  describe.each(floatDTypes)('%s', (dtype) => {
    const atol = roundedBound(dtype, 1e-6, 1)

    test('PyG#2274: the maximum is that of the segment, not of all scores', () => {
      // e^1 / (e^1 + e^-1) = 0.880797; beside a score of 50 in another segment a global maximum underflows it.
      const result = segmentSoftmax(segments([0, 2, 4]), tensor([1, -1, -Infinity, 50], { dtype, device }))
      expect(result).toBeCloseToTensor([0.8807970779778823, 0.11920292202211755, 0, 1], { atol })
    })

    test('PyG#2274: segments hundreds apart', () => {
      const result = segmentSoftmax(segments([0, 2, 4]), tensor([-400, -400, 400, 400], { dtype, device }))
      expect(result).toBeCloseToTensor([0.5, 0.5, 0.5, 0.5], { atol: 0 })
    })

    test('flashinfer#4401: scores around −6·10⁴ are not taken for masked', () => {
      const scores = tensor([-60000, -60000, -Infinity, -60000], { dtype, device })
      const result = segmentSoftmax(segments([0, 2, 4]), scores)
      expect(result).toBeCloseToTensor([0.5, 0.5, 0, 1], { atol: 0 })
    })

    test('vllm#27491: nothing but −∞ is zeros, not NaN', () => {
      const scores = tensor(new Float32Array(400).fill(-Infinity), { shape: [100, 4], dtype, device })
      const result = segmentSoftmax(segments([0, 50, 50, 51, 100]), scores)
      expect(result).toBeCloseToTensor(new Float32Array(400), { atol: 0 })
    })

    test('flashinfer#4051: parts of a long row that hold nothing but −∞ add nothing, and a row of them is zeros', () => {
      // Long enough to be cut wherever long rows are; one finite score far inside the first row, none in the second.
      const length = 5000
      const data = new Float32Array(2 * length).fill(-Infinity)
      data[4321] = 7
      const scores = tensor(data, { shape: [2 * length], dtype, device })
      const expected = new Float32Array(2 * length)
      expected[4321] = 1
      expect(segmentSoftmax(segments([0, length, 2 * length]), scores)).toBeCloseToTensor(expected, {
        atol: 0,
      })
    })

    test('NaN in one part of a long row makes NaN of its head alone', () => {
      const length = 5000
      const data = new Float32Array(2 * length)
      data[2 * 77 + 1] = NaN
      const result = segmentSoftmax(
        segments([0, length]),
        tensor(data, { shape: [length, 2], dtype, device }),
      ).dataSync()
      expect(result.every((value, i) => (i % 2 === 1 ? Number.isNaN(value) : value > 0))).toBe(true)
    })

    test('DGL#4674: a row of 6,600 equal scores sums past float16', () => {
      // A sum of ones in float16 stops growing at 2048.
      const result = segmentSoftmax(
        segments([0, 6600]),
        tensor(new Float32Array(6600).fill(3), { dtype, device }),
      )
      const bound = roundedBound(dtype, 1e-9, 1 / 6600)
      expect(result).toBeCloseToTensor(new Float64Array(6600).fill(1 / 6600), { atol: bound })
    })

    test('DGL#1598, PyG#1129: nodes without edges, one node, no nodes', () => {
      const graphs: Segments[] = [csr([0, 0, 0, 0], []), csr([0, 0], []), csr([0], []), segments([0])]
      for (const graph of graphs) {
        const result = segmentSoftmax(graph, tensor(new Float32Array(0), { shape: [0, 2], dtype, device }))
        expect([result.shape, result.dataSync().length]).toEqual([[0, 2], 0])
      }
    })
  })

  test('pyg-lib#718: 1.2 M rows of two heads, every row written', () => {
    // Rows of two edges: scores (0, ln 3) give weights 1/4 and 3/4.
    const rows = 1_200_000
    const ln3 = Math.log(3)
    const scores = new Float32Array(rows * 4)
    for (let i = 0; i < scores.length; i++) scores[i] = i & 2 ? ln3 : 0
    const graph = segments(rowPtrOf(new Uint8Array(rows).fill(2)))
    const weights = segmentSoftmax(graph, tensor(scores, { shape: [rows * 2, 2], device })).dataSync()
    expect(weights.length).toBe(rows * 4)
    expectWithin(
      weights,
      scores.map((score) => (score > 0 ? 0.75 : 0.25)),
      () => 1e-6,
    )
  })

  test('pyg-lib#718: 5 M rows of one head', () => {
    const rows = 5_000_000
    const graph = segments(rowPtrOf(new Uint8Array(rows).fill(1)))
    const weights = segmentSoftmax(graph, tensor(new Float32Array(rows).fill(-3), { device })).dataSync()
    expect([weights.length, weights.findIndex((weight) => weight !== 1)]).toEqual([rows, -1])
  })

  test('a row pointer in float32 is refused, one in int64 narrowed', () => {
    const floats = new Float32Array([0, 2, 3]) as unknown as Int32Array
    expect(() => segments(floats)).toThrow(
      'segments: rowPtr must be an Int32Array, a BigInt64Array or an array of integers, got Float32Array',
    )
    const result = segmentSoftmax(segments(new BigInt64Array([0n, 2n, 3n])), tensor([1, 1, 1], { device }))
    expect(result).toBeCloseToTensor([0.5, 0.5, 1], { atol: 0 })
  })
})
