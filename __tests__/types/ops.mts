// What the types of graphs and ops promise, seen from an ES module. Compiled, never run: see types.test.ts.
import {
  type Csr,
  type CsrMaxResult,
  capture,
  csr,
  csrMax,
  type DeviceError,
  type FloatDType,
  gcnAggregate,
  type MlaAlgorithm,
  type MlaAttentionOptions,
  type MlaResult,
  mlaAttention,
  mlaDecode,
  type Segments,
  segmentSoftmax,
  segments,
  type Tensor,
  tensor,
} from 'warpgraph'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
declare function same<A, B>(answer: Same<A, B>): void

declare const vector: Tensor<'float32', 1>
declare const matrix: Tensor<'float32', 2>
declare const halfMatrix: Tensor<'float16', 2>
declare const intMatrix: Tensor<'int32', 2>
declare const intVector: Tensor<'int32', 1>
declare const cube: Tensor<'float32', 3>
declare const four: Tensor<'float32', 4>
declare const brainFour: Tensor<'bfloat16', 4>
declare const brainCube: Tensor<'bfloat16', 3>
declare const unknownRank: Tensor<'float32'>

// Graphs.
const graph = csr([0, 1], Int32Array.of(0), { numSrc: 1 })
same<typeof graph, Csr>(true)
const rows: Segments = graph
// @ts-expect-error: segments have no columns
const columns: Csr = segments([0])
csr(BigInt64Array.of(0n), BigInt64Array.of())
// @ts-expect-error: floats are no indices
csr(Float32Array.of(0), [])
// @ts-expect-error: columns are missing
csr([0])
// @ts-expect-error: an option that does not exist
csr([0], [], { numSources: 1 })
// @ts-expect-error: read-only
graph.numSrc = 2

// What may be left out may be undefined.
declare const maybe: Tensor<'float32', 1> | undefined
gcnAggregate(graph, matrix, { degrees: maybe })
mlaDecode(four, { kvLatent: cube, kvLengths: undefined }, { scale: 1, causal: undefined })
tensor([1], { shape: undefined, dtype: undefined, device: undefined })

// segmentSoftmax gives what it was given.
const softmax = segmentSoftmax(rows, cube)
same<typeof softmax, Tensor<'float32', 3>>(true)
const halfSoftmax = segmentSoftmax(graph, halfMatrix)
same<typeof halfSoftmax, Tensor<'float16', 2>>(true)
// @ts-expect-error: integers have no softmax
segmentSoftmax(graph, intMatrix)
// @ts-expect-error: raw arrays are no tensors
segmentSoftmax(graph, Float32Array.of(1))
// @ts-expect-error: a row pointer is not parsed yet
segmentSoftmax([0, 1], vector)

// gcnAggregate.
const sums = gcnAggregate(graph, halfMatrix, { degrees: intVector })
same<typeof sums, Tensor<'float16', 2>>(true)
gcnAggregate(graph, matrix, { degrees: { dst: vector, src: intVector } })
gcnAggregate(graph, unknownRank)
// @ts-expect-error: features are a matrix
gcnAggregate(graph, vector)
// @ts-expect-error: integers are no features
gcnAggregate(graph, intMatrix)
// @ts-expect-error: segments have no columns
gcnAggregate(segments([0]), matrix)
// @ts-expect-error: one end alone
gcnAggregate(graph, matrix, { degrees: { dst: vector } })
// @ts-expect-error: degrees are a vector
gcnAggregate(graph, matrix, { degrees: matrix })
// @ts-expect-error: degrees are no half type
gcnAggregate(graph, matrix, { degrees: tensor([1], { dtype: 'float16', shape: [1] }) })

// csrMax: the option decides the result.
const maxima = csrMax(graph, matrix)
same<typeof maxima, Tensor<'float32', 2>>(true)
const plain = csrMax(graph, halfMatrix, { empty: 0, withIndices: false })
same<typeof plain, Tensor<'float16', 2>>(true)
const both = csrMax(graph, halfMatrix, { withIndices: true })
same<typeof both, CsrMaxResult<'float16'>>(true)
same<typeof both.values, Tensor<'float16', 2>>(true)
same<typeof both.indices, Tensor<'int32', 2>>(true)
// @ts-expect-error: without the option there are no indices
csrMax(graph, matrix).indices
// @ts-expect-error: with it the result is no tensor
csrMax(graph, matrix, { withIndices: true }).data()
// @ts-expect-error: features are a matrix
csrMax(graph, cube)
// @ts-expect-error: a value, not a tensor
csrMax(graph, matrix, { empty: vector })

