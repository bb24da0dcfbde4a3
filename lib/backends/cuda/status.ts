import type { DeviceProperties, DriverStatus } from '../../../typings/addon'
import { loadAddon } from './addon'

/** Whether CUDA can be used in this process, and if not, why not and what would mend it. */
export type CudaStatus =
  | { readonly usable: true; readonly driver: DriverStatus; readonly devices: readonly DeviceProperties[] }
  | {
      readonly usable: false
      readonly driver: DriverStatus | null
      readonly reason: string
      readonly mend: string
    }

let status: CudaStatus | undefined

export function cudaStatus(): CudaStatus {
  status ??= findOut()
  return status
}

function findOut(): CudaStatus {
  const { addon, attempts } = loadAddon()
  if (addon === null) return withoutAddon(attempts.map(({ path, failure }) => `${path}: ${failure}`))
  const driver = addon.driverStatus()
  if (driver.error !== null || driver.deviceCount === 0) return withoutDevice(driver)
  try {
    const devices = Array.from({ length: driver.deviceCount }, (_, i) => addon.deviceProperties(i))
    return { usable: true, driver, devices }
  } catch (error) {
    return {
      usable: false,
      driver,
      reason: `A CUDA device does not answer: ${error instanceof Error ? error.message : error}.`,
      mend: 'Run nvidia-smi to see its state.',
    }
  }
}

function withoutAddon(failures: string[]): CudaStatus {
  const reason = `The native addon was not loaded (${failures.join('; ')}).`
  if (process.env.WARPGRAPH_ADDON) {
    return { usable: false, driver: null, reason, mend: 'Correct or unset WARPGRAPH_ADDON.' }
  }
  const supported = process.platform === 'linux' && process.arch === 'x64'
  return {
    usable: false,
    driver: null,
    reason,
    mend: supported
      ? 'Reinstall the package, or build the addon with the CUDA toolkit: npm run build in a checkout.'
      : `Prebuilt addons exist for linux-x64, this is ${process.platform}-${process.arch}: build one in a checkout.`,
  }
}

function withoutDevice(driver: DriverStatus): CudaStatus {
  const built = `${Math.floor(driver.runtimeVersion / 1000)}.${Math.floor((driver.runtimeVersion % 1000) / 10)}`
  const common = { usable: false, driver } as const
  if (driver.driverVersion === 0) {
    return {
      ...common,
      reason: 'No NVIDIA driver was found.',
      mend: 'Install one: nvidia-smi should list a GPU.',
    }
  }
  if (driver.error?.cudaName === 'cudaErrorInsufficientDriver') {
    return {
      ...common,
      reason: `The NVIDIA driver is too old for CUDA ${built}, which the addon was built with.`,
      mend: 'Update the driver (580 or newer for CUDA 13, 525 or newer for CUDA 12).',
    }
  }
  const said =
    driver.error === null ? 'it counts no devices' : `${driver.error.cudaName}: ${driver.error.message}`
  return {
    ...common,
    reason: `The NVIDIA driver offers no CUDA device (${said}).`,
    mend: 'Check nvidia-smi, CUDA_VISIBLE_DEVICES and the container’s GPU settings.',
  }
}
