import type { Addon, StructureHandle } from '../../../typings/addon'
import type { Backend, DeviceCsr, DeviceSegments, Droppable } from '../../backend'
import { Net } from '../../net'
import { release, type Storage } from '../../storage'
import { handleOf } from './handle'
import { makeSchedule } from './schedule'

/** A graph as the addon knows it, its sources and its schedule, by one handle. */
export class DeviceStructure implements Droppable {
  readonly addon: Addon
  readonly handle: StructureHandle

  constructor(addon: Addon, backend: Backend, segments: DeviceSegments | DeviceCsr, rowPtr: Int32Array) {
    this.addon = addon
    const { cut: hubsAndPieces, numHubs, numPieces, largestHub, longest, longer } = makeSchedule(rowPtr)
    const { numRows, numEdges } = segments
    const numItems = numPieces + numRows - numHubs
    const counts = Int32Array.of(numItems, numHubs, numPieces, largestHub, ...longer)
    const [numSrc, colIdx] = 'colIdx' in segments ? [segments.numSrc, handleOf(segments.colIdx)] : [0, null]
    this.handle = release((keep) => {
      const cut = handleOf(keep(backend.upload('int32', hubsAndPieces)))
      const items = handleOf(keep(backend.allocate('int32', 4 * numItems)))
      addon.dealRows(handleOf(segments.rowPtr), cut, items, numRows, numHubs, numPieces, longest)
      return addon.createStructure(numRows, numEdges, numSrc, colIdx, items, cut, counts)
    })
    net.add(this)
  }

  drop(): void {
    net.remove(this)
    this.addon.releaseStructure(this.handle)
  }
}

const net = new Net<DeviceStructure>(({ addon, handle }) => {
  return () => addon.releaseStructure(handle)
})

/** The ids of degrees that were used last, and the edge weights under them. */
interface WeightsEntry {
  readonly dstDegrees: number
  readonly srcDegrees: number
  readonly weights: Storage
}

/** A graph's edge weights under the few degrees that were used last. */
export class GcnWeights implements Droppable {
  static readonly #most = 4
  #entries: WeightsEntry[] = []

  /** The weights under these degrees, made when they are not kept. */
  under(dstDegrees: Storage, srcDegrees: Storage, make: () => Storage): Storage {
    const known = this.#entries.findIndex(
      (entry) => entry.dstDegrees === dstDegrees.id && entry.srcDegrees === srcDegrees.id,
    )
    if (known >= 0) {
      if (!dstDegrees.isRewritten && !srcDegrees.isRewritten) return this.#entries[known]!.weights
      // Other values may stand in these degrees by now.
      for (const stale of this.#entries.splice(known, 1)) stale.weights.drop()
    }
    const weights = make()
    const entry = { dstDegrees: dstDegrees.id, srcDegrees: srcDegrees.id, weights }
    for (const old of this.#entries.splice(GcnWeights.#most - 1)) old.weights.drop()
    this.#entries.unshift(entry)
    return weights
  }

  drop(): void {
    for (const { weights } of this.#entries.splice(0)) weights.drop()
  }
}
