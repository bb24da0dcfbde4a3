import { loadAddon } from 'lib/backends/cuda/addon'
import { dtypes } from 'lib/dtype'
import type { Inputs } from './inputs'
import type { Workload } from './workloads'

/** What the machine can do at best, measured in the same run. */
export interface Limits {
  /** One empty kernel launch from a loop in C++, µs. */
  readonly launchUs: number
  /** Bytes read and written per second by a device copy. */
  readonly copyBytesPerSecond: number
}

/** The least time that a workload can take, by each reason, in µs. */
export interface Floors {
  readonly launchUs: number
  /** Inputs and outputs moved once, at the speed of a copy. */
  readonly bytesUs: number
  /** One row of features read per edge, at the speed of random rows; null where none are gathered. */
  readonly gatherUs: number | null
}

/** Null on the CPU. */
export function measureLimits(device: string): Limits | null {
  if (device === 'cpu') return null
  const addon = loadAddon().addon! // it drives the device
  const index = Number(device.split(':')[1] ?? 0)
  addon.measureLaunch(index, 1000)
  return {
    launchUs: addon.measureLaunch(index, 10_000),
    copyBytesPerSecond: addon.measureCopy(index, 2 ** 31, 20),
  }
}

/**
 * Speed of reading random rows of 256 to 512 bytes on an H200, bytes per second, by the size of what is read from.
 * Not measured in the run but with a probe of its own, which did nothing but gather; other cards have other figures.
 */
const gatherSpeeds = { inL2: 8.4e12, nearL2: 6.4e12, beyond: 4.6e12 } as const
const inL2Bytes = 48e6
const nearL2Bytes = 100e6
/** Rows cut shorter than this are read at a lower speed: features are not tiled further. */
const shortestTileBytes = 128

/** A tiled pass over the features counts as in L2 when a tile of them fits. */
export function gatherSpeed(numSrc: number, rowBytes: number): number {
  const footprint = numSrc * rowBytes
  if (numSrc * Math.min(rowBytes, shortestTileBytes) <= inL2Bytes) return gatherSpeeds.inL2
  return footprint <= nearL2Bytes ? gatherSpeeds.nearL2 : gatherSpeeds.beyond
}

export function floors(workload: Workload, inputs: Inputs, limits: Limits): Floors {
  const { op, dtype, width, withIndices } = workload
  let bytes = 0
  for (const { elements } of Object.values(inputs.arrays)) bytes += elements.byteLength
  const { graph } = inputs
  const numRows = graph === null ? 0 : graph.rowPtr.length - 1
  const rowBytes = width * dtypes[dtype].bytes
  const gathers = op === 'gcn_aggregate' || op === 'csr_max'
  if (gathers) bytes += numRows * rowBytes
  else bytes += (inputs.arrays.scores ?? inputs.arrays.q)!.elements.byteLength
  if (withIndices) bytes += numRows * width * dtypes.int32.bytes
  const gathered = gathers ? (graph!.colIdx.length * rowBytes) / gatherSpeed(numRows, rowBytes) : null
  return {
    launchUs: limits.launchUs,
    bytesUs: (bytes / limits.copyBytesPerSecond) * 1e6,
    gatherUs: gathered && gathered * 1e6,
  }
}

/** The highest of the floors. */
export function highest({ launchUs, bytesUs, gatherUs }: Floors): number {
  return Math.max(launchUs, bytesUs, gatherUs ?? 0)
}
