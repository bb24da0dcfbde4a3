/**
 * The contract between lib/ and csrc/: everything the native addon exports.
 *
 * Buffers are passed as handles: numbers that name a live allocation of the calling thread's environment. A handle
 * that was released is refused, never dereferenced. Sizes count elements unless they say bytes. Every function
 * checks that the buffers it was given are large enough for the sizes it was told, and lie on one device; shapes and
 * values were checked by lib/. Work is queued on the environment's stream of the device and calls return at once,
 * except where they say that they wait. Every function may throw the error that `setDeviceErrorFactory` makes.
 */

/** Names a device buffer. */
export type BufferHandle = number

/** A dtype's `code` in lib/dtype.ts. */
export type DTypeCode = number

/** Names a graph's structure: its column indices and how its edges are dealt to workers. */
export type StructureHandle = number

/** Names a captured graph. */
export type GraphHandle = number

export interface DriverStatus {
  /** The CUDA version that the driver supports, 1000·major + 10·minor; 0 when there is no driver. */
  readonly driverVersion: number
  /** The CUDA version that the addon was built with, in the same form. */
  readonly runtimeVersion: number
  /** The compute capabilities that the addon has machine code for, for example "75 80 86 89 90 100 120". */
  readonly architectures: string
  readonly deviceCount: number
  /** Why no device can be counted; null when it went well. */
  readonly error: { readonly cudaName: string; readonly message: string } | null
}

export interface DeviceProperties {
  readonly name: string
  /** Major and minor. */
  readonly computeCapability: readonly [number, number]
  readonly multiprocessors: number
  /** Bytes. */
  readonly totalBytes: number
  readonly l2Bytes: number
}

export interface MemoryFigures {
  /** Buffers and bytes allocated on the device by the process and not yet released. */
  readonly buffers: number
  readonly bytes: number
  readonly cachedBytes: number
  readonly freeBytes: number
  readonly totalBytes: number
}

export interface Addon {
  /** Called once after loading: makes the error object that every function throws for a CUDA error. */
  setDeviceErrorFactory(make: (message: string, code: string, cudaName: string) => Error): void
  /** What the driver says. Never throws. */
  driverStatus(): DriverStatus
  deviceProperties(device: number): DeviceProperties

  /** A new buffer with undefined contents. On a shortage the cache is freed and the allocation tried once more. */
  allocate(device: number, bytes: number): BufferHandle
  /** A new buffer holding a copy of the view's bytes; waits for queued work and for the copy. */
  upload(device: number, elements: ArrayBufferView): BufferHandle
  /** Sets every byte of a buffer. */
  fill(buffer: BufferHandle, byte: number): void
  /** Copies the buffer's first bytes into the view, as many as it holds; waits for the device. */
  download(buffer: BufferHandle, into: ArrayBufferView): void
  /**
   * The same without waiting: a thread waits for the device and the promise then resolves. The view's memory must not
   * be transferred or resized before that.
   */
  downloadAsync(buffer: BufferHandle, into: ArrayBufferView): Promise<void>
  /** Gives the buffer back to the allocator, once reads in flight have ended. */
  release(buffer: BufferHandle): void
  memory(device: number): MemoryFigures
  /** Gives cached memory back to the driver; waits for the device. */
  emptyCache(device: number): void
  /** Waits for all queued work. */
  synchronize(device: number): void

  /**
   * Records what is queued on the device from here on, without executing it. Until the capture ends nothing may wait
   * for the device: no upload, no download, no synchronize.
   */
  beginCapture(device: number): void
  /** Ends the capture under way, if there is one, and forgets it. */
  abortCapture(): void
  /** Ends the capture. The graph holds every buffer that was used in it until it is released. */
  endCapture(): GraphHandle
  /** Queues the recorded work once more, on the same buffers. */
  replay(graph: GraphHandle): void
  /** Waits for the graph's launches and gives it and its buffers back. */
  releaseGraph(graph: GraphHandle): void
  /** Copies bytes from one buffer's start to another's, on one device. */
  copy(from: BufferHandle, to: BufferHandle, bytes: number): void

  /** Microseconds per launch of an empty kernel, from a loop of `count`. */
  measureLaunch(device: number, count: number): number
  /** Bytes read and written per second by copies of `bytes` within the device, `count` of them. */
  measureCopy(device: number, bytes: number, count: number): number

  /** out[i] = input[i] in another dtype, for `length` elements. */
  cast(
    input: BufferHandle,
    inputDType: DTypeCode,
    out: BufferHandle,
    outDType: DTypeCode,
    length: number,
  ): void

  /**
   * Writes the items of a schedule, as csrc/cuda/schedule.h lays them out: rowPtr (numRows + 1) int32; cut
   * (numHubs + numPieces, 4) int32, the rows of more than `longest` edges and their pieces → items
   * (numPieces + numRows − numHubs, 4) int32: the pieces, then the other rows, the longest first and those of one length
   * in their order. longest is at most 4094. What is in rowPtr and cut is trusted.
   */
  dealRows(
    rowPtr: BufferHandle,
    cut: BufferHandle,
    items: BufferHandle,
    numRows: number,
    numHubs: number,
    numPieces: number,
    longest: number,
  ): void

