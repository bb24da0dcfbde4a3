import fc from 'fast-check'
import { csr, type FloatDType, gcnAggregate, type Tensor, tensor } from 'warpgraph'
import { compareDevices } from 'warpgraph/testing'
import { edgyLengths, type GraphArrays, graphOf, graphs, toCsr, uniform, uniformInts } from '../arbitraries'
import { denseGcn } from '../definitions'
import { onEachDevice } from '../devices'
import { float32, type GoldenCase, goldenCases, int32 } from '../golden'
import {
  ErrorTable,
  expectSameBits,
  expectWithin,
  floatDTypes,
  relativeL2,
  roundedBound,
  roundoff,
} from '../tolerance'
import 'warpgraph/testing/jest'

const { floor, sqrt } = Math

const table = new ErrorTable('gcnAggregate, relative L2 against float64')
let golden: GoldenCase[]
beforeAll(async () => {
  golden = await goldenCases('gcn_aggregate')
})

/** Row lengths: the degrees that are used when none are given. */
function rowLengthsOf({ rowPtr, numDst }: GraphArrays): Float32Array {
  return Float32Array.from({ length: numDst }, (_, i) => rowPtr[i + 1]! - rowPtr[i]!)
}

/**
 * Compares a result with the dense definition. Rounding errors of a float32 sum of n random terms grow like √n:
 * (4·√n + 12)·2^-24·Σ|w·x|, 12 for two reciprocal roots, the weight and the product.
 */
function expectDense(
  result: Tensor<FloatDType>,
  graph: GraphArrays,
  x: Float32Array,
  features: number,
  dst: Float32Array,
  src: Float32Array,
): void {
  const exact = denseGcn(graph, x, features, dst, src)
  const magnitude = denseGcn(graph, x.map(Math.abs), features, dst, src)
  const lengths = rowLengthsOf(graph)
  expectWithin(result.dataSync(), exact, (i) => {
    const roundings = 4 * sqrt(lengths[floor(i / features)]!) + 12
    return roundedBound(result.dtype, roundings * 2 ** -24 * magnitude[i]!, exact[i]!)
  })
}

