/// <reference lib="esnext.disposable" preserve="true" />
import { inspect } from 'node:util'
import ndarray, { type NdArray } from 'ndarray'
import { argumentError, checkAlive, describe, formatShape, madeBy, thisCopy } from './argument'
import type { Backend, DeviceName } from './backend'
import { type DeviceChoice, namedBackend } from './device'
import { type DataOf, type DType, type RawArray, widen } from './dtype'
import { checkDType } from './elements'
import { refuseInCapture } from './recording'
import { trackInScope } from './scope'
import { Storage } from './storage'

/** A shape of known rank is a tuple, of unknown rank an array. */
export type Shape<R extends number> = number extends R
  ? readonly number[]
  : R extends 0
    ? readonly []
    : R extends 1
      ? readonly [number]
      : R extends 2
        ? readonly [number, number]
        : R extends 3
          ? readonly [number, number, number]
          : R extends 4
            ? readonly [number, number, number, number]
            : readonly number[]

/** The rank that a shape's type tells: its length, or anything when the length is not known. */
// biome-ignore lint/suspicious/noExplicitAny: `any` is the rank that fits every rank, in both directions.
export type RankOf<S extends readonly number[]> = number extends S['length'] ? any : S['length']

/** Numbers nested as deep as the rank. */
export type Nested = number | Nested[]

/**
 * An immutable, row-major, contiguous array of numbers on one device.
 *
 * Made by `tensor`, `fromNdarray` and the ops. The memory behind it is given back by `dispose()`, `using` or
 * `scope()`; the garbage collector is only the net below them.
 */
// biome-ignore lint/suspicious/noExplicitAny: a rank not told by the type fits wherever a rank is asked for.
export class Tensor<D extends DType = DType, R extends number = any> {
  readonly #storage: Storage
  readonly #lengths: Shape<R>
  #shape: Shape<R> | null = null
  #disposed = false

  /** Not to be called: a class without a public constructor could not be handed to what takes classes. */
  constructor(data: never)
  /** @internal Takes over one ownership of the storage, and the lengths: nobody writes to them any more. */
  constructor(storage: Storage, lengths: readonly number[])
  constructor(storage: Storage, lengths?: readonly number[]) {
    if (!(storage instanceof Storage)) {
      const expected = 'be given to tensor() or fromNdarray()'
      throw argumentError('ERR_ARG_TYPE', 'new Tensor', 'data', expected, describe(storage))
    }
    this.#storage = storage
    this.#lengths = lengths as Shape<R>
    trackInScope(this)
  }

  get dtype(): D {
    return this.#storage.dtype as D
  }

  /** Number of elements. */
  get size(): number {
    return this.#storage.length
  }

  /** Lengths of the dimensions. */
  get shape(): Shape<R> {
    // Made when it is asked for: to freeze takes longer than all else about a tensor.
    this.#shape ??= Object.freeze(this.#lengths.slice()) as unknown as Shape<R>
    return this.#shape
  }

  /** @internal The shape for the library itself: V8 reads the elements of frozen arrays by a slow path. */
  get lengths(): Shape<R> {
    return this.#lengths
  }

  /** Number of dimensions. */
  get rank(): number {
    return this.#lengths.length
  }

  /** Where the elements lie: `'cpu'` or `'cuda:N'`. */
  get device(): DeviceName {
    return this.#storage.backend.device
  }

  get disposed(): boolean {
    return this.#disposed
  }

  /** @internal */
  get storage(): Storage {
    return this.#storage
  }

  /** A copy of the elements, once the device has computed them. The event loop goes on meanwhile. */
  async data(): Promise<DataOf<D>> {
    const storage = this.#alive('data')
    refuseInCapture('data', 'tensor', 'be read outside of capture()')
    return values(storage, await storage.backend.downloadAsync(storage)) as DataOf<D>
  }

  /** The same, waiting for the device here and now. */
  dataSync(): DataOf<D> {
    const storage = this.#alive('dataSync')
    refuseInCapture('dataSync', 'tensor', 'be read outside of capture()')
    return values(storage, storage.backend.download(storage)) as DataOf<D>
  }

  /** The elements as nested arrays, as deep as the rank. */
  async array(): Promise<Nested> {
    this.#alive('array')
    return nest(await this.data(), this.shape)
  }

  /** The only element. @throws RangeError (`ERR_SHAPE`) when there are more, or none */
  async item(): Promise<number> {
    this.#alive('item')
    if (this.size !== 1) {
      throw argumentError(
        'ERR_SHAPE',
        'item',
        'tensor',
        'have one element',
        `shape ${formatShape(this.shape)}`,
      )
    }
    return (await this.data())[0]!
  }

  /** The elements as an ndarray of the same shape. */
  async toNdarray(): Promise<NdArray<DataOf<D>>> {
    this.#alive('toNdarray')
    return ndarray(await this.data(), this.shape.slice())
  }

