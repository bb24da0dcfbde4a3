import { csr, gcnAggregate, tensor } from 'warpgraph'
import { graphOf, rowPtrOf, toCsr, uniform } from '../arbitraries'
import { denseGcn } from '../definitions'
import { onEachDevice } from '../devices'
import { expectWithin, floatDTypes, relativeL2, roundoff } from '../tolerance'
import 'warpgraph/testing/jest'

// Public reports about other systems, each named by where it was filed.

onEachDevice('gcnAggregate', (device) => {
  const ones = (length: number) => tensor(new Float32Array(length).fill(1), { shape: [length], device })

  describe.each(floatDTypes)('%s', (dtype) => {
    const rtol = roundoff[dtype] + 2 ** -21

    test('GE-SpMM: NaN in node 0, which no edge names, stays out; degrees not multiples of 32', () => {
      const lengths = [1, 5, 31, 33, 65, 0, 100]
      const graph = graphOf(lengths, 6, 3)
      // Sources 1 to 6 only; node 0 is NaN.
      const shifted = { ...graph, colIdx: graph.colIdx.map((src) => src + 1), numSrc: 7 }
      const data = uniform(8, 7 * 37).fill(NaN, 0, 37)
      const x = tensor(data, { shape: [7, 37], dtype, device })
      const degree = new Float32Array(7).fill(1)
      const result = gcnAggregate(toCsr(shifted), x, { degrees: ones(7) }).dataSync()
      const clean = x.dataSync().fill(0, 0, 37)
      const exact = denseGcn(shifted, clean, 37, degree, degree)
      const bound = dtype === 'float32' ? 1e-6 : roundoff[dtype] + 1e-6
      expect(relativeL2(result, exact)).toBeLessThanOrEqual(bound)
      expect(result.some(Number.isNaN)).toBe(false)
    })

    test('dgSPARSE: 300 features, exactly the row that is asked for, with NaN in the rows around it', () => {
      // Sources 0, 2, 4 are NaN. Rows 0 and 2 take source 1, row 1 none, row 3 the poisoned one, row 4 source 3.
      const data = new Float32Array(5 * 300)
      for (let i = 0; i < data.length; i++) data[i] = (i / 300) & 1 ? (i % 300) - 150 : NaN
      const x = tensor(data, { shape: [5, 300], dtype, device })
      const graph = csr([0, 1, 1, 2, 3, 4], [1, 1, 2, 3])
      const row = Array.from({ length: 300 }, (_, f) => f - 150)
      const expected = [row, Array(300).fill(0), row, Array(300).fill(NaN), row]
      expect(gcnAggregate(graph, x, { degrees: ones(5) })).toBeCloseToTensor(expected, { atol: 0 })
    })

    test('DGL#4674: a sum of 6,600 ones is 6,600', () => {
      const graph = csr([0, 6600], new Int32Array(6600))
      const x = tensor([[1, 1]], { shape: [1, 2], dtype, device })
      // A multiple of 4, which float16 holds; the nearest bfloat16, a multiple of 32, is 6592.
      const expected = dtype === 'bfloat16' ? 6592 : 6600
      expect(gcnAggregate(graph, x, { degrees: ones(1) })).toBeCloseToTensor([[expected, expected]], {
        atol: 0,
      })
    })

    test('DGL PR#3265: five duplicate edges 0→1 count five times', () => {
      const graph = csr([0, 0, 5], [0, 0, 0, 0, 0])
      const x = tensor(
        [
          [3, -2],
          [70, 70],
        ],
        { shape: [2, 2], dtype, device },
      )
      const result = gcnAggregate(graph, x, { degrees: ones(2) })
      expect(result).toBeCloseToTensor(
        [
          [0, 0],
          [15, -10],
        ],
        { atol: 0 },
      )
    })

    test('PyG#1631: bipartite, 2 sources, 4 destinations', () => {
      const graph = csr([0, 1, 2, 2, 4], [1, 0, 0, 1], { numSrc: 2 })
      const x = tensor(
        [
          [1, 2, 3],
          [10, 20, 30],
        ],
        { shape: [2, 3], dtype, device },
      )
      const result = gcnAggregate(graph, x, { degrees: { dst: ones(4), src: ones(2) } })
      expect(result).toBeCloseToTensor(
        [
          [10, 20, 30],
          [1, 2, 3],
          [0, 0, 0],
          [11, 22, 33],
        ],
        { atol: 0 },
      )
    })

    test('PyG#795, PyG#61: degree 0 is a factor 0, a negative degree NaN in the rows that use it', () => {
      // Row 0 uses source 0; row 1 source 1 (degree 0); row 2 source 2 (−4); row 3 is empty with degree −4;
      // row 4 has degree −4 and source 0.
      const graph = csr([0, 1, 2, 3, 3, 4], [0, 1, 2, 0], { numSrc: 3 })
      const dst = tensor([4, 4, 4, -4, -4], { shape: [5], device })
      const src = tensor([4, 0, -4], { shape: [3], device })
      const x = tensor([[8], [8], [8]], { shape: [3, 1], dtype, device })
      const result = gcnAggregate(graph, x, { degrees: { dst, src } })
      expect(result).toBeCloseToTensor([[2], [0], [NaN], [0], [NaN]], { rtol })
    })

    test('torch_scatter#472: empty rows are zeros whatever memory held', () => {
      const graph = csr(new Int32Array(2001), [])
      const x = tensor(new Float32Array(2000 * 5).fill(NaN), { shape: [2000, 5], dtype, device })
      expect(gcnAggregate(graph, x)).toBeCloseToTensor(new Float32Array(2000 * 5), { atol: 0 })
    })

    test('DGL#1598, PyG#1129: nodes without edges, one node, no nodes, no features', () => {
      const sizes = [
        [3, 4],
        [1, 2],
        [0, 5],
        [0, 0],
        [4, 0],
      ] as const
      for (const [nodes, features] of sizes) {
        const x = tensor(new Float32Array(nodes * features).fill(7), {
          shape: [nodes, features],
          dtype,
          device,
        })
        const result = gcnAggregate(csr(new Int32Array(nodes + 1), []), x)
        expect(result.shape).toEqual([nodes, features])
        expect(result).toBeCloseToTensor(new Float32Array(nodes * features), { atol: 0 })
      }
    })

    test('PyG#1631: destinations without any source', () => {
      const degrees = { dst: ones(2), src: tensor(new Float32Array(0), { shape: [0], device }) }
      const x = tensor(new Float32Array(0), { shape: [0, 3], dtype, device })
      const result = gcnAggregate(csr([0, 0, 0], [], { numSrc: 0 }), x, { degrees })
      expect(result).toBeCloseToTensor(
        [
          [0, 0, 0],
          [0, 0, 0],
        ],
        { atol: 0 },
      )
    })
  })

  test('pyg-lib#718: 1.2 M rows of four features, every row written', () => {
    // Row i: source i % 1000, which holds its own number; degree 4 at both ends is a weight of 1/4.
    const rows = 1_200_000
    const colIdx = new Int32Array(rows)
    const expected = new Float32Array(rows * 4)
    for (let i = 0; i < rows; i++) colIdx[i] = i % 1000
    for (let i = 0; i < rows * 4; i++) expected[i] = (((i >> 2) % 1000) - (i & 3)) / 4
    const data = expected.slice(0, 4000).map((value) => value * 4)
    const four = (length: number) => tensor(new Float32Array(length).fill(4), { shape: [length], device })
    const graph = csr(rowPtrOf(new Uint8Array(rows).fill(1)), colIdx, { numSrc: 1000 })
    const x = tensor(data, { shape: [1000, 4], device })
    const result = gcnAggregate(graph, x, { degrees: { dst: four(rows), src: four(1000) } })
    // 1/√4 may be one or two units off on a device.
    expectWithin(result.dataSync(), expected, (i) => 12 * 2 ** -24 * expected[i]! + 2 ** -20)
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
    const degrees = { dst: ones(rows), src: ones(997) }
    const x = tensor(expected.slice(0, 997), { shape: [997, 1], device })
    expectWithin(gcnAggregate(graph, x, { degrees }).dataSync(), expected, () => 0)
  })

  test('more features than a grid has rows of blocks', () => {
    const data = uniform(1, 2 * 70_000)
    const x = tensor(data, { shape: [2, 70_000], device })
    const result = gcnAggregate(csr([0, 1, 2], [1, 0]), x, { degrees: ones(2) })
    const swapped = Float32Array.from([...data.subarray(70_000), ...data.subarray(0, 70_000)])
    expectWithin(result.dataSync(), swapped, () => 0)
  })
})