onEachDevice('gcnAggregate', (device) => {
  test.each(['seed', 'empty_rows', 'wide'])('golden %s', (name) => {
    const { inputs, out } = golden.find((found) => found.name === name)!
    const [rowPtr, colIdx] = [int32(inputs.row_ptr), int32(inputs.col_idx)]
    const { shape } = inputs.node_feat!
    const [nodes, features] = shape as [number, number]
    const given = float32(inputs.degrees)
    for (const dtype of floatDTypes) {
      const x = tensor(float32(inputs.node_feat), { shape, dtype, device })
      const degrees = tensor(given, { shape: [nodes], device })
      const result = gcnAggregate(csr(rowPtr, colIdx), x, { degrees })
      expect([result.dtype, result.shape, result.device]).toEqual([dtype, shape, device])
      const graph = { rowPtr, colIdx, numDst: nodes, numSrc: nodes }
      const dense = denseGcn(graph, x.dataSync(), features, given, given)
      // Half types: the exact result is that of the rounded features, and rounding it adds at most u to 1e-6.
      const exact = dtype === 'float32' ? out.data : dense
      const bound = dtype === 'float32' ? 1e-6 : roundoff[dtype] + 1e-6
      table.check(name, dtype, device, relativeL2(result.dataSync(), exact), bound)
      if (dtype === 'float32') expect(relativeL2(dense, out.data)).toBeLessThanOrEqual(1e-14)
    }
  })

  describe.each(floatDTypes)('%s', (dtype) => {
    test('by hand: degrees 4, 1, 0 and an empty row', () => {
      // Row 0: from 0 and 1, weights 1/√(4·4) and 1/√(4·1). Row 1: from 2, whose degree is 0. Row 2: empty.
      const graph = csr([0, 2, 3, 3], [0, 1, 2])
      const degrees = tensor([4, 1, 0], { shape: [3], device })
      const x = tensor(
        [
          [8, 4],
          [2, -6],
          [100, 100],
        ],
        { shape: [3, 2], dtype, device },
      )
      const expected = [
        [8 / 4 + 2 / 2, 4 / 4 - 6 / 2],
        [0, 0],
        [0, 0],
      ]
      const tolerance = { rtol: roundoff[dtype] + 2 ** -21 }
      expect(gcnAggregate(graph, x, { degrees })).toBeCloseToTensor(expected, tolerance)
      const ints = tensor(new Int32Array([4, 1, 0]), { shape: [3], device })
      expect(gcnAggregate(graph, x, { degrees: ints })).toBeCloseToTensor(expected, tolerance)
    })

    test('by hand: without degrees, the row lengths at both ends', () => {
      // Row lengths 4, 1, 0: 4 edges into 0 (from 0 three times and from 1), one into 1 (from 2, length 0).
      const graph = csr([0, 4, 5, 5], [0, 0, 1, 0, 2])
      const x = tensor([[8], [2], [100]], { shape: [3, 1], dtype, device })
      const expected = [[3 * (8 / 4) + 2 / 2], [0], [0]]
      expect(gcnAggregate(graph, x)).toBeCloseToTensor(expected, { rtol: roundoff[dtype] + 2 ** -21 })
    })

    test('by hand: bipartite, degrees at each end', () => {
      // Destination degrees 1, 9; source degrees 4, 16, 0.
      const graph = csr([0, 2, 4], [0, 1, 1, 2], { numSrc: 3 })
      const dst = tensor([1, 9], { shape: [2], device })
      const src = tensor([4, 16, 0], { shape: [3], device })
      const x = tensor([[2], [8], [5]], { shape: [3, 1], dtype, device })
      const expected = [[2 / 2 + 8 / 4], [8 / (3 * 4)]]
      const result = gcnAggregate(graph, x, { degrees: { dst, src } })
      expect(result).toBeCloseToTensor(expected, { rtol: roundoff[dtype] + 2 ** -21 })
    })

    test('the dense definition, on random square graphs with their own degrees', () => {
      fc.assert(
        fc.property(
          graphs({ square: true }),
          fc.integer({ min: 0, max: 70 }),
          fc.nat(),
          (graph, features, seed) => {
            const shape = [graph.numSrc, features] as const
            const x = tensor(uniform(seed, graph.numSrc * features), { shape, dtype, device })
            const own = rowLengthsOf(graph)
            expectDense(gcnAggregate(toCsr(graph), x), graph, x.dataSync(), features, own, own)
          },
        ),
        { numRuns: 40 },
      )
    })

    test('the dense definition, on random bipartite graphs with random degrees', () => {
      fc.assert(
        fc.property(graphs(), fc.integer({ min: 0, max: 70 }), fc.nat(), (graph, features, seed) => {
          const shape = [graph.numSrc, features] as const
          const x = tensor(uniform(seed, graph.numSrc * features), { shape, dtype, device })
          // Whole degrees of 0 to 20: zeros among them.
          const dst = Float32Array.from(uniformInts(seed + 1, graph.numDst, 21))
          const src = Float32Array.from(uniformInts(seed + 2, graph.numSrc, 21))
          const degrees = {
            dst: tensor(dst, { shape: [graph.numDst], device }),
            src: tensor(src, { shape: [graph.numSrc], device }),
          }
          expectDense(gcnAggregate(toCsr(graph), x, { degrees }), graph, x.dataSync(), features, dst, src)
        }),
        { numRuns: 40 },
      )
    })

    test.each(edgyLengths)(
      'rows of edgy lengths, a hub among thousands of short rows, %i features',
      (features) => {
        const lengths = [...edgyLengths, ...Array(2000).fill(1), 3000, ...Array(1000).fill(2), 0, 0, 1]
        const graph = graphOf(lengths, 50, features)
        const x = tensor(uniform(features, 50 * features), { shape: [50, features], dtype, device })
        const dst = rowLengthsOf(graph)
        const src = Float32Array.from(uniformInts(7, 50, 9))
        const degrees = {
          dst: tensor(dst, { shape: [lengths.length], device }),
          src: tensor(src, { shape: [50], device }),
        }
        expectDense(gcnAggregate(toCsr(graph), x, { degrees }), graph, x.dataSync(), features, dst, src)
      },
    )

    test('is linear in the features: twice the features, twice the result, bit for bit', () => {
      const graph = graphOf([5, 0, 33, 129, 1, 2], 6, 4)
      const data = uniform(11, 6 * 20)
      const run = (factor: number) => {
        const x = tensor(
          data.map((value) => factor * value),
          { shape: [6, 20], device },
        )
        return gcnAggregate(toCsr(graph), x).cast(dtype).dataSync()
      }
      expectSameBits(
        run(2),
        run(1).map((value) => 2 * value),
      )
    })

    test('the same inputs give the same bits', () => {
      const graph = toCsr(graphOf([0, 5000, 1, 2, 33, 700], 6, 1))
      const x = tensor(uniform(9, 6 * 65), { shape: [6, 65], dtype, device })
      const first = gcnAggregate(graph, x).dataSync()
      for (let i = 0; i < 3; i++) expectSameBits(gcnAggregate(graph, x).dataSync(), first)
    })

    test('agrees with the CPU', async () => {
      const graph = toCsr(graphOf([...edgyLengths, 60, 3], 10, 2))
      const x = tensor(uniform(3, 10 * 70), { shape: [10, 70], dtype })
      const dst = tensor(uniform(4, 10, 1, 50), { shape: [10] })
      const src = tensor(uniform(5, 10, 1, 50), { shape: [10] })
      const result = await compareDevices(
        ({ x, dst, src }) => gcnAggregate(graph, x, { degrees: { dst, src } }),
        { x, dst, src },
        // Rows of up to 129 terms below 1, of both signs: each result is within 2^-18 of the exact one.
        {
          devices: [device],
          atol: 2 ** -17,
          rtol: dtype === 'float32' ? 0 : 2 * roundedBound(dtype, 0, 1),
        },
      )
      expect(result).toMatchObject({ ok: true, devices: [{ device, outputs: [{ nanMismatches: 0 }] }] })
    })
  })
})
