import type { Floors, Limits } from './limits'
import type { PeerRun } from './tfjs'
import type { Timing } from './timing'
import type { Workload } from './workloads'

/** One measured workload. */
export interface ResultRow {
  readonly workload: string
  readonly op: Workload['op']
  readonly inChart: boolean
  readonly ours: Timing
  /** Per op within a captured graph; null where it was not measured. */
  readonly graph: Timing | null
  /** What the first call on a new graph costs beyond a warm one: schedule, degrees, edge weights. */
  readonly firstCallUs: number | null
  readonly floors: Floors | null
  readonly peers: readonly PeerRun[]
}

/** What a run of the bench writes. */
export interface Results {
  readonly date: string
  readonly device: string
  readonly machine: {
    readonly processor: string
    readonly cores: number
    readonly gpu: string | null
  }
  readonly versions: Readonly<Record<string, string>>
  readonly limits: Limits | null
  readonly rows: readonly ResultRow[]
}

/** Three digits; ms from 1,000 µs on. */
export function formatUs(us: number | null | undefined): string {
  if (us === null || us === undefined) return '–'
  if (us >= 1000) return `${digits(us / 1000)} ms`
  return `${digits(us)} µs`
}

export function digits(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString('en')
  return value.toPrecision(3)
}

export function formatRatio(ratio: number | null): string {
  return ratio === null ? '–' : `${digits(ratio)} ×`
}
