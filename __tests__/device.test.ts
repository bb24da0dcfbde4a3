import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type DeviceError,
  defaultDevice,
  device,
  devices,
  type Info,
  info,
  setDefaultDevice,
  tensor,
} from 'warpgraph'
import { unsupported } from '../lib/backends/cuda/status'
import { notTested } from './absent'
import { onEachDevice, testDevices } from './devices'
import { type Ended, root, runNode } from './programs/run'

/** Runs statements with the library as `w`; what they `print` comes back, or the error they throw. */
function inChild(statements: string, env: Record<string, string | undefined>): Ended & { printed: unknown } {
  const program = `
    const w = require(${JSON.stringify(root)})
    const print = (value) => console.log(JSON.stringify(value))
    try { ${statements} } catch ({ name, code, message }) { print({ name, code, message }) }`
  const ended = runNode(['-e', program], {
    env: { WARPGRAPH_ADDON: undefined, WARPGRAPH_DEVICE: undefined, ...env },
  })
  return { ...ended, printed: ended.code === 0 ? JSON.parse(ended.stdout) : undefined }
}

const missing = '/nowhere/warpgraph.node'
/** Makes any machine one without a usable GPU. */
const withoutAddon = { WARPGRAPH_ADDON: missing }
const gpus = testDevices.filter((name) => name !== 'cpu')

test('devices() lists the CPU first, then the GPUs by number', () => {
  expect(devices()).toEqual(['cpu', ...gpus.map((_, i) => `cuda:${i}`)])
})

onEachDevice('a device', (name) => {
  test('can be asked for, made the default, and used', () => {
    const before = defaultDevice()
    try {
      setDefaultDevice(name)
      expect([defaultDevice(), device(), device(name)]).toEqual([name, name, name])
      const t = tensor([1, 2])
      expect([t.device, Array.from(t.dataSync())]).toEqual([name, [1, 2]])
      // An explicit device goes before the default.
      expect(tensor([1], { device: 'cpu' }).device).toBe('cpu')
    } finally {
      setDefaultDevice(before)
    }
  })

  test('can be chosen by WARPGRAPH_DEVICE', () => {
    const { printed } = inChild('print([w.defaultDevice(), w.tensor([1]).device])', {
      WARPGRAPH_DEVICE: name,
    })
    expect(printed).toEqual([name, name])
  })

  test('chosen by setDefaultDevice goes before WARPGRAPH_DEVICE', () => {
    const statements = `w.setDefaultDevice(${JSON.stringify(name)}); print(w.defaultDevice())`
    expect(inChild(statements, { WARPGRAPH_DEVICE: 'nonsense' }).printed).toBe(name)
  })
})

test('without a choice the default is the first GPU, else the CPU', () => {
  const found = inChild('print([w.defaultDevice(), w.device()])', {})
  const first = gpus[0] ?? 'cpu'
  expect(found.printed).toEqual([first, first])
  expect(inChild('print(w.defaultDevice())', withoutAddon).printed).toBe('cpu')
  expect(inChild('print(w.defaultDevice())', { ...withoutAddon, WARPGRAPH_DEVICE: '' }).printed).toBe('cpu')
})

if (gpus.length > 0) {
  test("'cuda' is the first GPU, and a number beyond the last is refused", () => {
    expect(device('cuda')).toBe('cuda:0')
    expect(tensor([1], { device: 'cuda' }).device).toBe('cuda:0')
    const beyond = `cuda:${gpus.length}` as const
    expect(() => device(beyond)).toThrow(
      expect.objectContaining({
        name: 'DeviceError',
        code: 'ERR_DEVICE_UNAVAILABLE',
        message: `device: device ${beyond} cannot be used: this machine has ${gpus.length} CUDA device(s), counted from 0`,
      }),
    )
  })
}

