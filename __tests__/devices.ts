import { type DeviceName, devices, info } from 'warpgraph'

/**
 * The devices that every op is tested on. `WARPGRAPH_DEVICE=cuda` makes a missing GPU a failure; otherwise
 * `global_setup.ts` prints that it is absent.
 */
export const testDevices: readonly DeviceName[] = present()

function present(): DeviceName[] {
  const { gpuNotUsed } = info()
  const found = devices()
  if (found.length > 1) return found
  if (process.env.WARPGRAPH_DEVICE?.startsWith('cuda')) throw new Error(gpuNotUsed?.reason)
  return found
}

/** A block of tests per device present. */
export function onEachDevice(name: string, body: (device: DeviceName) => void): void {
  describe.each(testDevices)(`${name} on %s`, body)
}
