import type { Addon, BufferHandle, StructureHandle } from '../../../typings/addon'
import type {
  Backend,
  DeviceCsr,
  DeviceMemory,
  DeviceName,
  DeviceSegments,
  MlaAttention,
  MlaDecode,
  Recorded,
} from '../../backend'
import { type DType, dtypes, type RawArray } from '../../dtype'
import { poisonNewStorages, release, Storage } from '../../storage'
import { loadAddon } from './addon'
import { DeviceStructure, GcnWeights } from './derived'
import { handleOf } from './handle'
import { callMlaAttention, callMlaDecode } from './mla'
import { cudaStatus } from './status'

/** One GPU, driven through the native addon. A storage's buffer is the addon's handle. */
export class CudaBackend implements Backend {
  readonly device: DeviceName
  readonly #addon: Addon
  readonly #index: number

  constructor(addon: Addon, index: number) {
    this.device = `cuda:${index}`
    this.#addon = addon
    this.#index = index
  }

  allocate(dtype: DType, length: number): Storage {
    const handle = this.#addon.allocate(this.#index, length * dtypes[dtype].bytes)
    if (poisonNewStorages) this.#addon.fill(handle, 0xff)
    return new Storage(this, dtype, length, handle)
  }

  free(buffer: BufferHandle): void {
    this.#addon.release(buffer)
  }

  upload(dtype: DType, elements: RawArray): Storage {
    return new Storage(this, dtype, elements.length, this.#addon.upload(this.#index, elements))
  }

  download(storage: Storage): RawArray {
    const into = new dtypes[storage.dtype].array(storage.length)
    this.#addon.download(handleOf(storage), into)
    return into
  }

  async downloadAsync(storage: Storage): Promise<RawArray> {
    const into = new dtypes[storage.dtype].array(storage.length)
    await this.#addon.downloadAsync(handleOf(storage), into)
    return into
  }

  copy(from: Storage, to: Storage): void {
    this.#addon.copy(handleOf(from), handleOf(to), from.length * dtypes[from.dtype].bytes)
  }

  record(body: () => void): Recorded {
    const addon = this.#addon
    addon.beginCapture(this.#index)
    try {
      body()
    } catch (error) {
      addon.abortCapture()
      throw error
    }
    const graph = addon.endCapture()
    return { replay: () => addon.replay(graph), drop: () => addon.releaseGraph(graph) }
  }

  memory(): DeviceMemory {
    const { buffers, ...figures } = this.#addon.memory(this.#index)
    return { device: this.device, tensors: buffers, ...figures }
  }

  emptyCache(): void {
    this.#addon.emptyCache(this.#index)
  }

  synchronize(): void {
    this.#addon.synchronize(this.#index)
  }

  cast(input: Storage, out: Storage): void {
    const { code: inputDType } = dtypes[input.dtype]
    const { code: outDType } = dtypes[out.dtype]
    this.#addon.cast(handleOf(input), inputDType, handleOf(out), outDType, out.length)
  }

  segmentSoftmax(segments: DeviceSegments, scores: Storage, out: Storage, heads: number): void {
    const structure = this.#structure(segments)
    this.#addon.segmentSoftmax(structure, handleOf(scores), handleOf(out), dtypes[out.dtype].code, heads)
  }

  gcnAggregate(
    graph: DeviceCsr,
    x: Storage,
    dstDegrees: Storage,
    srcDegrees: Storage,
    out: Storage,
    features: number,
  ): void {
    this.#addon.gcnAggregate(
      this.#structure(graph),
      handleOf(this.#gcnWeights(graph, dstDegrees, srcDegrees)),
      handleOf(x),
      handleOf(out),
      dtypes[out.dtype].code,
      features,
    )
  }

  csrMax(
    graph: DeviceCsr,
    x: Storage,
    empty: number,
    out: Storage,
    indices: Storage | null,
    features: number,
  ): void {
    this.#addon.csrMax(
      this.#structure(graph),
      handleOf(x),
      handleOf(out),
      indices && handleOf(indices),
      dtypes[out.dtype].code,
      features,
      empty,
    )
  }

  mlaAttention(call: MlaAttention, out: Storage, lse: Storage | null): void {
    callMlaAttention(this.#addon, call, out, lse)
  }

  mlaDecode(call: MlaDecode, out: Storage, lse: Storage | null): void {
    callMlaDecode(this.#addon, call, out, lse)
  }

  #structure(segments: DeviceSegments): StructureHandle {
    const make = (rowPtr: Int32Array) => new DeviceStructure(this.#addon, this, segments, rowPtr)
    return segments.derived.get('structure', make).handle
  }

  /** The edges, a source and a factor each, under these degrees, kept with the graph. */
  #gcnWeights(graph: DeviceCsr, dstDegrees: Storage, srcDegrees: Storage): Storage {
    const kept = graph.derived.get('gcn weights', () => new GcnWeights())
    return kept.under(dstDegrees, srcDegrees, () =>
      release((keep) => {
        const dst = keep(this.#asFloat32(dstDegrees))
        const src = dstDegrees === srcDegrees ? dst : keep(this.#asFloat32(srcDegrees))
        const edges = keep(this.allocate('int32', 2 * graph.numEdges))
        this.#addon.gcnWeights(this.#structure(graph), handleOf(dst), handleOf(src), handleOf(edges))
        return edges.retain()
      }),
    )
  }

  /** The storage in float32, with one ownership for the caller to drop. */
  #asFloat32(storage: Storage): Storage {
    if (storage.dtype === 'float32') return storage.retain()
    return release((keep) => {
      const converted = keep(this.allocate('float32', storage.length))
      this.cast(storage, converted)
      return converted.retain()
    })
  }
}

let backends: readonly (CudaBackend | null)[] | undefined

/** A backend per GPU by its index, null where `cudaStatus` tells why it cannot be used. */
export function cudaBackends(): readonly (CudaBackend | null)[] {
  if (backends === undefined) {
    const { addon } = loadAddon()
    backends = cudaStatus().devices.map(({ unusable }, index) =>
      addon !== null && unusable === null ? new CudaBackend(addon, index) : null,
    )
  }
  return backends
}
