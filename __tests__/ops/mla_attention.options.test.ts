import fc from 'fast-check'
import { type FloatDType, mlaAttention } from 'warpgraph'
import { expandedMla, mlaLse } from '../definitions'
import { onEachDevice } from '../devices'
import {
  elementBound,
  expectRelativeL2,
  lseBound,
  type MlaHow,
  type MlaShape,
  type MlaVariant,
  mlaBounds,
  mlaCall,
  randomMlaData,
  wholePages,
} from '../mla'
import { expectSameBits, expectWithin, floatDTypes, relativeL2 } from '../tolerance'

onEachDevice('mlaAttention', (device) => {
  /** Result and lse against the definitions, element by element. */
  function check(
    shape: MlaShape,
    variant: MlaVariant,
    dtype: FloatDType,
    seed: number,
    how: MlaHow = {},
  ): void {
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

    test.each<[MlaHow]>([
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
            how: fc.constantFrom<MlaHow>(
              {},
              { algorithm: 'absorb' },
              { algorithm: 'expand' },
              { numSplits: 2 },
            ),
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

    test('without values, or without a rank, there is an lse all the same', () => {
      check({ ...shape, Dv: 0 }, {}, dtype, 1)
      check({ ...shape, R: 0 }, {}, dtype, 2)
      check({ ...shape, R: 0, Dr: 0, D: 0 }, { lengths: [5, 0, 48] }, dtype, 3)
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
})
