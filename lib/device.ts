import { argumentError, describe } from './argument'
import type { Backend, DeviceMemory, DeviceName } from './backend'
import { cpuBackend } from './backends/cpu'
import { cudaBackends } from './backends/cuda'
import { cudaStatus } from './backends/cuda/status'
import { DeviceError } from './errors'
import { refuseInCapture } from './recording'

/** A device as one is asked for: `'cuda'` is the first GPU. */
export type DeviceChoice = DeviceName | 'cuda'

/** The device chosen by `setDefaultDevice`, or found on first use. */
let chosen: Backend | undefined

/**
 * The device that tensors are made on when none is named: what `setDefaultDevice` chose, else what the environment
 * variable `WARPGRAPH_DEVICE` says, else the first GPU when one is usable, else the CPU.
 *
 * @throws DeviceError (`ERR_DEVICE_UNAVAILABLE`) when `WARPGRAPH_DEVICE` names a device that cannot be used
 */
export function defaultDevice(): DeviceName {
  return defaultBackend().device
}

/**
 * Chooses the default device: `'cpu'`, `'cuda'` (the first GPU) or `'cuda:N'`.
 *
 * @throws DeviceError (`ERR_DEVICE_UNAVAILABLE`) when it cannot be used, saying why
 */
export function setDefaultDevice(device: DeviceChoice): void {
  chosen = namedBackend('setDefaultDevice', device)
}

/** All devices that can be used here, the CPU first. */
export function devices(): DeviceName[] {
  return [cpuBackend, ...cudaBackends()].flatMap((backend) => backend?.device ?? [])
}

/**
 * The full name of a device, the default one when none is given; a way to ask whether it can be used.
 *
 * @throws DeviceError (`ERR_DEVICE_UNAVAILABLE`) when it cannot, saying why
 */
export function device(name?: DeviceChoice): DeviceName {
  return backendFor('device', name).device
}

/** Memory of a device (the default one when none is given), in bytes. */
export function memory(name?: DeviceChoice): DeviceMemory {
  return backendFor('memory', name).memory()
}

/** Gives the memory that the allocator keeps for reuse back to the device. */
export function emptyCache(name?: DeviceChoice): void {
  refuseInCapture('emptyCache', 'the cache', 'be freed outside of capture()')
  backendFor('emptyCache', name).emptyCache()
}

/** Waits until the device has done all work handed to it. Only timing needs this: reading a tensor waits by itself. */
export function synchronize(name?: DeviceChoice): void {
  refuseInCapture('synchronize', 'the device', 'be waited for outside of capture()')
  backendFor('synchronize', name).synchronize()
}

/** The backend of a named device, or of the default one. */
export function backendFor(op: string, name: string | undefined): Backend {
  return name === undefined ? defaultBackend() : namedBackend(op, name)
}

/** The backend of a named device. */
export function namedBackend(op: string, name: string, argument = 'device'): Backend {
  if (name === 'cpu') return cpuBackend
  const isString = typeof name === 'string'
  const index = isString ? /^cuda(?::(0|[1-9]\d*))?$/.exec(name) : null
  if (index === null) {
    const code = isString ? 'ERR_ARG_VALUE' : 'ERR_ARG_TYPE'
    throw argumentError(code, op, argument, "be 'cpu', 'cuda' or 'cuda:N'", describe(name))
  }
  const backend = cudaBackends()[Number(index[1] ?? 0)]
  if (!backend) throw unavailable(op, name, Number(index[1] ?? 0))
  return backend
}

function defaultBackend(): Backend {
  chosen ??= environmentBackend() ?? cudaBackends().find((backend) => backend !== null) ?? cpuBackend
  return chosen
}

function environmentBackend(): Backend | undefined {
  const name = process.env.WARPGRAPH_DEVICE
  return name ? namedBackend('WARPGRAPH_DEVICE', name) : undefined
}

function unavailable(op: string, name: string, index: number): DeviceError {
  const { devices, unusable } = cudaStatus()
  const verdict = devices[index]?.unusable ?? unusable
  const why = verdict
    ? `${verdict.reason} ${verdict.mend}`
    : `this machine has ${devices.length} CUDA device(s), counted from 0`
  return new DeviceError(`${op}: device ${name} cannot be used: ${why}`, 'ERR_DEVICE_UNAVAILABLE')
}
