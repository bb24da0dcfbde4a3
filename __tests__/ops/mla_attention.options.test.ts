import fc from 'fast-check'
import { capture, csr, csrMax, type FloatDType, mlaAttention, type Tensor, tensor } from 'warpgraph'
import { expandedMla, mlaLse } from '../definitions'
import { onEachDevice } from '../devices'
import {
  elementBound,
  expectRelativeL2,
  lseBound,
  type MlaShape,
  type MlaVariant,
  mlaBounds,
  mlaCall,
  randomMlaData,
  wholePages,
} from '../mla'
import { argumentErrorWith } from '../refused'
import { expectSameBits, expectWithin, floatDTypes, relativeL2 } from '../tolerance'
import 'warpgraph/testing/jest'

/** How a call is computed, which must not show. */
interface How {
  readonly algorithm?: 'auto' | 'absorb' | 'expand'
  readonly numSplits?: number
  readonly precision?: 'float32' | 'tf32'
}

onEachDevice('mlaAttention', (device) => {
  /** Result and lse against the definitions, element by element. */
  function check(shape: MlaShape, variant: MlaVariant, dtype: FloatDType, seed: number, how: How = {}): void {
    const whole = wholePages(shape, variant.pageSize)
    const { q, kvLatent, wUpK, wUpV, options, exact } = mlaCall(whole, randomMlaData(whole, seed), variant, {
      dtype,
      device,
    })
    const result = mlaAttention(q, kvLatent, wUpK, wUpV, { ...options, ...how, returnLse: true })
    const { B, Tq, H, Dv } = shape
    expect([result.out.shape, result.out.dtype]).toEqual([[B, Tq, H, Dv], dtype])
    expect([result.lse.shape, result.lse.dtype]).toEqual([[B, H, Tq], 'float32'])
    const [expected, magnitudes, lse] = [expandedMla(exact), expandedMla(exact, true), mlaLse(exact)]
    const tf32 = how.precision === 'tf32'
    const bound = elementBound(exact, dtype, device, tf32)
    const values = result.out.dataSync() as Float32Array
    expectWithin(values, expected, (i) => bound(magnitudes[i]!, expected[i]!))
    expectRelativeL2(values, expected, exact, tf32 ? 'tf32' : dtype)
    const boundOfLse = lseBound(exact, dtype, device, tf32)
    expectWithin(result.lse.dataSync(), lse, (i) => boundOfLse(lse[i]!))
    const alone = mlaAttention(q, kvLatent, wUpK, wUpV, { ...options, ...how })
    expectSameBits(alone.dataSync(), result.out.dataSync())
  }

  const shape = { B: 3, Tq: 4, Tk: 48, H: 2, D: 7, Dv: 5, R: 9, Dr: 3 }

  describe.each(floatDTypes)('%s', (dtype) => {
    test.each<[string, MlaVariant]>([
      ['lengths, one of 0 and one of fewer keys than queries', { lengths: [48, 0, 2] }],
      ['lengths without causality', { lengths: [17, 0, 48], causal: false }],
      ['an offset: a prefix was answered before', { queryOffset: 20 }],
      ['an offset of 0: aligned top-left', { queryOffset: 0 }],
      ['a negative offset: leading queries see nothing', { queryOffset: -2 }],
      ['an offset before all keys', { queryOffset: -100 }],
      ['an offset past all keys', { queryOffset: 1000 }],
      ['an offset at the end of what doubles count', { queryOffset: Number.MAX_SAFE_INTEGER }],
      ['an offset, lengths below and above it', { queryOffset: 10, lengths: [5, 12, 48] }],
      ['pages of 16', { pageSize: 16 }],
      ['pages of 64, most of the last one past the length', { pageSize: 64, lengths: [1, 64, 33] }],
      ['pages of 16 and lengths at their edges', { pageSize: 16, lengths: [16, 15, 17] }],
      ['pages, lengths and an offset', { pageSize: 32, lengths: [33, 0, 64], queryOffset: 30, causal: true }],
      ['a negative scale', { scale: -1.5, pageSize: 16 }],
    ])('%s', (_, variant) => {
      check(shape, variant, dtype, 5)
      check({ ...shape, Tq: 1, Dr: 0 }, variant, dtype, 6)
    })

    test.each<[How]>([
      [{ algorithm: 'absorb' }],
      [{ algorithm: 'expand' }],
      [{ algorithm: 'auto', numSplits: 2 }],
      [{ algorithm: 'absorb', numSplits: 1 }],
      [{ algorithm: 'absorb', numSplits: 3 }],
      [{ numSplits: 64 }],
      [{ numSplits: 1024 }],
    ])('%j', (how) => {
      for (const variant of [{}, { lengths: [48, 0, 2] }, { pageSize: 16, lengths: [33, 1, 48] }]) {
        check(shape, variant, dtype, 7, how)
        check({ ...shape, Tk: 300 }, variant, dtype, 8, how)
      }
    })

    test('the definition on random shapes, lengths, offsets and pages', () => {
      const arbitrary = fc
        .record({
          B: fc.integer({ min: 0, max: 3 }),
          Tq: fc.integer({ min: 0, max: 5 }),
          Tk: fc.oneof(
            fc.integer({ min: 0, max: 70 }),
            fc.constantFrom(15, 16, 17, 31, 32, 33, 127, 128, 129),
          ),
          H: fc.integer({ min: 1, max: 5 }),
          D: fc.integer({ min: 0, max: 20 }),
          Dv: fc.integer({ min: 0, max: 20 }),
          R: fc.integer({ min: 0, max: 40 }),
          Dr: fc.constantFrom(0, 0, 1, 8, 9),
        })
        .chain((sizes) =>
          fc.record({
            sizes: fc.constant(sizes),
            causal: fc.boolean(),
            pageSize: fc.constantFrom(undefined, 16, 32, 64),
            lengths: fc.option(
              fc.array(fc.integer({ min: 0, max: sizes.Tk }), { minLength: sizes.B, maxLength: sizes.B }),
              { nil: undefined },
            ),
            queryOffset: fc.option(fc.integer({ min: -4, max: sizes.Tk + 4 }), { nil: undefined }),
            how: fc.constantFrom<How>({}, { algorithm: 'absorb' }, { algorithm: 'expand' }, { numSplits: 2 }),
            seed: fc.nat(),
          }),
        )
      fc.assert(
        fc.property(arbitrary, ({ sizes, how, seed, causal, pageSize, lengths, queryOffset }) => {
          const variant = {
            causal,
            ...(pageSize === undefined ? {} : { pageSize }),
            ...(lengths === undefined ? {} : { lengths }),
            ...(queryOffset === undefined || !causal ? {} : { queryOffset }),
          }
          check(sizes, variant, dtype, seed, how)
        }),
        { numRuns: 60 },
      )
    })

    test('by hand: lse is the natural logarithm, the scale included', () => {
      // Latents 1, 2 and 3, wUpK = 1, q = ln 2, scale 2: exponentials 4, 16 and 64.
      const make = <const S extends readonly number[]>(data: number[], shape: S) =>
        tensor(data, { shape, dtype: 'float32', device })
      const { out, lse } = mlaAttention(
        make([Math.LN2, Math.LN2], [1, 2, 1, 1]),
        make([1, 2, 3], [1, 3, 1]),
        make([1], [1, 1, 1]),
        make([1], [1, 1, 1]),
        { scale: 2, returnLse: true },
      )
      expect(lse).toBeCloseToTensor([[[Math.log(4 + 16), Math.log(4 + 16 + 64)]]], { rtol: 1e-6 })
      expect(out).toBeCloseToTensor([[[[36 / 20]], [[(4 + 32 + 192) / 84]]]], { rtol: 1e-6 })
    })

    test('without values, or without a rank, there is an lse all the same', () => {
      check({ ...shape, Dv: 0 }, {}, dtype, 1)
      check({ ...shape, R: 0 }, {}, dtype, 2)
      check({ ...shape, R: 0, Dr: 0, D: 0 }, { lengths: [5, 0, 48] }, dtype, 3)
    })

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
    test.each<[string, How]>([
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

    test.each([1, 2, 5])('a query has the same bits alone and in a batch with numSplits %i', (numSplits) => {
      const lengths = [300, 7, 129]
      const whole = { ...shape, Tk: 304, Tq: 2 }
      const data = randomMlaData(whole, 11)
      const run = (sizes: MlaShape, inputs: typeof data, of: readonly number[]) => {
        const made = mlaCall(sizes, inputs, { lengths: of, pageSize: 16 }, { dtype, device })
        const settings = { numSplits, returnLse: true } as const
        return mlaAttention(made.q, made.kvLatent, made.wUpK, made.wUpV, { ...made.options, ...settings })
      }
      const together = run(whole, data, lengths)
      const rowsOf = (values: Float32Array, b: number) =>
        values.slice((b * values.length) / 3, ((b + 1) * values.length) / 3)
      for (const [b, length] of lengths.entries()) {
        const own = { ...data }
        for (const name of ['q', 'kvLatent', 'qRope', 'kRope'] as const) own[name] = rowsOf(data[name], b)
        const alone = run({ ...whole, B: 1 }, own, [length])
        expectSameBits(alone.out.dataSync(), rowsOf(together.out.dataSync() as Float32Array, b))
        expectSameBits(alone.lse.dataSync(), rowsOf(together.lse.dataSync() as Float32Array, b))
      }
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

  test('tf32: float32 tensors, rounded products', () => {
    for (const [Tq, how] of [
      [1, {}],
      [4, { algorithm: 'absorb' }],
      [40, { algorithm: 'expand' }],
    ] as const) {
      const sizes = { B: 2, Tq, Tk: 80, H: 3, D: 16, Dv: 16, R: 32, Dr: 8 }
      check(sizes, {}, 'float32', 3, { ...how, precision: 'tf32' })
      const { q, kvLatent, wUpK, wUpV, options, exact } = mlaCall(
        sizes,
        randomMlaData(sizes, 4),
        {},
        { dtype: 'float32', device },
      )
      const result = mlaAttention(q, kvLatent, wUpK, wUpV, { ...options, ...how, precision: 'tf32' })
      expect(relativeL2(result.dataSync(), expandedMla(exact))).toBeLessThanOrEqual(mlaBounds.tf32)
    }
  })

  test('vllm#27491, flashinfer#4051: two empty partial results merge to zeros and −∞', () => {
    const empty = tensor(Int32Array.of(0, 0, 3), { device })
    const made = mlaCall(shape, randomMlaData(shape, 2), {}, { dtype: 'float32', device })
    const part = (kvLengths: Tensor<'int32', 1>) => {
      const settings = { kvLengths, causal: false, returnLse: true } as const
      const { out, lse } = mlaAttention(made.q, made.kvLatent, made.wUpK, made.wUpV, {
        ...made.options,
        ...settings,
      })
      return { out: out.dataSync(), lse: lse.dataSync() }
    }
    const [a, b] = [part(empty), part(empty)]
    expect(a.lse.slice(0, 16)).toEqual(new Float32Array(16).fill(-Infinity))
    const merged = mergePartials(a, b, shape)
    expect(merged.lse.slice(0, 16)).toEqual(new Float32Array(16).fill(-Infinity))
    expect(merged.out.slice(0, 80)).toEqual(new Float32Array(80))
    expect([...merged.out, ...merged.lse].some(Number.isNaN)).toBe(false)
    // The third sequence counted twice: the same mean, and an lse that is larger by ln 2.
    expectWithin(merged.out.slice(80), a.out.slice(80), () => 1e-6)
    expectWithin(
      merged.lse.slice(16),
      a.lse.slice(16).map((value) => value + Math.LN2),
      () => 1e-6,
    )
  })

  test('partial results over disjoint keys merge to the whole by their lse', () => {
    const whole = { ...shape, B: 1, Tk: 60 }
    const data = randomMlaData(whole, 21)
    const run = (first: number, end: number) => {
      const sizes = { ...whole, Tk: end - first }
      const cut = (rows: Float32Array, width: number) => rows.slice(first * width, end * width)
      const part = { ...data, kvLatent: cut(data.kvLatent, 9), kRope: cut(data.kRope, 3) }
      const made = mlaCall(sizes, part, { causal: false }, { dtype: 'float32', device })
      const { out, lse } = mlaAttention(made.q, made.kvLatent, made.wUpK, made.wUpV, {
        ...made.options,
        returnLse: true,
      })
      return { out: out.dataSync(), lse: lse.dataSync(), exact: made.exact }
    }
    const { exact } = run(0, 60)
    const merged = mergePartials(run(0, 23), run(23, 60), whole)
    expect(relativeL2(merged.out, expandedMla(exact))).toBeLessThanOrEqual(4e-6)
    expect(relativeL2(merged.lse, mlaLse(exact))).toBeLessThanOrEqual(2e-6)
    const withNothing = mergePartials(run(0, 60), run(60, 60), whole)
    expect(relativeL2(withNothing.out, expandedMla(exact))).toBeLessThanOrEqual(4e-6)
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

interface Partial {
  readonly out: Float32Array
  readonly lse: Float32Array
}

/** Two results over disjoint keys as one: means weighted by exp(lse). */
function mergePartials(a: Partial, b: Partial, { B, Tq, H, Dv }: MlaShape): Partial {
  const out = new Float32Array(a.out.length)
  const lse = new Float32Array(a.lse.length)
  for (let i = 0; i < lse.length; i++) {
    const max = Math.max(a.lse[i]!, b.lse[i]!)
    // −∞ − −∞ is NaN: with nothing on either side there is nothing to weigh.
    const [x, y] = max === -Infinity ? [0, 0] : [Math.exp(a.lse[i]! - max), Math.exp(b.lse[i]! - max)]
    lse[i] = max + Math.log(x + y)
    const [n, h, t] = [Math.floor(i / (H * Tq)), Math.floor(i / Tq) % H, i % Tq]
    const row = ((n * Tq + t) * H + h) * Dv
    for (let d = row; d < row + Dv; d++) {
      out[d] = x + y === 0 ? 0 : (x * a.out[d]! + y * b.out[d]!) / (x + y)
    }
  }
  expect(lse.length).toBe(B * H * Tq)
  return { out, lse }
}
