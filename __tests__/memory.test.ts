import { csr, emptyCache, gcnAggregate, memory, segments, type Tensor, tensor } from 'warpgraph'
import { onEachDevice } from './devices'
import { runNode, runProgram } from './programs/run'
import { argumentErrorWith } from './refused'

onEachDevice('lifetime', (device) => {
  // Finalizers of other tests' garbage run between tasks. What is counted here happens within one task.
  function live(): { tensors: number; bytes: number } {
    const { tensors, bytes } = memory(device)
    return { tensors, bytes }
  }

  test.each<[string, (t: Tensor) => unknown]>([
    ['data', (t) => t.data()],
    ['dataSync', (t) => t.dataSync()],
    ['array', (t) => t.array()],
    ['item', (t) => t.item()],
    ['toNdarray', (t) => t.toNdarray()],
    ['to', (t) => t.to('cpu')],
    ['cast', (t) => t.cast('float16')],
    ['reshape', (t) => t.reshape([1])],
  ])('%s() after dispose() is an error', async (method, call) => {
    const t = tensor([1], { device })
    t.dispose()
    const message = `${method}: tensor must be alive, got one that was disposed`
    await expect((async () => call(t))()).rejects.toEqual(argumentErrorWith('ERR_DISPOSED', message))
  })

  test('what a disposed tensor was can still be asked', () => {
    const t = tensor([[1, 2]], { device })
    expect(t.disposed).toBe(false)
    t.dispose()
    expect([t.disposed, t.dtype, t.shape, t.rank, t.size, t.device]).toEqual([
      true,
      'float32',
      [1, 2],
      2,
      2,
      device,
    ])
  })

  test('dispose() twice frees once', () => {
    const before = live()
    const t = tensor([1, 2], { device })
    const view = t.reshape([2, 1])
    t.dispose()
    t.dispose()
    t[Symbol.dispose]()
    expect(Array.from(view.dataSync())).toEqual([1, 2])
    view.dispose()
    expect(live()).toEqual(before)
  })

  test('using disposes at the end of the block, also when it throws', () => {
    const before = live()
    let seen: Tensor | undefined
    {
      using t = tensor([1], { device })
      seen = t
      expect(live().tensors).toBe(before.tensors + 1)
    }
    expect(seen.disposed).toBe(true)
    expect(() => {
      using t = tensor([2], { device })
      seen = t
      throw new Error('on purpose')
    }).toThrow('on purpose')
    expect(seen.disposed).toBe(true)
    expect(live()).toEqual(before)
  })

  test('views count once, and the last of them frees', () => {
    const before = live()
    const t = tensor(new Float32Array(256), { device })
    const one = live()
    expect(one.tensors).toBe(before.tensors + 1)
    const views = [t.reshape([16, 16]), t.to(device), t.cast('float32')]
    expect(live()).toEqual(one)
    t.dispose()
    for (const view of views) {
      expect(live()).toEqual(one)
      view.dispose()
    }
    expect(live()).toEqual(before)
  })

  test.each([
    ['float32', 4],
    ['int32', 4],
    ['float16', 2],
    ['bfloat16', 2],
  ] as const)('%s takes %i bytes an element', (dtype, bytes) => {
    const before = live().bytes
    using _ = tensor(new Float32Array(1024), { dtype, device })
    expect(live().bytes - before).toBe(1024 * bytes)
  })

  test('a tensor that cannot be made leaves nothing behind', () => {
    const before = live()
    expect(() => tensor([1.5], { dtype: 'int32', device })).toThrow(RangeError)
    expect(() => tensor([1, 2], { shape: [3], device })).toThrow(RangeError)
    using x = tensor([[1], [2]], { device })
    const graph = csr([0, 1, 2], [0, 1])
    const held = live()
    expect(() => gcnAggregate(graph, x, { degrees: tensor([1], { device }) })).toThrow(RangeError)
    // The degrees themselves, made in the call, are all that is left.
    expect(live().tensors).toBe(held.tensors + 1)
    x.dispose()
    expect(live().tensors).toBe(before.tensors + 1)
  })

  test('a graph comes to the device when first used, stays there, and dispose() takes all of it back', () => {
    const before = live()
    const graph = csr([0, 1, 2], [1, 0])
    expect(live()).toEqual(before)
    using x = tensor([[1], [2]], { device })
    gcnAggregate(graph, x).dispose()
    const used = live()
    expect(used.tensors).toBeGreaterThan(before.tensors + 1)
    gcnAggregate(graph, x).dispose()
    expect(live()).toEqual(used)
    graph.dispose()
    graph.dispose()
    x.dispose()
    expect(live()).toEqual(before)
  })

  test('a graph that is never used on a device can be disposed', () => {
    const before = live()
    segments([0, 0]).dispose()
    expect(live()).toEqual(before)
  })

  test('the figures fit together', () => {
    const { device: name, freeBytes, totalBytes, cachedBytes } = memory(device)
    expect(name).toBe(device)
    expect(totalBytes).toBeGreaterThan(2 ** 28)
    expect(freeBytes).toBeGreaterThan(0)
    expect(freeBytes).toBeLessThanOrEqual(totalBytes)
    expect(cachedBytes).toBeGreaterThanOrEqual(0)
  })

  test('emptyCache() gives back what disposed tensors left', () => {
    tensor(new Float32Array(1 << 20), { device }).dispose()
    emptyCache(device)
    expect(memory(device).cachedBytes).toBe(0)
  })

  test('the garbage collector frees what nobody can reach: tensors, views, graphs', () => {
    const { stdout, stderr, code } = runProgram('garbage', [device], { nodeArgs: ['--expose-gc'] })
    expect({ stderr, code }).toEqual({ stderr: '', code: 0 })
    const { before, made, after } = JSON.parse(stdout)
    expect(made.tensors).toBeGreaterThan(before.tensors + 100)
    expect(after).toEqual(before)
  })

  test('Symbol.dispose is there in a plain Node process', () => {
    const program = `
      const { tensor, csr } = require('.')
      const t = tensor([1], { device: ${JSON.stringify(device)} }); t[Symbol.dispose]()
      const g = csr([0], []); g[Symbol.dispose]()
      console.log(t.disposed, g.disposed)`
    expect(runNode(['-e', program])).toEqual({ stdout: 'true true\n', stderr: '', code: 0, signal: null })
  })
})
