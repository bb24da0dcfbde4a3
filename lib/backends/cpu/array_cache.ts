import { type DType, dtypes, type RawArray } from '../../dtype'

/** Below, in bytes, memory is cheap to get and to zero. */
const least = 2 ** 16

/** The most that is kept, in bytes. */
const most = 2 ** 27

/**
 * Memory of large arrays that were freed, for the next ones of the same size: memory from the system is zeroed, page by
 * page, when it is first written, which takes longer than most ops.
 */
export class ArrayCache {
  /** By size in bytes, the sizes that were given or taken longest ago first. */
  readonly #buffers = new Map<number, ArrayBuffer[]>()
  #bytes = 0

  get bytes(): number {
    return this.#bytes
  }

  /** Keeps the array's memory, at the expense of the oldest sizes. Nobody may use the array any more. */
  keep(array: RawArray): void {
    const bytes = array.byteLength
    if (bytes < least || bytes > most) return
    const alike = this.#buffers.get(bytes) ?? []
    alike.push(array.buffer as ArrayBuffer)
    this.#makeNewest(bytes, alike)
    this.#bytes += bytes
    while (this.#bytes > most) this.#dropOldest()
  }

  /** An array in kept memory, if there is some of this size. */
  take(dtype: DType, length: number): RawArray | null {
    const bytes = length * dtypes[dtype].bytes
    if (bytes < least) return null
    const alike = this.#buffers.get(bytes)
    if (alike === undefined) return null
    this.#bytes -= bytes
    const buffer = alike.pop()!
    this.#makeNewest(bytes, alike)
    return new dtypes[dtype].array(buffer)
  }

  clear(): void {
    this.#buffers.clear()
    this.#bytes = 0
  }

  #makeNewest(bytes: number, alike: ArrayBuffer[]): void {
    this.#buffers.delete(bytes)
    if (alike.length > 0) this.#buffers.set(bytes, alike)
  }

  #dropOldest(): void {
    const [bytes, alike] = this.#buffers.entries().next().value!
    alike.pop()
    this.#bytes -= bytes
    if (alike.length === 0) this.#buffers.delete(bytes)
  }
}
