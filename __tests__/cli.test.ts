import { join } from 'node:path'
import { info } from 'warpgraph'
import { root, runNode } from './programs/run'

const cli = join(root, 'dist', 'cli.js')

test('info prints versions, addon, driver and default device, and why the GPU is not used', () => {
  const { stdout, stderr, code } = runNode([cli, 'info'])
  expect([code, stderr]).toEqual([0, ''])
  const rows = new Map(
    stdout
      .trim()
      .split('\n')
      .map((line) => [line.slice(0, 10).trim(), line.slice(11)]),
  )
  const found = info()
  expect(rows.get('warpgraph')).toBe(found.warpgraph)
  expect(rows.get('node')).toBe(`${process.version} (${process.platform}-${process.arch})`)
  expect(rows.get('addon')).toBe(found.addon.path ?? 'not loaded')
  expect(rows.get('default')).toBe(found.defaultDevice)
  for (const { device, name } of found.devices) expect(rows.get(device)).toContain(name)
  if (found.gpuNotUsed === null) expect(rows.has('GPU')).toBe(false)
  else {
    expect(rows.get('GPU')).toBe(`not used. ${found.gpuNotUsed.reason}`)
    expect(rows.get('mend')).toBe(found.gpuNotUsed.mend)
  }
})

test('info names every place that was tried in vain', () => {
  const { stdout, code } = runNode([cli, 'info'], {
    env: { WARPGRAPH_ADDON: '/nowhere/x.node', WARPGRAPH_DEVICE: '' },
  })
  expect(code).toBe(0)
  expect(stdout).toMatch(/^addon +not loaded$/m)
  expect(stdout).toMatch(/^ +environment: \/nowhere\/x\.node: no such file$/m)
  expect(stdout).toMatch(/^driver +none$/m)
  expect(stdout).toMatch(
    /^GPU +not used\. The native addon was not loaded \(\/nowhere\/x\.node: no such file\)\.$/m,
  )
  expect(stdout).toMatch(/^mend +\S/m)
})

test('info --json is what info() gives', () => {
  const { stdout, stderr, code } = runNode([cli, 'info', '--json'])
  expect([code, stderr]).toEqual([0, ''])
  const printed = JSON.parse(stdout)
  expect(Object.keys(printed).sort()).toEqual(
    [
      'addon',
      'defaultDevice',
      'devices',
      'driver',
      'driverCuda',
      'gpuNotUsed',
      'node',
      'platform',
      'warpgraph',
    ].sort(),
  )
  expect(printed).toEqual(JSON.parse(JSON.stringify(info())))
})

test('info works, and says so, when the chosen device cannot be used', () => {
  const env = { WARPGRAPH_DEVICE: 'cuda:99' }
  const { stdout, code } = runNode([cli, 'info'], { env })
  expect(code).toBe(0)
  expect(stdout).toMatch(/^default +none$/m)
  expect(stdout).toMatch(/^GPU +not used\. .+/m)
})

test.each([[['--help']], [['-h']], [['info', '--help']]])('%j prints the usage', (args) => {
  const { stdout, stderr, code } = runNode([cli, ...args])
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toMatch(/^usage: warpgraph info \[--json\]\n/m)
})

test.each([
  [[]],
  [['inf']],
  [['info', '--jsn']],
  [['info', 'extra']],
  [['--json']],
  [['info', '--json', 'x']],
])('wrong usage %j: exit code 2 and the usage on stderr', (args) => {
  const { stdout, stderr, code } = runNode([cli, ...args])
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toMatch(/^usage: warpgraph info \[--json\]\n/m)
})

test("--version is the package's", () => {
  const { stdout, code } = runNode([cli, '--version'])
  expect([stdout, code]).toEqual([`${info().warpgraph}\n`, 0])
})
