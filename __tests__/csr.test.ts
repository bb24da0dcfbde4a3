import { runInNewContext } from 'node:vm'
import {
  type Csr,
  csr,
  csrMax,
  gcnAggregate,
  type Segments,
  segmentSoftmax,
  segments,
  tensor,
} from 'warpgraph'
import { onEachDevice } from './devices'
import { argumentErrorWith, refused } from './refused'

/** Calls as a program without types would make them. */
// biome-ignore lint/suspicious/noExplicitAny: wrong arguments are the point
type Untyped = (...args: any[]) => Segments
const [untypedCsr, untypedSegments] = [csr as Untyped, segments as Untyped]

const big = 2n ** 31n
const holed = [0]
holed[2] = 1
const kinds = 'be an Int32Array, a BigInt64Array or an array of integers'
const within = 'hold integers within int32'

refused('ERR_ARG_TYPE', [
  [`csr: rowPtr must ${kinds}, got undefined`, () => untypedCsr()],
  [`csr: rowPtr must ${kinds}, got null`, () => untypedCsr(null, [])],
  [`csr: colIdx must ${kinds}, got undefined`, () => untypedCsr([0])],
  [`csr: rowPtr must ${kinds}, got "01"`, () => untypedCsr('01', [])],
  [`csr: rowPtr must ${kinds}, got number 3`, () => untypedCsr(3, [])],
  [`csr: rowPtr must ${kinds}, got Object`, () => untypedCsr({ 0: 0, length: 1 }, [])],
  [`csr: rowPtr must ${kinds}, got Float32Array`, () => untypedCsr(Float32Array.of(0, 1), [0])],
  [`csr: colIdx must ${kinds}, got Float64Array`, () => untypedCsr([0, 1], Float64Array.of(0))],
  [`csr: rowPtr must ${kinds}, got DataView`, () => untypedCsr(new DataView(new ArrayBuffer(8)), [])],
  [
    `segments: rowPtr must ${kinds}, got Tensor<float32> [2]`,
    () => untypedSegments(tensor([0, 1], { device: 'cpu' })),
  ],
  [
    `segments: rowPtr must ${kinds}, got a Promise (is an await missing?)`,
    () => untypedSegments(Promise.resolve([0])),
  ],
  [`csr: rowPtr must ${within}, got string at index 1`, () => untypedCsr([0, '1'], [0])],
  [`csr: rowPtr must ${within}, got bigint at index 1`, () => untypedCsr([0, 1n], [0])],
  [`csr: rowPtr must ${within}, got undefined at index 1`, () => untypedCsr(holed, [0])],
  ['csr: numSrc must be an integer in [0, 2147483647], got "3"', () => untypedCsr([0], [], { numSrc: '3' })],
  ['csr: options must be an object, got null', () => untypedCsr([0], [], null)],
  ['csr: options must be an object, got number 3', () => untypedCsr([0], [], 3)],
])

