import { type DType, dtypes, type FloatDType, narrow, type RawArray } from 'lib/dtype'
import { type BenchGraph, type GraphName, makeGraph, recipes } from './graphs'
import { Random } from './random'
import { mlaSeed, type Workload } from './workloads'

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
  #numbers: { length: number; seed: number; values: Float32Array } | null = null
  readonly #say: (line: string) => void

  /** @param say hears of the long steps */
  constructor(say: (line: string) => void) {
    this.#say = say
  }

  make(workload: Workload): Inputs {
    const { op, width, dtype } = workload
    if (workload.graph === null) return { graph: null, arrays: this.#mla(dtype) }
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

  #mla(dtype: FloatDType): Record<string, InputArray> {
    const { batch, length, heads, headDim, rank } = mlaSeed
    return {
      q: this.#normals([batch, length, heads, headDim], dtype, 103),
      kv_latent: this.#normals([batch, length, rank], dtype, 104),
      w_up_k: this.#normals([rank, heads, headDim], dtype, 105),
      w_up_v: this.#normals([rank, heads, headDim], dtype, 106),
    }
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

  #normals(shape: readonly number[], dtype: FloatDType, seed: number): InputArray {
    const length = shape.reduce((a, b) => a * b, 1)
    if (this.#numbers?.length !== length || this.#numbers.seed !== seed) {
      if (length > 1e7) this.#say(`making ${length} random numbers`)
      this.#numbers = { length, seed, values: new Random(seed).normals(length) }
    }
    const { values } = this.#numbers
    if (dtype === 'float32') return { dtype, shape, elements: values }
    const elements = new dtypes[dtype].array(length)
    narrow(dtype, values, elements)
    return { dtype, shape, elements }
  }
}

export function rowLengths(rowPtr: Int32Array): Float32Array {
  return Float32Array.from({ length: rowPtr.length - 1 }, (_, i) => rowPtr[i + 1]! - rowPtr[i]!)
}
