import type { Backend } from './backend'
import type { DType, RawArray } from './dtype'
import { Net } from './net'

/** The least and the greatest of some integers; of none, ∞ and −∞. */
export interface Bounds {
  readonly least: number
  readonly greatest: number
}

let numMade = 0

/**
 * A run of elements on one device, shared by the tensors that are views of it and given back when the last of them
 * is disposed. The garbage collector is the net: a storage that nobody can reach any more is released as well.
 */
export class Storage<B = unknown> {
  #owners = 1
  #bounds: Bounds | null = null

  /** Its own among all storages, also those that are gone: what is kept about it can be found by it. */
  readonly id = ++numMade

  /** Its elements change from call to call, as an input of a captured function's do: nothing derived may be kept. */
  isRewritten = false

  /** @param buffer what the backend reads and writes: a typed array on the CPU, the addon's handle on the GPU */
  constructor(
    readonly backend: Backend,
    readonly dtype: DType,
    readonly length: number,
    readonly buffer: B,
  ) {
    net.add(this)
  }

  /** The bounds of int32 elements that came from the host; null where a device computed or rewrites them. */
  get bounds(): Bounds | null {
    return this.isRewritten ? null : this.#bounds
  }

  /** Notes what the elements are bounded by, when they come from the host. */
  withBoundsOf(elements: RawArray): this {
    if (this.dtype === 'int32') this.#bounds = boundsOf(elements)
    return this
  }

  /** One more tensor shares this storage. */
  retain(): this {
    this.#owners++
    return this
  }

  /** One owner less; the last one gives the memory back. */
  drop(): void {
    if (--this.#owners > 0) return
    net.remove(this)
    this.backend.free(this.buffer)
  }
}

const net = new Net<Storage>(({ backend, buffer }) => {
  return () => backend.free(buffer)
})

/**
 * Runs `body` and drops every storage that it gave to `keep`, whether it returns or throws: what an error leaves
 * half-made is given back at once. What shall outlive the call is retained by the body.
 */
export function release<T>(body: (keep: (storage: Storage) => Storage) => T): T {
  const kept: Storage[] = []
  try {
    return body((storage) => {
      kept.push(storage)
      return storage
    })
  } finally {
    for (const storage of kept) storage.drop()
  }
}

function boundsOf(elements: RawArray): Bounds {
  let least = Infinity
  let greatest = -Infinity
  for (let i = 0; i < elements.length; i++) {
    const value = elements[i]!
    if (value < least) least = value
    if (value > greatest) greatest = value
  }
  return { least, greatest }
}

/**
 * With `WARPGRAPH_POISON=1` new storages are filled with 0xff bytes (NaN in every float dtype, −1 in int32) instead
 * of whatever the memory held, so that an element nobody wrote is seen. For tests.
 */
export const poisonNewStorages = process.env.WARPGRAPH_POISON === '1'
