import { basename } from 'node:path'
import { parseArgs } from 'node:util'
import { type Csr, DeviceError, type DeviceName, defaultDevice, info, setDefaultDevice } from 'warpgraph'
import { type Evaluation, evaluate } from './evaluate'
import { friendships, karateClub } from './karate_club'
import { readModel, readPlanetoid } from './planetoid'
import { type OpRun, runOps, timedCalls, warmUps } from './run_ops'
import { formatTable } from './table'
import { UsageError } from './usage_error'

const usage = `usage: npm run demo -- [--device DEVICE] [--data FILE [--model FILE]...]

Runs warpgraph's operations on a graph, checks every result, and prints what ran, where and how long it took.

  --device DEVICE  cpu, cuda or cuda:N; the best device present when left out
  --data FILE      a citation graph in Planetoid's form (.npz); Zachary's karate club when left out
  --model FILE     a GCN or GAT trained on that graph with PyTorch Geometric (.npz), to be evaluated with
                   warpgraph's operations; may be given several times
  --help           this text

Exit code: 0 when every check held, 1 when one did not, 2 when the arguments or files cannot be used.`

const allowedLogitDifference = 1e-4

async function main(args: string[]): Promise<number> {
  const options = readOptions(args)
  if (options.help) {
    console.log(usage)
    return 0
  }
  const device = chooseDevice(options.device)
  const data = options.data === undefined ? undefined : await readPlanetoid(options.data)
  const models = await Promise.all((options.model ?? []).map(readModel))
  const graph = data?.graph ?? karateClub()
  console.log(introduction(data ? describeGraph(data.name, graph) : describeClub(graph), device))
  const runs = await runOps(graph, device)
  console.log('\n' + opTable(runs, device))
  if (data === undefined || models.length === 0) return verdict(runs.every(opHolds))
  const evaluations: Evaluation[] = []
  for (const model of models) evaluations.push(await evaluate(data, model))
  const names = (options.model ?? []).map((path) => basename(path))
  console.log('\n' + modelTable(names, evaluations, device))
  return verdict(runs.every(opHolds) && evaluations.every(evaluationHolds))
}

function readOptions(args: string[]) {
  const text = { type: 'string' } as const
  try {
    const { values } = parseArgs({
      args,
      options: {
        help: { type: 'boolean', short: 'h' },
        device: text,
        data: text,
        model: { ...text, multiple: true },
      },
    })
    if (values.model && values.data === undefined)
      throw new Error('--model needs the graph it was trained on: --data FILE')
    return values
  } catch (error) {
    // The first sentence says what is wrong; Node's advice after it is about other cases.
    const [problem] = (error as Error).message.split(/\.\s/)
    throw new UsageError(`${problem} (--help lists the options)`)
  }
}

function chooseDevice(name: string | undefined): DeviceName {
  try {
    if (name !== undefined) setDefaultDevice(name as DeviceName)
    return defaultDevice()
  } catch (error) {
    if (error instanceof DeviceError || error instanceof RangeError) throw new UsageError(error.message)
    throw error
  }
}

function describeClub(graph: Csr): string {
  return (
    `Zachary's karate club: ${graph.numRows} members, ` +
    `${friendships.length} friendships, so ${graph.numEdges} directed edges`
  )
}

function describeGraph(name: string, graph: Csr): string {
  return `the graph in ${name}: ${graph.numRows} nodes, ${graph.numEdges} directed edges`
}

function introduction(graph: string, device: DeviceName): string {
  const { warpgraph, node, devices, gpuNotUsed } = info()
  const gpu = devices.find((one) => one.device === device)
  const where = gpu ? `the GPU, ${device} (${gpu.name})` : 'the CPU'
  const lines = [
    `warpgraph ${warpgraph} runs its operations on ${graph}.`,
    `They run on ${where}, under Node ${node}.`,
  ]
  if (gpuNotUsed) lines.push(`The GPU is not used: ${gpuNotUsed.reason}`, gpuNotUsed.mend)
  lines.push(
    device === 'cpu'
      ? 'Each result is checked against its formula, written out independently in examples/formulas.ts.'
      : 'Each result is checked against the CPU reference: the same operation on device cpu.',
  )
  return lines.join('\n')
}

function opTable(runs: readonly OpRun[], device: DeviceName): string {
  const header = ['operation', 'device', 'time', 'largest difference', 'allowed', '', 'shapes']
  const rows = runs.map((run) => [
    run.op,
    device,
    milliseconds(run.milliseconds),
    scientific(run.difference),
    scientific(run.allowed),
    opHolds(run) ? 'ok' : 'WRONG',
    run.shapes,
  ])
  return (
    formatTable(header, rows) +
    `\n\ntime: median of ${timedCalls} calls after ${warmUps} uncounted ones, from the call until the device has ` +
    'finished;\n      inputs lie on the device already, results are not read back.'
  )
}

function modelTable(
  names: readonly string[],
  evaluations: readonly Evaluation[],
  device: DeviceName,
): string {
  const header = [
    'model',
    'from',
    'device',
    'time',
    'largest difference of logits',
    'allowed',
    'test accuracy',
    'as stored',
    '',
  ]
  const rows = evaluations.map((one, i) => [
    one.kind,
    names[i]!,
    device,
    milliseconds(one.milliseconds),
    scientific(one.difference),
    scientific(allowedLogitDifference),
    share(one.correct, one.tested),
    share(one.storedCorrect, one.tested),
    evaluationHolds(one) ? 'ok' : 'WRONG',
  ])
  return (
    formatTable(header, rows) +
    '\n\ntime: one run of the whole model, its dense layers in plain TypeScript and all copies included.'
  )
}

function opHolds({ difference, allowed }: OpRun): boolean {
  return difference <= allowed
}

function evaluationHolds({ difference, correct, storedCorrect }: Evaluation): boolean {
  return difference <= allowedLogitDifference && correct === storedCorrect
}

function verdict(holds: boolean): number {
  console.log(holds ? '\nEvery check held.' : '\nA check did not hold: see WRONG above.')
  return holds ? 0 : 1
}

function milliseconds(time: number): string {
  return `${time.toFixed(3)} ms`
}

function scientific(value: number): string {
  return value === 0 ? '0' : value.toExponential(1)
}

function share(part: number, whole: number): string {
  return `${((100 * part) / whole).toFixed(1)} %`
}

main(process.argv.slice(2)).then(
  (exitCode) => {
    process.exitCode = exitCode
  },
  (error) => {
    console.error(error instanceof UsageError ? `demo: ${error.message}` : error)
    process.exitCode = error instanceof UsageError ? 2 : 1
  },
)
