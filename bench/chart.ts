import type { ReportRow } from './report'
import { formatRatio, formatUs } from './results'

const width = 860
const labelWidth = 210
const plotWidth = 400
const barHeight = 11
const rowHeight = 38
const top = 56

const style = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .small { font-size: 11px; fill: #59636e }
  .grid { stroke: #d1d9e0 }
  .ours { fill: #1a7f37 }
  .peer { fill: #8c959f }
  .floor { stroke: #bc4c00; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .small { fill: #9198a1 }
    .grid { stroke: #3d444d }
    .ours { fill: #3fb950 }
    .peer { fill: #6e7681 }
    .floor { stroke: #f0883e }
  }`

/** Bars on a logarithmic scale, an SVG: per workload our time, the fastest peer's, and the floor as a line. */
export function drawChart(all: readonly ReportRow[]): string {
  const rows = all.filter((row) => row.inChart && row.peers.length > 0)
  const times = rows.flatMap(({ wallUs, floorUs, peers }) => [wallUs, floorUs ?? wallUs, peers[0]!.wallUs])
  const from = Math.floor(Math.log10(Math.min(...times, 1e6)) - 0.3)
  const to = Math.max(Math.ceil(Math.log10(Math.max(...times, 1))), from + 1)
  const x = (us: number) => labelWidth + (plotWidth * (Math.log10(us) - from)) / (to - from)
  const height = top + rows.length * rowHeight + 10
  const hasFloors = rows.some(({ floorUs }) => floorUs !== null)
  const parts = [
    legend(hasFloors),
    ...Array.from({ length: to - from + 1 }, (_, i) => gridLine(10 ** (from + i), x, height)),
    ...rows.map((row, i) => bars(row, top + i * rowHeight, x)),
  ]
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    '<title>Time per call, logarithmic: warpgraph and its fastest peer</title>',
    `<style>${style}\n</style>`,
    ...parts,
    '</svg>',
    '',
  ].join('\n')
}

function legend(hasFloors: boolean): string {
  const floor = hasFloors
    ? '<line class="floor" x1="430" x2="430" y1="8" y2="22"/><text x="438" y="19">floor of the machine</text>'
    : ''
  return [
    '<text x="8" y="19">time per call</text>',
    `<rect class="ours" x="${labelWidth}" y="9" width="12" height="12"/><text x="${labelWidth + 18}" y="19">warpgraph</text>`,
    '<rect class="peer" x="310" y="9" width="12" height="12"/><text x="328" y="19">fastest peer</text>',
    floor,
  ].join('')
}

function gridLine(us: number, x: (us: number) => number, height: number): string {
  const at = x(us).toFixed(1)
  const line = `<line class="grid" x1="${at}" x2="${at}" y1="${top - 8}" y2="${height - 6}"/>`
  return `${line}<text class="small" text-anchor="middle" x="${at}" y="${top - 13}">${shortUs(us)}</text>`
}

/** A power of ten. */
function shortUs(us: number): string {
  if (us >= 1e6) return `${us / 1e6} s`
  return us >= 1e3 ? `${us / 1e3} ms` : `${us} µs`
}

function bars({ workload, wallUs, floorUs, peers, ratio }: ReportRow, y: number, x: (us: number) => number) {
  const { peer, wallUs: peerUs } = peers[0]!
  const own = `${formatUs(wallUs)}   ${formatRatio(ratio)} as fast`
  return [
    `<text x="8" y="${y + 16}">${escapeXml(workload)}</text>`,
    bar('ours', y, x(wallUs), own),
    bar('peer', y + barHeight + 2, x(peerUs), `${formatUs(peerUs)}   ${shorten(peer)}`),
    floorUs === null ? '' : floorLine(x(floorUs), y),
  ].join('')
}

function bar(kind: 'ours' | 'peer', y: number, end: number, label: string): string {
  const length = Math.max(end - labelWidth, 1).toFixed(1)
  const rect = `<rect class="${kind}" x="${labelWidth}" y="${y}" width="${length}" height="${barHeight}"/>`
  return `${rect}<text class="small" x="${(end + 6).toFixed(1)}" y="${y + 10}">${escapeXml(label)}</text>`
}

function floorLine(at: number, y: number): string {
  const height = 2 * barHeight + 4
  return `<line class="floor" x1="${at.toFixed(1)}" x2="${at.toFixed(1)}" y1="${y - 1}" y2="${y + height}"/>`
}

/** What a peer is called, without what follows a colon or stands apart in parentheses. */
function shorten(peer: string): string {
  return peer.replace(/:.*$/, '').replace(/\s+\([^()]*\)$/, '')
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