  /**
   * The tensor on another device; a new handle on the same memory when it is there already. Waits for the work that
   * computes the tensor.
   */
  to(device: DeviceChoice): Tensor<D, R> {
    const storage = this.#alive('to')
    const backend = namedBackend('to', device)
    if (backend === storage.backend) return new Tensor(storage.retain(), this.#lengths)
    refuseInCapture('to', 'tensor', 'be moved outside of capture()')
    const raw = storage.backend.download(storage)
    return new Tensor(backend.upload(storage.dtype, raw).withBoundsOf(raw), this.#lengths)
  }

  /**
   * The tensor in another dtype, on the same device. To half types it rounds to nearest even, int32 by way of float32;
   * to int32 it truncates towards zero and saturates, and NaN becomes 0.
   */
  cast<T extends DType>(dtype: T): Tensor<T, R> {
    const storage = this.#alive('cast')
    checkDType('cast', dtype)
    if ((dtype as DType) === this.dtype) return new Tensor(storage.retain(), this.#lengths)
    return compute(storage.backend, dtype, this.#lengths, (out) => storage.backend.cast(storage, out))
  }

  /** The same elements in another shape of as many elements; one dimension may be −1. Shares the memory. */
  reshape<const S extends readonly number[]>(shape: S): Tensor<D, RankOf<S>> {
    const storage = this.#alive('reshape')
    const full = resolveShape('reshape', shape, this.size)
    return new Tensor(storage.retain(), full)
  }

  /** Gives the memory back (when no other view shares it). Using the tensor afterwards is an error. */
  dispose(): void {
    if (this.#disposed) return
    this.#disposed = true
    this.#storage.drop()
  }

  [Symbol.dispose](): void {
    this.dispose()
  }

  get [Symbol.toStringTag](): string {
    if (!(#storage in this)) return 'Tensor' // the prototype, which is printed as others are
    return `Tensor<${this.dtype}> ${formatShape(this.shape)}`
  }

  /** @internal */
  get [madeBy](): symbol {
    return thisCopy
  }

  /** @internal Values are shown on the CPU only: printing must not wait for a GPU. */
  [inspect.custom](depth: number, options: object): string {
    const head = `${this[Symbol.toStringTag]} on ${this.device}`
    if (this.#disposed) return `${head} (disposed)`
    if (depth < 0 || this.device !== 'cpu') return head
    const shown = inspect(firstValues(this.#storage, this.shape), {
      ...options,
      maxArrayLength: mostShown,
      depth: 8,
    })
    return `${head} ${shown}`
  }

  #alive(method: string): Storage {
    checkAlive(method, 'tensor', this)
    return this.#storage
  }
}

/**
 * A new tensor whose storage `fill` computes; nothing stays behind when that throws. An empty one needs no computing,
 * whatever the sizes it is made from.
 */
export function compute<D extends DType, R extends number>(
  backend: Backend,
  dtype: D,
  shape: readonly number[],
  fill: (out: Storage) => void,
): Tensor<D, R> {
  const out = backend.allocate(dtype, sizeOf(shape))
  try {
    if (out.length > 0) fill(out)
  } catch (error) {
    out.drop()
    throw error
  }
  return new Tensor(out, shape)
}

/** The number of elements of a shape, or of its dimensions from one on. */
export function sizeOf(shape: readonly number[], from = 0): number {
  let size = 1
  for (let axis = from; axis < shape.length; axis++) size *= shape[axis]!
  return size
}

/** A shape checked against a number of elements, with −1 replaced. */
export function resolveShape(op: string, shape: readonly number[], size: number): number[] {
  if (!Array.isArray(shape)) {
    throw argumentError('ERR_ARG_TYPE', op, 'shape', 'be an array of lengths', describe(shape))
  }
  const full = shape.slice() as number[]
  const open = full.indexOf(-1)
  if (open >= 0) {
    const known = sizeOf(full.toSpliced(open, 1))
    full[open] = size / known // not a length when nothing is known of it, as in [0, −1]
  }
  for (const length of full) {
    if (!Number.isInteger(length) || length < 0) {
      const expected = open >= 0 ? `divide ${size} elements` : 'hold integers of at least 0'
      throw argumentError('ERR_SHAPE', op, 'shape', expected, formatShape(shape))
    }
  }
  if (sizeOf(full) !== size) {
    throw argumentError('ERR_SHAPE', op, 'shape', `be one of ${size} elements`, formatShape(shape))
  }
  return full
}

function values(storage: Storage, raw: RawArray): Float32Array | Int32Array {
  return widen(storage.dtype, raw)
}

/** How many elements of each dimension are printed. */
const mostShown = 6

/** Nested values as far as they are printed: one more than that in each dimension, so that the rest is counted. */
function firstValues(storage: Storage, shape: readonly number[], start = 0): unknown {
  const raw = storage.buffer as RawArray
  if (shape.length === 0) return widen(storage.dtype, raw.subarray(start, start + 1))[0]
  const [length, ...rest] = shape as [number, ...number[]]
  const stride = sizeOf(rest)
  const shown = Array.from({ length: Math.min(length, mostShown) }, (_, i) =>
    firstValues(storage, rest, start + i * stride),
  )
  shown.length = length // the others are counted, not made
  return shown
}

function nest(data: Float32Array | Int32Array, shape: readonly number[]): Nested {
  if (shape.length === 0) return data[0]!
  const [length, ...rest] = shape as [number, ...number[]]
  if (rest.length === 0) return Array.from(data)
  const stride = sizeOf(rest)
  return Array.from({ length }, (_, i) => nest(data.subarray(i * stride, (i + 1) * stride), rest))
}
