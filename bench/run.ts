import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { widen } from 'lib/dtype'
import { type DeviceChoice, type DeviceName, defaultDevice, info, setDefaultDevice } from 'warpgraph'
import { formatTable } from '../examples/table'
import { UsageError } from '../examples/usage_error'
import { dumpWorkload } from './dump'
import { InputMaker, type Inputs } from './inputs'
import { floors, highest, type Limits, measureLaunch, measureLimits } from './limits'
import { formatRatio, formatUs, type ResultRow, type Results } from './results'
import { Subject } from './subject'
import { loadTf, runPeers, type Tf } from './tfjs'
import { median, time, timeCaptured, timeOnce } from './timing'
import { type SetName, selectWorkloads, type Workload } from './workloads'

const usage = `usage: npm run bench -- [options]

Times the operations on the graphs of bench/graphs.ts. On a GPU the result stands beside the floors of the machine; on
the CPU beside TensorFlow.js, which is installed for it on first use.

  --set SET      seed, arxiv, reddit, products, mla, cpu or all; all on a GPU, cpu on the CPU when left out
  --only TEXTS   only workloads whose names contain one of these texts, separated by commas
  --device NAME  cpu, cuda or cuda:N; the best device present when left out
  --out FILE     write the results as JSON
  --dump DIR     write inputs, our results and our times, a folder per workload`

const setNames = ['seed', 'arxiv', 'reddit', 'products', 'mla', 'cpu', 'all'] as const

const say = (line: string) => process.stderr.write(`${line}\n`)

async function main(): Promise<void> {
  const text = { type: 'string' } as const
  const help = { type: 'boolean', short: 'h' } as const
  const { values: options } = parseArgs({
    options: { set: text, only: text, device: text, out: text, dump: text, help },
  })
  if (options.help) {
    console.log(usage)
    return
  }
  if (options.device) setDefaultDevice(options.device as DeviceChoice) // which refuses what is none
  const device = defaultDevice()
  const set = options.set ?? (device === 'cpu' ? 'cpu' : 'all')
  if (!(setNames as readonly string[]).includes(set))
    throw new UsageError(`--set must be ${setNames.join(', ')}`)
  const selected = selectWorkloads(set as SetName | 'all', options.only ?? '')
  if (selected.length === 0)
    throw new UsageError(`no workload of set ${set} has a name with "${options.only}"`)

  const limits = measureLimits(device)
  const tf = device === 'cpu' ? loadTf() : null
  const maker = new InputMaker(say)
  const rows: ResultRow[] = []
  for (const [i, workload] of selected.entries()) {
    say(`[${i + 1}/${selected.length}] ${workload.name}`)
    const inputs = maker.make(workload)
    rows.push(await measure(workload, inputs, device, limits, tf, options.dump))
    // Written every time, so that a run that is cut short leaves what it has.
    if (options.out) writeFileSync(options.out, JSON.stringify(results(device, limits, tf, rows), null, 2))
  }
  if (limits) {
    const copy = (limits.copyBytesPerSecond / 1e12).toFixed(2)
    console.log(`empty launch ${formatUs(limits.launchUs)}, device copy ${copy} TB/s\n`)
  }
  console.log(limits ? gpuTable(rows) : cpuTable(rows))
}

async function measure(
  workload: Workload,
  inputs: Inputs,
  device: DeviceName,
  limits: Limits | null,
  tf: Tf | null,
  dump: string | undefined,
): Promise<ResultRow> {
  const subject = new Subject(workload, inputs, device)
  try {
    const { callAndDispose, wait } = subject
    const launches: number[] = []
    const ours = time(callAndDispose, wait, limits ? () => launches.push(measureLaunch(device)) : undefined)
    const limitsNow = limits && { ...limits, launchUs: median(launches) }
    const replayed = limits !== null && workload.sets.includes('seed')
    const graph = replayed
      ? timeCaptured((given) => subject.call(given as Subject['tensors']), subject.tensors, wait)
      : null
    let firstCallUs: number | null = null
    if (limits !== null && inputs.graph !== null) {
      subject.renewGraph()
      firstCallUs = Math.max(0, timeOnce(callAndDispose, wait) - timeOnce(callAndDispose, wait))
    }
    const needsResult = dump !== undefined || tf !== null
    const out = needsResult ? subject.result() : null
    if (dump !== undefined) {
      const times = { wall_us: ours.medianUs, ...(graph && { graph_us: graph.medianUs }) }
      say(`writing ${dumpWorkload(dump, workload, inputs, out!, times)}`)
    }
    const { name, op, dtype, inChart } = workload
    return {
      workload: name,
      op,
      inChart,
      ours,
      graph,
      firstCallUs,
      floors: limitsNow && floors(workload, inputs, limitsNow),
      peers: tf ? await runPeers(tf, workload, inputs, widen(dtype, out!.elements), say) : [],
    }
  } finally {
    subject.dispose()
  }
}

function results(device: string, limits: Limits | null, tf: Tf | null, rows: readonly ResultRow[]): Results {
  const found = info()
  const processors = cpus()
  return {
    date: new Date().toISOString().slice(0, 10),
    device,
    machine: {
      processor: processors[0]?.model ?? 'unknown',
      cores: processors.length,
      gpu: found.devices.find((one) => one.device === device)?.name ?? null,
    },
    versions: {
      warpgraph: found.warpgraph,
      node: found.node,
      ...(device !== 'cpu' && { cuda: String(found.addon.cuda), driverCuda: String(found.driverCuda) }),
      ...(tf && { tfjs: tf.version_core }),
    },
    limits,
    rows,
  }
}

function gpuTable(rows: readonly ResultRow[]): string {
  const cells = rows.map(({ workload, ours, graph, floors, firstCallUs }) => {
    const floor = highest(floors!)
    return [
      workload,
      formatUs(ours.medianUs),
      `${formatUs(ours.minUs)} … ${formatUs(ours.maxUs)}`,
      formatUs(graph?.medianUs),
      formatUs(floor),
      formatRatio(ours.medianUs / floor),
      formatUs(firstCallUs),
    ]
  })
  return formatTable(['workload', 'median', 'spread', 'in a graph', 'floor', 'ratio', 'first call'], cells)
}

/** A line per peer; the ratio says how many times as long the peer took. */
function cpuTable(rows: readonly ResultRow[]): string {
  const cells = rows.flatMap(({ workload, ours, peers }) => {
    const spread = `${formatUs(ours.minUs)} … ${formatUs(ours.maxUs)}`
    const own = [workload, 'warpgraph cpu', formatUs(ours.medianUs), spread, '', '']
    const others = peers.map(({ peer, timing, difference }) => [
      '',
      peer,
      formatUs(timing.medianUs),
      `${formatUs(timing.minUs)} … ${formatUs(timing.maxUs)}`,
      formatRatio(timing.medianUs / ours.medianUs),
      difference.toExponential(1),
    ])
    return [own, ...others]
  })
  return formatTable(['workload', 'who', 'median', 'spread', 'ratio', 'difference'], cells)
}

main().catch((error: Error & { code?: string }) => {
  const isUsage = error instanceof UsageError || error.code?.startsWith('ERR_PARSE_ARGS')
  say(isUsage ? `${error.message} (--help lists the options)` : error.message)
  process.exitCode = isUsage ? 2 : 1
})
