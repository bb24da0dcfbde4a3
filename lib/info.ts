import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DeviceProperties } from '../typings/addon'
import { type LoadAttempt, loadAddon, packageRoot } from './backends/cuda/addon'
import { cudaStatus, cudaVersion } from './backends/cuda/status'
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
  /** The installed NVIDIA driver's own version, where the system tells it. */
  readonly driver: string | null
  /** The newest CUDA version that the driver supports; null without a driver. */
  readonly driverCuda: string | null
  /** The GPUs, those that cannot be used with the reason and the mend. */
  readonly devices: readonly (Partial<DeviceProperties> & {
    readonly device: string
    readonly unusable: { readonly reason: string; readonly mend: string } | null
  })[]
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
    driver: driverVersion(),
    driverCuda: status.driver?.driverVersion ? cudaVersion(status.driver.driverVersion) : null,
    devices: status.devices.map((device, i) => ({ device: `cuda:${i}`, ...device })),
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
  if (failure !== undefined) return { reason: failure, mend: 'Change or unset WARPGRAPH_DEVICE.' }
  const { unusable } = cudaStatus()
  if (unusable !== null) return unusable
  if (device !== 'cpu') return null
  return {
    reason: 'The CPU was chosen as the default device.',
    mend: 'Unset WARPGRAPH_DEVICE, or call setDefaultDevice with a CUDA device.',
  }
}

function packageVersion(): string {
  try {
    return JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')).version
  } catch {
    return 'unknown' // bundled with other code
  }
}

/** From the kernel module; its file reads `NVRM version: NVIDIA … Kernel Module  580.95.05  …`. */
function driverVersion(): string | null {
  try {
    const text = readFileSync('/proc/driver/nvidia/version', 'utf8')
    return /Kernel Module.*?\s(\d+(?:\.\d+)+)/.exec(text)?.[1] ?? null
  } catch {
    return null
  }
}
