import type { DType, RawArray } from './dtype'
import type { Storage } from './storage'

/** A device as a tensor reports it. */
export type DeviceName = 'cpu' | `cuda:${number}`

/** Memory of one device, in bytes. */
export interface DeviceMemory {
  readonly device: DeviceName
  /**
   * Live storages: tensors (views of one another count once) and the arrays of graphs used on the device. On a GPU
   * those of the whole process, on the CPU those of this thread.
   */
  readonly tensors: number
  /** Bytes in those storages. */
  readonly bytes: number
  /** Bytes kept by the caching allocator for reuse. */
  readonly cachedBytes: number
  /** Bytes the device has left, and has in all. */
  readonly freeBytes: number
  readonly totalBytes: number
}

/** Something that holds device memory until it is dropped. */
export interface Droppable {
  drop(): void
}

/** What was derived from a graph on one device. Made when first asked for, kept, dropped with the graph. */
export interface DerivedData {
  /** The entry of this name; `make` gets the graph's row pointer in host memory, to read only. */
  get<T extends Droppable>(name: string, make: (rowPtr: Int32Array) => T): T
}

/** Row pointer of segments, on one device: `rowPtr` has `numRows + 1` int32 elements. */
export interface DeviceSegments {
  readonly numRows: number
  readonly numEdges: number
  readonly rowPtr: Storage
  readonly derived: DerivedData
}

/** A graph on one device: row i holds the edges into destination i, `colIdx[e]` in [0, numSrc) is e's source. */
export interface DeviceCsr extends DeviceSegments {
  readonly numSrc: number
  readonly colIdx: Storage
}

/**
 * The keys of multi-head latent attention; shapes as in `mlaAttention`. Lengths and block table may have been computed
 * on the device: then nobody has checked their values, and the backend keeps its reads in bounds.
 */
export interface MlaKeys {
  readonly kvLatent: Storage
  readonly kRope: Storage | null
  readonly kvLengths: Storage | null
  readonly blockTable: Storage | null
  /** The most keys of a sequence: pageSize · pagesPerSequence where there is a block table. */
  readonly numKeys: number
  /** These three are 0 without a block table. */
  readonly pageSize: number
  readonly numPages: number
  readonly pagesPerSequence: number
}

/** What both ops of multi-head latent attention have in common. */
export interface MlaSizes {
  readonly batch: number
  readonly numQueries: number
  readonly heads: number
  readonly rank: number
  readonly ropeDim: number
  readonly scale: number
  readonly causal: boolean
  /** Null: the last query sees all keys. */
  readonly queryOffset: number | null
  /** Float32 inputs may be rounded to TF32. */
  readonly tf32: boolean
  /** 0: as many as seem best. */
  readonly numSplits: number
}

export type MlaAlgorithm = 'auto' | 'absorb' | 'expand'

/** The tensors and settings of one mlaAttention call. */
export interface MlaAttention extends MlaSizes {
  readonly q: Storage
  /** Null when ropeDim is 0. */
  readonly qRope: Storage | null
  readonly wUpK: Storage
  readonly wUpV: Storage
  readonly keys: MlaKeys
  readonly headDim: number
  readonly valueDim: number
  readonly algorithm: MlaAlgorithm
}

/** The tensors and settings of one mlaDecode call. */
export interface MlaDecode extends MlaSizes {
  readonly qLatent: Storage
  readonly keys: MlaKeys
}

/** Work that was recorded and can be queued again. */
export interface Recorded extends Droppable {
  replay(): void
}

/**
 * What a device must be able to do: hold memory, copy it, and compute each op on it.
 *
 * It is not responsible for checking arguments, for inferring shapes and dtypes, for moving inputs to one device or
 * for lifetimes: `lib/ops` does the first three, `Tensor` and `Storage` the last. Every method gets sizes that fit
 * and storages of its own device, and writes every element of its output. Methods return at once; the order of calls
 * is the order of effects.
 */
export interface Backend {
  readonly device: DeviceName

  /** Uninitialised elements. Throws a `DeviceError` when memory is short. */
  allocate(dtype: DType, length: number): Storage
  /** Gives back the buffer of a storage that nobody uses any more. */
  free(buffer: unknown): void
  /** A storage holding a copy of the elements. */
  upload(dtype: DType, elements: RawArray): Storage
  /** A copy of the elements, waiting for the device. */
  download(storage: Storage): RawArray
  /** The same without blocking the event loop. The storage may be dropped meanwhile. */
  downloadAsync(storage: Storage): Promise<RawArray>
  /** Copies all elements of a storage into another of the same dtype and length. */
  copy(from: Storage, to: Storage): void
  /**
   * Records the work that `body` queues, without executing it; `body` neither waits for the device nor moves data
   * between it and the host. Null where nothing can be recorded: then `body` was executed.
   */
  record(body: () => void): Recorded | null
  memory(): DeviceMemory
  /** Gives memory kept for reuse back to the device. */
  emptyCache(): void
  /** Waits until all work handed to the device is done. */
  synchronize(): void

  cast(input: Storage, out: Storage): void
  segmentSoftmax(segments: DeviceSegments, scores: Storage, out: Storage, heads: number): void
  /** Degrees are float32 or int32. */
  gcnAggregate(
    graph: DeviceCsr,
    x: Storage,
    dstDegrees: Storage,
    srcDegrees: Storage,
    out: Storage,
    features: number,
  ): void
  csrMax(
    graph: DeviceCsr,
    x: Storage,
    empty: number,
    out: Storage,
    indices: Storage | null,
    features: number,
  ): void
  /** Either output may have no elements; lse is null when it is not asked for. */
  mlaAttention(call: MlaAttention, out: Storage, lse: Storage | null): void
  mlaDecode(call: MlaDecode, out: Storage, lse: Storage | null): void
}
