import { capture, csr, csrMax, mlaAttention, type Tensor, tensor } from 'warpgraph'
import { expandedMla } from '../definitions'
import { onEachDevice } from '../devices'
import { elementBound, type MlaHow, mlaCall, randomMlaData } from '../mla'
import { argumentErrorWith } from '../refused'
import { expectSameBits, expectWithin, floatDTypes } from '../tolerance'
import 'warpgraph/testing/jest'

// Which keys are read: where they lie, what hides them, and who says so.

onEachDevice('mlaAttention', (device) => {
  const shape = { B: 3, Tq: 4, Tk: 48, H: 2, D: 7, Dv: 5, R: 9, Dr: 3 }

  describe.each(floatDTypes)('%s', (dtype) => {
    test('no pages at all: every sequence is empty', () => {
      const { q, wUpK, wUpV } = mlaCall(shape, randomMlaData(shape, 3), {}, { dtype, device })
      const kvLatent = tensor(new Float32Array(0), { shape: [0, 16, 9], dtype, device })
      for (const pages of [0, 2]) {
        const blockTable = tensor(new Int32Array(3 * pages).fill(-1), { shape: [3, pages], device })
        const kvLengths = tensor(new Int32Array(3), { device })
        const options = { blockTable, kvLengths, returnLse: true } as const
        const { out, lse } = mlaAttention(q, kvLatent, wUpK, wUpV, options)
        expect(out).toBeCloseToTensor(new Float32Array(3 * 4 * 2 * 5), { atol: 0 })
        expect(lse).toBeCloseToTensor(new Float32Array(3 * 2 * 4).fill(-Infinity), { atol: 0 })
      }
    })

    test('two sequences may share a page', () => {
      const whole = { ...shape, B: 2, Tk: 32 }
      const data = randomMlaData(whole, 9)
      const { q, wUpK, wUpV } = mlaCall(whole, data, {}, { dtype, device })
      const kvLatent = tensor(data.kvLatent, { shape: [4, 16, 9], dtype, device })
      const shared = tensor(Int32Array.of(2, 0, 2, 3), { shape: [2, 2], device })
      const rows = [2, 0, 2, 3].flatMap((page) => [...data.kvLatent.subarray(page * 144, page * 144 + 144)])
      const contiguous = tensor(rows, { shape: [2, 32, 9], dtype, device })
      expectSameBits(
        mlaAttention(q, kvLatent, wUpK, wUpV, { blockTable: shared }).dataSync(),
        mlaAttention(q, contiguous, wUpK, wUpV).dataSync(),
      )
    })

    /** Keys that a query does not see are NaN: they must not show. Every query of the last keys sees NaN. */
    test.each<[string, MlaHow]>([
      ['auto', {}],
      ['absorb', { algorithm: 'absorb' }],
      ['expand', { algorithm: 'expand' }],
      ['three splits', { numSplits: 3 }],
    ])('NaN and ∞ stay in the keys that causality hides: %s', (_, how) => {
      for (const wrong of [NaN, Infinity, -Infinity]) {
        for (const [Tq, Tk, clean] of [
          [3, 40, 38],
          [9, 130, 125],
          [5, 5, 1],
          [40, 20, 10],
        ] as const) {
          const sizes = { ...shape, B: 2, Tq, Tk }
          const data = randomMlaData(sizes, 4)
          const { exact } = mlaCall(sizes, data, {}, { dtype, device })
          for (const [name, width] of [
            ['kvLatent', sizes.R],
            ['kRope', sizes.Dr],
          ] as const) {
            const poisoned = { ...data, [name]: data[name].slice() }
            // Of the first sequence only.
            poisoned[name].fill(wrong, clean * width, Tk * width)
            const { q, kvLatent, wUpK, wUpV, options } = mlaCall(sizes, poisoned, {}, { dtype, device })
            const result = mlaAttention(q, kvLatent, wUpK, wUpV, { ...options, ...how }).dataSync()
            const [expected, magnitudes] = [expandedMla(exact), expandedMla(exact, true)]
            const bound = elementBound(exact, dtype, device)
            const perQuery = sizes.H * sizes.Dv
            const isClean = (i: number) => {
              return i >= Tq * perQuery || Math.floor(i / perQuery) + Tk - Tq < clean
            }
            expectWithin(
              result,
              expected.map((value, i) => (isClean(i) ? value : result[i]!)),
              (i) => bound(magnitudes[i]!, expected[i]!),
            )
            if (!Number.isNaN(wrong)) continue
            expect(result.filter((value, i) => !isClean(i) && !Number.isNaN(value))).toEqual(
              new Float32Array(0),
            )
          }
        }
      }
    })

    test('NaN in a query stays in that query', () => {
      const data = randomMlaData(shape, 4)
      const at = (1 * shape.Tq + 2) * shape.H * shape.D
      data.q[at] = NaN
      const { q, kvLatent, wUpK, wUpV, options } = mlaCall(shape, data, {}, { dtype, device })
      const { out, lse } = mlaAttention(q, kvLatent, wUpK, wUpV, { ...options, returnLse: true })
      const width = shape.Dv
      const first = (1 * shape.Tq + 2) * shape.H * width
      const isPoisoned = (i: number) => i >= first && i < first + width
      expect(Array.from(out.dataSync(), Number.isNaN)).toEqual(
        Array.from({ length: out.size }, (_, i) => isPoisoned(i)),
      )
      const lseAt = 1 * shape.H * shape.Tq + 2
      expect(Array.from(lse.dataSync(), Number.isNaN)).toEqual(
        Array.from({ length: lse.size }, (_, i) => i === lseAt),
      )
    })

    test('a captured call follows lengths and pages that change', () => {
      const whole = { ...shape, Tk: 48 }
      const data = randomMlaData(whole, 12)
      const made = mlaCall(whole, data, {}, { dtype, device })
      const { q, wUpK, wUpV } = made
      const kvLatent = made.kvLatent.reshape([9, 16, 9])
      const kRope = made.options.kRope!.reshape([9, 16, 3])
      const inputs = (lengths: number[], table: number[]) =>
        [
          tensor(Int32Array.from(lengths), { shape: [3], device }),
          tensor(Int32Array.from(table), { shape: [3, 3], device }),
        ] as const
      const compute = (kvLengths: Tensor<'int32', 1>, blockTable: Tensor<'int32', 2>) =>
        mlaAttention(q, kvLatent, wUpK, wUpV, { ...made.options, kRope, kvLengths, blockTable })
      const [short, long] = [
        inputs([3, 0, 17], [4, -1, -1, -1, -1, -1, 8, 0, -1]),
        inputs([48, 33, 1], [0, 1, 2, 3, 4, 5, 6, -1, -1]),
      ]
      using captured = capture(compute, short)
      for (const [lengths, table] of [long, short, long]) {
        expectSameBits(captured(lengths, table).dataSync(), compute(lengths, table).dataSync())
      }
    })
  })

  // On a GPU what an op computed is not read back: lengths and pages are clamped there.
  const computed = (values: number[], shape: number[]) => {
    const n = values.length
    const rows = tensor(Float32Array.from(values), { shape: [n, 1], device })
    const graph = csr(
      Int32Array.from({ length: n + 1 }, (_, i) => i),
      Int32Array.from({ length: n }, (_, i) => i),
    )
    return csrMax(graph, rows).cast('int32').reshape(shape)
  }

  test('lengths and pages that an op computed', () => {
    const made = mlaCall(shape, randomMlaData(shape, 2), {}, { dtype: 'float32', device })
    const call = (options: object) =>
      mlaAttention(made.q, made.kvLatent, made.wUpK, made.wUpV, { ...made.options, ...options })
    const given = call({ kvLengths: tensor(Int32Array.of(5, 0, 48), { device }) })
    expectSameBits(call({ kvLengths: computed([5, 0, 48], [3]) }).dataSync(), given.dataSync())
    const wrong = () => call({ kvLengths: computed([5, -1, 49], [3]) })
    const paged = (table: number[]) => {
      const kvLatent = made.kvLatent.reshape([9, 16, 9])
      const kRope = made.options.kRope!.reshape([9, 16, 3])
      const blockTable = computed(table, [3, 3])
      return mlaAttention(made.q, kvLatent, made.wUpK, made.wUpV, { ...made.options, kRope, blockTable })
    }
    const ordered = paged([0, 1, 2, 3, 4, 5, 6, 7, 8])
    expectSameBits(ordered.dataSync(), call({}).dataSync())
    if (device === 'cpu') {
      const lengths = 'mlaAttention: kvLengths must be in [0, 48] (keys of a sequence), got -1 at index 1'
      expect(wrong).toThrow(argumentErrorWith('ERR_ARG_VALUE', lengths))
      const pages = `mlaAttention: blockTable must be in [0, 9) (kvLatent's pages) where a sequence has keys`
      expect(() => paged([0, 1, 2, 3, 9, 5, 6, 7, 8])).toThrow(
        argumentErrorWith('ERR_ARG_VALUE', `${pages}, got 9 at [1, 1]`),
      )
      expect(() => paged([0, 1, 2, 3, -1, 5, 6, 7, 8])).toThrow(
        argumentErrorWith('ERR_ARG_VALUE', `${pages}, got -1 at [1, 1]`),
      )
      return
    }
    expectSameBits(wrong().dataSync(), call({ kvLengths: computed([5, 0, 48], [3]) }).dataSync())
    expectSameBits(
      paged([-7, 1, 2, 3, 1e9, 5, 6, 7, 8]).dataSync(),
      paged([0, 1, 2, 3, 8, 5, 6, 7, 8]).dataSync(),
    )
  })
})
