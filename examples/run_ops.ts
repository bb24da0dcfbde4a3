import {
  type Csr,
  csrMax,
  type DeviceName,
  gcnAggregate,
  mlaAttention,
  mlaDecode,
  segmentSoftmax,
  synchronize,
  type Tensor,
  tensor,
} from 'warpgraph'
import { largestDifference } from './difference'
import { decodeFormula, gcnFormula, maxFormula, mlaFormula, softmaxFormula } from './formulas'

/** What one op did. */
export interface OpRun {
  readonly op: string
  readonly shapes: string
  /** Median time of a call, until the device has finished; the result is not read back. */
  readonly milliseconds: number
  /** From the reference, over all elements of all results. */
  readonly difference: number
  readonly allowed: number
}

/** Timed calls per op, after `warmUps` that are not counted. */
export const timedCalls = 20
export const warmUps = 3

interface Input {
  readonly data: Float32Array
  readonly shape: readonly number[]
}

interface Case {
  readonly op: string
  readonly inputs: Readonly<Record<string, Input>>
  readonly allowed: number
  call(...inputs: Tensor<'float32'>[]): Tensor[]
  /** The results by `formulas.ts`. */
  expected(): ArrayLike<number>[]
}

/**
 * Runs the ops on a graph and compares them with the CPU reference, or, where the device is the CPU itself, with
 * the formulas.
 */
export async function runOps(graph: Csr, device: DeviceName): Promise<OpRun[]> {
  const runs: OpRun[] = []
  for (const one of cases(graph)) {
    const expected = device === 'cpu' ? one.expected() : (await resultsOn('cpu', one)).results
    const { results, shape } = await resultsOn(device, one)
    runs.push({
      op: one.op,
      shapes: formatShapes(one, shape),
      milliseconds: timeOn(device, one),
      difference: Math.max(...results.map((result, i) => largestDifference(result, expected[i]!))),
      allowed: one.allowed,
    })
  }
  return runs
}

/** Scores, features and weights are random with a fixed seed; the sequence is that of the first nodes. */
function cases(graph: Csr): Case[] {
  const random = uniform(34)
  const input = (shape: readonly number[], scale = 1): Input => {
    const size = shape.reduce((a, b) => a * b, 1)
    return { shape, data: Float32Array.from({ length: size }, () => random() * scale) }
  }
  const scores = input([graph.numEdges, 8], 4)
  const x = input([graph.numSrc, 16])
  const mla = { tokens: Math.min(graph.numRows, 64), heads: 4, headDim: 16, rank: 32, valueDim: 16 }
  const q = input([1, mla.tokens, mla.heads, mla.headDim])
  const kvLatent = input([1, mla.tokens, mla.rank])
  const wUpK = input([mla.rank, mla.heads, mla.headDim])
  const wUpV = input([mla.rank, mla.heads, mla.valueDim])
  const qLatent = input([1, mla.tokens, mla.heads, mla.rank])
  return [
    {
      op: 'segmentSoftmax',
      inputs: { scores },
      allowed: 1e-6,
      call: (scores) => [segmentSoftmax(graph, scores!)],
      expected: () => [softmaxFormula(graph, scores.data, 8)],
    },
    {
      op: 'gcnAggregate',
      inputs: { x },
      allowed: 1e-6,
      call: (x) => [gcnAggregate(graph, x!)],
      expected: () => [gcnFormula(graph, x.data, 16)],
    },
    {
      op: 'csrMax',
      inputs: { x },
      allowed: 0,
      call: (x) => {
        const { values, indices } = csrMax(graph, x!, { withIndices: true })
        return [values, indices]
      },
      expected: () => maxFormula(graph, x.data, 16),
    },
    {
      op: 'mlaAttention',
      inputs: { q, kvLatent, wUpK, wUpV },
      allowed: 1e-5,
      call: (q, kvLatent, wUpK, wUpV) => [mlaAttention(q!, kvLatent!, wUpK!, wUpV!)],
      expected: () => [mlaFormula(q.data, kvLatent.data, wUpK.data, wUpV.data, mla)],
    },
    {
      op: 'mlaDecode',
      inputs: { qLatent, kvLatent },
      allowed: 1e-5,
      call: (qLatent, kvLatent) => [mlaDecode(qLatent!, { kvLatent: kvLatent! }, { scale: 0.25 })],
      expected: () => [decodeFormula(qLatent.data, kvLatent.data, 0.25, mla)],
    },
  ]
}

function inputsOn(device: DeviceName, { inputs }: Case): Tensor<'float32'>[] {
  return Object.values(inputs).map(({ data, shape }) => tensor(data, { shape, device }))
}

async function resultsOn(device: DeviceName, one: Case) {
  const inputs = inputsOn(device, one)
  const outputs = one.call(...inputs)
  const results = await Promise.all(outputs.map((output) => output.data()))
  const shape = outputs[0]!.shape
  for (const used of [...inputs, ...outputs]) used.dispose()
  return { results, shape }
}

function timeOn(device: DeviceName, one: Case): number {
  const inputs = inputsOn(device, one)
  const times: number[] = []
  for (let i = 0; i < warmUps + timedCalls; i++) {
    const start = performance.now()
    const outputs = one.call(...inputs)
    synchronize(device)
    if (i >= warmUps) times.push(performance.now() - start)
    for (const output of outputs) output.dispose()
  }
  for (const input of inputs) input.dispose()
  return median(times)
}

function formatShapes({ inputs }: Case, result: readonly number[]): string {
  const from = Object.entries(inputs).map(([name, { shape }]) => `${name} [${shape.join(', ')}]`)
  return `${from.join(', ')} → [${result.join(', ')}]`
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** Numbers in [−1, 1), the same ones for the same seed (a linear congruential generator, modulus 2³²). */
function uniform(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 31 - 1
  }
}
