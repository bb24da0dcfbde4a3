import { csr, csrMax, tensor } from 'warpgraph'
import { graphOf, rowPtrOf, toCsr, uniform } from '../arbitraries'
import { foldMax } from '../definitions'
import { onEachDevice } from '../devices'
import { expectWithin, floatDTypes } from '../tolerance'
import 'warpgraph/testing/jest'

// Public reports about other systems, each named by where it was filed.

onEachDevice('csrMax', (device) => {
  describe.each(floatDTypes)('%s', (dtype) => {
    test('GE-SpMM: NaN in node 0, which no edge names, stays out; degrees not multiples of 32', () => {
      const graph = graphOf([1, 5, 31, 33, 65, 0, 100], 6, 3)
      const shifted = { ...graph, colIdx: graph.colIdx.map((src) => src + 1), numSrc: 7 }
      const data = uniform(8, 7 * 37).fill(NaN, 0, 37)
      const x = tensor(data, { shape: [7, 37], dtype, device })
      const result = csrMax(toCsr(shifted), x).dataSync()
      expectWithin(result, foldMax(shifted, x.dataSync(), 37), () => 0)
      expect(result.some(Number.isNaN)).toBe(false)
    })

    test('dgSPARSE: 300 features, exactly the row that is asked for, with NaN in the rows around it', () => {
      const data = new Float32Array(5 * 300)
      for (let i = 0; i < data.length; i++) data[i] = (i / 300) & 1 ? (i % 300) - 400 : NaN
      const x = tensor(data, { shape: [5, 300], dtype, device })
      // −400 … −101 in steps of 1 are beyond bfloat16's 8 bits: what x holds is what must come out.
      const row = Array.from(x.dataSync().subarray(300, 600))
      const expected = [row, Array(300).fill(-7), row, Array(300).fill(NaN), row]
      const result = csrMax(csr([0, 1, 1, 2, 3, 4], [1, 1, 2, 3]), x, { empty: -7 })
      expect(result).toBeCloseToTensor(expected, { atol: 0 })
    })

    test('dgSPARSE: every value below −2³¹', () => {
      // −2^33 is outside float16, which holds −∞ instead; the largest there is −65504.
      const data = dtype === 'float16' ? [-Infinity, -65504, -65504] : [-(2 ** 40), -(2 ** 33), -(2 ** 34)]
      const x = tensor(
        data.map((value) => [value]),
        { shape: [3, 1], dtype, device },
      )
      const { values, indices } = csrMax(csr([0, 3], [0, 1, 2], { numSrc: 3 }), x, { withIndices: true })
      expect(values).toBeCloseToTensor([[data[1]!]], { atol: 0 })
      expect(indices).toBeCloseToTensor([[1]], { atol: 0 })
    })

    test('torch_scatter: all −∞ is −∞, and a win for the first edge', () => {
      const x = tensor(new Float32Array(200).fill(-Infinity), { shape: [100, 2], dtype, device })
      const graph = csr(
        [0, 0, 100],
        Int32Array.from({ length: 100 }, (_, i) => i),
        { numSrc: 100 },
      )
      const { values, indices } = csrMax(graph, x, { empty: 3, withIndices: true })
      expect(values).toBeCloseToTensor(
        [
          [3, 3],
          [-Infinity, -Infinity],
        ],
        { atol: 0 },
      )
      expect(indices).toBeCloseToTensor(
        [
          [-1, -1],
          [0, 0],
        ],
        { atol: 0 },
      )
    })

    test('DGL: a row without edges is `empty`, true ±∞ are kept', () => {
      const x = tensor([[Infinity], [-Infinity], [1]], { shape: [3, 1], dtype, device })
      const graph = csr([0, 1, 2, 2, 5, 7], [0, 1, 0, 1, 2, 1, 2], { numSrc: 3 })
      expect(csrMax(graph, x)).toBeCloseToTensor([[Infinity], [-Infinity], [-Infinity], [Infinity], [1]], {
        atol: 0,
      })
      const zeros = csrMax(graph, x, { empty: 0 })
      expect(zeros).toBeCloseToTensor([[Infinity], [-Infinity], [0], [Infinity], [1]], { atol: 0 })
    })

    test('torch_scatter#472: the maximum of negatives is negative', () => {
      const x = tensor(new Float32Array(64 * 3).fill(-0.5), { shape: [64, 3], dtype, device })
      const graph = csr(
        rowPtrOf(Array(64).fill(1)),
        Int32Array.from({ length: 64 }, (_, i) => i),
      )
      const expected = new Float32Array(64 * 3).fill(-0.5)
      expect(csrMax(graph, x)).toBeCloseToTensor(expected, { atol: 0 })
      expect(csrMax(graph, x, { empty: 0 })).toBeCloseToTensor(expected, { atol: 0 })
    })

    test('DGL PR#3265: five duplicate edges 0→1', () => {
      const x = tensor(
        [
          [3, -2],
          [70, 70],
        ],
        { shape: [2, 2], dtype, device },
      )
      const { values, indices } = csrMax(csr([0, 0, 5], [0, 0, 0, 0, 0]), x, { empty: 0, withIndices: true })
      expect(values).toBeCloseToTensor(
        [
          [0, 0],
          [3, -2],
        ],
        { atol: 0 },
      )
      expect(indices).toBeCloseToTensor(
        [
          [-1, -1],
          [0, 0],
        ],
        { atol: 0 },
      )
    })

    test('PyG#1631: bipartite, 2 sources, 4 destinations', () => {
      const graph = csr([0, 1, 2, 2, 4], [1, 0, 0, 1], { numSrc: 2 })
      const x = tensor(
        [
          [1, 2, 30],
          [10, 20, 3],
        ],
        { shape: [2, 3], dtype, device },
      )
      const expected = [
        [10, 20, 3],
        [1, 2, 30],
        [0, 0, 0],
        [10, 20, 30],
      ]
      expect(csrMax(graph, x, { empty: 0 })).toBeCloseToTensor(expected, { atol: 0 })
    })

    test('DGL#1598, PyG#1129: nodes without edges, one node, no nodes, no features, no sources', () => {
      const sizes = [
        [3, 3, 4],
        [1, 1, 2],
        [0, 0, 5],
        [0, 0, 0],
        [4, 4, 0],
        [2, 0, 3],
        [0, 2, 3],
      ] as const
      for (const [numDst, numSrc, features] of sizes) {
        const x = tensor(new Float32Array(numSrc * features).fill(7), {
          shape: [numSrc, features],
          dtype,
          device,
        })
        const graph = csr(new Int32Array(numDst + 1), [], { numSrc })
        const { values, indices } = csrMax(graph, x, { withIndices: true })
        expect([values.shape, indices.shape]).toEqual([
          [numDst, features],
          [numDst, features],
        ])
        expect(values).toBeCloseToTensor(new Float32Array(numDst * features).fill(-Infinity), { atol: 0 })
        expect(indices).toBeCloseToTensor(new Float32Array(numDst * features).fill(-1), { atol: 0 })
      }
    })
  })

  test('pyg-lib#718: 1.2 M rows of four features, every row and index written', () => {
    // Row i: sources 0 and i % 1000, which holds its own number and wins except against itself.
    const rows = 1_200_000
    const colIdx = new Int32Array(rows * 2)
    const expected = new Float32Array(rows * 4)
    const winners = new Int32Array(rows * 4)
    for (let i = 0; i < rows; i++) colIdx[i * 2 + 1] = i % 1000
    for (let i = 0; i < rows * 4; i++) {
      const row = i >> 2
      expected[i] = (row % 1000) - (i & 3)
      winners[i] = row % 1000 === 0 ? row * 2 : row * 2 + 1
    }
    const graph = csr(rowPtrOf(new Uint8Array(rows).fill(2)), colIdx, { numSrc: 1000 })
    const x = tensor(expected.slice(0, 4000), { shape: [1000, 4], device })
    const { values, indices } = csrMax(graph, x, { withIndices: true })
    expectWithin(values.dataSync(), expected, () => 0)
    expectWithin(indices.dataSync(), winners, () => 0)
  })

  test('pyg-lib#718: 5 M rows of one feature', () => {
    const rows = 5_000_000
    const colIdx = new Int32Array(rows)
    const expected = new Float32Array(rows)
    for (let i = 0; i < rows; i++) {
      colIdx[i] = i % 997
      expected[i] = (i % 997) - 500
    }
    const graph = csr(rowPtrOf(new Uint8Array(rows).fill(1)), colIdx, { numSrc: 997 })
    const x = tensor(expected.slice(0, 997), { shape: [997, 1], device })
    expectWithin(csrMax(graph, x).dataSync(), expected, () => 0)
  })

  test('more features than a grid has rows of blocks', () => {
    const data = uniform(1, 2 * 70_000)
    const x = tensor(data, { shape: [2, 70_000], device })
    const expected = new Float32Array(70_000)
    for (let f = 0; f < 70_000; f++) expected[f] = Math.max(data[f]!, data[70_000 + f]!)
    expectWithin(csrMax(csr([0, 2], [0, 1], { numSrc: 2 }), x).dataSync(), expected, () => 0)
  })
})