// mlaAttention: one dtype throughout.
const attention = mlaAttention(brainFour, brainCube, brainCube, brainCube, { causal: false, scale: 0.5 })
same<typeof attention, Tensor<'bfloat16', 4>>(true)
mlaAttention(four, cube, cube, cube, { qRope: four, kRope: cube })
mlaAttention(four, unknownRank, cube, cube)
// @ts-expect-error: the latents are of another dtype
mlaAttention(four, brainCube, cube, cube)
// @ts-expect-error: the last projection is of another dtype
mlaAttention(four, cube, cube, brainCube)
// @ts-expect-error: the rotated queries are of another dtype
mlaAttention(four, cube, cube, cube, { qRope: brainFour, kRope: cube })
// @ts-expect-error: queries have four axes
mlaAttention(cube, cube, cube, cube)
// @ts-expect-error: latents have three axes
mlaAttention(four, four, cube, cube)
// @ts-expect-error: integers have no attention
mlaAttention(tensor([1], { dtype: 'int32', shape: [1, 1, 1, 1] }), cube, cube, cube)
// @ts-expect-error: an option that does not exist
mlaAttention(four, cube, cube, cube, { casual: true })
const attended = mlaAttention(four, cube, cube, cube, { returnLse: true, kvLengths: intVector })
same<typeof attended, MlaResult<'float32'>>(true)
same<typeof attended.out, Tensor<'float32', 4>>(true)
same<typeof attended.lse, Tensor<'float32', 3>>(true)
declare const returnLse: boolean
declare const algorithm: MlaAlgorithm
const oneOrBoth = mlaAttention(four, cube, cube, cube, { returnLse, algorithm })
same<typeof oneOrBoth, Tensor<'float32', 4> | MlaResult<'float32'>>(true)
mlaAttention(four, cube, cube, cube, { blockTable: intMatrix, algorithm: 'absorb', numSplits: 2 })
// @ts-expect-error: without the option there is no lse
mlaAttention(four, cube, cube, cube).lse
// @ts-expect-error: lengths are integers
mlaAttention(four, cube, cube, cube, { kvLengths: vector })
// @ts-expect-error: a block table has two axes
mlaAttention(four, cube, cube, cube, { blockTable: intVector })
// @ts-expect-error: no such algorithm
mlaAttention(four, cube, cube, cube, { algorithm: 'fast' })

// mlaDecode: the scale is the model's.
const decoded = mlaDecode(brainFour, { kvLatent: brainCube, kRope: brainCube }, { scale: 0.1 })
same<typeof decoded, Tensor<'bfloat16', 4>>(true)
const decodedBoth = mlaDecode(four, { kvLatent: cube, blockTable: intMatrix }, { scale: 1, returnLse: true })
same<typeof decodedBoth, MlaResult<'float32'>>(true)
const decodedEither = mlaDecode(four, { kvLatent: cube }, { scale: 1, returnLse })
same<typeof decodedEither, Tensor<'float32', 4> | MlaResult<'float32'>>(true)
// @ts-expect-error: the scale is missing
mlaDecode(four, { kvLatent: cube })
// @ts-expect-error: the latents are missing
mlaDecode(four, {}, { scale: 1 })
// @ts-expect-error: the latents are of another dtype
mlaDecode(four, { kvLatent: brainCube }, { scale: 1 })

declare const failure: DeviceError
same<typeof failure.cudaName, string | null>(true)
// @ts-expect-error: no such code
failure.code === 'ERR_OOM'

export { columns }

// A captured function takes and gives what the function does.
const layer = capture((y: Tensor<'float32', 2>) => csrMax(graph, y, { withIndices: true }), [matrix])
const winners: Int32Array = layer(matrix).indices.dataSync()
const repeated = capture((y) => csrMax(graph, y), [matrix])
const twice: Tensor<'float32', 2> = repeated(repeated(matrix))
// Results may be of an interface, nested, and of a generic's type.
interface Pair {
  readonly first: Tensor
  readonly second: Tensor
}
interface Outer {
  readonly pair: Pair
}
const pair = capture((y): Pair => ({ first: y, second: y }), [matrix])(matrix)
pair.second satisfies Tensor
capture((y): Pair[] => [{ first: y, second: y }], [matrix])(matrix)[0]!.first satisfies Tensor
capture((y): Outer => ({ pair: { first: y, second: y } }), [matrix])(matrix).pair.second satisfies Tensor
capture((y) => ({ layers: [{ y }] }), [matrix])(matrix).layers[0]!.y satisfies Tensor<'float32', 2>
export const captureAny = <T extends Tensor>(fn: (y: Tensor) => T) => capture(fn, [matrix])
// @ts-expect-error: a number is no result
capture((_y) => 5, [matrix])
// @ts-expect-error: nor is nothing
capture((_y) => {}, [matrix])
// @ts-expect-error: nor what holds a number
capture((y) => ({ y, count: 1 }), [matrix])
// @ts-expect-error: nor a function
capture((y) => () => y, [matrix])
// @ts-expect-error: nor a promise
capture(async (y: Tensor) => y, [matrix])
// @ts-expect-error: one input was captured
repeated(matrix, matrix)
// @ts-expect-error: float32 was captured
repeated(halfMatrix)
void [winners, twice]

// Functions of one's own, as README writes them.
const oneLayer = (x: Tensor<'float32', 2>) => gcnAggregate(graph, x)
const anyLayer = <D extends FloatDType>(x: Tensor<D, 2>) => gcnAggregate(graph, x)
oneLayer(matrix) satisfies Tensor<'float32', 2>
anyLayer(halfMatrix) satisfies Tensor<'float16', 2>
const attentionOptions: MlaAttentionOptions<'float32'> = { causal: false }
mlaAttention(four, cube, cube, cube, attentionOptions)
// @ts-expect-error: it may hold int32
export const bareLayer = (x: Tensor) => gcnAggregate(graph, x)
