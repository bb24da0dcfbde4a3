import {
  capture,
  csr,
  csrMax,
  gcnAggregate,
  memory,
  mlaAttention,
  scope,
  segmentSoftmax,
  segments,
  type Tensor,
  tensor,
} from 'warpgraph'
import { graphOf, toCsr, uniform } from './arbitraries'
import { onEachDevice } from './devices'
import { runProgram } from './programs/run'
import { refused } from './refused'
import 'warpgraph/testing/jest'

onEachDevice('capture', (device) => {
  const graph = csr([0, 2, 3, 3], [1, 2, 0])
  const features = (...values: number[]) => tensor(values, { shape: [3, values.length / 3], device })

  test('replays the recorded ops on new inputs', async () => {
    // Row 0 is the maximum of nodes 1 and 2, row 1 node 0, row 2 empty; twice.
    using twice = capture(
      (x: Tensor<'float32', 2>) => csrMax(graph, csrMax(graph, x, { empty: 0 }), { empty: 9 }),
      [features(0, 0, 0)],
    )
    expect(await twice(features(1, 2, 3)).array()).toEqual([[1], [3], [9]])
    expect(await twice(features(5, -2, -7)).array()).toEqual([[5], [-2], [9]])
  })

  test('gives what the function gives, bit for bit, over many ops and a graph with hubs', () => {
    const skewed = graphOf([3000, 1, 0, 40, 7, 2000, 33, 0], 8, 5)
    const large = toCsr(skewed)
    const layer = (x: Tensor<'float32', 2>) => {
      const sum = gcnAggregate(large, x)
      const { values, indices } = csrMax(large, sum, { withIndices: true })
      return { values, indices, half: sum.cast('float16') }
    }
    using captured = capture(layer, [tensor(new Float32Array(8 * 37), { shape: [8, 37], device })])
    for (const seed of [1, 2, 3]) {
      using x = tensor(uniform(seed, 8 * 37), { shape: [8, 37], device })
      const expected = layer(x)
      const given = captured(x)
      for (const name of ['values', 'indices', 'half'] as const) {
        expect(given[name].dataSync()).toEqual(expected[name].dataSync())
      }
    }
  })

  test('the same over the kernels of attention, which overlap and whose blocks merge splits', () => {
    const make = <const S extends readonly number[]>(seed: number, shape: S) =>
      tensor(
        uniform(
          seed,
          shape.reduce((a, b) => a * b),
        ),
        { shape, dtype: 'bfloat16', device },
      )
    const [kvLatent, wUpK, wUpV] = [make(1, [2, 140, 64]), make(2, [64, 40, 16]), make(3, [64, 40, 8])]
    for (const numSplits of [0, 2, 3]) {
      const attend = (q: Tensor<'bfloat16', 4>) =>
        mlaAttention(q, kvLatent, wUpK, wUpV, { numSplits, algorithm: 'absorb' })
      using captured = capture(attend, [make(4, [2, 1, 40, 16])])
      for (const seed of [5, 6]) {
        using q = make(seed, [2, 1, 40, 16])
        using expected = attend(q)
        expect(captured(q).dataSync()).toEqual(expected.dataSync())
      }
    }
  })

  test('degrees that are inputs are read anew at each call', async () => {
    const one = csr([0, 1], [0])
    using captured = capture(
      (x: Tensor<'float32', 2>, degrees: Tensor<'float32', 1>) => gcnAggregate(one, x, { degrees }),
      [tensor([8], { shape: [1, 1], device }), tensor([1], { shape: [1], device })],
    )
    using x = tensor([8], { shape: [1, 1], device })
    expect(await captured(x, tensor([1], { shape: [1], device })).array()).toEqual([[8]])
    expect(await captured(x, tensor([4], { shape: [1], device })).array()).toEqual([[2]])
    expect(await captured(x, tensor([16], { shape: [1], device })).array()).toEqual([[0.5]])
  })

  test('results are valid until the next call, and what was captured outlives what it uses', () => {
    const weights = features(1, 2, 3)
    const own = csr([0, 1, 2, 3], [2, 1, 0])
    using captured = capture(
      (x: Tensor<'float32', 2>) => [csrMax(own, x), csrMax(own, weights)] as const,
      [features(0, 0, 0)],
    )
    const [first] = captured(features(4, 5, 6))
    weights.dispose()
    own.dispose()
    if (device === 'cpu') {
      // Nothing is recorded there: the function runs at each call.
      expect(() => captured(features(7, 8, 9))).toThrow('must be alive')
      return
    }
    const [second, third] = captured(features(7, 8, 9))
    expect(first.disposed).toBe(true)
    expect([Array.from(second.dataSync()), Array.from(third.dataSync())]).toEqual([
      [9, 8, 7],
      [3, 2, 1],
    ])
  })

  test('a scope around it frees the results of a call, not what was captured', () => {
    const captured = scope(() => capture((x: Tensor<'float32', 2>) => csrMax(graph, x), [features(0, 0, 0)]))
    const kept = scope(() => captured(features(1, 2, 3)))
    expect(kept.disposed).toBe(false)
    let freed: Tensor | undefined
    scope(() => {
      freed = captured(features(1, 2, 3))
    })
    expect(freed!.disposed).toBe(true)
    expect(Array.from(captured(features(1, 2, 3)).dataSync())).toEqual([3, 1, -Infinity])
    captured.dispose()
  })

  test('an input or a tensor from outside may be a result, and stays', () => {
    const outside = features(7, 8, 9)
    const captured = capture((x: Tensor<'float32', 2>) => ({ x, outside }), [features(0, 0, 0)])
    const given = captured(features(1, 2, 3))
    expect([Array.from(given.x.dataSync()), Array.from(given.outside.dataSync())]).toEqual([
      [1, 2, 3],
      [7, 8, 9],
    ])
    captured.dispose()
    expect(Array.from(outside.dataSync())).toEqual([7, 8, 9])
  })

  test('only what is recorded rewrites its results: elsewhere their bounds stay known', () => {
    const lengths = tensor(Int32Array.of(7), { device })
    using captured = capture((x: Tensor<'float32', 2>) => ({ x, lengths }), [features(0, 0, 0)])
    const make = <const S extends readonly number[]>(shape: S) =>
      tensor(new Float32Array(shape.reduce((a, b) => a * b)), { shape, device })
    const [q, latents, up] = [make([1, 1, 1, 1]), make([1, 6, 1]), make([1, 1, 1])]
    const call = () => mlaAttention(q, latents, up, up, { kvLengths: lengths }).dataSync()
    captured(features(1, 2, 3))
    // A GPU does not read lengths that a replay may have written: they are clamped.
    if (device === 'cpu') expect(call).toThrow(/kvLengths must be in \[0, 6\] .*, got 7 at index 0$/)
    else expect(call()).toEqual(new Float32Array(1))
  })

  test('a result may be the next input, also when results and inputs are the same tensors', () => {
    using swap = capture(
      (a: Tensor<'float32', 2>, b: Tensor<'float32', 2>) => [b, a] as const,
      [features(0, 0, 0), features(0, 0, 0)],
    )
    const [p, q] = swap(features(1, 1, 1), features(2, 2, 2))
    const [r, s] = swap(p, q)
    expect([r.dataSync()[0], s.dataSync()[0]]).toEqual([1, 2])
    using step = capture((x: Tensor<'float32', 2>) => csrMax(graph, x, { empty: 0 }), [features(0, 0, 0)])
    expect(Array.from(step(step(features(1, 2, 3))).dataSync())).toEqual([1, 3, 0])
  })

  test('degrees that a captured function gives are read anew', () => {
    const one = csr([0, 1], [0])
    using x = tensor([8], { shape: [1, 1], device })
    using same = capture((d: Tensor<'float32', 1>) => d.cast('int32'), [tensor([1], { shape: [1], device })])
    const under = (degree: number) => {
      const degrees = same(tensor([degree], { shape: [1], device })) as Tensor<'int32', 1>
      return gcnAggregate(one, x, { degrees }).dataSync()[0]
    }
    expect([under(1), under(4), under(16)]).toEqual([8, 2, 0.5])
  })

  test('what was only recorded is not taken for computed', () => {
    const one = csr([0, 1], [0])
    const x = tensor([8], { shape: [1, 1], device })
    const degrees = [1, 4, 16, 64, 256].map((degree) => tensor([degree], { shape: [1], device }))
    using all = capture(
      (y: Tensor<'float32', 2>) => degrees.map((each) => gcnAggregate(one, y, { degrees: each })),
      [x],
    )
    const eager = degrees.map((each) => gcnAggregate(one, x, { degrees: each }).dataSync()[0])
    expect(eager).toEqual([8, 2, 0.5, 0.125, 0.03125])
    expect(all(x).map((result) => result.dataSync()[0])).toEqual(eager)
  })

  test('an asynchronous function is refused, and its failure ends nothing', async () => {
    const late = async () => {
      await null
      throw new Error('nobody waits for this')
    }
    expect(() => capture(late as never, [x()])).toThrow(
      'capture: fn must be synchronous, got an async function',
    )
    expect(() => capture((() => late()) as never, [x()])).toThrow('must be synchronous')
    await new Promise((resolve) => setTimeout(resolve, 5))
  })

  test('with indices, as csrMax gives them', () => {
    using captured = capture((y: Tensor<'float32', 2>) => csrMax(graph, y, { withIndices: true }), [x()])
    expect(Array.from(captured(features(1, 2, 3)).indices.dataSync())).toEqual([1, 2, -1])
  })

  test('gives everything back', () => {
    const run = () => {
      using x = features(1, 2, 3)
      using captured = capture(
        (y: Tensor<'float32', 2>) => gcnAggregate(graph, csrMax(graph, y, { empty: 1 })),
        [x],
      )
      captured(x)
      captured(x)
      captured.dispose()
      expect(() => captured(x)).toThrow('captured function: it must be alive, got one that was disposed')
    }
    run()
    const before = memory(device).tensors
    run()
    expect(memory(device).tensors).toBe(before)
  })

  const x = () => features(1, 2, 3)
  const failing = (fn: (input: Tensor) => unknown) => () => capture(fn as (input: Tensor) => Tensor, [x()])

  refused('ERR_CAPTURE', [
    [
      'dataSync: tensor must be read outside of capture(), got a call inside it',
      failing((y) => tensor(y.dataSync(), { device })),
    ],
    [
      'data: tensor must be read outside of capture(), got a call inside it',
      failing((y) => {
        y.data().catch(() => {})
        return y
      }),
    ],
    [
      'tensor: data must become a tensor outside of capture(), got a call inside it',
      failing(() => tensor([1], { device })),
    ],
    [
      'capture: graph must be made outside of capture(), got a call inside it',
      failing((y) => csrMax(csr([0, 1], [0], { numSrc: 3 }), y as Tensor<'float32', 2>)),
    ],
    [
      'capture: fn must not capture itself, got a call inside it',
      failing((y) => capture((z: Tensor) => z, [y])),
    ],
  ])

  refused('ERR_ARG_TYPE', [
    ['capture: fn must be a function, got number 3', () => capture(3 as never, [x()])],
    [
      'capture: exampleInputs must be an array of at least one tensor, got an array of length 0',
      () => capture(() => x(), []),
    ],
    [
      'capture: exampleInputs[0] must be a Tensor, got number 1',
      () => capture((y: Tensor) => y, [1 as never]),
    ],
    ['capture: fn must return a tensor, or arrays or records of them, got number 5', failing(() => 5)],
    [
      'capture: fn must return a tensor, or arrays or records of them, got Map',
      failing((y) => new Map([[1, y]])),
    ],
    [
      'capture: fn must return a tensor, or arrays or records of them, got a result that holds itself',
      failing((y) => {
        const all: unknown[] = [y]
        all.push({ all })
        return all
      }),
    ],
    [
      'captured function: inputs must be 1 tensors, as captured, got 2',
      () => (capture((y: Tensor) => y, [x()]) as (...all: Tensor[]) => Tensor)(x(), x()),
    ],
  ])

  test('other inputs than were captured are refused before anything is computed', () => {
    using captured = capture((y: Tensor<'float32', 2>) => csrMax(graph, y), [x()])
    expect(() => captured(features(1, 2, 3, 4, 5, 6))).toThrow(
      'captured function: inputs[0] must have shape [3, 1], as captured, got shape [3, 2]',
    )
    expect(() => captured(x().cast('float16') as never)).toThrow(
      'captured function: inputs[0] must have dtype float32, as captured, got float16',
    )
    expect(captured(x()).size).toBe(3)
  })

  test('what the function throws is thrown, nothing stays, and the device computes on', () => {
    const mistaken = () => capture((y: Tensor) => segmentSoftmax(segments([0, 1]), y as never), [x()])
    expect(mistaken).toThrow('segmentSoftmax: scores must have 1 rows')
    let calls = 0
    const late = () =>
      capture(
        (y: Tensor<'float32', 2>) => {
          if (++calls === 2) throw new Error('in the recording')
          return csrMax(graph, y)
        },
        [x()],
      )
    csrMax(graph, x()).dispose() // what the graph derives on first use is there already
    const before = memory(device).tensors
    expect(late).toThrow('in the recording')
    expect(memory(device).tensors).toBe(before + 1) // the example itself
    expect(Array.from(csrMax(graph, x()).dataSync())).toEqual([3, 1, -Infinity])
  })

  test('the collector gives back, once, what was recorded for functions that nobody can call any more', () => {
    const { stdout, stderr, code } = runProgram('captured', [device], { nodeArgs: ['--expose-gc'] })
    expect({ stderr, code }).toEqual({ stderr: '', code: 0 })
    const once = new Array(100).fill(1)
    expect(JSON.parse(stdout)).toEqual({ collected: [0, ...once], disposed: [1, ...once] })
  })
})
