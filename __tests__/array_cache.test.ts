import { ArrayCache } from 'lib/backends/cpu/array_cache'
import { dtypes } from 'lib/dtype'
import { csr, emptyCache, gcnAggregate, memory, tensor } from 'warpgraph'

const MiB = 2 ** 20

describe("the CPU's cache of arrays", () => {
  test('gives the memory of an array to one of the same size, once, whatever its dtype', () => {
    const cache = new ArrayCache()
    const freed = new Float32Array(MiB)
    cache.keep(freed)
    expect(cache.bytes).toBe(4 * MiB)
    expect(cache.take('float32', MiB - 1)).toBeNull()
    expect(cache.take('float32', MiB + 1)).toBeNull()
    const taken = cache.take('float16', 2 * MiB)
    expect(taken).toBeInstanceOf(Uint16Array)
    expect(taken!.length).toBe(2 * MiB)
    expect(taken!.buffer).toBe(freed.buffer)
    expect(cache.bytes).toBe(0)
    expect(cache.take('float16', 2 * MiB)).toBeNull()
  })

  test('keeps neither small arrays nor more than 128 MiB, and drops the oldest', () => {
    const cache = new ArrayCache()
    cache.keep(new Float32Array(2 ** 14 - 1))
    cache.keep(new Float32Array(32 * MiB + 1))
    expect(cache.bytes).toBe(0)
    cache.keep(new Float32Array(MiB))
    cache.keep(new Float32Array(31 * MiB))
    expect(cache.bytes).toBe(128 * MiB)
    cache.keep(new Float32Array(MiB / 4))
    expect(cache.bytes).toBe(125 * MiB)
    expect(cache.take('float32', MiB)).toBeNull()
    cache.clear()
    expect(cache.bytes).toBe(0)
    expect(cache.take('float32', 31 * MiB)).toBeNull()
  })

  test('a result in the memory of a disposed tensor is right', () => {
    emptyCache('cpu')
    const size = 1024
    // Row i has one edge, from i, and degree 1: the result is x.
    const graph = csr(
      Int32Array.from({ length: size + 1 }, (_, i) => i),
      Int32Array.from({ length: size }, (_, i) => i),
    )
    const x = tensor(
      Float32Array.from({ length: size * size }, (_, i) => i),
      { shape: [size, size], device: 'cpu' },
    )
    gcnAggregate(graph, x).dispose()
    expect(memory('cpu').cachedBytes).toBe(4 * MiB)
    const result = gcnAggregate(graph, x)
    expect(memory('cpu').cachedBytes).toBe(0)
    expect(result.dataSync()).toEqual(x.dataSync())
    result.dispose()
    emptyCache('cpu')
    expect(memory('cpu').cachedBytes).toBe(0)
  })

  test('a full cache costs a small op nothing', () => {
    const cache = new ArrayCache()
    for (let i = 0; i < 2048; i++) cache.keep(new Uint16Array(2 ** 15 + i))
    const start = performance.now()
    for (let i = 0; i < 1e5; i++) cache.take('float32', 2)
    for (let i = 0; i < 1e5; i++) cache.take('float32', 2 ** 20)
    // A search through what is kept takes seconds.
    expect(performance.now() - start).toBeLessThan(500)
  })

  test('what is kept is given back when memory is short, and the allocation tried again', () => {
    emptyCache('cpu')
    tensor(new Float32Array(MiB), { device: 'cpu' }).dispose()
    expect(memory('cpu').cachedBytes).toBe(4 * MiB)
    const x = tensor([1, 2], { device: 'cpu' })
    const row = dtypes.float16 as { array: Uint16ArrayConstructor }
    const { array } = row
    let failures = 1
    row.array = new Proxy(array, {
      construct(target, args) {
        if (failures-- > 0) throw new RangeError('Array buffer allocation failed')
        return new target(...(args as [number]))
      },
    })
    try {
      expect(x.cast('float16').dataSync()).toEqual(Float32Array.of(1, 2))
      expect(memory('cpu').cachedBytes).toBe(0)
      failures = 2
      expect(() => x.cast('float16')).toThrow(
        expect.objectContaining({
          code: 'ERR_DEVICE_OUT_OF_MEMORY',
          message: expect.stringMatching(/^cpu is out of memory: asked for 4 bytes/),
        }),
      )
    } finally {
      row.array = array
    }
  })
})
