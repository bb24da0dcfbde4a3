/// <reference lib="esnext.disposable" preserve="true" />
import { inspect } from 'node:util'
import { argumentError, checkOptions, describe, formatShape, madeBy, thisCopy } from './argument'
import type { Backend, DerivedData, DeviceCsr, DeviceSegments, Droppable } from './backend'
import { checkAttached, int32FromBigInts, int32FromNumbers, typedArrayName } from './elements'
import { isRecording, refuseInCapture, touchedByRecording } from './recording'
import { release, type Storage } from './storage'

/** Arrays that row pointers and column indices are given in. 64-bit integers are narrowed with a range check. */
export type IndexArray = Int32Array | BigInt64Array | readonly number[]

/**
 * Consecutive runs of edges: segment i holds edges `rowPtr[i]` … `rowPtr[i + 1] − 1`. Made by {@link segments};
 * immutable, and checked once when made.
 */
export class Segments {
  readonly #pointers: Int32Array
  readonly #copies = new Map<Backend, DeviceCopy>()
  #disposed = false

  /** @internal */
  constructor(op: string, rowPtr: IndexArray) {
    this.#pointers = indexArray(op, 'rowPtr', rowPtr)
    checkRowPtr(op, this.#pointers)
  }

  /** Number of segments (rows of the graph). */
  get numRows(): number {
    return this.#pointers.length - 1
  }

  /** Number of edges, over all segments. */
  get numEdges(): number {
    return this.#pointers[this.numRows]!
  }

  /** A copy of the row pointer: `numRows + 1` elements. */
  get rowPtr(): Int32Array {
    return this.#pointers.slice()
  }

  get disposed(): boolean {
    return this.#disposed
  }

  /** Gives back what the graph holds on devices. Using it afterwards is an error; disposing again does nothing. */
  dispose(): void {
    this.#disposed = true
    for (const copy of this.#copies.values()) copy.drop()
    this.#copies.clear()
  }

  [Symbol.dispose](): void {
    this.dispose()
  }

  get [Symbol.toStringTag](): string {
    return `${this.constructor.name} of ${this.numRows} rows, ${this.numEdges} edges`
  }

  /** @internal */
  get [madeBy](): symbol {
    return thisCopy
  }

  /** @internal */
  [inspect.custom](): string {
    return `${this[Symbol.toStringTag]}${this.#disposed ? ' (disposed)' : ''}`
  }

  /** @internal The structure on a device, copied there on first use and kept. */
  on(backend: Backend): DeviceSegments {
    return this.copyOn(backend).structure
  }

  /** @internal */
  protected copyOn(backend: Backend): DeviceCopy {
    let copy = this.#copies.get(backend)
    if (copy === undefined) {
      if (isRecording()) refuseInCapture('capture', 'graph', 'be made outside of capture()')
      copy = this.makeCopy(backend, this.#pointers)
      this.#copies.set(backend, copy)
    }
    return copy
  }

  /** @internal */
  protected makeCopy(backend: Backend, pointers: Int32Array): DeviceCopy {
    const { numRows, numEdges } = this
    const rowPtr = backend.upload('int32', pointers)
    return new DeviceCopy([rowPtr], pointers, (derived) => ({ numRows, numEdges, rowPtr, derived }))
  }
}

/**
 * A graph in compressed sparse rows: row i holds the edges into destination i, and `colIdx[e]` is the source of edge
 * e. Made by {@link csr}; immutable, and checked once when made.
 */
export class Csr extends Segments {
  readonly #colIdx: Int32Array
  readonly #numSrc: number

  /** @internal */
  constructor(op: string, rowPtr: IndexArray, colIdx: IndexArray, numSrc: number | undefined) {
    super(op, rowPtr)
    this.#colIdx = indexArray(op, 'colIdx', colIdx)
    this.#numSrc = numSrc === undefined ? this.numRows : numSrc
    if (typeof this.#numSrc !== 'number') {
      throw argumentError('ERR_ARG_TYPE', op, 'numSrc', numSrcRange, describe(numSrc))
    }
    if (!Number.isInteger(this.#numSrc) || this.#numSrc < 0 || this.#numSrc > 2147483647) {
      throw argumentError('ERR_ARG_VALUE', op, 'numSrc', numSrcRange, describe(numSrc))
    }
    checkColIdx(op, this.#colIdx, this.numEdges, this.#numSrc)
  }

  /** Number of source nodes: rows of the features that ops read. */
  get numSrc(): number {
    return this.#numSrc
  }

  /** Number of destination nodes, the rows of the graph. */
  get numDst(): number {
    return this.numRows
  }

  /** Whether sources and destinations are counted alike, as in a graph on one set of nodes. */
  get isSquare(): boolean {
    return this.numDst === this.numSrc
  }

  /** A copy of the column indices: `numEdges` elements. */
  get colIdx(): Int32Array {
    return this.#colIdx.slice()
  }

  /** @internal */
  override on(backend: Backend): DeviceCsr {
    return this.copyOn(backend).structure as DeviceCsr
  }

  /** @internal Row lengths as float32, on a device: the in-degrees. Made on first use and kept. */
  degreesOn(backend: Backend): Storage {
    const { derived } = this.on(backend)
    return derived.get('degrees', (rowPtr) => backend.upload('float32', rowLengths(rowPtr)))
  }

  /** @internal */
  protected override makeCopy(backend: Backend, pointers: Int32Array): DeviceCopy {
    const { numRows, numEdges, numSrc } = this
    return release((keep) => {
      const rowPtr = keep(backend.upload('int32', pointers))
      const colIdx = keep(backend.upload('int32', this.#colIdx))
      return new DeviceCopy(
        [rowPtr.retain(), colIdx.retain()],
        pointers,
        (derived): DeviceCsr => ({ numRows, numEdges, numSrc, rowPtr, colIdx, derived }),
      )
    })
  }
}

const numSrcRange = 'be an integer in [0, 2147483647]'

/** A structure on one device and what was derived from it there. */
class DeviceCopy implements DerivedData {
  readonly structure: DeviceSegments
  readonly #storages: readonly Storage[]
  readonly #rowPtr: Int32Array
  readonly #entries = new Map<string, Droppable>()

  constructor(
    storages: readonly Storage[],
    rowPtr: Int32Array,
    structure: (derived: DerivedData) => DeviceSegments,
  ) {
    this.#storages = storages
    this.#rowPtr = rowPtr
    this.structure = structure(this)
  }

  get<T extends Droppable>(name: string, make: (rowPtr: Int32Array) => T): T {
    if (isRecording()) touchedByRecording(this)
    let entry = this.#entries.get(name)
    if (entry === undefined) {
      entry = make(this.#rowPtr)
      this.#entries.set(name, entry)
    }
    return entry as T
  }

  forget(): void {
    for (const entry of this.#entries.values()) entry.drop()
    this.#entries.clear()
  }

  drop(): void {
    this.forget()
    for (const storage of this.#storages) storage.drop()
  }
}

/**
 * Segments of consecutive edges.
 *
 * @param rowPtr N + 1 non-decreasing integers, the first 0, the last the number of edges
 * @throws TypeError (`ERR_ARG_TYPE`) for other kinds of array; RangeError (`ERR_ARG_VALUE`, `ERR_SHAPE`) for values
 * that are no row pointer, naming the first that is wrong
 */
export function segments(rowPtr: IndexArray): Segments {
  return new Segments('segments', rowPtr)
}

/**
 * A graph from its row pointer and column indices. Both are copied and checked here, once; ops trust them.
 *
 * @param rowPtr N + 1 non-decreasing integers, the first 0, the last the number of edges
 * @param colIdx the source of each edge, in [0, numSrc)
 * @param options.numSrc number of source nodes; N when absent (a square graph)
 * @throws TypeError (`ERR_ARG_TYPE`) for other kinds of array; RangeError (`ERR_ARG_VALUE`, `ERR_SHAPE`) for a row
 * pointer or column index that is wrong, naming the first one
 */
export function csr(
  rowPtr: IndexArray,
  colIdx: IndexArray,
  options: { readonly numSrc?: number | undefined } = {},
): Csr {
  const { numSrc } = checkOptions('csr', options, ['numSrc'])
  return new Csr('csr', rowPtr, colIdx, numSrc)
}

function indexArray(op: string, argument: string, value: unknown): Int32Array {
  if (Array.isArray(value)) return int32FromNumbers(op, argument, value)
  checkAttached(op, argument, value)
  const name = typedArrayName(value)
  if (name === 'Int32Array') return int32FromNumbers(op, argument, value as Int32Array)
  if (name === 'BigInt64Array') return int32FromBigInts(op, argument, value as BigInt64Array)
  const expected = 'be an Int32Array, a BigInt64Array or an array of integers'
  throw argumentError('ERR_ARG_TYPE', op, argument, expected, describe(value))
}

function checkRowPtr(op: string, rowPtr: Int32Array): void {
  if (rowPtr.length === 0) {
    throw argumentError('ERR_SHAPE', op, 'rowPtr', 'have at least 1 element', `shape ${formatShape([0])}`)
  }
  if (rowPtr[0] !== 0) throw argumentError('ERR_ARG_VALUE', op, 'rowPtr', 'start at 0', String(rowPtr[0]))
  for (let i = 1; i < rowPtr.length; i++) {
    if (rowPtr[i]! < rowPtr[i - 1]!) {
      const actual = `${rowPtr[i]} after ${rowPtr[i - 1]} at index ${i}`
      throw argumentError('ERR_ARG_VALUE', op, 'rowPtr', 'never decrease', actual)
    }
  }
}

function checkColIdx(op: string, colIdx: Int32Array, numEdges: number, numSrc: number): void {
  if (colIdx.length !== numEdges) {
    const expected = `have ${numEdges} elements (rowPtr's last)`
    throw argumentError('ERR_SHAPE', op, 'colIdx', expected, `shape ${formatShape([colIdx.length])}`)
  }
  for (let e = 0; e < colIdx.length; e++) {
    if (colIdx[e]! < 0 || colIdx[e]! >= numSrc) {
      const expected = `be in [0, ${numSrc}) (source nodes, numSrc)`
      throw argumentError('ERR_ARG_VALUE', op, 'colIdx', expected, `${colIdx[e]} at index ${e}`)
    }
  }
}

function rowLengths(rowPtr: Int32Array): Float32Array {
  const lengths = new Float32Array(rowPtr.length - 1)
  for (let i = 0; i < lengths.length; i++) lengths[i] = rowPtr[i + 1]! - rowPtr[i]!
  return lengths
}
