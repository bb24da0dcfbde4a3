import { info } from '../lib/info'

/** Before all tests: says once which devices they run on. */
export default function printDevices(): void {
  const { devices, gpuNotUsed } = info()
  const names = ['cpu', ...devices.filter(({ unusable }) => unusable === null).map(({ device }) => device)]
  const absent = names.length > 1 ? '' : `; not tested: a GPU (${gpuNotUsed?.reason})`
  process.stdout.write(`\ntests run on ${names.join(', ')}${absent}\n`)
}
