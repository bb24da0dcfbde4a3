import { existsSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { parseArgs } from 'node:util'
import {
  DeviceError,
  type DeviceName,
  defaultDevice,
  info,
  mlaAttention,
  scope,
  setDefaultDevice,
  tensor,
} from 'warpgraph'
import { largestDifference } from './difference'
import { LatentCache } from './latent_cache'
import { LatentModel, type ModelShape, type TokenParts } from './latent_model'
import { linePlot } from './line_plot'
import { UsageError } from './usage_error'

const usage = `usage: npx tsx examples/mla_decode.ts [--device DEVICE] [--size SIZE] [--batch N] [--tokens N] [--plot FILE]

Decodes token after token with mlaDecode from a latent cache that grows in pages, checks it against mlaAttention on the
CPU, and plots the time per step, the growth of the cache included, against its length.

  --device DEVICE  cpu, cuda or cuda:N; the best device present when left out
  --size SIZE      small (when left out): 8 heads, rank 64 + 16; deepseek: 16 heads, rank 512 + 64
  --batch N        sequences, decoded together; 2 when left out
  --tokens N       tokens of each sequence; 384 when left out
  --plot FILE      where the plot goes; mla_decode.svg when left out
  --help           this text

Exit code: 0 when every check held, 1 when one did not, 2 when the arguments cannot be used.`

interface Size extends ModelShape {
  readonly pageSize: number
}

const sizes: Readonly<Record<string, Size>> = {
  small: {
    vocabulary: 256,
    hidden: 128,
    heads: 8,
    headDim: 32,
    valueDim: 32,
    rank: 64,
    ropeDim: 16,
    pageSize: 32,
  },
  deepseek: {
    vocabulary: 256,
    hidden: 256,
    heads: 16,
    headDim: 128,
    valueDim: 128,
    rank: 512,
    ropeDim: 64,
    pageSize: 64,
  },
}

/** Steps that are checked against the CPU: as many, spread over all. */
const checkedSteps = 8
/** Relative to the largest value; both sides compute in float32 at least. */
const allowedDifference = 1e-5

interface Options {
  readonly size: Size
  readonly batch: number
  readonly tokens: number
  readonly plot: string
}

function main(args: string[]): number {
  const values = readArguments(args)
  if (values.help) {
    console.log(usage)
    return 0
  }
  const device = chooseDevice(values.device)
  const { size, batch, tokens, plot } = readOptions(values)
  const { heads, rank, ropeDim, pageSize } = size
  console.log(
    `${batch} sequences of ${tokens} tokens; ${heads} heads, latents of ${rank} + ${ropeDim}, pages of ${pageSize}.\n` +
      describeDevice(device),
  )
  const start = performance.now()
  const { times, difference, checking } = decode({ size, batch, tokens, plot }, device)
  const seconds = (performance.now() - start - checking) / 1000
  const perStep = mean(times.map(({ append, attend }) => append + attend))
  console.log(
    `${((batch * tokens) / seconds).toFixed(0)} tokens/s in all, dense layers in plain TypeScript included; ` +
      `${((1000 * batch) / perStep).toFixed(0)} tokens/s of attention and its cache alone.`,
  )
  const holds = difference <= allowedDifference
  console.log(
    `Largest difference from mlaAttention on the CPU: ${difference.toExponential(1)} of the largest value, ` +
      `${allowedDifference.toExponential(0)} allowed: ${holds ? 'ok' : 'WRONG'}`,
  )
  writeFileSync(plot, timePlot(times, device))
  console.log(`The plot is in ${plot}.`)
  return holds ? 0 : 1
}

/** Milliseconds of one step. */
interface StepTime {
  /** To write the token into the cache. */
  readonly append: number
  /** Of attention, until its results were read. */
  readonly attend: number
}

/** What each step took, the largest difference found, and the milliseconds spent on finding it. */
function decode({ size, batch, tokens }: Options, device: DeviceName) {
  const model = new LatentModel(size)
  const cache = new LatentCache({ ...size, batch }, device)
  const { heads, rank, ropeDim } = size
  const checkEvery = Math.max(Math.floor(tokens / checkedSteps), 1)
  const times: StepTime[] = []
  let [difference, checking] = [0, 0]
  let words = Array.from({ length: batch }, (_, b) => b % size.vocabulary)
  for (let position = 0; position < tokens; position++) {
    const parts = words.map((word) => model.project(word, position))
    const append = cache.append(
      concatenated(parts.map(({ latent }) => latent)),
      concatenated(parts.map(({ kRope }) => kRope)),
    )
    using qLatent = tensor(concatenated(parts.map((part) => model.absorb(part))), {
      shape: [batch, 1, heads, rank + ropeDim],
      device,
    })
    const { out, milliseconds: attend } = cache.attend(qLatent, model.scale)
    times.push({ append, attend })
    const perSequence = heads * rank
    const values = words.map((_, b) => model.projectUp(out.subarray(b * perSequence, (b + 1) * perSequence)))
    if ((position + 1) % checkEvery === 0) {
      const start = performance.now()
      difference = Math.max(
        difference,
        relativeDifference(concatenated(values), reference(model, cache, parts)),
      )
      checking += performance.now() - start
    }
    words = words.map((word, b) => model.next(word, values[b]!))
  }
  cache.dispose()
  return { times, difference, checking }
}

/** (B, H, Dv): the same step by mlaAttention on the CPU, from latents in one piece and queries that are not absorbed. */
function reference(model: LatentModel, cache: LatentCache, parts: readonly TokenParts[]): Float32Array {
  const { heads, headDim, valueDim, rank, ropeDim } = model.shape
  const { latents, ropes } = cache.contiguous()
  const on = { device: 'cpu' } as const
  const batch = parts.length
  return scope(() => {
    const q = tensor(concatenated(parts.map(({ q }) => q)), { shape: [batch, 1, heads, headDim], ...on })
    const qRope = tensor(concatenated(parts.map(({ qRope }) => qRope)), {
      shape: [batch, 1, heads, ropeDim],
      ...on,
    })
    const kvLatent = tensor(latents, { shape: [batch, cache.length, rank], ...on })
    const kRope = tensor(ropes, { shape: [batch, cache.length, ropeDim], ...on })
    const wUpK = tensor(model.wUpK, { shape: [rank, heads, headDim], ...on })
    const wUpV = tensor(model.wUpV, { shape: [rank, heads, valueDim], ...on })
    return mlaAttention(q, kvLatent, wUpK, wUpV, { qRope, kRope }).dataSync()
  })
}

function relativeDifference(actual: Float32Array, expected: Float32Array): number {
  const largest = expected.reduce((max, value) => Math.max(max, Math.abs(value)), 0)
  return largestDifference(actual, expected) / (largest || 1)
}

function concatenated(rows: readonly Float32Array[]): Float32Array {
  const all = new Float32Array(rows.reduce((sum, row) => sum + row.length, 0))
  let at = 0
  for (const row of rows) {
    all.set(row, at)
    at += row.length
  }
  return all
}

function mean(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0) / values.length
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!
}

