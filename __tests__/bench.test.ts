import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { drawChart } from '../bench/chart'
import { dumpWorkload } from '../bench/dump'
import { type GraphRecipe, makeGraph } from '../bench/graphs'
import { InputMaker, rowLengths } from '../bench/inputs'
import { attentionFlops, floors, gatherSpeed, highest } from '../bench/limits'
import { joinResults, markdown } from '../bench/report'
import type { ResultRow, Results } from '../bench/results'
import { time } from '../bench/timing'
import { selectWorkloads, workloads } from '../bench/workloads'

describe('graphs', () => {
  const skewed: GraphRecipe = { numNodes: 2000, numEdges: 30_000, skew: 0.55, cap: 300, seed: 9 }

  test.each([0, 0.55])('have the recipe’s size, cap and range at skew %d', (skew) => {
    const { rowPtr, colIdx } = makeGraph({ ...skewed, skew })
    const lengths = rowLengths(rowPtr)
    expect(rowPtr).toHaveLength(2001)
    expect(rowPtr[2000]).toBe(colIdx.length)
    expect(Math.abs(colIdx.length - 30_000)).toBeLessThan(skew === 0 ? 1000 : 3000)
    expect(Math.max(...lengths)).toBeLessThanOrEqual(300)
    expect(Math.min(...lengths)).toBeGreaterThanOrEqual(0)
    expect(colIdx.every((src) => src >= 0 && src < 2000)).toBe(true)
  })

  test('are the same from the same seed, and others from another', () => {
    expect(makeGraph(skewed)).toEqual(makeGraph(skewed))
    expect(makeGraph({ ...skewed, seed: 10 })).not.toEqual(makeGraph(skewed))
  })

  test('have hubs on both sides when skewed, and none when uniform', () => {
    const largest = (skew: number) => {
      const { rowPtr, colIdx } = makeGraph({ ...skewed, skew })
      const uses = new Int32Array(2000)
      for (const src of colIdx) uses[src]!++
      return [Math.max(...rowLengths(rowPtr)), Math.max(...uses)]
    }
    for (const length of largest(0.55)) expect(length).toBeGreaterThan(150)
    for (const length of largest(0)) expect(length).toBeLessThan(50)
  })
})

describe('workloads', () => {
  test('have names of their own', () => {
    expect(new Set(workloads.map(({ name }) => name)).size).toBe(workloads.length)
  })

  test('are chosen by set and text', () => {
    expect(selectWorkloads('all', '')).toEqual(workloads)
    expect(selectWorkloads('arxiv', 'bf16').map(({ name }) => name)).toContain('gcn/arxiv/f128/bf16')
    expect(selectWorkloads('cpu', 'arxiv').map(({ name }) => name)).toEqual([
      'softmax/arxiv/h8/f32',
      'gcn/arxiv/f128/f32',
      'max/arxiv/f128/f32',
    ])
  })
})

test('timing calls as often as it says, and waits outside the loops only', () => {
  const events: string[] = []
  const { calls, repeats, minUs, medianUs, maxUs } = time(
    () => events.push('call'),
    () => events.push('wait'),
  )
  const timed = events.slice(-repeats * (calls + 2))
  const loop = ['wait', ...Array(calls).fill('call'), 'wait']
  expect(timed.slice(0, calls + 2)).toEqual(loop)
  expect(timed.slice(-calls - 2)).toEqual(loop)
  expect(minUs).toBeLessThanOrEqual(medianUs)
  expect(medianUs).toBeLessThanOrEqual(maxUs)
})

test('workloads are chosen by set and by any of several texts', () => {
  const names = (set: 'all' | 'mla', only: string) => selectWorkloads(set, only).map(({ name }) => name)
  expect(names('all', 'gcn/seed,mla/decode-64')).toEqual([
    'gcn/seed-640x16/f80/f32',
    'mla/decode-64x4k-h16/bf16',
  ])
  expect(names('mla', 'gcn/seed,prefill-2k')).toEqual(['mla/prefill-2k/f32'])
  expect(names('all', '')).toHaveLength(workloads.length)
})

describe('floors', () => {
  test('count what must move, and what is gathered', () => {
    const [workload] = selectWorkloads('seed', 'gcn')
    const inputs = new InputMaker(() => {}).make(workload!)
    const edges = inputs.graph!.colIdx.length
    const limits = { launchUs: 2, copyBytesPerSecond: 1e12 }
    const { bytesUs, gatherUs } = floors(workload!, inputs, limits)
    expect(bytesUs * 1e6).toBeCloseTo(4 * (641 + edges + 640 + 2 * 640 * 80))
    expect(gatherUs! * 8.4e6).toBeCloseTo(edges * 320)
    expect(highest({ launchUs: 2, bytesUs: 3, gatherUs: null, mathUs: null })).toBe(3)
  })

  test('count the multiplications of the cheaper way of attention', () => {
    const flops = (name: string) => attentionFlops(selectWorkloads('mla', name)[0]!.mla!)
    // Expanded: 4,096 latents × 512 × 256, and 4,096 × 2,048 causal pairs × (192 + 128), for 16 heads.
    expect(flops('prefill-4k')).toBe(2 * 16 * (4096 * 512 * 256 + 4096 * 2048 * 320))
    // Absorbed: the only query sees 8,191.5 of 8,192 keys by this count.
    expect(flops('decode-32x8k-h128')).toBe(2 * 32 * 128 * (512 * 256 + 8191.5 * 1088))
  })

  test('take features that fit L2 in tiles to be in it', () => {
    expect(gatherSpeed(169_343, 512)).toBe(8.4e12)
    expect(gatherSpeed(2_449_029, 16)).toBe(8.4e12)
    expect(gatherSpeed(700_000, 128)).toBe(6.4e12)
    expect(gatherSpeed(2_449_029, 400)).toBe(4.6e12)
  })
})