  /**
   * A graph's structure from numRows, numEdges and numSrc; colIdx (numEdges) int32, or null for segments, which have
   * no sources; items (numItems, 4) as dealRows writes them, hubs (numHubs, 4) int32 (what follows them is not used), and
   * the counts [numItems, numHubs, numPieces, largestHub, ...longer] of lib/backends/cuda/schedule.ts. It holds the buffers.
   * What is in them is trusted: lib/ has made or checked it.
   */
  createStructure(
    numRows: number,
    numEdges: number,
    numSrc: number,
    colIdx: BufferHandle | null,
    items: BufferHandle,
    hubs: BufferHandle,
    counts: Int32Array,
  ): StructureHandle
  releaseStructure(structure: StructureHandle): void

  /**
   * c = a·b per batch entry: a (batch, m, k), b (batch, k, n) or, transposed, (batch, n, k), c (batch, m, n), all in
   * dtype. A row's elements are contiguous; the other strides count elements, and may be 0 for a and b. tf32: float32
   * in one TF32 product instead of three. large: for throughput; the last bits may differ.
   *
   * With a blockTable (batch, pagesPerSequence) int32, a is (numPages·pageSize, k) and row i of entry e is row
   * firstRow + i of that entry's pages, one after another; ids are clamped to those that exist. With rowLimits (batch)
   * int32, and past the last page, rows i with rowLimitOffset + i ≥ rowLimits[e] are zeros. nonFinite (1) int32 is set
   * to 1 when a value written is not finite.
   */
  matmul(
    a: BufferHandle,
    b: BufferHandle,
    c: BufferHandle,
    dtype: DTypeCode,
    batch: number,
    m: number,
    n: number,
    k: number,
    aRow: number,
    aBatch: number,
    bRow: number,
    bBatch: number,
    bTransposed: boolean,
    cRow: number,
    cBatch: number,
    tf32: boolean,
    large: boolean,
    blockTable: BufferHandle | null,
    pagesPerSequence: number,
    pageSize: number,
    numPages: number,
    firstRow: number,
    rowLimits: BufferHandle | null,
    rowLimitOffset: number,
    nonFinite: BufferHandle | null,
  ): void

  /** Softmax over each row's edges, per head. scores, out (numEdges, heads) in dtype. */
  segmentSoftmax(
    structure: StructureHandle,
    scores: BufferHandle,
    out: BufferHandle,
    dtype: DTypeCode,
    heads: number,
  ): void

  /**
   * edges[e] = (colIdx[e], weight), an int32 and a float32, for the edges e of each row i: the weight is
   * 1 / √(dstDegrees[i]·srcDegrees[colIdx[e]]); a degree of 0 is a factor of 0, a negative one NaN. dstDegrees (numRows)
   * and srcDegrees (numSrc) float32, edges (numEdges, 2).
   */
  gcnWeights(
    graph: StructureHandle,
    dstDegrees: BufferHandle,
    srcDegrees: BufferHandle,
    edges: BufferHandle,
  ): void

  /**
   * out[i] = Σ weight·x[source] over row i's edges (numEdges, 2), as gcnWeights wrote them. x (numSrc, features) and
   * out (numRows, features) in dtype; features below 2^30.
   */
  gcnAggregate(
    graph: StructureHandle,
    edges: BufferHandle,
    x: BufferHandle,
    out: BufferHandle,
    dtype: DTypeCode,
    features: number,
  ): void

  /**
   * out[i] = feature-wise maximum of x[src] over row i's edges; `empty` for a row without edges. x (numSrc, features)
   * and out (numRows, features) in dtype; features below 2^30. indices, when given, gets the winning edge (int32, lowest
   * on ties, −1 for empty rows), (numRows, features).
   */
  csrMax(
    graph: StructureHandle,
    x: BufferHandle,
    out: BufferHandle,
    indices: BufferHandle | null,
    dtype: DTypeCode,
    features: number,
    empty: number,
  ): void

  /**
   * Multi-head latent attention. Its functions take their numbers as the doubles of one ArrayBuffer, of 28 and of 22,
   * which is read before the call returns: to read so many arguments one by one is slow. NaN stands for null.
   *
   * The first of both functions, in this order:
   * - dtype
   * - the handles of out and of lse (batch, heads, numQueries) float32, which may be null
   * - the keys: the handles of kvLatent (batch, numKeys, rank), kRope (batch, numKeys, ropeDim), null when ropeDim is 0,
   *   kvLengths (batch) int32 or null, and blockTable (batch, pagesPerSequence) int32 or null; then numKeys, pageSize,
   *   numPages and pagesPerSequence. With a blockTable kvLatent is (numPages, pageSize, rank) and kRope (numPages,
   *   pageSize, ropeDim), pageSize a power of two and numKeys = pagesPerSequence · pageSize; without one the last three
   *   are 0. Lengths and page numbers out of range are clamped.
   * - batch, numQueries, heads, rank, ropeDim
   * - scale; causal, 0 or 1; queryOffset, or null: the last query sees all keys; tf32, 0 or 1; numSplits, or 0: as many
   *   as seem best
   *
   * Then of this one: the handles of q (batch, numQueries, heads, headDim), qRope (batch, numQueries, heads, ropeDim),
   * null when ropeDim is 0, wUpK (rank, heads, headDim) and wUpV (rank, heads, valueDim); headDim and valueDim; the
   * algorithm: 0 chooses, 1 absorbs, 2 expands. out is (batch, numQueries, heads, valueDim).
   */
  mlaAttention(numbers: ArrayBuffer): void

  /**
   * After the numbers above the handle of qLatent (batch, numQueries, heads, rank + ropeDim): the query in the latents'
   * space, then its rotated part. out is (batch, numQueries, heads, rank).
   */
  mlaDecode(numbers: ArrayBuffer): void
}
