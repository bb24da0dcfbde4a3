import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { loadAddon, packageRoot } from '../lib/backends/cuda/addon'
import { DeviceError } from '../lib/errors'
import type { Addon, BufferHandle } from '../typings/addon'
import { notTested } from './absent'

// Below lib/ every argument was checked already. What is tested here is the last guard: whatever the addon is called
// with, it answers with an error that can be caught, and never reads or writes outside a buffer.

const { addon, path, attempts } = loadAddon()
const built = join(packageRoot, 'build', 'Release', 'warpgraph.node')

/** The addon without types, for wrong arguments. */
// biome-ignore lint/suspicious/noExplicitAny: wrong arguments are the point
type Untyped = Record<keyof Addon, (...args: any[]) => unknown>

/** An error of the addon's: it begins with the name of the function, for reads the public method's. Errors made in C++ are of jest's outer realm. */
function refusal(op: string): Error {
  return expect.objectContaining({ message: expect.stringMatching(new RegExp(`^${op}: .+`)) })
}

if (addon === null) {
  notTested('the addon', attempts.map((a) => `${a.path}: ${a.failure}`).join('; '))
  test('an addon that was built is one that loads', () => expect(existsSync(built)).toBe(false))
} else {
  const { deviceCount } = addon.driverStatus()
  describe('the addon anywhere', () => anywhere(addon, addon as unknown as Untyped))
  if (deviceCount > 0) describe('the addon on a GPU', () => onGpu(addon, addon as unknown as Untyped))
  else notTested('guards that need device buffers', 'no GPU')
}

function anywhere(loaded: Addon, untyped: Untyped): void {
  test('loads, from the build where there is one, and says what the driver says', () => {
    if (existsSync(built) && !process.env.WARPGRAPH_ADDON) expect(path).toBe(built)
    const { driverVersion, runtimeVersion, architectures, deviceCount, error } = loaded.driverStatus()
    expect(runtimeVersion).toBeGreaterThanOrEqual(12000)
    expect(architectures).toMatch(/^\d{2,3}( \d{2,3})*$/)
    if (deviceCount > 0) {
      expect(driverVersion).toBeGreaterThanOrEqual(12000)
      expect(error).toBeNull()
    } else {
      // Without a driver CUDA answers "insufficient driver", with one but no device "no device".
      expect(error).toEqual({
        cudaName: driverVersion === 0 ? 'cudaErrorInsufficientDriver' : expect.stringMatching(/^cudaError/),
        message: expect.stringMatching(/\w/),
      })
    }
  })

  test('a device beyond the last is an error', () => {
    const { deviceCount } = loaded.driverStatus()
    for (const device of [deviceCount, 4096, 2 ** 32, -1, 0.5, NaN]) {
      expect(() => loaded.deviceProperties(device)).toThrow(refusal('deviceProperties'))
      expect(() => loaded.allocate(device, 16)).toThrow(refusal('allocate'))
      expect(() => loaded.upload(device, new Float32Array(4))).toThrow(refusal('upload'))
      expect(() => loaded.memory(device)).toThrow(refusal('memory'))
      expect(() => loaded.synchronize(device)).toThrow(refusal('synchronize'))
      expect(() => loaded.emptyCache(device)).toThrow(refusal('emptyCache'))
    }
  })

  const noHandle: [string, unknown][] = [
    ['never given', 123456789],
    ['negative', -1],
    ['fractional', 1.5],
    ['NaN', NaN],
    ['beyond 2^53', 2 ** 60],
    ['infinite', Infinity],
    ['a string', '1'],
    ['null', null],
    ['undefined', undefined],
    ['an object', {}],
    ['a bigint', 1n],
  ]

  test.each(noHandle)('a handle that is %s is refused', async (_, handle) => {
    expect(() => untyped.release(handle)).toThrow(refusal('release'))
    expect(() => untyped.fill(handle, 0)).toThrow(refusal('fill'))
    expect(() => untyped.download(handle, new Float32Array(1))).toThrow(refusal('dataSync'))
    await expect((async () => untyped.downloadAsync(handle, new Float32Array(1)))()).rejects.toEqual(
      refusal('data'),
    )
    expect(() => untyped.cast(handle, 0, handle, 0, 1)).toThrow(refusal('cast'))
    expect(() => untyped.segmentSoftmax(handle, handle, handle, 0, 1)).toThrow(refusal('segmentSoftmax'))
    expect(() => untyped.releaseStructure(handle)).toThrow(refusal('csr'))
  })

  /** Functions with the name that messages give them where it is another: that of the public function. */
  const named: [keyof Addon, string?][] = [
    ['setDeviceErrorFactory'],
    ['deviceProperties'],
    ['allocate'],
    ['upload'],
    ['fill'],
    ['download', 'dataSync'],
    ['release'],
    ['memory'],
    ['emptyCache'],
    ['synchronize'],
    ['beginCapture', 'capture'],
    ['replay', 'capture'],
    ['releaseGraph', 'capture'],
    ['copy'],
    ['measureLaunch'],
    ['measureCopy'],
    ['cast'],
    ['dealRows', 'csr'],
    ['createStructure', 'csr'],
    ['releaseStructure', 'csr'],
    ['matmul'],
    ['segmentSoftmax'],
    ['gcnWeights', 'gcnAggregate'],
    ['gcnAggregate'],
    ['csrMax'],
    ['mlaAttention'],
    ['mlaDecode'],
  ]
  test.each(named)('%s without arguments is an error', (name, said = name) => {
    expect(() => untyped[name]()).toThrow(refusal(said))
  })

  test('no function is left out of these', () => {
    const takesNone = ['driverStatus', 'abortCapture', 'endCapture']
    const rejects = ['downloadAsync']
    expect([...named.map(([name]) => name), ...takesNone, ...rejects].sort()).toEqual(
      // The loader adds where it found the addon.
      Object.entries(loaded)
        .flatMap(([name, value]) => (typeof value === 'function' ? [name] : []))
        .sort(),
    )
  })
}

