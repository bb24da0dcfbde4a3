import type { Addon, BufferHandle, ScheduleArguments } from '../../../typings/addon'
import type {
  Backend,
  DeviceCsr,
  DeviceMemory,
  DeviceName,
  DeviceSegments,
  MlaSizes,
  MlaTensors,
} from '../../backend'
import { type DType, dtypes, type RawArray } from '../../dtype'
import { poisonNewStorages, Storage } from '../../storage'
import { loadAddon } from './addon'
import { makeSchedule, type ScheduleArrays } from './schedule'
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
    return this.#adopt(dtype, length, handle)
  }

  upload(dtype: DType, elements: RawArray): Storage {
    return this.#adopt(dtype, elements.length, this.#addon.upload(this.#index, elements))
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
    this.#addon.segmentSoftmax(
      handleOf(scores),
      handleOf(out),
      dtypes[out.dtype].code,
      segments.numEdges,
      heads,
      ...this.#schedule(segments).arguments,
    )
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
      handleOf(graph.colIdx),
      handleOf(this.#gcnWeights(graph, dstDegrees, srcDegrees)),
      handleOf(x),
      handleOf(out),
      dtypes[out.dtype].code,
      graph.numRows,
      graph.numEdges,
      graph.numSrc,
      features,
      ...this.#schedule(graph).arguments,
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
      handleOf(graph.colIdx),
      handleOf(x),
      empty,
      handleOf(out),
      indices && handleOf(indices),
      dtypes[out.dtype].code,
      graph.numRows,
      graph.numEdges,
      graph.numSrc,
      features,
      ...this.#schedule(graph).arguments,
    )
  }

  mlaAttention({ q, kvLatent, wUpK, wUpV, qRope, kRope }: MlaTensors, out: Storage, sizes: MlaSizes): void {
    this.#addon.mlaAttention(
      handleOf(q),
      handleOf(kvLatent),
      handleOf(wUpK),
      handleOf(wUpV),
      qRope && handleOf(qRope),
      kRope && handleOf(kRope),
      handleOf(out),
      dtypes[out.dtype].code,
      sizes.batch,
      sizes.numQueries,
      sizes.numKeys,
      sizes.heads,
      sizes.headDim,
      sizes.valueDim,
      sizes.rank,
      sizes.ropeDim,
      sizes.scale,
      sizes.causal,
    )
  }

  #schedule(segments: DeviceSegments): DeviceSchedule {
    return segments.derived.get('schedule', (rowPtr) => new DeviceSchedule(this, makeSchedule(rowPtr)))
  }

  /** The factors of the edges under these degrees, kept with the graph until other degrees come. */
  #gcnWeights(graph: DeviceCsr, dstDegrees: Storage, srcDegrees: Storage): Storage {
    const make = () =>
      new GcnWeights(this.#makeGcnWeights(graph, dstDegrees, srcDegrees), dstDegrees, srcDegrees)
    const kept = graph.derived.get('gcn weights', make)
    if (kept.areOf(dstDegrees, srcDegrees)) return kept.storage
    graph.derived.forget('gcn weights')
    return graph.derived.get('gcn weights', make).storage
  }

  #makeGcnWeights(graph: DeviceCsr, dstDegrees: Storage, srcDegrees: Storage): Storage {
    const weights = this.allocate('float32', graph.numEdges)
    const [dst, src] = [this.#asFloat32(dstDegrees), this.#asFloat32(srcDegrees)]
    try {
      this.#addon.gcnWeights(
        handleOf(graph.colIdx),
        handleOf(dst),
        handleOf(src),
        handleOf(weights),
        graph.numRows,
        graph.numEdges,
        graph.numSrc,
        ...this.#schedule(graph).arguments,
      )
    } finally {
      dst.drop()
      src.drop()
    }
    return weights
  }

  /** The storage in float32, with one ownership for the caller to drop. */
  #asFloat32(storage: Storage): Storage {
    if (storage.dtype === 'float32') return storage.retain()
    const converted = this.allocate('float32', storage.length)
    this.cast(storage, converted)
    return converted
  }

  #adopt(dtype: DType, length: number, handle: BufferHandle): Storage {
    const addon = this.#addon
    return new Storage(this, dtype, length, handle, () => addon.release(handle))
  }
}

/** A graph's schedule in device memory, and the arguments that name it to the addon. */
class DeviceSchedule {
  readonly arguments: ScheduleArguments
  readonly #storages: readonly Storage[]

  constructor(backend: Backend, { items, hubs, numPieces, numLong }: ScheduleArrays) {
    const [itemStorage, hubStorage] = [backend.upload('int32', items), backend.upload('int32', hubs)]
    this.#storages = [itemStorage, hubStorage]
    const numItems = items.length / 4
    const numHubs = hubs.length / 4
    this.arguments = [handleOf(itemStorage), numItems, handleOf(hubStorage), numHubs, numPieces, numLong]
  }

  drop(): void {
    for (const storage of this.#storages) storage.drop()
  }
}

/** Edge weights, and the degrees that they were computed from; those are not kept alive by it. */
class GcnWeights {
  readonly #dstDegrees: WeakRef<Storage>
  readonly #srcDegrees: WeakRef<Storage>

  constructor(
    readonly storage: Storage,
    dstDegrees: Storage,
    srcDegrees: Storage,
  ) {
    this.#dstDegrees = new WeakRef(dstDegrees)
    this.#srcDegrees = new WeakRef(srcDegrees)
  }

  areOf(dstDegrees: Storage, srcDegrees: Storage): boolean {
    return this.#dstDegrees.deref() === dstDegrees && this.#srcDegrees.deref() === srcDegrees
  }

  drop(): void {
    this.storage.drop()
  }
}

function handleOf(storage: Storage): BufferHandle {
  return storage.buffer as BufferHandle
}

let backends: readonly CudaBackend[] | undefined

/** A backend per usable GPU; none when CUDA cannot be used, for the reason that `cudaStatus` gives. */
export function cudaBackends(): readonly CudaBackend[] {
  if (backends === undefined) {
    const status = cudaStatus()
    const { addon } = loadAddon()
    backends = status.usable && addon ? status.devices.map((_, i) => new CudaBackend(addon, i)) : []
  }
  return backends
}
