#!/usr/bin/env node
import { type Info, info } from './info'

const usage = `usage: warpgraph info [--json]
       warpgraph --version

  info     what was found on this machine: Node, the native addon, the driver, the devices, the default
           device, and where the GPU is not used, the reason and the mend
  --json   the same for programs`

function main(args: readonly string[]): void {
  const [command, ...options] = args
  if (command === 'info' && options.every((option) => option === '--json')) {
    const found = info()
    console.log(options.length > 0 ? JSON.stringify(found, null, 2) : report(found))
    return
  }
  if (args.includes('--help') || args.includes('-h')) {
    console.log(usage)
    return
  }
  if (args.length === 1 && command === '--version') {
    console.log(info().warpgraph)
    return
  }
  if (args.length > 0) console.error(`warpgraph: not understood: ${args.join(' ')}`)
  console.error(usage)
  process.exitCode = 2
}

function report(found: Info): string {
  const rows: [string, string][] = [
    ['warpgraph', found.warpgraph],
    ['node', `${found.node} (${found.platform})`],
    ['addon', found.addon.path ?? 'not loaded'],
    // A place without an addon is no fault where another place has one.
    ...(found.addon.path === null ? found.addon.attempts : []).map(
      ({ source, path, failure }): [string, string] => ['', `${source}: ${path}: ${failure}`],
    ),
    ['built for', found.addon.cuda ? `CUDA ${found.addon.cuda}, sm ${found.addon.architectures}` : '-'],
    [
      'driver',
      found.driverCuda ? `${found.driver ?? 'version unknown'}, supports CUDA ${found.driverCuda}` : 'none',
    ],
    ...found.devices.map((device): [string, string] => [device.device, describeDevice(device)]),
    ['default', found.defaultDevice ?? 'none'],
  ]
  if (found.gpuNotUsed) {
    rows.push(['GPU', `not used. ${found.gpuNotUsed.reason}`], ['mend', found.gpuNotUsed.mend])
  }
  return rows.map(([name, value]) => `${name.padEnd(10)} ${value}`).join('\n')
}

function describeDevice(device: Info['devices'][number]): string {
  const { name, computeCapability, totalBytes, multiprocessors, unusable } = device
  const properties = computeCapability
    ? `${name}, compute capability ${computeCapability.join('.')}, ` +
      `${(totalBytes! / 2 ** 30).toFixed(1)} GiB, ${multiprocessors} multiprocessors`
    : 'unknown'
  return unusable ? `${properties}; not usable: ${unusable.reason}` : properties
}

main(process.argv.slice(2))
