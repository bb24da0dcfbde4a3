import { type DType, dtypes, type RawArray } from '../../dtype'

/** Below, in bytes, memory is cheap to get and to zero. */
const least = 2 ** 16

/** The most that is kept, in bytes. */
const most = 2 ** 28

/**
 * Memory of large arrays that were freed, for the next ones of the same size: memory from the system is zeroed, page by
 * page, when it is first written, which takes longer than most ops.
 */
export class ArrayCache {
  /** Oldest first. */
  readonly #buffers: ArrayBuffer[] = []
  #bytes = 0

  get bytes(): number {
    return this.#bytes
  }

  /** Keeps the array's memory, at the expense of the oldest. Nobody may use the array any more. */
  keep(array: RawArray): void {
    if (array.byteLength < least || array.byteLength > most) return
    this.#buffers.push(array.buffer as ArrayBuffer)
    this.#bytes += array.byteLength
    while (this.#bytes > most) this.#bytes -= this.#buffers.shift()!.byteLength
  }

  /** An array in kept memory, if there is some of this size. */
  take(dtype: DType, length: number): RawArray | null {
    const bytes = length * dtypes[dtype].bytes
    const found = this.#buffers.findLastIndex(({ byteLength }) => byteLength === bytes)
    if (found < 0) return null
    this.#bytes -= bytes
    return new dtypes[dtype].array(this.#buffers.splice(found, 1)[0]!)
  }

  clear(): void {
    this.#buffers.length = 0
    this.#bytes = 0
  }
}
