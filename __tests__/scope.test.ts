import { setTimeout as sleep } from 'node:timers/promises'
import { runInNewContext } from 'node:vm'
import { csr, csrMax, gcnAggregate, memory, scope, type Tensor, tensor } from 'warpgraph'
import { onEachDevice } from './devices'
import { collectGarbage } from './garbage'
import { argumentErrorWith } from './refused'

onEachDevice('scope', (device) => {
  const made: Tensor[] = []

  /** A tensor whose fate the test can ask for after the scope has ended. */
  function make(value = 1): Tensor<'float32'> {
    const t = tensor([value], { device })
    made.push(t)
    return t
  }

  function live(): number {
    return memory(device).tensors
  }

  /** Which of the tensors made are still alive, in the order they were made. */
  function alive(): boolean[] {
    return made.map((t) => !t.disposed)
  }

  afterEach(() => {
    for (const t of made.splice(0)) t.dispose()
  })

  test('frees what was made inside and keeps the result', () => {
    const before = live()
    const kept = scope(() => {
      make()
      make().reshape([1, 1])
      return make(3)
    })
    expect(alive()).toEqual([false, false, true])
    expect(live()).toBe(before + 1)
    expect(kept.dataSync()).toEqual(Float32Array.of(3))
  })

  test('results of ops inside are freed as well, and the composed result is right', () => {
    const graph = csr([0, 1, 2], [1, 0])
    const x = make().reshape([1, 1])
    made.push(x)
    using two = tensor([[1], [2]], { device })
    const warm = gcnAggregate(graph, two)
    made.push(warm)
    const before = live()
    const y = scope(() => csrMax(graph, gcnAggregate(graph, gcnAggregate(graph, two))))
    made.push(y)
    expect(live()).toBe(before + 1)
    expect(y.dataSync()).toEqual(Float32Array.of(2, 1))
    graph.dispose()
  })

  test.each<[string, (t: Tensor) => unknown]>([
    ['a tensor', (t) => t],
    ['an array', (t) => [0, t]],
    ['nested arrays', (t) => [[[t]]]],
    ['an object', (t) => ({ t, other: null })],
    ['an object without prototype', (t) => Object.assign(Object.create(null), { t })],
    ['objects in arrays in objects', (t) => ({ layers: [{ weight: t, name: 'w' }] })],
    ['the same tensor twice', (t) => [t, { t }]],
    ['a plain object of another realm', (t) => Object.assign(runInNewContext('({})'), { t })],
  ])('keeps the result in %s', (_, wrap) => {
    scope(() => {
      make()
      return wrap(make())
    })
    expect(alive()).toEqual([false, true])
  })

  test('a result that holds itself ends', () => {
    const ring: Record<string, unknown> = { t: null }
    scope(() => {
      ring.t = make()
      ring.self = ring
      return ring
    })
    expect(alive()).toEqual([true])
  })

  test.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['a number', 4],
    ['a string', 'x'],
  ])('passes %s through and frees all', (_, value) => {
    const result = scope(() => {
      make()
      return value
    })
    expect(result).toBe(value)
    expect(alive()).toEqual([false])
  })

  test('leaves alone what was made outside, also when it is returned or disposed inside', () => {
    const outside = make()
    expect(scope(() => outside)).toBe(outside)
    expect(outside.disposed).toBe(false)
    scope(() => outside.dispose())
    expect(outside.disposed).toBe(true)
  })

  test('a view of something outside may be freed without harm', () => {
    const outside = make(5)
    scope(() => {
      outside.reshape([1, 1])
    })
    expect(outside.dataSync()).toEqual(Float32Array.of(5))
  })

  test('nested: what the inner scope keeps belongs to the outer one', () => {
    scope(() => {
      const inner = scope(() => {
        make()
        return make()
      })
      expect(alive()).toEqual([false, true])
      expect(inner.disposed).toBe(false)
      make()
    })
    expect(alive()).toEqual([false, false, false])
  })

  test('frees on throw, through all levels, and works on', () => {
    const before = live()
    const failure = new Error('on purpose')
    const call = () =>
      scope(() => {
        make()
        scope(() => {
          make()
          throw failure
        })
      })
    expect(call).toThrow(failure)
    expect(alive()).toEqual([false, false])
    expect(live()).toBe(before)
    make()
    expect(alive()).toEqual([false, false, true])
  })

  test('an inner throw that is caught frees the inner scope alone', () => {
    scope(() => {
      make()
      expect(() =>
        scope(() => {
          make()
          throw new Error('on purpose')
        }),
      ).toThrow('on purpose')
      expect(alive()).toEqual([true, false])
    })
  })

  test('frees when an op inside refuses its arguments', () => {
    const before = live()
    expect(() => scope(() => csrMax(csr([0], []), make() as Tensor<'float32', 2>))).toThrow(RangeError)
    expect(live()).toBe(before)
  })

  test.each<[string, unknown, string]>([
    ['an async function', async () => make(), 'fn must be synchronous, got an async function'],
    [
      'a promise',
      () => Promise.resolve(make()),
      'fn must be synchronous, got a function that returns a promise',
    ],
    [
      'a thenable',
      // biome-ignore lint/suspicious/noThenProperty: a thenable is the point
      () => ({ then: () => make() }),
      'fn must be synchronous, got a function that returns a promise',
    ],
    ['data()', () => make().data(), 'fn must be synchronous, got a function that returns a promise'],
    [
      'a promise inside the result',
      () => ({ y: [Promise.resolve(make())] }),
      'fn must be synchronous, got a function that returns a promise',
    ],
    [
      'an async generator',
      async function* () {
        yield make()
      },
      'fn must be synchronous, got an async function',
    ],
    [
      'a generator',
      function* () {
        yield make()
      },
      'fn must be synchronous, got a generator function',
    ],
    ['no function', 3, 'fn must be a function, got number 3'],
    ['nothing', undefined, 'fn must be a function, got undefined'],
  ])('refuses %s, and frees', async (_, fn, message) => {
    await collectGarbage()
    const before = live()
    expect(() => scope(fn as () => unknown)).toThrow(argumentErrorWith('ERR_ARG_TYPE', `scope: ${message}`))
    expect(alive().includes(true)).toBe(false)
    // A read in flight holds its buffer until it ends.
    for (const start = Date.now(); live() > before && Date.now() - start < 5000; ) await sleep(1)
    expect(live()).toBe(before)
  })

  test('an async function of another realm is refused before it runs', () => {
    const fn = runInNewContext('async () => make()', { make })
    expect(() => scope(fn)).toThrow('scope: fn must be synchronous, got an async function')
    expect(made).toEqual([])
  })

  test('a refused promise that rejects later does not end the process', async () => {
    const unhandled: unknown[] = []
    const listen = (reason: unknown) => unhandled.push(reason)
    process.on('unhandledRejection', listen)
    try {
      const late = () => Promise.resolve().then(() => Promise.reject(new Error('later')))
      expect(() => scope(late as () => unknown)).toThrow('fn must be synchronous')
      await new Promise((resolve) => setTimeout(resolve, 20))
      expect(unhandled).toEqual([])
    } finally {
      process.off('unhandledRejection', listen)
    }
  })
})
