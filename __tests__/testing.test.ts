import { csr, csrMax, gcnAggregate, memory, segmentSoftmax, segments, type Tensor, tensor } from 'warpgraph'
import { type CompareDevicesOptions, compareDevices } from 'warpgraph/testing'
import { testDevices } from './devices'
import { collectGarbage } from './garbage'
import 'warpgraph/testing/jest'

const cpu = ['cpu'] as const

/** A function whose first run, the reference, gives `expected`, and every later one `actual`. */
function differing(expected: number[], actual: number[], shape: number[] = [expected.length]): () => Tensor {
  let runs = 0
  return () => tensor(runs++ === 0 ? expected : actual, { shape, device: 'cpu' })
}

async function compareValues(
  expected: number[],
  actual: number[],
  options: CompareDevicesOptions = { atol: 0 },
) {
  const fn = differing(expected, actual)
  const result = await compareDevices(fn, [], { devices: cpu, ...options })
  const output = result.devices[0]!.outputs[0]!
  expect([result.ok, result.devices[0]!.ok]).toEqual([output.ok, output.ok])
  return output
}

describe('compareDevices', () => {
  test('the largest differences with their indices', async () => {
    // Absolute: 8 at [1, 0]; relative: 0.25 / 0.5 at [0, 1].
    const fn = differing([1, 0.5, 64, 3, 4, 5], [1, 0.75, 56, 3, 4, 5], [3, 2])
    const { devices, ok } = await compareDevices(fn, [], { devices: cpu, atol: 1 })
    expect(ok).toBe(false)
    expect(devices[0]!.outputs).toEqual([
      {
        name: 'result',
        dtype: 'float32',
        shape: [3, 2],
        ok: false,
        maxAbsolute: { difference: 8, index: [1, 0] },
        maxRelative: { difference: 0.5, index: [0, 1] },
        outOfTolerance: 1,
        worst: { index: [1, 0], actual: 56, expected: 64, difference: 8, tolerance: 1 },
        nanMismatches: 0,
        firstNanMismatch: null,
      },
    ])
  })

  test.each([
    ['NaN received', [1, 2], [1, NaN], 1, [1]],
    ['NaN expected', [NaN, 2], [0, 2], 1, [0]],
    ['NaN against infinity', [NaN, Infinity], [Infinity, NaN], 2, [0]],
  ])('%s never passes', async (_, expected, actual, nanMismatches, firstNanMismatch) => {
    const huge = Number.MAX_VALUE
    expect(await compareValues(expected, actual, { atol: huge, rtol: huge })).toMatchObject({
      ok: false,
      nanMismatches,
      firstNanMismatch,
    })
  })

  test.each([
    ['opposite infinities', [Infinity], [-Infinity]],
    ['infinity received', [1], [Infinity]],
    ['infinity expected', [-Infinity], [1]],
  ])('%s are infinitely far apart', async (_, expected, actual) => {
    const output = await compareValues(expected, actual, { atol: 1e30, rtol: 1e30 })
    expect(output).toMatchObject({
      ok: false,
      maxAbsolute: { difference: Infinity, index: [0] },
      maxRelative: { difference: Infinity, index: [0] },
      outOfTolerance: 1,
    })
  })

  test('NaN equals NaN, an infinity itself, 0 equals −0', async () => {
    const values = [NaN, Infinity, -Infinity, 0]
    expect(await compareValues(values, [NaN, Infinity, -Infinity, -0])).toMatchObject({
      ok: true,
      maxAbsolute: { difference: 0, index: [1] },
      maxRelative: { difference: 0, index: [1] },
    })
  })

  test('anything but 0 is infinitely far from 0, relatively', async () => {
    expect((await compareValues([0], [2 ** -20])).maxRelative).toEqual({ difference: Infinity, index: [0] })
  })

  test('the tolerance is atol + rtol·|expected|, inclusive', async () => {
    expect((await compareValues([-8], [-9], { atol: 0.5, rtol: 1 / 16 })).ok).toBe(true)
    expect((await compareValues([-8], [-9], { atol: 0.5, rtol: 1 / 17 })).ok).toBe(false)
    expect((await compareValues([8], [9], { rtol: 1 / 8 })).ok).toBe(true)
    // Of the reference, not of what came: 1/8.5 of 9 would do.
    expect((await compareValues([8], [9], { rtol: 1 / 8.5 })).ok).toBe(false)
    expect((await compareValues([1], [1 + 2e-5], {})).ok).toBe(false)
    expect((await compareValues([1], [1 + 5e-6], {})).ok).toBe(true)
  })

  test('nothing to compare but NaN, and nothing at all', async () => {
    for (const values of [[NaN], []]) {
      const { ok, maxAbsolute } = await compareValues(values, values)
      expect([ok, maxAbsolute]).toEqual([true, { difference: 0, index: null }])
    }
  })

  test('arrays, records, async functions; every device by default', async () => {
    const graph = csr([0, 2, 3, 3], [1, 2, 0])
    const [x, scores] = [tensor([[1], [2], [3]], { shape: [3, 1] }), tensor([1, 2, 3])]
    const result = await compareDevices(
      async ({ x, scores }) => {
        const { values, indices } = csrMax(graph, x, { withIndices: true })
        await null
        return { sum: gcnAggregate(graph, x), values, indices, weights: segmentSoftmax(graph, scores) }
      },
      { x, scores },
    )
    const gpus = testDevices.filter((name) => name !== 'cpu')
    expect(result.cpuOnly).toBe(gpus.length === 0)
    expect(result.devices.map(({ device }) => device)).toEqual(gpus.length === 0 ? ['cpu'] : gpus)
    expect(result.ok).toBe(true)
    expect(result.devices[0]!.outputs.map(({ name, dtype }) => [name, dtype])).toEqual([
      ['sum', 'float32'],
      ['values', 'float32'],
      ['indices', 'int32'],
      ['weights', 'float32'],
    ])
    const pair = await compareDevices((a, b) => [a.cast('float16'), b], [x, scores], { devices: cpu })
    expect(pair.cpuOnly).toBe(true)
    expect(pair.devices[0]!.outputs.map(({ name, dtype }) => [name, dtype])).toEqual([
      ['0', 'float16'],
      ['1', 'float32'],
    ])
    expect([x.disposed, scores.disposed]).toEqual([false, false])
  })

  test.each(testDevices)('frees what it makes on %s, also when the function throws', async (device) => {
    const graph = segments([0, 3])
    const x = tensor([1, 2, 3], { device })
    await compareDevices((x) => segmentSoftmax(graph, x), [x], { devices: [device] })
    await collectGarbage()
    const before = [memory('cpu').tensors, memory(device).tensors]
    await compareDevices((x) => segmentSoftmax(graph, x), [x], { devices: [device] })
    const fail = () => {
      throw new Error('from inside')
    }
    await expect(compareDevices(fail, [x], { devices: [device] })).rejects.toThrow('from inside')
    expect([memory('cpu').tensors, memory(device).tensors]).toEqual(before)
    expect(x).toBeCloseToTensor([1, 2, 3], { atol: 0 })
  })

  test.each<[string, unknown, unknown, unknown, string]>([
    ['fn', 3, [], {}, 'compareDevices: fn must be a function, got number 3'],
    ['inputs', () => 1, 5, {}, 'compareDevices: inputs must be an array or record of tensors, got number 5'],
    [
      'an input',
      () => 1,
      [1],
      {},
      'compareDevices: inputs must be an array or record of tensors, got number 1 at "0"',
    ],
    [
      'result',
      () => 1,
      [],
      {},
      'compareDevices: fn must return a tensor, or an array or record of them, got number 1',
    ],
    ['no result', () => [], [], {}, 'compareDevices: fn must return at least one tensor, got none'],
    ['rtol', () => 1, [], { rtol: NaN }, 'compareDevices: rtol must be finite and at least 0, got NaN'],
    ['atol', () => 1, [], { atol: -1 }, 'compareDevices: atol must be finite and at least 0, got -1'],
    ['atol type', () => 1, [], { atol: '1' }, 'compareDevices: atol must be a number, got "1"'],
    [
      'devices',
      () => 1,
      [],
      { devices: [] },
      'compareDevices: devices must name at least one device, got an array of length 0',
    ],
    [
      'a device',
      () => 1,
      [],
      { devices: ['gpu'] },
      `compareDevices: devices[0] must be 'cpu', 'cuda' or 'cuda:N', got "gpu"`,
    ],
    [
      'an option',
      () => 1,
      [],
      { tol: 1 },
      'compareDevices: options must have only rtol, atol, devices, got "tol"',
    ],
  ])('bad argument: %s', async (_, fn, inputs, options, message) => {
    const untyped = compareDevices as (...args: unknown[]) => Promise<unknown>
    await expect(untyped(fn, inputs, options)).rejects.toThrow(message)
  })

  test('results of different shape are an error', async () => {
    let runs = 0
    const fn = () => tensor(new Float32Array(++runs))
    await expect(compareDevices(fn, [], { devices: cpu })).rejects.toThrow(
      'compareDevices: fn must return result float32 [1] on cpu as on the CPU, got result float32 [2]',
    )
  })
})
