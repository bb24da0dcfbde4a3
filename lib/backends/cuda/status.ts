import { existsSync } from 'node:fs'
import type { DeviceProperties, DriverStatus } from '../../../typings/addon'
import { loadAddon } from './addon'

/** A GPU as the driver tells of it, and why it cannot be used; null when it can. */
export interface CudaDevice extends DeviceProperties {
  readonly unusable: Verdict | null
}

/** Why something cannot be used, and what would mend that. */
export interface Verdict {
  readonly reason: string
  readonly mend: string
}

/** What CUDA offers to this process. */
export interface CudaStatus {
  readonly driver: DriverStatus | null
  /** By the driver's index. A device that does not answer has no properties, and stands here as its verdict alone. */
  readonly devices: readonly (CudaDevice | { readonly unusable: Verdict })[]
  /** Why no device can be used; null when at least one can. */
  readonly unusable: Verdict | null
}

let status: CudaStatus | undefined

export function cudaStatus(): CudaStatus {
  status ??= findOut()
  return status
}

function findOut(): CudaStatus {
  const { addon, attempts } = loadAddon()
  if (addon === null) {
    const failures = attempts.map(({ path, failure }) => `${path}: ${failure}`)
    return { driver: null, devices: [], unusable: withoutAddon(failures) }
  }
  const driver = addon.driverStatus()
  if (driver.error !== null || driver.deviceCount === 0) {
    return { driver, devices: [], unusable: withoutDevice(driver) }
  }
  const devices = Array.from({ length: driver.deviceCount }, (_, index) => {
    try {
      const properties = addon.deviceProperties(index)
      return { ...properties, unusable: unsupported(properties, driver.architectures) }
    } catch (error) {
      const reason = `cuda:${index} does not answer: ${error instanceof Error ? error.message : error}.`
      return { unusable: { reason, mend: 'Run nvidia-smi to see its state.' } }
    }
  })
  const usable = devices.some((device) => device.unusable === null)
  return { driver, devices, unusable: usable ? null : devices[0]!.unusable }
}

/**
 * Machine code runs on its own major capability at the same or a newer minor; the PTX of the newest runs on
 * everything newer.
 *
 * @param architectures of the addon, for example "75 80 90"
 */
export function unsupported(
  { name, computeCapability: [major, minor] }: Pick<DeviceProperties, 'name' | 'computeCapability'>,
  architectures: string,
): Verdict | null {
  const built = architectures.split(' ').map(Number)
  const own = 10 * major + minor
  const runs = built.some((code) => Math.floor(code / 10) === major && code <= own)
  if (runs || own > Math.max(...built)) return null
  return {
    reason: `The addon has no code for ${name}, compute capability ${major}.${minor} (it has ${architectures}).`,
    mend: 'Use a card of compute capability 7.5 or newer, or build the addon for it: WARPGRAPH_CUDA_ARCH.',
  }
}

const withoutDriver = 'Without an NVIDIA GPU there is nothing to mend. With one, install its driver first.'

function withoutAddon(failures: string[]): Verdict {
  const reason = `The native addon was not loaded (${failures.join('; ')}).`
  if (process.env.WARPGRAPH_ADDON) return { reason, mend: 'Correct or unset WARPGRAPH_ADDON.' }
  if (process.platform === 'linux' && !existsSync('/proc/driver/nvidia')) {
    return {
      reason: 'No NVIDIA driver was found, and no native addon was loaded.',
      mend: withoutDriver,
    }
  }
  const supported = process.platform === 'linux' && process.arch === 'x64'
  return {
    reason,
    mend: supported
      ? 'Reinstall the package on a system with glibc 2.31 or newer (not musl), or build the addon in a checkout: npm run build.'
      : `Prebuilt addons exist for linux-x64, this is ${process.platform}-${process.arch}: build one in a checkout.`,
  }
}

function withoutDevice(driver: DriverStatus): Verdict {
  if (driver.driverVersion === 0) {
    return { reason: 'No NVIDIA driver was found.', mend: withoutDriver }
  }
  if (driver.error?.cudaName === 'cudaErrorInsufficientDriver') {
    return {
      reason: `The NVIDIA driver is too old for CUDA ${cudaVersion(driver.runtimeVersion)}, which the addon was built with.`,
      mend: 'Update the driver (580 or newer for CUDA 13, 525 or newer for CUDA 12).',
    }
  }
  const said =
    driver.error === null ? 'it counts no devices' : `${driver.error.cudaName}: ${driver.error.message}`
  return {
    reason: `The NVIDIA driver offers no CUDA device (${said}).`,
    mend: 'Check nvidia-smi, CUDA_VISIBLE_DEVICES and the container’s GPU settings.',
  }
}

/** 13000 → `13.0`. */
export function cudaVersion(number: number): string {
  return `${Math.floor(number / 1000)}.${Math.floor((number % 1000) / 10)}`
}
