import { backendFor } from 'lib/device'
import type { FloatDType, RawArray } from 'lib/dtype'
import {
  type Csr,
  csr,
  csrMax,
  type DeviceName,
  gcnAggregate,
  mlaAttention,
  segmentSoftmax,
  synchronize,
  type Tensor,
  tensor,
} from 'warpgraph'
import type { Inputs } from './inputs'
import type { Workload } from './workloads'

type Floats = Tensor<FloatDType>

/** Our op, ready to be called on a device: the inputs are there. */
export class Subject {
  readonly workload: Workload
  /** The op's float tensors, in the order of its arguments. */
  readonly tensors: readonly Floats[]
  readonly #inputs: Inputs
  readonly #device: DeviceName
  #graph: Csr | null = null

  constructor(workload: Workload, inputs: Inputs, device: DeviceName) {
    this.workload = workload
    this.#inputs = inputs
    this.#device = device
    const names = Object.keys(inputs.arrays).filter(
      (name) => !['row_ptr', 'col_idx', 'degrees'].includes(name),
    )
    this.tensors = names.map((name) => {
      const { elements, shape } = inputs.arrays[name]!
      return tensor(elements, { dtype: workload.dtype, shape, device }) as Floats
    })
    this.renewGraph()
  }

  /** A new graph object on the device, with nothing derived from it yet. */
  renewGraph(): void {
    const { graph } = this.#inputs
    if (graph === null) return
    this.#graph?.dispose()
    this.#graph = csr(graph.rowPtr, graph.colIdx)
    this.#graph.on(backendFor('bench', this.#device))
    this.wait()
  }

  /** One call; the results are the caller's to dispose. The last one is not compared (the winners of a maximum). */
  call(inputs: readonly Floats[] = this.tensors): Tensor[] {
    const { op, withIndices } = this.workload
    const [first, ...others] = inputs as [Floats, ...Floats[]]
    switch (op) {
      case 'segment_softmax':
        return [segmentSoftmax(this.#graph!, first)]
      case 'gcn_aggregate':
        return [gcnAggregate(this.#graph!, first)]
      case 'csr_max': {
        if (!withIndices) return [csrMax(this.#graph!, first)]
        const { values, indices } = csrMax(this.#graph!, first, { withIndices })
        return [values, indices]
      }
      case 'mla_attention': {
        const [kvLatent, wUpK, wUpV, qRope, kRope] = others as Floats[]
        const rope = qRope === undefined ? {} : { qRope, kRope: kRope! }
        return [mlaAttention(first, kvLatent!, wUpK!, wUpV!, rope)]
      }
      default:
        return op satisfies never
    }
  }

  /** One call whose results are thrown away. */
  readonly callAndDispose = (): void => {
    for (const result of this.call()) result.dispose()
  }

  readonly wait = (): void => synchronize(this.#device)

  /** The main result, as it lies in memory. */
  result(): { shape: readonly number[]; elements: RawArray } {
    const results = this.call()
    const { storage, shape } = results[0]!
    const elements = storage.backend.download(storage)
    for (const result of results) result.dispose()
    return { shape, elements }
  }

  dispose(): void {
    this.#graph?.dispose()
    for (const input of this.tensors) input.dispose()
  }
}