describe('a GPU that was chosen but cannot be used is an error that says why and what to do', () => {
  const why = `device cuda cannot be used: The native addon was not loaded (${missing}: no such file). `
  test.each([
    ['setDefaultDevice', "w.setDefaultDevice('cuda')", {}],
    ['device', "w.device('cuda')", {}],
    ['tensor', "w.tensor([1], { device: 'cuda' })", {}],
    ['to', "w.tensor([1]).to('cuda')", {}],
    ['memory', "w.memory('cuda')", {}],
    ['WARPGRAPH_DEVICE', 'w.tensor([1])', { WARPGRAPH_DEVICE: 'cuda' }],
    ['WARPGRAPH_DEVICE', 'w.defaultDevice()', { WARPGRAPH_DEVICE: 'cuda' }],
  ])('%s: %s', (op, statement, env) => {
    const { printed } = inChild(`${statement}; print('no error')`, { ...withoutAddon, ...env })
    const { name, code, message } = printed as DeviceError
    expect([name, code]).toEqual(['DeviceError', 'ERR_DEVICE_UNAVAILABLE'])
    expect(message.startsWith(`${op}: ${why}`)).toBe(true)
    // The mend comes after the reason.
    expect(message.length).toBeGreaterThan(`${op}: ${why}`.length + 20)
  })

  test('every call says it again: there is no silent change to the CPU', () => {
    const statements = `
      const say = (f) => { try { return f().device ?? 'ok' } catch (e) { return e.code } }
      print([say(() => w.tensor([1])), say(() => w.tensor([1])), say(() => w.tensor([1], { device: 'cpu' }))])`
    const { printed } = inChild(statements, { ...withoutAddon, WARPGRAPH_DEVICE: 'cuda' })
    expect(printed).toEqual(['ERR_DEVICE_UNAVAILABLE', 'ERR_DEVICE_UNAVAILABLE', 'cpu'])
  })
})

test('WARPGRAPH_DEVICE that names no device is an error, and info() tells of it', () => {
  const env = { WARPGRAPH_DEVICE: 'gpu' }
  const message = "WARPGRAPH_DEVICE: device must be 'cpu', 'cuda' or 'cuda:N', got \"gpu\""
  const found = inChild('print(w.info())', env).printed as Info
  const error = inChild('w.defaultDevice()', env).printed
  expect(error).toEqual({ name: 'RangeError', code: 'ERR_ARG_VALUE', message })
  expect(found.defaultDevice).toBeNull()
  expect(JSON.stringify(found)).toContain('WARPGRAPH_DEVICE: device must be')
})

describe('info()', () => {
  test('agrees with devices() and defaultDevice()', () => {
    const found = info()
    expect(found.warpgraph).toBe(require('../package.json').version)
    expect([found.node, found.platform]).toEqual([process.version, `${process.platform}-${process.arch}`])
    expect(found.devices.map((d) => d.device)).toEqual(gpus)
    expect(found.defaultDevice).toBe(defaultDevice())
    expect(
      found.addon.attempts.filter((attempt) => attempt.failure === null).map(({ path }) => path),
    ).toEqual(found.addon.path === null ? [] : [found.addon.path])
    expect(found.gpuNotUsed === null).toBe(defaultDevice() !== 'cpu')
    for (const { totalBytes, computeCapability, name, multiprocessors } of found.devices) {
      expect(totalBytes).toBeGreaterThan(2 ** 30)
      expect(computeCapability![0]).toBeGreaterThanOrEqual(5)
      expect(name).toMatch(/\w/)
      expect(multiprocessors).toBeGreaterThan(0)
    }
  })

  test('says so when the CPU was chosen although a GPU is there, else why there is none', () => {
    const { printed } = inChild('print(w.info())', { WARPGRAPH_DEVICE: 'cpu' })
    const { defaultDevice: chosen, gpuNotUsed } = printed as Info
    expect(chosen).toBe('cpu')
    expect(gpuNotUsed!.reason).toBe(
      gpus.length > 0 ? 'The CPU was chosen as the default device.' : info().gpuNotUsed!.reason,
    )
  })
})

