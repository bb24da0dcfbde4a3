import { ArrayCache } from 'lib/backends/cpu/array_cache'
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

  test('keeps neither small arrays nor more than 256 MiB, and drops the oldest', () => {
    const cache = new ArrayCache()
    cache.keep(new Float32Array(2 ** 14 - 1))
    cache.keep(new Float32Array(64 * MiB + 1))
    expect(cache.bytes).toBe(0)
    cache.keep(new Float32Array(MiB))
    cache.keep(new Float32Array(63 * MiB))
    expect(cache.bytes).toBe(256 * MiB)
    cache.keep(new Float32Array(MiB / 4))
    expect(cache.bytes).toBe(253 * MiB)
    expect(cache.take('float32', MiB)).toBeNull()
    cache.clear()
    expect(cache.bytes).toBe(0)
    expect(cache.take('float32', 63 * MiB)).toBeNull()
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
})
