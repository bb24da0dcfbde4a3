import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { info } from 'warpgraph'
import {
  addBias,
  argmaxRows,
  elu,
  linear,
  type Matrix,
  normalizeRows,
  relu,
  type SparseMatrix,
  sparseLinear,
} from '../examples/dense'
import { largestDifference } from '../examples/difference'
import { friendships, karateClub } from '../examples/karate_club'
import { median } from '../examples/run_ops'
import { withSelfLoops } from '../examples/self_loops'
import { notTested } from './absent'
import { testDevices } from './devices'

const root = join(__dirname, '..')
const ops = ['segmentSoftmax', 'gcnAggregate', 'csrMax', 'mlaAttention', 'mlaDecode']

function demo(...args: string[]) {
  const command = [require.resolve('tsx/cli'), join(root, 'examples', 'demo.ts'), ...args]
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { cwd: root, encoding: 'utf8' })
  return { status, stdout, stderr }
}

/** The table rows that begin with the name, as cells. */
function rows(stdout: string, name: string): string[][] {
  const lines = stdout.split('\n').filter((line) => line.startsWith(name + ' '))
  return lines.map((line) => line.split(/ {2,}/))
}

describe('the demo', () => {
  jest.setTimeout(120_000)

  test.each(testDevices)('runs and checks the ops on %s', (device) => {
    const { status, stdout, stderr } = demo('--device', device)
    expect(stderr).toBe('')
    for (const op of ops) {
      const [, where, time, difference, allowed, outcome] = rows(stdout, op)[0]!
      expect(where).toBe(device)
      expect(time).toMatch(/^\d+\.\d{3} ms$/)
      expect(Number(difference)).toBeLessThanOrEqual(Number(allowed))
      expect(outcome).toBe('ok')
    }
    expect(stdout).toContain('34 members, 78 friendships, so 156 directed edges')
    expect(stdout).toContain('Every check held.')
    expect(status).toBe(0)
  })

  test('chooses the default device and says why the GPU is not used', () => {
    const { status, stdout } = demo()
    const { defaultDevice, gpuNotUsed } = info()
    expect(rows(stdout, 'csrMax')[0]![1]).toBe(defaultDevice)
    if (gpuNotUsed) expect(stdout).toContain(`The GPU is not used: ${gpuNotUsed.reason}\n${gpuNotUsed.mend}`)
    else expect(stdout).not.toContain('not used')
    expect(status).toBe(0)
  })

  test('--help', () => {
    const { status, stdout } = demo('--help')
    expect(stdout).toMatch(/^usage: npm run demo/)
    expect(status).toBe(0)
  })

  const missing = join(root, 'missing.npz')
  const notNpz = join(root, 'package.json')
  test.each([
    [['--graph'], "demo: Unknown option '--graph' (--help lists the options)"],
    [['--data'], "demo: Option '--data <value>' argument missing (--help lists the options)"],
    [['cora.npz'], "demo: Unexpected argument 'cora.npz' (--help lists the options)"],
    [
      ['--model', missing],
      'demo: --model needs the graph it was trained on: --data FILE (--help lists the options)',
    ],
    [['--data', missing], `demo: cannot read ${missing}: no such file`],
    [['--data', notNpz], `demo: cannot read ${notNpz}: invalid zip data`],
    [['--device', 'tpu'], `demo: setDefaultDevice: device must be 'cpu', 'cuda' or 'cuda:N', got "tpu"`],
  ])('%j is one line and exit code 2', (args, line) => {
    expect(demo(...args)).toEqual({ status: 2, stdout: '', stderr: line + '\n' })
  })

  // Cora and the models trained on it are not part of the repository.
  const cora = process.env.WARPGRAPH_CORA
  const models = process.env.WARPGRAPH_CORA_MODELS?.split(':')
  if (cora === undefined || models === undefined) {
    notTested(
      'the demo on Cora',
      'WARPGRAPH_CORA names no Planetoid .npz file, WARPGRAPH_CORA_MODELS no models trained on it, split by colons',
    )
    return
  }
  const modelArgs = models.flatMap((model) => ['--model', model])

  test.each(testDevices)('evaluates the stored models on Cora on %s', (device) => {
    const { status, stdout, stderr } = demo('--device', device, '--data', cora, ...modelArgs)
    expect(stderr).toBe('')
    const evaluations = [...rows(stdout, 'GCN'), ...rows(stdout, 'GAT')]
    expect(evaluations).toHaveLength(models.length)
    for (const [, , where, , difference, , accuracy, stored, outcome] of evaluations) {
      expect(where).toBe(device)
      expect(Number(difference)).toBeLessThanOrEqual(1e-4)
      expect(accuracy).toBe(stored)
      expect(outcome).toBe('ok')
    }
    expect(status).toBe(0)
  })

  test('tells a data set and a model apart', () => {
    const asData = demo('--data', models[0]!)
    expect(asData.stderr).toBe(`demo: ${models[0]} is not a Planetoid data set: it has no row_ptr\n`)
    const asModel = demo('--data', cora, '--model', cora)
    expect(asModel.stderr).toBe(`demo: ${cora} is not a trained GCN or GAT: it has no logits\n`)
    expect([asData.status, asModel.status]).toEqual([2, 2])
  })
})

