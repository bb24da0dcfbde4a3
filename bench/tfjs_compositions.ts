import type { BenchGraph } from './graphs'
import { type InputArray, type Inputs, rowLengths } from './inputs'
import type { Tf, TfTensor } from './tfjs'
import { destinations } from './tfjs'
import type { MlaShape, Workload } from './workloads'

export type TfBackend = 'wasm' | 'cpu'

/** A composition of TensorFlow.js ops with its inputs made: what depends on the graph alone is not timed. */
export interface PreparedPeer {
  readonly name: string
  readonly inputs: readonly TfTensor[]
  call(): TfTensor
}

/** On larger graphs the JavaScript backend takes minutes where it must make a row per edge. */
const mostEdgesOfSlowBackend = 100_000

/**
 * The ways to write an op in TensorFlow.js. It has no maximum over segments, and its `unsortedSegmentSum` passes over
 * all edges once per segment and lacks a WASM kernel, so sums are taken by `scatterND` over a row per edge, or by
 * `sparseSegmentSum`, which gathers and adds in one kernel.
 */
export function prepare(tf: Tf, workload: Workload, inputs: Inputs, backend: TfBackend): PreparedPeer[] {
  const { graph, arrays } = inputs
  // Without the rotated part, which a user would have to add: only the small shape has none.
  if (graph === null) return workload.mla!.ropeDim === 0 ? [attention(tf, workload.mla!, arrays)] : []
  const rowPerEdge = backend === 'wasm' || graph.colIdx.length <= mostEdgesOfSlowBackend
  switch (workload.op) {
    case 'segment_softmax': {
      const sparse = softmaxBySparse(tf, graph, arrays.scores!)
      return rowPerEdge ? [sparse, softmaxByScatter(tf, graph, arrays.scores!)] : [sparse]
    }
    case 'gcn_aggregate': {
      const sparse = gcnBySparse(tf, graph, arrays.node_feat!)
      return rowPerEdge ? [sparse, gcnByScatter(tf, graph, arrays.node_feat!)] : [sparse]
    }
    case 'csr_max':
      return rowPerEdge ? [maxByBuckets(tf, graph, arrays.node_feat!)] : []
    default:
      throw new Error(`no composition of ${workload.op}`)
  }
}

const floats = (tf: Tf, { elements, shape }: InputArray) => tf.tensor(elements, shape, 'float32')
const ints = (tf: Tf, values: Int32Array, shape: readonly number[] = [values.length]) =>
  tf.tensor(values, shape, 'int32')
const inverseRoot = (degree: number) => (degree === 0 ? 0 : 1 / Math.sqrt(degree))

/** sparseSegmentSum ends with the last segment that has edges. */
function padRows(tf: Tf, x: TfTensor, numRows: number): TfTensor {
  const missing = numRows - x.shape[0]!
  return missing === 0 ? x : tf.concat([x, tf.fill([missing, x.shape[1]!], 0)])
}

function gcnBySparse(tf: Tf, graph: BenchGraph, feat: InputArray): PreparedPeer {
  const numRows = graph.rowPtr.length - 1
  const x = floats(tf, feat)
  const source = ints(tf, graph.colIdx)
  const row = ints(tf, destinations(graph))
  const factor = tf.tensor(rowLengths(graph.rowPtr).map(inverseRoot), [numRows, 1])
  const call = () => {
    const sums = tf.sparse.sparseSegmentSum(tf.mul(x, factor), source, row)
    return tf.mul(padRows(tf, sums, numRows), factor)
  }
  return { name: 'sparseSegmentSum of scaled rows', inputs: [x, source, row, factor], call }
}

function gcnByScatter(tf: Tf, graph: BenchGraph, feat: InputArray): PreparedPeer {
  const numRows = graph.rowPtr.length - 1
  const numEdges = graph.colIdx.length
  const factors = rowLengths(graph.rowPtr).map(inverseRoot)
  const row = destinations(graph)
  const weights = Float32Array.from(row, (i, e) => factors[i]! * factors[graph.colIdx[e]!]!)
  const x = floats(tf, feat)
  const source = ints(tf, graph.colIdx)
  const rows = ints(tf, row, [numEdges, 1])
  const weight = tf.tensor(weights, [numEdges, 1])
  const call = () => tf.scatterND(rows, tf.mul(tf.gather(x, source), weight), [numRows, feat.shape[1]!])
  return { name: 'gather + scatterND', inputs: [x, source, rows, weight], call }
}

/** With the maximum of the head in place of the segment's: right as long as scores lie close together, as here. */
function softmaxBy(tf: Tf, scores: TfTensor, row: TfTensor, sum: (x: TfTensor) => TfTensor): TfTensor {
  const exponentials = tf.exp(tf.sub(scores, tf.max(scores, 0, true)))
  return tf.div(exponentials, tf.gather(sum(exponentials), row))
}

