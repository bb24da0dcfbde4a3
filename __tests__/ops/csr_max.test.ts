import fc from 'fast-check'
import { type Csr, csr, csrMax, tensor } from 'warpgraph'
import { compareDevices } from 'warpgraph/testing'
import { edgyLengths, type GraphArrays, graphOf, graphs, toCsr, uniform, uniformInts } from '../arbitraries'
import { foldMax } from '../definitions'
import { onEachDevice } from '../devices'
import { float32, type GoldenCase, goldenCases, int32 } from '../golden'
import { ErrorTable, expectSameBits, expectWithin, floatDTypes, maxAbsolute } from '../tolerance'
import 'warpgraph/testing/jest'

const table = new ErrorTable('csrMax, max|Δ| against float64 (exact)')
let golden: GoldenCase[]
beforeAll(async () => {
  golden = await goldenCases('csr_max')
})

/** The lowest edge of a row whose value is the maximum: NaN where the maximum is NaN; −1 without edges. */
function expectedWinners(graph: GraphArrays, x: Float32Array, features: number): Int32Array {
  const maxima = foldMax(graph, x, features)
  return Int32Array.from(maxima, (max, at) => {
    const [i, f] = [Math.floor(at / features), at % features]
    const found = graph.colIdx
      .subarray(graph.rowPtr[i], graph.rowPtr[i + 1])
      .findIndex(
        (src) => x[src * features + f] === max || (Number.isNaN(max) && Number.isNaN(x[src * features + f])),
      )
    return found < 0 ? -1 : graph.rowPtr[i]! + found
  })
}