/**
 * Points over some steps each: the median of attention, so that one hiccup does not hide the rest, and the mean of
 * appending, since most of it happens once a page.
 */
function timePlot(times: readonly StepTime[], device: DeviceName): string {
  const group = Math.max(Math.floor(times.length / 64), 1)
  const points: [number, number][] = []
  for (let from = 0; from < times.length; from += group) {
    const steps = times.slice(from, from + group)
    const milliseconds = median(steps.map(({ attend }) => attend)) + mean(steps.map(({ append }) => append))
    points.push([from + steps.length / 2, milliseconds])
  }
  return linePlot({
    title: `mlaDecode on ${device}`,
    xLabel: 'tokens in the cache',
    yLabel: 'milliseconds per step, cache written and results read',
    points,
  })
}

function readArguments(args: string[]) {
  const text = { type: 'string' } as const
  const help = { type: 'boolean', short: 'h' } as const
  try {
    const options = { help, device: text, size: text, batch: text, tokens: text, plot: text }
    return parseArgs({ args, options }).values
  } catch (error) {
    // The first sentence says what is wrong; Node's advice after it is about other cases.
    const [problem] = (error as Error).message.split(/\.\s/)
    throw new UsageError(`${problem} (--help lists the options)`)
  }
}

function readOptions(values: ReturnType<typeof readArguments>): Options {
  const { size = 'small', batch = '2', tokens = '384', plot = 'mla_decode.svg' } = values
  if (!Object.hasOwn(sizes, size)) {
    throw new UsageError(`--size is ${Object.keys(sizes).join(' or ')}, not ${size}`)
  }
  const folder = dirname(plot)
  if (!isFolder(folder)) throw new UsageError(`--plot is a file in a folder that exists, not in ${folder}`)
  if (isFolder(plot)) throw new UsageError(`--plot is a file, not the folder ${plot}`)
  return { size: sizes[size]!, batch: count('--batch', batch), tokens: count('--tokens', tokens), plot }
}

function isFolder(path: string): boolean {
  return existsSync(path) && statSync(path).isDirectory()
}

function count(option: string, value: string): number {
  const number = Number(value)
  if (!Number.isInteger(number) || number < 1)
    throw new UsageError(`${option} is a number from 1 on, not ${value}`)
  return number
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

function describeDevice(device: DeviceName): string {
  const { devices, gpuNotUsed } = info()
  const gpu = devices.find((one) => one.device === device)
  if (gpu) return `They are decoded on the GPU, ${device} (${gpu.name}).`
  const why = gpuNotUsed ? `\nThe GPU is not used: ${gpuNotUsed.reason}\n${gpuNotUsed.mend}` : ''
  return `They are decoded on the CPU.${why}`
}

try {
  process.exitCode = main(process.argv.slice(2))
} catch (error) {
  console.error(error instanceof UsageError ? `mla_decode: ${error.message}` : error)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