test.each(['gcn/arxiv/f8/f32', 'mla/seed/f32'])('%s: what is dumped can be read back', (name) => {
  const full = workloads.find((one) => one.name === name)!
  const workload = { ...full, graph: full.graph && 'seed-640x16', dtype: 'bfloat16' } as const
  const inputs = new InputMaker(() => {}).make(workload)
  const directory = mkdtempSync(join(tmpdir(), 'warpgraph-bench-'))
  try {
    const out = { shape: [2], elements: Uint16Array.of(0x3f80, 0x7fc0) }
    const folder = dumpWorkload(directory, workload, inputs, out, { wall_us: 5 })
    const manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8'))
    expect(manifest).toMatchObject({ name, op: workload.op, options: {}, ours: { wall_us: 5 } })
    expect(Object.keys(manifest.arrays)).toEqual([...Object.keys(inputs.arrays), 'out'])
    const arrays = { ...inputs.arrays, out: { ...out, dtype: 'bfloat16' } } as typeof inputs.arrays
    for (const [key, { dtype, shape, elements }] of Object.entries(arrays)) {
      const { file, ...spec } = manifest.arrays[key]
      expect(spec).toEqual({ dtype, shape })
      const bytes = new Uint8Array(readFileSync(join(folder, file)))
      expect(new (elements.constructor as Uint16ArrayConstructor)(bytes.buffer)).toEqual(elements)
    }
  } finally {
    rmSync(directory, { recursive: true })
  }
})

describe('report', () => {
  const timing = (medianUs: number) => ({ medianUs, minUs: medianUs, maxUs: medianUs, calls: 1, repeats: 1 })
  const row: ResultRow = {
    workload: 'gcn/arxiv/f128/f32',
    op: 'gcn_aggregate',
    inChart: true,
    ours: timing(160),
    graph: timing(100),
    firstCallUs: 500,
    floors: { launchUs: 5, bytesUs: 50, gatherUs: 128, mathUs: null },
    peers: [],
  }
  const results: Results = {
    date: '2025-01-01',
    device: 'cuda:0',
    machine: { processor: 'a processor', cores: 2, gpu: 'a GPU' },
    versions: { warpgraph: '0.1.0' },
    limits: { launchUs: 5, copyBytesPerSecond: 4e12 },
    rows: [row, { ...row, workload: 'max/arxiv/f128/f32' }],
  }
  const lines = [
    { machine: 'a GPU', copy_GBps: 4000 },
    { workload: 'gcn/arxiv/f128/f32', peer: 'ours', wall_us: 1 },
    { workload: 'gcn/arxiv/f128/f32', peer: 'limit: compulsory bytes / copy bandwidth', event_us: 50 },
    { workload: 'gcn/arxiv/f128/f32', peer: 'check ours against float64', max_abs_err: 1, rel_l2: 2e-7 },
    { workload: 'gcn/arxiv/f128/f32', peer: 'slow', wall_us: 900, event_us: 890 },
    { workload: 'gcn/arxiv/f128/f32', peer: 'fast <1>', wall_us: 320, event_us: 310, graph_us: 300 },
    { workload: 'gcn/arxiv/f128/f32', peer: 'broken', failed: 'out of memory' },
  ]
  const rows = joinResults(results, lines.map((line) => JSON.stringify(line)).join('\n'))

  test('sets the fastest peer against ours', () => {
    expect(rows[0]).toMatchObject({ wallUs: 160, floorUs: 128, ratio: 2, graphRatio: 3, check: '2.0e-7' })
    expect(rows[0]!.peers.map(({ peer }) => peer)).toEqual(['fast <1>', 'slow'])
    expect(rows[1]).toMatchObject({ peers: [], ratio: null, graphRatio: null, check: '–' })
  })

  test('is a table with a line per workload', () => {
    const table = markdown(results, rows)
      .split('\n')
      .filter((line) => line.startsWith('|'))
    expect(table).toHaveLength(4)
    expect(table[2]).toBe(
      '| gcn/arxiv/f128/f32 | 160 µs / 100 µs | 128 µs | 1.25 × | ' +
        'fast <1>: 320 µs / 300 µs<br>slow: 900 µs | 2.00 × / 3.00 × | 2.0e-7 |',
    )
  })

  test('draws only what has a peer, and longer bars for longer times', () => {
    const svg = drawChart(rows)
    const lengthOf = (kind: string) =>
      [
        ...svg.matchAll(new RegExp(`class="${kind}" x="210" y="\\d+" width="([\\d.]+)" height="11"`, 'g')),
      ].map(([, length]) => Number(length))
    expect(lengthOf('ours')).toHaveLength(1)
    expect(lengthOf('peer')[0]).toBeGreaterThan(lengthOf('ours')[0]!)
    expect(svg).toContain('fast &lt;1&gt;')
    expect(svg).not.toContain('max/arxiv')
  })
})