refused('ERR_ARG_VALUE', [
  [`csr: rowPtr must ${within}, got NaN at index 1`, () => csr([0, NaN], [])],
  [`csr: rowPtr must ${within}, got 1.5 at index 1`, () => csr([0, 1.5], [0])],
  [`csr: rowPtr must ${within}, got Infinity at index 1`, () => csr([0, Infinity], [])],
  [`csr: rowPtr must ${within}, got 2147483648 at index 1`, () => csr([0, 2 ** 31], [])],
  [`csr: colIdx must ${within}, got NaN at index 0`, () => csr([0, 1], [NaN])],
  [`csr: colIdx must ${within}, got 0.5 at index 1`, () => csr([0, 2], [0, 0.5])],
  [`csr: colIdx must ${within}, got -2147483649 at index 0`, () => csr([0, 1], [-(2 ** 31) - 1])],
  [`csr: rowPtr must ${within}, got 2147483648 at index 1`, () => csr(BigInt64Array.of(0n, big), [])],
  [`csr: colIdx must ${within}, got 4294967296 at index 0`, () => csr([0, 1], BigInt64Array.of(2n ** 32n))],
  [`csr: colIdx must ${within}, got -2147483649 at index 0`, () => csr([0, 1], BigInt64Array.of(-big - 1n))],
  ['csr: rowPtr must start at 0, got 1', () => csr([1, 2], [0, 0])],
  ['csr: rowPtr must start at 0, got -1', () => csr([-1, 0], [])],
  ['segments: rowPtr must never decrease, got 1 after 2 at index 2', () => segments([0, 2, 1, 3])],
  ['csr: rowPtr must never decrease, got -1 after 0 at index 1', () => csr([0, -1], [])],
  ['csr: colIdx must be in [0, 2) (source nodes, numSrc), got 2 at index 1', () => csr([0, 1, 2], [0, 2])],
  ['csr: colIdx must be in [0, 1) (source nodes, numSrc), got -1 at index 1', () => csr([0, 2], [0, -1])],
  [
    'csr: colIdx must be in [0, 1) (source nodes, numSrc), got 1 at index 1',
    () => csr([0, 1, 2], [0, 1], { numSrc: 1 }),
  ],
  [
    'csr: colIdx must be in [0, 1) (source nodes, numSrc), got 7 at index 0',
    () => csr([0, 1], BigInt64Array.of(7n)),
  ],
  ['csr: numSrc must be an integer in [0, 2147483647], got number -1', () => csr([0], [], { numSrc: -1 })],
  ['csr: numSrc must be an integer in [0, 2147483647], got number 1.5', () => csr([0], [], { numSrc: 1.5 })],
  ['csr: numSrc must be an integer in [0, 2147483647], got number NaN', () => csr([0], [], { numSrc: NaN })],
  [
    'csr: numSrc must be an integer in [0, 2147483647], got number 2147483648',
    () => csr([0], [], { numSrc: 2 ** 31 }),
  ],
  ['csr: options must have only numSrc, got "numsrc"', () => untypedCsr([0], [], { numsrc: 3 })],
])

refused('ERR_SHAPE', [
  ['csr: rowPtr must have at least 1 element, got shape [0]', () => csr([], [])],
  ['segments: rowPtr must have at least 1 element, got shape [0]', () => segments(new Int32Array(0))],
  ["csr: colIdx must have 3 elements (rowPtr's last), got shape [2]", () => csr([0, 1, 3], [0, 1])],
  ["csr: colIdx must have 1 elements (rowPtr's last), got shape [2]", () => csr([0, 1], [0, 0])],
  ["csr: colIdx must have 0 elements (rowPtr's last), got shape [1]", () => csr([0], [0])],
])

function structure(graph: Csr): unknown {
  const { numRows, numDst, numSrc, numEdges, isSquare, rowPtr, colIdx } = graph
  return {
    numRows,
    numDst,
    numSrc,
    numEdges,
    isSquare,
    rowPtr: Array.from(rowPtr),
    colIdx: Array.from(colIdx),
  }
}

test.each(['numRows', 'numDst', 'numSrc', 'numEdges', 'isSquare', 'rowPtr', 'colIdx', 'disposed'] as const)(
  '%s of a graph cannot be set',
  (name) => {
    const graph = csr([0, 1, 3], [1, 0, 1])
    const before = graph[name]
    expect(() => Object.assign(graph, { [name]: 9 })).toThrow(TypeError)
    expect(graph[name]).toEqual(before)
  },
)

test('graphs and segments have no fields of their own that could be set', () => {
  expect([csr([0, 1], [0]), segments([0, 1])].flatMap(Reflect.ownKeys)).toEqual([])
})

test.each<[string, Csr]>([
  ['number[]', csr([0, 1, 3], [1, 0, 1])],
  ['Int32Array', csr(Int32Array.of(0, 1, 3), Int32Array.of(1, 0, 1))],
  ['BigInt64Array', csr(BigInt64Array.of(0n, 1n, 3n), BigInt64Array.of(1n, 0n, 1n))],
  ['mixed', csr([0, 1, 3], BigInt64Array.of(1n, 0n, 1n))],
  ['another realm', runInNewContext('f([0, 1, 3], Int32Array.of(1, 0, 1))', { f: csr })],
])('the same graph from %s', (_, graph) => {
  expect(structure(graph)).toEqual({
    numRows: 2,
    numDst: 2,
    numSrc: 2,
    numEdges: 3,
    isSquare: true,
    rowPtr: [0, 1, 3],
    colIdx: [1, 0, 1],
  })
  expect(graph.rowPtr).toBeInstanceOf(Int32Array)
})

test('what a graph is, in short', () => {
  expect(String(csr([0, 1], [0]))).toBe('[object Csr of 1 rows, 1 edges]')
  expect(String(segments([0, 1, 4]))).toBe('[object Segments of 2 rows, 4 edges]')
})