function softmaxBySparse(tf: Tf, graph: BenchGraph, input: InputArray): PreparedPeer {
  const scores = floats(tf, input)
  const row = ints(tf, destinations(graph))
  const edge = ints(
    tf,
    Int32Array.from(graph.colIdx, (_, e) => e),
  )
  const call = () => softmaxBy(tf, scores, row, (x) => tf.sparse.sparseSegmentSum(x, edge, row))
  return { name: 'exp + sparseSegmentSum + gather', inputs: [scores, row, edge], call }
}

function softmaxByScatter(tf: Tf, graph: BenchGraph, input: InputArray): PreparedPeer {
  const scores = floats(tf, input)
  const row = ints(tf, destinations(graph))
  const rows = ints(tf, destinations(graph), [graph.colIdx.length, 1])
  const shape = [graph.rowPtr.length - 1, input.shape[1]!]
  const call = () => softmaxBy(tf, scores, row, (x) => tf.scatterND(rows, x, shape))
  return { name: 'exp + scatterND + gather', inputs: [scores, row, rows], call }
}

/** Elements of one gathered block: the WASM heap ends at 4 GB. */
const blockElements = 2 ** 26

/** Rows of like length, filled up to a power of two with their first neighbour, are gathered and reduced together. */
function maxByBuckets(tf: Tf, graph: BenchGraph, feat: InputArray): PreparedPeer {
  const { rowPtr, colIdx } = graph
  const features = feat.shape[1]!
  const buckets = new Map<number, number[]>()
  for (let i = 0; i + 1 < rowPtr.length; i++) {
    const length = rowPtr[i + 1]! - rowPtr[i]!
    const padded = length === 0 ? 0 : 2 ** Math.ceil(Math.log2(length))
    const bucket = buckets.get(padded)
    if (bucket) bucket.push(i)
    else buckets.set(padded, [i])
  }
  const x = floats(tf, feat)
  const inputs = [x]
  const position = new Int32Array(rowPtr.length - 1)
  let placed = 0
  const parts: (() => TfTensor)[] = []
  for (const [padded, rows] of buckets) {
    for (const row of rows) position[row] = placed++
    if (padded === 0) {
      parts.push(() => tf.fill([rows.length, features], -Infinity))
      continue
    }
    const rowsPerBlock = Math.max(1, Math.floor(blockElements / (padded * features)))
    for (let begin = 0; begin < rows.length; begin += rowsPerBlock) {
      const block = rows.slice(begin, begin + rowsPerBlock)
      const neighbours = new Int32Array(block.length * padded)
      for (const [k, row] of block.entries()) {
        const own = colIdx.subarray(rowPtr[row]!, rowPtr[row + 1]!)
        neighbours.fill(own[0]!, k * padded, (k + 1) * padded).set(own, k * padded)
      }
      const indices = ints(tf, neighbours, [block.length, padded])
      inputs.push(indices)
      parts.push(() => tf.tidy(() => tf.max(tf.gather(x, indices), 1)))
    }
  }
  const order = ints(tf, position)
  inputs.push(order)
  const call = () => tf.gather(tf.concat(parts.map((part) => part())), order)
  return { name: 'padded gather + max, by row length', inputs, call }
}

function attention(tf: Tf, shape: MlaShape, arrays: Inputs['arrays']): PreparedPeer {
  const { batch, numKeys: length, heads, headDim, rank } = shape
  const q = floats(tf, arrays.q!)
  const latent = tf.tensor(arrays.kv_latent!.elements, [batch * length, rank])
  const wUpK = tf.tensor(arrays.w_up_k!.elements, [rank, heads * headDim])
  const wUpV = tf.tensor(arrays.w_up_v!.elements, [rank, heads * headDim])
  const seen = Float32Array.from({ length: length * length }, (_, i) =>
    i % length > Math.floor(i / length) ? -Infinity : 0,
  )
  const mask = tf.tensor(seen, [length, length])
  const perHead = (x: TfTensor) => tf.transpose(tf.reshape(x, [batch, length, heads, headDim]), [0, 2, 1, 3])
  const call = () => {
    const keys = perHead(tf.matMul(latent, wUpK))
    const values = perHead(tf.matMul(latent, wUpV))
    const logits = tf.mul(tf.matMul(perHead(q), keys, false, true), 1 / Math.sqrt(headDim))
    return tf.transpose(tf.matMul(tf.softmax(tf.add(logits, mask)), values), [0, 2, 1, 3])
  }
  return { name: 'matMul + softmax', inputs: [q, latent, wUpK, wUpV, mask], call }
}
