import { argumentError, checkOptions, describe, formatShape } from '../argument'
import type { DeviceName } from '../backend'
import {
  type DeviceChoice,
  defaultDevice,
  namedBackend,
  devices as presentDevices,
  setDefaultDevice,
} from '../device'
import type { DType } from '../dtype'
import { isPlainObject } from '../scope'
import { Tensor } from '../tensor'
import { difference, resolveTolerance, type TensorDifference, type Tolerance } from './difference'

export type { LargestDifference, TensorDifference, Tolerance, WorstElement } from './difference'

export interface CompareDevicesOptions extends Tolerance {
  /** Where to run besides the CPU: every GPU present when absent. */
  readonly devices?: readonly DeviceChoice[] | undefined
}

/** One result tensor of one device against the CPU's. */
export interface OutputDifference extends TensorDifference {
  /** `result`, or the tensor's key in an array (`0`) or record (`values`). */
  readonly name: string
  readonly dtype: DType
  readonly shape: readonly number[]
}

export interface DeviceDifference {
  readonly device: DeviceName
  readonly ok: boolean
  readonly outputs: readonly OutputDifference[]
}

export interface DeviceComparison {
  /** Every output of every device within tolerance. */
  readonly ok: boolean
  /** True when no GPU took part: the CPU was compared with itself, and `ok` says no more than that `fn` ran. */
  readonly cpuOnly: boolean
  readonly devices: readonly DeviceDifference[]
}

/** What a compared function may return. */
export type Outputs<O> = Tensor | readonly Tensor[] | { readonly [K in keyof O]: Tensor }

/**
 * Runs `fn` on the CPU, the reference, and on each chosen device, and tells how far the results lie apart.
 *
 * ```ts
 * const { ok, devices } = await compareDevices((x) => gcnAggregate(graph, x), [x], { rtol: 1e-5, atol: 1e-6 })
 * ```
 *
 * @param fn called with the inputs on one device, as arguments (an array of inputs) or as one object (a record of
 * them); may be async. What it returns (a tensor, an array or a record of tensors) is disposed after the comparison,
 * and so are the moved inputs; tensors it makes on the way are its own to free.
 * @param inputs on any devices; they are moved with `to` and stay as they are
 * @throws TypeError or RangeError for arguments that do not fit, or when the results of two devices differ in number,
 * shape or dtype; DeviceError when a chosen device cannot be used
 */
export async function compareDevices<I extends readonly Tensor[], O extends Outputs<O>>(
  fn: (...inputs: I) => O | Promise<O>,
  inputs: readonly [...I],
  options?: CompareDevicesOptions,
): Promise<DeviceComparison>
export async function compareDevices<I extends { readonly [K in keyof I]: Tensor }, O extends Outputs<O>>(
  fn: (inputs: I) => O | Promise<O>,
  inputs: I,
  options?: CompareDevicesOptions,
): Promise<DeviceComparison>
export async function compareDevices(
  fn: (...inputs: never[]) => unknown,
  inputs: object,
  options?: CompareDevicesOptions,
): Promise<DeviceComparison> {
  const op = 'compareDevices'
  if (typeof fn !== 'function') {
    throw argumentError('ERR_ARG_TYPE', op, 'fn', 'be a function', describe(fn))
  }
  tensorsOf(op, 'inputs', inputs)
  const { devices: names, ...tolerance } = checkOptions(op, options, ['rtol', 'atol', 'devices'])
  const chosen = chooseDevices(op, names)
  resolveTolerance(op, 'float32', tolerance)
  const reference = await run(fn, inputs, 'cpu')
  const results: DeviceDifference[] = []
  for (const name of chosen) {
    const outputs = compare(op, name, await run(fn, inputs, name), reference, tolerance)
    results.push({ device: name, ok: outputs.every((output) => output.ok), outputs })
  }
  return {
    ok: results.every((result) => result.ok),
    cpuOnly: chosen.every((name) => name === 'cpu'),
    devices: results,
  }
}