test('indices at the ends of their range are taken', () => {
  const { numSrc, colIdx } = csr([0, 2], [0, 2147483646], { numSrc: 2147483647 })
  expect([numSrc, Array.from(colIdx)]).toEqual([2147483647, [0, 2147483646]])
})

test('an undefined numSrc counts as absent', () => {
  expect((csr as (...args: unknown[]) => Csr)([0, 0], [], { numSrc: undefined }).numSrc).toBe(1)
})

onEachDevice('graphs', (device) => {
  test('the caller keeps its arrays: writing to them, or to copies the graph gives, changes nothing', () => {
    const rowPtr = Int32Array.of(0, 1, 2)
    const colIdx = Int32Array.of(1, 0)
    const graph = csr(rowPtr, colIdx)
    rowPtr.fill(99)
    colIdx.fill(-5)
    graph.rowPtr.fill(99)
    graph.colIdx.fill(-5)
    const x = tensor([[1], [2]], { device })
    expect(csrMax(graph, x).dataSync()).toEqual(Float32Array.of(2, 1))
    expect([Array.from(graph.rowPtr), Array.from(graph.colIdx)]).toEqual([
      [0, 1, 2],
      [1, 0],
    ])
  })

  test('PyG#1631: bipartite, 2 sources and 4 destinations', () => {
    const graph = csr([0, 1, 2, 3, 4], [0, 1, 1, 0], { numSrc: 2 })
    expect([graph.isSquare, graph.numSrc, graph.numDst]).toEqual([false, 2, 4])
    const x = tensor(
      [
        [1, -1],
        [2, -2],
      ],
      { device },
    )
    const out = csrMax(graph, x)
    expect([out.shape, Array.from(out.dataSync())]).toEqual([
      [4, 2],
      [1, -1, 2, -2, 2, -2, 1, -1],
    ])
  })

  test('more sources than destinations', () => {
    const out = csrMax(csr([0, 2], [3, 1], { numSrc: 5 }), tensor([[0], [1], [2], [3], [9]], { device }))
    expect([out.shape, Array.from(out.dataSync())]).toEqual([[1, 1], [3]])
  })

  test.each([
    ['no nodes', [0], 0, 0],
    ['one node and no edge', [0, 0], 1, 1],
    ['nodes and no edges', [0, 0, 0, 0], 3, 3],
    ['sources alone', [0], 4, 0],
    ['destinations alone', [0, 0, 0], 0, 2],
  ])('DGL#1598, PyG#1129: %s', (_, rowPtr, numSrc, numDst) => {
    const graph = csr(rowPtr, [], { numSrc })
    expect([graph.numSrc, graph.numDst, graph.numEdges]).toEqual([numSrc, numDst, 0])
    const x = tensor(new Float32Array(numSrc * 2), { shape: [numSrc, 2], device })
    const out = csrMax(graph, x, { empty: 7 })
    expect([out.shape, Array.from(out.dataSync())]).toEqual([[numDst, 2], new Array(numDst * 2).fill(7)])
    const weights = segmentSoftmax(graph, tensor([], { shape: [0, 3], device }))
    expect([weights.shape, Array.from(weights.dataSync())]).toEqual([[0, 3], []])
  })

  test('a disposed graph is refused, by every op, naming the argument', () => {
    const graph = csr([0, 1], [0])
    const x = tensor([[1]], { device })
    expect(csrMax(graph, x).dataSync()).toEqual(Float32Array.of(1))
    expect(graph.disposed).toBe(false)
    graph.dispose()
    expect(graph.disposed).toBe(true)
    const error = (op: string, argument: string) =>
      argumentErrorWith('ERR_DISPOSED', `${op}: ${argument} must be alive, got one that was disposed`)
    expect(() => csrMax(graph, x)).toThrow(error('csrMax', 'graph'))
    expect(() => gcnAggregate(graph, x)).toThrow(error('gcnAggregate', 'graph'))
    expect(() => segmentSoftmax(graph, x)).toThrow(error('segmentSoftmax', 'segments'))
  })

  test('results outlive the graph they were computed with', async () => {
    const graph = csr([0, 1, 2], [1, 0])
    const out = gcnAggregate(graph, tensor([[1], [2]], { device }))
    graph.dispose()
    expect(await out.data()).toEqual(Float32Array.of(2, 1))
  })
})
