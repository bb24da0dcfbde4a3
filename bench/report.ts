import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { drawChart } from './chart'
import { highest } from './limits'
import { digits, formatRatio, formatUs, type ResultRow, type Results } from './results'

/** What a peer took, whichever file says so. */
export interface PeerTimes {
  readonly peer: string
  readonly wallUs: number
  readonly graphUs: number | null
}

/** One line of the report. */
export interface ReportRow {
  readonly workload: string
  readonly inChart: boolean
  readonly wallUs: number
  readonly graphUs: number | null
  readonly floorUs: number | null
  /** The fastest first. */
  readonly peers: readonly PeerTimes[]
  /** How many times as long the fastest peer takes; null without one. */
  readonly ratio: number | null
  /** The same within captured graphs. */
  readonly graphRatio: number | null
  /** How far our result is from a reference. */
  readonly check: string
}

/** A line of peers.py. */
interface PeerLine {
  readonly workload?: string
  readonly peer?: string
  readonly wall_us?: number
  readonly graph_us?: number | null
  readonly max_abs_err?: number
  readonly rel_l2?: number
  readonly nan_mismatch?: number
}

const checkLine = 'check ours against float64'

/** Joins our results with the lines of peers.py about the same workloads, or with the peers that ours hold. */
export function joinResults(ours: Results, peerLines: string): ReportRow[] {
  const lines = peerLines
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line): PeerLine => JSON.parse(line))
  return ours.rows.map((row) =>
    joinRow(
      row,
      lines.filter(({ workload }) => workload === row.workload),
    ),
  )
}

function joinRow(row: ResultRow, lines: readonly PeerLine[]): ReportRow {
  const own = row.peers.map(({ peer, timing }) => ({ peer, wallUs: timing.medianUs, graphUs: null }))
  const others = lines.flatMap(({ peer, wall_us, graph_us }) =>
    peer === undefined || peer === 'ours' || wall_us === undefined
      ? []
      : [{ peer, wallUs: wall_us, graphUs: graph_us ?? null }],
  )
  const peers: PeerTimes[] = [...own, ...others].sort((a, b) => a.wallUs - b.wallUs)
  const wallUs = row.ours.medianUs
  const graphUs = row.graph?.medianUs ?? null
  const graphs = peers.flatMap((peer) => peer.graphUs ?? [])
  return {
    workload: row.workload,
    inChart: row.inChart,
    wallUs,
    graphUs,
    floorUs: row.floors && highest(row.floors),
    peers,
    ratio: peers.length > 0 ? peers[0]!.wallUs / wallUs : null,
    graphRatio: graphUs !== null && graphs.length > 0 ? Math.min(...graphs) / graphUs : null,
    check: describeCheck(
      row,
      lines.find(({ peer }) => peer === checkLine),
    ),
  }
}

function describeCheck(row: ResultRow, line: PeerLine | undefined): string {
  if (line?.rel_l2 !== undefined) {
    const nans = line.nan_mismatch ? `, ${line.nan_mismatch} NaN differ` : ''
    return `${line.rel_l2.toExponential(1)}${nans}`
  }
  const differences = row.peers.map(({ difference }) => difference)
  return differences.length > 0 ? Math.max(...differences).toExponential(1) : '–'
}

export function markdown(ours: Results, rows: readonly ReportRow[]): string {
  const { machine, device, versions, limits, date } = ours
  const onGpu = device !== 'cpu'
  const where = machine.gpu ?? `${machine.processor}, ${machine.cores} cores`
  const software = Object.entries(versions).map(([name, version]) => `${name} ${version}`)
  const head = [`Measured on ${where}, ${date}; ${software.join(', ')}.`]
  if (limits) {
    const copy = digits(limits.copyBytesPerSecond / 1e12)
    head.push(`An empty launch takes ${formatUs(limits.launchUs)}; a device copy moves ${copy} TB/s.`)
  }
  head.push('Times are per call in a back-to-back loop. The last ratio is the fastest peer’s time over ours.')
  if (onGpu) head.push('After a slash: per call within a captured graph. Check: relative L2 from float64.')
  else head.push('Difference: the largest, over all elements and peers.')
  const columns = onGpu
    ? ['workload', 'warpgraph', 'floor', 'ours / floor', 'peers', 'best peer / ours', 'check']
    : ['workload', 'warpgraph', 'peers', 'best peer / ours', 'difference']
  const cells = rows.map((row) => {
    const ratio = row.graphRatio === null ? '' : ` / ${formatRatio(row.graphRatio)}`
    const floor = row.floorUs === null ? null : row.wallUs / row.floorUs
    const own = formatTimes(row.wallUs, row.graphUs)
    const peers = row.peers.map((peer) => `${peer.peer}: ${formatTimes(peer.wallUs, peer.graphUs)}`)
    const limitCells = onGpu ? [formatUs(row.floorUs), formatRatio(floor)] : []
    const last = [peers.join('<br>') || '–', formatRatio(row.ratio) + ratio, row.check]
    return [row.workload, own, ...limitCells, ...last]
  })
  const table = [columns, columns.map(() => '---'), ...cells].map((line) => `| ${line.join(' | ')} |`)
  return [...head, '', ...table, ''].join('\n')
}

function formatTimes(wallUs: number, graphUs: number | null): string {
  return graphUs === null ? formatUs(wallUs) : `${formatUs(wallUs)} / ${formatUs(graphUs)}`
}

/** Writes `gpu.md` and `gpu.svg`, or `cpu.md` and `cpu.svg`. Several files of one machine make one table. */
function main(files: string[]): void {
  const [first, ...more] = files.filter((file) => !file.endsWith('.jsonl'))
  const missing = files.find((file) => !existsSync(file))
  if (first === undefined || missing !== undefined) {
    if (missing !== undefined && !missing.startsWith('-')) console.error(`there is no file ${missing}`)
    console.error('usage: npm run bench:report -- OURS.json … [PEERS.jsonl …]')
    process.exitCode = 2
    return
  }
  const read = (file: string) => JSON.parse(readFileSync(file, 'utf8')) as Results
  const ours = read(first)
  const all = { ...ours, rows: [ours, ...more.map(read)].flatMap(({ rows }) => rows) }
  const peers = files.filter((file) => file.endsWith('.jsonl')).map((file) => readFileSync(file, 'utf8'))
  const rows = joinResults(all, peers.join('\n'))
  const directory = join(__dirname, 'results')
  mkdirSync(directory, { recursive: true })
  const stem = join(directory, ours.device === 'cpu' ? 'cpu' : 'gpu')
  writeFileSync(`${stem}.md`, markdown(all, rows))
  writeFileSync(`${stem}.svg`, drawChart(rows))
  console.log(`wrote ${stem}.md and ${stem}.svg`)
}

if (require.main === module) main(process.argv.slice(2))
