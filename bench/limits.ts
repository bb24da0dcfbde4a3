import { loadAddon } from 'lib/backends/cuda/addon'
import { dtypes } from 'lib/dtype'
import type { Inputs } from './inputs'
import type { MlaShape, Workload } from './workloads'

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
  /** The multiplications of attention, at the speed of tensor cores; null for the others. */
  readonly mathUs: number | null
}

/** Null on the CPU. */
export function measureLimits(device: string): Limits | null {
  if (device === 'cpu') return null
  const addon = loadAddon().addon! // it drives the device
  return {
    launchUs: measureLaunch(device),
    copyBytesPerSecond: addon.measureCopy(indexOf(device), 2 ** 31, 20),
  }
}

/**
 * One empty launch, µs. It varies with what else the host does: measured anew before each of a workload's repeats, and
 * within a millisecond, so that the device stays as warm as the workload makes it.
 */
export function measureLaunch(device: string): number {
  const addon = loadAddon().addon!
  addon.measureLaunch(indexOf(device), 20)
  return addon.measureLaunch(indexOf(device), 200)
}

const indexOf = (device: string) => Number(device.split(':')[1] ?? 0)

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
    mathUs: workload.mla && (attentionFlops(workload.mla) / mathSpeeds[dtype]) * 1e6,
  }
}

/**
 * Floating-point operations per second that tensor cores of an H200 were seen to reach in matrix products; float32
 * takes three TF32 products for one. Not measured in the run.
 */
const mathSpeeds = { float16: 790e12, bfloat16: 790e12, float32: 395e12 / 3 } as const

/** Operations of the cheaper way, absorbed or expanded, of causal attention; both as bench/NOTES.md counts them. */
export function attentionFlops(shape: MlaShape): number {
  const { batch, numQueries, numKeys, heads, headDim, rank, ropeDim } = shape
  const pairs = numQueries * (numKeys - Math.min(numQueries, numKeys) / 2)
  const expanded = numKeys * rank * 2 * headDim + pairs * (2 * headDim + ropeDim)
  const absorbed = numQueries * rank * 2 * headDim + pairs * (2 * rank + ropeDim)
  return 2 * batch * heads * Math.min(expanded, absorbed)
}

/** The highest of the floors. */
export function highest({ launchUs, bytesUs, gatherUs, mathUs }: Floors): number {
  return Math.max(launchUs, bytesUs, gatherUs ?? 0, mathUs ?? 0)
}
