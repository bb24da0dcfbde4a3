import type { ScheduleArguments } from '../../../typings/addon'
import type { Backend, Droppable } from '../../backend'
import { release, type Storage } from '../../storage'
import { handleOf } from './handle'
import type { ScheduleArrays } from './schedule'

/** A graph's schedule in device memory, and the arguments that name it to the addon. */
export class DeviceSchedule implements Droppable {
  readonly arguments: ScheduleArguments
  readonly #storages: readonly Storage[]

  constructor(backend: Backend, { items, hubs, numPieces, numLong }: ScheduleArrays) {
    this.#storages = release((keep) => {
      const storages = [keep(backend.upload('int32', items)), keep(backend.upload('int32', hubs))]
      return storages.map((storage) => storage.retain())
    })
    const [itemHandle, hubHandle] = this.#storages.map(handleOf) as [number, number]
    this.arguments = [itemHandle, items.length / 4, hubHandle, hubs.length / 4, numPieces, numLong]
  }

  drop(): void {
    for (const storage of this.#storages) storage.drop()
  }
}

/** Degrees that were used last, and the edge weights under them. The degrees are not kept alive by it. */
interface WeightsEntry {
  readonly dstDegrees: WeakRef<Storage>
  readonly srcDegrees: WeakRef<Storage>
  readonly weights: Storage
}

/** A graph's edge weights under the few degrees that were used last. */
export class GcnWeights implements Droppable {
  static readonly #most = 4
  #entries: WeightsEntry[] = []

  /** The weights under these degrees, made when they are not kept. */
  under(dstDegrees: Storage, srcDegrees: Storage, make: () => Storage): Storage {
    const known = this.#entries.findIndex(
      (entry) => entry.dstDegrees.deref() === dstDegrees && entry.srcDegrees.deref() === srcDegrees,
    )
    if (known >= 0) {
      if (!dstDegrees.isRewritten && !srcDegrees.isRewritten) return this.#entries[known]!.weights
      // Other values may stand in these degrees by now.
      for (const stale of this.#entries.splice(known, 1)) stale.weights.drop()
    }
    const weights = make()
    const entry = { dstDegrees: new WeakRef(dstDegrees), srcDegrees: new WeakRef(srcDegrees), weights }
    for (const old of this.#entries.splice(GcnWeights.#most - 1)) old.weights.drop()
    this.#entries.unshift(entry)
    return weights
  }

  drop(): void {
    for (const { weights } of this.#entries.splice(0)) weights.drop()
  }
}