function onGpu(loaded: Addon, untyped: Untyped): void {
  const buffers: BufferHandle[] = []

  function upload(...values: number[]): BufferHandle {
    const handle = loaded.upload(0, Float32Array.from(values))
    buffers.push(handle)
    return handle
  }

  function read(handle: BufferHandle, length: number): number[] {
    const into = new Float32Array(length)
    loaded.download(handle, into)
    return Array.from(into)
  }

  function released(): BufferHandle {
    const handle = loaded.allocate(0, 64)
    loaded.release(handle)
    return handle
  }

  afterEach(() => {
    for (const handle of buffers.splice(0)) loaded.release(handle)
  })

  test('an error of CUDA is made by the factory that was set', () => {
    const tooMuch = () => loaded.allocate(0, 2 ** 50)
    expect(tooMuch).toThrow(DeviceError)
    expect(tooMuch).toThrow(expect.objectContaining({ code: 'ERR_DEVICE_OUT_OF_MEMORY' }))
  })

  test('a released handle is refused by everything, also when its number or memory was given out again', async () => {
    const dead = released()
    const next = upload(1, 2)
    expect(next).not.toBe(dead)
    expect(() => loaded.release(dead)).toThrow(refusal('release'))
    expect(() => loaded.fill(dead, 0)).toThrow(refusal('fill'))
    expect(() => loaded.download(dead, new Float32Array(1))).toThrow(refusal('dataSync'))
    await expect((async () => loaded.downloadAsync(dead, new Float32Array(1)))()).rejects.toEqual(
      refusal('data'),
    )
    expect(read(next, 2)).toEqual([1, 2])
  })

  test('a view longer than the buffer is refused, a shorter one gets the first elements', async () => {
    const buffer = upload(1, 2, 3, 4)
    expect(() => loaded.download(buffer, new Float32Array(5))).toThrow(refusal('dataSync'))
    await expect((async () => loaded.downloadAsync(buffer, new Float32Array(5)))()).rejects.toEqual(
      refusal('data'),
    )
    expect(read(buffer, 2)).toEqual([1, 2])
    const inside = new Float32Array(4).fill(9)
    loaded.download(buffer, inside.subarray(1, 3))
    expect(Array.from(inside)).toEqual([9, 1, 2, 9])
    await loaded.downloadAsync(buffer, inside.subarray(2, 4))
    expect(Array.from(inside)).toEqual([9, 1, 1, 2])
  })

  test('a read in flight keeps a released buffer', async () => {
    const values = new Float32Array(1 << 20).fill(3)
    const handle = loaded.upload(0, values)
    const into = new Float32Array(values.length)
    const reading = loaded.downloadAsync(handle, into)
    loaded.release(handle)
    const other = loaded.upload(0, new Float32Array(1 << 20).fill(4))
    buffers.push(other)
    await reading
    expect(into.every((x) => x === 3)).toBe(true)
  })

  test.each<[string, unknown[]]>([
    ['no view', [0, [1, 2]]],
    ['a string', [0, 'abc']],
    ['nothing', [0]],
    ['an ArrayBuffer', [0, new ArrayBuffer(8)]],
    ['a device that is no number', ['0', new Float32Array(1)]],
  ])('upload of %s is refused', (_, args) => {
    expect(() => untyped.upload(...args)).toThrow(refusal('upload'))
  })

  test.each([-1, 0.5, NaN, 2 ** 63, '8', null])('allocating %p bytes is refused', (bytes) => {
    expect(() => untyped.allocate(0, bytes)).toThrow(refusal('allocate'))
  })

  test('a buffer of no bytes is one like others', () => {
    const empty = loaded.allocate(0, 0)
    loaded.fill(empty, 255)
    expect(read(empty, 0)).toEqual([])
    loaded.release(empty)
  })
}
