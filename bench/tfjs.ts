import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { BenchGraph } from './graphs'
import type { Inputs } from './inputs'
import { type PreparedPeer, prepare, type TfBackend } from './tfjs_compositions'
import { type Timing, time } from './timing'
import type { Workload } from './workloads'

/** What one composition on one backend did. */
export interface PeerRun {
  readonly peer: string
  readonly timing: Timing
  /** Largest absolute difference from our result. */
  readonly difference: number
}

export interface TfTensor {
  readonly shape: number[]
  dataSync(): Float32Array
  dispose(): void
}

type Operand = TfTensor | number

/** As much of @tensorflow/tfjs-core as is used here, so that types can be checked without it. */
export interface Tf {
  readonly version_core: string
  setBackend(name: string): Promise<boolean>
  ready(): Promise<void>
  tensor(values: ArrayLike<number>, shape: readonly number[], dtype?: 'float32' | 'int32'): TfTensor
  tidy<T>(fn: () => T): T
  add(a: Operand, b: Operand): TfTensor
  sub(a: Operand, b: Operand): TfTensor
  mul(a: Operand, b: Operand): TfTensor
  div(a: Operand, b: Operand): TfTensor
  exp(x: TfTensor): TfTensor
  max(x: TfTensor, axis: number, keepDims?: boolean): TfTensor
  softmax(x: TfTensor): TfTensor
  gather(x: TfTensor, indices: TfTensor): TfTensor
  concat(parts: readonly TfTensor[]): TfTensor
  fill(shape: readonly number[], value: number): TfTensor
  scatterND(indices: TfTensor, updates: TfTensor, shape: readonly number[]): TfTensor
  matMul(a: TfTensor, b: TfTensor, transposeA?: boolean, transposeB?: boolean): TfTensor
  transpose(x: TfTensor, axes: readonly number[]): TfTensor
  reshape(x: TfTensor, shape: readonly number[]): TfTensor
  readonly sparse: {
    sparseSegmentSum(data: TfTensor, indices: TfTensor, segmentIds: TfTensor): TfTensor
  }
}

const backends: readonly TfBackend[] = ['wasm', 'cpu']

/** TensorFlow.js with both backends, installed first when it is not here. */
export function loadTf(): Tf {
  if (!existsSync(join(__dirname, 'node_modules'))) {
    execFileSync('npm', ['--prefix', __dirname, 'ci', '--no-audit', '--no-fund'], {
      stdio: ['ignore', 2, 2],
    })
  }
  const requireHere = createRequire(join(__dirname, 'package.json'))
  const tf = requireHere('@tensorflow/tfjs-core') as Tf
  requireHere('@tensorflow/tfjs-backend-cpu')
  requireHere('@tensorflow/tfjs-backend-wasm')
  return tf
}

/** Times the op composed from TensorFlow.js's, in every way and on every backend worth trying, on the same inputs. */
export async function runPeers(
  tf: Tf,
  workload: Workload,
  inputs: Inputs,
  ours: ArrayLike<number>,
  say: (line: string) => void,
): Promise<PeerRun[]> {
  const runs: PeerRun[] = []
  for (const backend of backends) {
    const warn = console.warn
    console.warn = () => {} // the JavaScript backend recommends another package when it starts
    await tf.setBackend(backend)
    await tf.ready()
    console.warn = warn
    for (const composition of prepare(tf, workload, inputs, backend)) {
      const peer = `TensorFlow.js ${backend}: ${composition.name}`
      say(`${workload.name}: ${peer}`)
      runs.push({ peer, ...runPeer(tf, composition, ours) })
    }
  }
  return runs
}

/** Kernels of both backends have run when the call returns, so there is nothing to wait for. */
function runPeer(tf: Tf, { call, inputs }: PreparedPeer, ours: ArrayLike<number>): Omit<PeerRun, 'peer'> {
  const result = tf.tidy(call)
  const difference = largestDifference(result.dataSync(), ours)
  result.dispose()
  const timing = time(
    () => tf.tidy(call).dispose(),
    () => {},
  )
  for (const input of inputs) input.dispose()
  return { timing, difference }
}

function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) throw new Error(`a peer gave ${a.length} elements, not ${b.length}`)
  let largest = 0
  for (let i = 0; i < a.length; i++) {
    if (a[i] === b[i]) continue // infinities, too
    const difference = Math.abs(a[i]! - b[i]!)
    if (!(difference <= largest)) largest = difference
    if (Number.isNaN(largest)) return NaN
  }
  return largest
}

/** The destination of every edge. */
export function destinations({ rowPtr, colIdx }: BenchGraph): Int32Array {
  const out = new Int32Array(colIdx.length)
  for (let i = 0; i + 1 < rowPtr.length; i++) out.fill(i, rowPtr[i]!, rowPtr[i + 1]!)
  return out
}