onEachDevice('csrMax', (device) => {
  test.each(['seed', 'empty_rows', 'bipartite', 'wide'])('golden %s', (name) => {
    const { inputs, out } = golden.find((found) => found.name === name)!
    const [rowPtr, colIdx] = [int32(inputs.row_ptr), int32(inputs.col_idx)]
    const [numSrc, features] = inputs.node_feat!.shape as [number, number]
    const arrays = { rowPtr, colIdx, numSrc, numDst: rowPtr.length - 1 }
    for (const dtype of floatDTypes) {
      const x = tensor(float32(inputs.node_feat), { shape: [numSrc, features], dtype, device })
      const result = csrMax(csr(rowPtr, colIdx, { numSrc }), x)
      expect([result.dtype, result.shape, result.device]).toEqual([dtype, out.shape, device])
      // Rounding keeps order, so the maximum of rounded features is the rounded maximum.
      const rounded = tensor(Float32Array.from(out.data), { dtype }).dataSync()
      table.check(name, dtype, device, maxAbsolute(result.dataSync(), rounded), 0)
      expectWithin(foldMax(arrays, x.dataSync(), features), rounded, () => 0)
    }
    expectWithin(foldMax(arrays, float32(inputs.node_feat), features), out.data, () => 0)
  })

  describe.each(floatDTypes)('%s', (dtype) => {
    test.each<[string, Csr, number[][], number[][], number[][]]>([
      [
        'negatives',
        csr([0, 2], [0, 1], { numSrc: 2 }),
        [
          [-3, -1],
          [-2, -5],
        ],
        [[-2, -1]],
        [[1, 0]],
      ],
      ['an empty row', csr([0, 0, 1], [1]), [[1], [-4]], [[-Infinity], [-4]], [[-1], [0]]],
      ['ties go to the lowest edge', csr([0, 3], [0, 1, 2], { numSrc: 3 }), [[1], [7], [7]], [[7]], [[1]]],
      ['a duplicate edge ties', csr([0, 1, 4], [1, 0, 0, 1]), [[9], [2]], [[2], [9]], [[0], [1]]],
      ['0 and −0 tie', csr([0, 2], [0, 1], { numSrc: 2 }), [[-0], [0]], [[0]], [[0]]],
      ['NaN wins', csr([0, 3], [0, 1, 2], { numSrc: 3 }), [[Infinity], [NaN], [5]], [[NaN]], [[1]]],
      ['the first NaN', csr([0, 3], [0, 1, 2], { numSrc: 3 }), [[1], [NaN], [NaN]], [[NaN]], [[1]]],
      [
        'NaN in one feature',
        csr([0, 2], [0, 1], { numSrc: 2 }),
        [
          [NaN, 1],
          [3, 2],
        ],
        [[NaN, 2]],
        [[0, 1]],
      ],
      ['+∞', csr([0, 2], [0, 1], { numSrc: 2 }), [[5], [Infinity]], [[Infinity]], [[1]]],
      ['all −∞', csr([0, 2], [1, 0], { numSrc: 2 }), [[-Infinity], [-Infinity]], [[-Infinity]], [[0]]],
    ])('by hand: %s', (_, graph, data, values, indices) => {
      const shape = [data.length, data[0]!.length] as const
      const x = tensor(data, { shape, dtype, device })
      const result = csrMax(graph, x, { withIndices: true })
      expect(result.values).toBeCloseToTensor(values, { atol: 0 })
      expect(result.indices).toBeCloseToTensor(indices, { atol: 0 })
      expect([result.indices.dtype, result.indices.device, result.values.dtype]).toEqual([
        'int32',
        device,
        dtype,
      ])
      expect(csrMax(graph, x)).toBeCloseToTensor(values, { atol: 0 })
    })

    test.each([0, -1, 5, Infinity, -Infinity, NaN])(
      'rows without edges take `empty` %d, others do not',
      (empty) => {
        const graph = csr([0, 0, 1, 1, 2], [0, 1])
        const x = tensor(
          [
            [-2, 3],
            [-Infinity, -9],
            [8, 8],
            [8, 8],
          ],
          { shape: [4, 2], dtype, device },
        )
        const expected = [
          [empty, empty],
          [-2, 3],
          [empty, empty],
          [-Infinity, -9],
        ]
        expect(csrMax(graph, x, { empty })).toBeCloseToTensor(expected, { atol: 0 })
        const { values, indices } = csrMax(graph, x, { empty, withIndices: true })
        expect(values).toBeCloseToTensor(expected, { atol: 0 })
        expect(indices).toBeCloseToTensor(
          [
            [-1, -1],
            [0, 0],
            [-1, -1],
            [1, 1],
          ],
          { atol: 0 },
        )
      },
    )

    test('a fold with Math.max, on random graphs with ties, NaN and infinities', () => {
      const specials = [NaN, Infinity, -Infinity, -0]
      fc.assert(
        fc.property(
          graphs(),
          fc.integer({ min: 0, max: 70 }),
          fc.boolean(),
          fc.nat(),
          (arrays, features, rare, seed) => {
            // Few different values, so that ties are common; one special value in twenty, or none.
            const data = Float32Array.from(uniformInts(seed, arrays.numSrc * features, 80), (n) =>
              rare && n < 4 ? specials[n]! : n - 60,
            )
            const x = tensor(data, { shape: [arrays.numSrc, features], dtype, device })
            const { values, indices } = csrMax(toCsr(arrays), x, { withIndices: true })
            expect(values.shape).toEqual([arrays.numDst, features])
            expectWithin(values.dataSync(), foldMax(arrays, data, features), () => 0)
            expectWithin(indices.dataSync(), expectedWinners(arrays, data, features), () => 0)
          },
        ),
        { numRuns: 60 },
      )
    })

    test.each(edgyLengths)(
      'rows of edgy lengths, a hub among thousands of short rows, %i features',
      (features) => {
        const lengths = [...edgyLengths, ...Array(2000).fill(1), 3000, ...Array(1000).fill(2), 0, 0, 1]
        const arrays = graphOf(lengths, 300, features)
        const x = tensor(uniform(features, 300 * features, -9, -1), { shape: [300, features], dtype, device })
        const { values, indices } = csrMax(toCsr(arrays), x, { withIndices: true })
        expectWithin(values.dataSync(), foldMax(arrays, x.dataSync(), features), () => 0)
        expectWithin(indices.dataSync(), expectedWinners(arrays, x.dataSync(), features), () => 0)
      },
    )

    test('the same inputs give the same bits', () => {
      const graph = toCsr(graphOf([0, 5000, 1, 2, 33, 700], 60, 1))
      const x = tensor(uniform(9, 60 * 65), { shape: [60, 65], dtype, device })
      const first = csrMax(graph, x, { withIndices: true })
      for (let i = 0; i < 3; i++) {
        const again = csrMax(graph, x, { withIndices: true })
        expectSameBits(again.values.dataSync(), first.values.dataSync())
        expectSameBits(again.indices.dataSync(), first.indices.dataSync())
      }
    })

    test('agrees with the CPU, exactly', async () => {
      const graph = toCsr(graphOf([...edgyLengths, 1000, 3], 10, 2))
      const x = tensor(uniform(3, 10 * 70), { shape: [10, 70], dtype })
      const result = await compareDevices((x) => csrMax(graph, x, { withIndices: true }), [x], {
        devices: [device],
        atol: 0,
      })
      expect(result).toMatchObject({
        ok: true,
        devices: [{ device, outputs: [{ name: 'values' }, { name: 'indices', dtype: 'int32' }] }],
      })
    })
  })
})