describe('WARPGRAPH_ADDON', () => {
  let folder: string

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'warpgraph-addon-'))
    writeFileSync(join(folder, 'garbage.node'), 'this is no shared library')
    writeFileSync(join(folder, 'empty.node'), '')
    writeFileSync(join(folder, 'other.js'), 'module.exports = {}')
  })

  afterAll(() => rmSync(folder, { recursive: true }))

  /** What info() keeps, and proof that the CPU works all the same. */
  function foundWith(path: string): Info {
    const statements = `
      const graph = w.csr([0, 2, 2], [0, 1])
      const y = w.csrMax(graph, w.tensor([[1], [5]]), { empty: 0 })
      print({ info: w.info(), y: Array.from(y.dataSync()), device: y.device })`
    const { printed, stderr } = inChild(statements, { WARPGRAPH_ADDON: path })
    expect(stderr).toBe('')
    const { info: found, y, device: on } = printed as { info: Info; y: number[]; device: string }
    expect([on, y]).toEqual(['cpu', [5, 0]])
    return found
  }

  test('naming no file: the reason is kept, nothing else is tried, the CPU works', () => {
    const { addon, gpuNotUsed, devices: listed, defaultDevice: chosen } = foundWith(missing)
    expect(addon).toEqual({
      path: null,
      attempts: [{ source: 'environment', path: missing, failure: 'no such file' }],
      cuda: null,
      architectures: null,
    })
    expect([listed, chosen]).toEqual([[], 'cpu'])
    expect(gpuNotUsed!.reason).toBe(`The native addon was not loaded (${missing}: no such file).`)
    expect(gpuNotUsed!.mend).toMatch(/WARPGRAPH_ADDON/)
  })

  test.each(['garbage.node', 'empty.node', 'other.js'])(
    'naming %s: the reason is kept and the CPU works',
    (name) => {
      const path = join(folder, name)
      const { addon } = foundWith(path)
      expect(addon.path).toBeNull()
      expect(addon.attempts).toEqual([
        { source: 'environment', path, failure: expect.stringMatching(/\w+ \w+/) },
      ])
    },
  )

  test('a relative path counts from the current folder', () => {
    const program = `console.log(require(${JSON.stringify(root)}).info().addon.attempts[0].failure)`
    const { stdout } = runNode(['-e', program], { cwd: folder, env: { WARPGRAPH_ADDON: 'garbage.node' } })
    const absolute = runNode(['-e', program], {
      env: { WARPGRAPH_ADDON: join(folder, 'garbage.node') },
    }).stdout
    // What the system's loader says of the file, not that a module of that name was not found.
    expect(stdout).not.toContain('Cannot find module')
    expect(stdout.replaceAll(`${folder}/`, '')).toBe(absolute.replaceAll(`${folder}/`, ''))
  })

  test('naming the addon that was found anyway: it is loaded from there', () => {
    const { path } = info().addon
    if (path === null) {
      notTested('loading an addon by WARPGRAPH_ADDON', 'none was built')
      return
    }
    const { printed } = inChild('print(w.info().addon)', { WARPGRAPH_ADDON: path })
    expect(printed).toMatchObject({ path, attempts: [{ source: 'environment', path, failure: null }] })
  })
})

describe('a GPU that the addon has no code for cannot be used, and the verdict says so', () => {
  const card = (major: number, minor: number) => ({
    name: 'a card',
    computeCapability: [major, minor] as [number, number],
  })

  test.each([
    [7, 5, '75 80 90'],
    [8, 6, '75 80 90'], // machine code of 8.0 runs on 8.6
    [9, 0, '75 80 90'],
    [12, 0, '75 80 90'], // the driver compiles the PTX of 9.0
  ])('%d.%d runs %s', (major, minor, built) => {
    expect(unsupported(card(major, minor), built)).toBeNull()
  })

  test.each([
    [7, 0, '75 80 90'],
    [6, 1, '75 80 90'],
    [8, 6, '75 89 90'], // machine code of 8.9 does not run on 8.6
    [8, 0, '90'],
  ])('%d.%d does not run %s', (major, minor, built) => {
    expect(unsupported(card(major, minor), built)).toEqual({
      reason: `The addon has no code for a card, compute capability ${major}.${minor} (it has ${built}).`,
      mend: expect.stringContaining('WARPGRAPH_CUDA_ARCH'),
    })
  })
})