interface Output {
  readonly name: string
  readonly dtype: DType
  readonly shape: readonly number[]
  readonly data: ArrayLike<number>
}

function chooseDevices(op: string, names: readonly DeviceChoice[] | undefined): DeviceName[] {
  if (names === undefined) {
    const gpus = presentDevices().filter((name) => name !== 'cpu')
    return gpus.length > 0 ? gpus : ['cpu']
  }
  if (!Array.isArray(names) || names.length === 0) {
    throw argumentError('ERR_ARG_VALUE', op, 'devices', 'name at least one device', describe(names))
  }
  return names.map((name, i) => namedBackend(op, name, `devices[${i}]`).device)
}

/** The runs before: one at a time, since each chooses the default device while it lasts. */
let last: Promise<unknown> = Promise.resolve()

function run(fn: (...inputs: never[]) => unknown, inputs: object, name: DeviceName): Promise<Output[]> {
  const result = last.then(() => runAlone(fn, inputs, name))
  last = result.catch(() => {})
  return result
}

/** The results of `fn` on one device, read back; everything made for it is disposed. */
async function runAlone(
  fn: (...inputs: never[]) => unknown,
  inputs: object,
  name: DeviceName,
): Promise<Output[]> {
  const moved: [string, Tensor][] = []
  let results: [string, Tensor][] = []
  const before = defaultDevice()
  setDefaultDevice(name) // for the tensors that `fn` makes itself
  try {
    for (const [key, input] of tensorsOf('compareDevices', 'inputs', inputs))
      moved.push([key, input.to(name)])
    const args = Array.isArray(inputs) ? moved.map(([, input]) => input) : [Object.fromEntries(moved)]
    const returned = await fn(...(args as never[]))
    results =
      returned instanceof Tensor ? [['result', returned]] : tensorsOf('compareDevices', 'fn', returned)
    if (results.length === 0) {
      throw argumentError('ERR_ARG_VALUE', 'compareDevices', 'fn', 'return at least one tensor', 'none')
    }
    const outputs: Output[] = []
    for (const [name, tensor] of results) {
      outputs.push({ name, dtype: tensor.dtype, shape: tensor.shape, data: await tensor.data() })
    }
    return outputs
  } finally {
    setDefaultDevice(before)
    for (const [, tensor] of [...moved, ...results]) tensor.dispose()
  }
}

/** The tensors of an array or record by key; anything else in it is an error. */
function tensorsOf(op: string, argument: string, value: unknown): [string, Tensor][] {
  const what =
    argument === 'fn' ? 'return a tensor, or an array or record of them' : 'be an array or record of tensors'
  if (!Array.isArray(value) && !isPlainObject(value)) {
    throw argumentError('ERR_ARG_TYPE', op, argument, what, describe(value))
  }
  const entries = Object.entries(value)
  for (const [key, item] of entries) {
    if (!(item instanceof Tensor)) {
      throw argumentError('ERR_ARG_TYPE', op, argument, what, `${describe(item)} at ${JSON.stringify(key)}`)
    }
  }
  return entries
}

function compare(
  op: string,
  name: DeviceName,
  results: readonly Output[],
  reference: readonly Output[],
  tolerance: Tolerance,
): OutputDifference[] {
  const [here, there] = [summary(results), summary(reference)]
  if (here !== there) {
    throw argumentError('ERR_SHAPE', op, 'fn', `return ${there} on ${name} as on the CPU`, here)
  }
  return results.map(({ name, dtype, shape, data }, i) => ({
    name,
    dtype,
    shape,
    ...difference(data, reference[i]!.data, shape, resolveTolerance(op, dtype, tolerance)),
  }))
}

/** `values float32 [3, 4], indices int32 [3, 4]`. */
function summary(outputs: readonly Output[]): string {
  return outputs.map(({ name, dtype, shape }) => `${name} ${dtype} ${formatShape(shape)}`).join(', ')
}