describe('the karate club', () => {
  const graph = karateClub()
  const { rowPtr, colIdx } = graph
  const neighbours = Array.from({ length: graph.numRows }, (_, i) => [
    ...colIdx.subarray(rowPtr[i], rowPtr[i + 1]),
  ])

  test('has 34 members and 78 friendships', () => {
    expect(graph.numRows).toBe(34)
    expect(friendships).toHaveLength(78)
    expect(graph.numEdges).toBe(156)
  })

  test('has the degrees of the paper', () => {
    expect(neighbours.map((row) => row.length)).toEqual([
      16, 9, 10, 6, 3, 4, 4, 4, 5, 2, 3, 1, 2, 5, 2, 2, 2, 2, 2, 3, 2, 2, 2, 5, 3, 3, 2, 4, 3, 4, 4, 6, 12,
      17,
    ])
  })

  test('is symmetric, sorted, without loops and repetitions', () => {
    for (const [member, friends] of neighbours.entries()) {
      expect(friends).toEqual([...new Set(friends)].sort((a, b) => a - b))
      expect(friends).not.toContain(member)
      for (const friend of friends) expect(neighbours[friend]).toContain(member)
    }
  })

  test('gets one loop per member, also when it had some', () => {
    const looped = withSelfLoops(graph)
    expect(looped.numEdges).toBe(156 + 34)
    expect(withSelfLoops(looped).colIdx).toEqual(looped.colIdx)
    expect(withSelfLoops(looped).rowPtr).toEqual(looped.rowPtr)
  })
})

describe('dense layers', () => {
  const matrix = (rows: number[][]): Matrix => ({
    rows: rows.length,
    cols: rows[0]!.length,
    data: Float32Array.from(rows.flat()),
  })
  const weight = matrix([
    [1, 0, 2],
    [0, -1, 4],
  ])
  // [[1, 0, 3], [0, 0, 0], [0, 5, 0]]
  const sparse: SparseMatrix = {
    rows: 3,
    cols: 3,
    rowPtr: Int32Array.of(0, 2, 2, 3),
    colIdx: Int32Array.of(0, 2, 1),
    values: Float32Array.of(1, 3, 5),
  }
  const product = matrix([
    [7, 12],
    [0, 0],
    [0, -5],
  ])

  test('linear multiplies by the transposed weight, dense and sparse alike', () => {
    const dense = matrix([
      [1, 0, 3],
      [0, 0, 0],
      [0, 5, 0],
    ])
    expect(linear(dense, weight)).toEqual(product)
    expect(sparseLinear(sparse, weight)).toEqual(product)
  })

  test('widths that differ are refused', () => {
    expect(() => linear(product, weight)).toThrow('x has 2 columns, the weight is for 3')
    expect(() => addBias(product, Float32Array.of(1))).toThrow('a bias of 1 for 2 columns')
  })

  test('rows are divided by their sums, empty rows are left', () => {
    expect(normalizeRows(sparse).values).toEqual(Float32Array.of(0.25, 0.75, 1))
    expect(sparse.values).toEqual(Float32Array.of(1, 3, 5))
  })

  test('bias and activations', () => {
    const biased = addBias(product, Float32Array.of(-1, 2))
    expect([...biased.data]).toEqual([6, 14, -1, 2, -1, -3])
    expect([...relu(biased).data]).toEqual([6, 14, 0, 2, 0, 0])
    const below = [-1, -3].map((value) => Math.fround(Math.exp(value) - 1))
    expect(largestDifference(elu(biased).data, [6, 14, below[0]!, 2, below[0]!, below[1]!])).toBeLessThan(
      1e-7,
    )
  })

  test('argmax takes the first of equals', () => {
    expect(
      argmaxRows(
        matrix([
          [1, 3, 3],
          [2, 2, 2],
          [-5, -4, -3],
        ]),
      ),
    ).toEqual(Int32Array.of(1, 0, 2))
  })

  test('differences never hide NaN', () => {
    expect(largestDifference([1, NaN, Infinity], [1.5, NaN, Infinity])).toBe(0.5)
    expect(largestDifference([NaN], [0])).toBe(Infinity)
    expect(largestDifference([0], [NaN])).toBe(Infinity)
    expect(largestDifference([Infinity], [-Infinity])).toBe(Infinity)
    expect(largestDifference([1, 2], [1])).toBe(Infinity)
  })

  test('median', () => {
    expect(median([3, 1, 2])).toBe(2)
    expect(median([4, 1, 3, 2])).toBe(2.5)
  })
})
