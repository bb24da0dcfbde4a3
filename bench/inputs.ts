import { type DType, dtypes, type FloatDType, narrow, type RawArray } from 'lib/dtype'
import { type BenchGraph, type GraphName, makeGraph, recipes } from './graphs'
import { Random } from './random'
import type { MlaShape, Workload } from './workloads'

/** An array as it lies in memory: half types as their bits. */
export interface InputArray {
  readonly dtype: DType
  readonly shape: readonly number[]
  readonly elements: RawArray
}

/** A workload's inputs, by the names that peers.py knows them by. */
export interface Inputs {
  readonly graph: BenchGraph | null
  readonly arrays: Readonly<Record<string, InputArray>>
}

/** Makes inputs from fixed seeds; the last graph and numbers are kept for the workloads that share them. */
export class InputMaker {
  #graph: { name: GraphName; graph: BenchGraph } | null = null
  #numbers: { length: number; seed: number; scale: number; values: Float32Array } | null = null
  readonly #say: (line: string) => void

  /** @param say hears of the long steps */
  constructor(say: (line: string) => void) {
    this.#say = say
  }

  make(workload: Workload): Inputs {
    const { op, width, dtype } = workload
    if (workload.graph === null) return { graph: null, arrays: this.#mla(workload.mla!, dtype) }
    const graph = this.#graphOf(workload.graph)
    const numRows = graph.rowPtr.length - 1
    const numEdges = graph.colIdx.length
    const rowPtr: InputArray = { dtype: 'int32', shape: [numRows + 1], elements: graph.rowPtr }
    if (op === 'segment_softmax') {
      return { graph, arrays: { row_ptr: rowPtr, scores: this.#normals([numEdges, width], dtype, 101) } }
    }
    const colIdx: InputArray = { dtype: 'int32', shape: [numEdges], elements: graph.colIdx }
    const nodeFeat = this.#normals([numRows, width], dtype, 102)
    const arrays = { row_ptr: rowPtr, col_idx: colIdx, node_feat: nodeFeat }
    if (op === 'csr_max') return { graph, arrays }
    const degrees: InputArray = { dtype: 'float32', shape: [numRows], elements: rowLengths(graph.rowPtr) }
    return { graph, arrays: { ...arrays, degrees } }
  }

  #mla(shape: MlaShape, dtype: FloatDType): Record<string, InputArray> {
    const { batch, numQueries, numKeys, heads, headDim, rank, ropeDim } = shape
    // As a trained model's: projections keep the size of what they project.
    const scaled = 1 / Math.sqrt(rank)
    const arrays = {
      q: this.#normals([batch, numQueries, heads, headDim], dtype, 103),
      kv_latent: this.#normals([batch, numKeys, rank], dtype, 104),
      w_up_k: this.#normals([rank, heads, headDim], dtype, 105, scaled),
      w_up_v: this.#normals([rank, heads, headDim], dtype, 106, scaled),
    }
    if (ropeDim === 0) return arrays
    const q_rope = this.#normals([batch, numQueries, heads, ropeDim], dtype, 107)
    return { ...arrays, q_rope, k_rope: this.#normals([batch, numKeys, ropeDim], dtype, 108) }
  }

  #graphOf(name: GraphName): BenchGraph {
    if (this.#graph?.name === name) return this.#graph.graph
    this.#graph = null // before the next one is made: they are large
    const { numNodes, numEdges } = recipes[name]
    this.#say(`making graph ${name}: ${numNodes} nodes, about ${numEdges} edges`)
    const graph = makeGraph(recipes[name])
    this.#graph = { name, graph }
    return graph
  }

  #normals(shape: readonly number[], dtype: FloatDType, seed: number, scale = 1): InputArray {
    const length = shape.reduce((a, b) => a * b, 1)
    const last = this.#numbers
    if (last?.length !== length || last.seed !== seed || last.scale !== scale) {
      if (length > 1e7) this.#say(`making ${length} random numbers`)
      this.#numbers = { length, seed, scale, values: repeatedNormals(length, seed, scale) }
    }
    const { values } = this.#numbers!
    if (dtype === 'float32') return { dtype, shape, elements: values }
    const elements = new dtypes[dtype].array(length)
    narrow(dtype, values, elements)
    return { dtype, shape, elements }
  }
}

/** No op gets faster by numbers that come again, and to draw each of a large cache's takes a minute. */
const mostDrawn = 2 ** 25 - 39 // a prime: rows do not repeat as a whole

function repeatedNormals(length: number, seed: number, scale: number): Float32Array {
  const drawn = new Random(seed).normals(Math.min(length, mostDrawn))
  if (scale !== 1) for (let i = 0; i < drawn.length; i++) drawn[i]! *= scale
  if (length <= mostDrawn) return drawn
  const values = new Float32Array(length)
  for (let at = 0; at < length; at += mostDrawn) values.set(drawn.subarray(0, length - at), at)
  return values
}

export function rowLengths(rowPtr: Int32Array): Float32Array {
  return Float32Array.from({ length: rowPtr.length - 1 }, (_, i) => rowPtr[i + 1]! - rowPtr[i]!)
}
