import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DeviceProperties } from '../typings/addon'
import { type LoadAttempt, loadAddon, packageRoot } from './backends/cuda/addon'
import { cudaStatus } from './backends/cuda/status'
import { defaultDevice } from './device'

/** What `npx warpgraph info` prints. */
export interface Info {
  /** The package's version. */
  readonly warpgraph: string
  readonly node: string
  /** Operating system and processor, for example `linux-x64`. */
  readonly platform: string
  readonly addon: {
    /** The loaded file; null when there is none. */
    readonly path: string | null
    /** Every place that was tried, in order, with the reason where it failed. */
    readonly attempts: readonly LoadAttempt[]
    /** The CUDA version it was built with, and the compute capabilities it has machine code for. */
    readonly cuda: string | null
    readonly architectures: string | null
  }
  /** The newest CUDA version that the installed driver supports; null without a driver. */
  readonly driverCuda: string | null
  readonly devices: readonly (DeviceProperties & { readonly device: string })[]
  /** Null when the device chosen by `WARPGRAPH_DEVICE` cannot be used. */
  readonly defaultDevice: string | null
  /** Null when the GPU is used; otherwise why it is not, and what would mend that. */
  readonly gpuNotUsed: { readonly reason: string; readonly mend: string } | null
}

/** What was found on this machine. Never throws. */
export function info(): Info {
  const { path, attempts } = loadAddon()
  const status = cudaStatus()
  const chosen = chosenDevice()
  return {
    warpgraph: packageVersion(),
    node: process.version,
    platform: `${process.platform}-${process.arch}`,
    addon: {
      path,
      attempts,
      cuda: status.driver && cudaVersion(status.driver.runtimeVersion),
      architectures: status.driver?.architectures ?? null,
    },
    driverCuda: status.driver?.driverVersion ? cudaVersion(status.driver.driverVersion) : null,
    devices: status.usable ? status.devices.map((device, i) => ({ device: `cuda:${i}`, ...device })) : [],
    defaultDevice: chosen.device,
    gpuNotUsed: gpuNotUsed(chosen),
  }
}

type Chosen = { device: string | null; failure?: string }

function chosenDevice(): Chosen {
  try {
    return { device: defaultDevice() }
  } catch (error) {
    return { device: null, failure: (error as Error).message }
  }
}

function gpuNotUsed({ device, failure }: Chosen): Info['gpuNotUsed'] {
  const status = cudaStatus()
  if (failure !== undefined) return { reason: failure, mend: 'Change or unset WARPGRAPH_DEVICE.' }
  if (!status.usable) return { reason: status.reason, mend: status.mend }
  if (device !== 'cpu') return null
  return {
    reason: 'The CPU was chosen as the default device.',
    mend: 'Unset WARPGRAPH_DEVICE, or call setDefaultDevice with a CUDA device.',
  }
}

function packageVersion(): string {
  return JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')).version
}

/** 13000 → `13.0`. */
function cudaVersion(number: number): string {
  return `${Math.floor(number / 1000)}.${Math.floor((number % 1000) / 10)}`
}
