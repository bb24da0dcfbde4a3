import fc from 'fast-check'
import { type DeviceName, type FloatDType, mlaAttention, mlaDecode, tensor } from 'warpgraph'
import { edgyLengths } from '../arbitraries'
import { absorbQueries, expandedMla, latentMla, mlaLse, projectUp } from '../definitions'
import { onEachDevice } from '../devices'
import { float32, goldenCases } from '../golden'
import {
  elementBound,
  expectRelativeL2,
  lseBound,
  type MlaData,
  type MlaHow,
  type MlaShape,
  type MlaVariant,
  mlaBounds,
  mlaCall,
  randomMlaData,
  wholePages,
} from '../mla'
import { expectSameBits, expectWithin, floatDTypes, relativeL2 } from '../tolerance'
import 'warpgraph/testing/jest'

type How = Omit<MlaHow, 'algorithm'>

/** mlaDecode on absorbed queries, with the inputs as rounded for the definitions. */
function decode(
  shape: MlaShape,
  data: MlaData,
  variant: MlaVariant & How,
  on: { readonly dtype: FloatDType; readonly device: DeviceName },
) {
  const { numSplits, precision, ...rest } = variant
  const how = {
    ...(numSplits === undefined ? {} : { numSplits }),
    ...(precision === undefined ? {} : { precision }),
  }
  const made = mlaCall(shape, data, rest, on)
  const { B, Tq, H, R, Dr } = shape
  const absorbed = Float32Array.from(absorbQueries(made.exact))
  const qLatent = tensor(absorbed, { shape: [B, Tq, H, R + Dr], ...on })
  const settings = { scale: made.exact.scale, ...made.settings, ...how }
  const { out, lse } = mlaDecode(qLatent, made.cache, { ...settings, returnLse: true })
  return { ...made, qLatent, settings, out, lse, latent: { ...made.exact, qLatent: qLatent.dataSync() } }
}

onEachDevice('mlaDecode', (device) => {
  function check(shape: MlaShape, variant: MlaVariant & How, dtype: FloatDType, seed: number): void {
    const whole = wholePages(shape, variant.pageSize)
    const data = randomMlaData(whole, seed)
    const { out, lse, latent, qLatent, cache, settings } = decode(whole, data, variant, { dtype, device })
    const { B, Tq, H, R } = shape
    expect([out.shape, out.dtype]).toEqual([[B, Tq, H, R], dtype])
    expect([lse.shape, lse.dtype]).toEqual([[B, H, Tq], 'float32'])
    const expected = latentMla(latent)
    const tf32 = variant.precision === 'tf32'
    // A result is a mean of latents, which are at most 1 in size; a logit the sum of R of their products with queries.
    const bound = elementBound(latent, dtype, device, tf32)
    const values = out.dataSync() as Float32Array
    expectWithin(values, expected.out, (i) => bound(1, expected.out[i]!))
    expectRelativeL2(values, expected.out, latent, tf32 ? 'tf32' : dtype)
    const boundOfLse = lseBound(latent, dtype, device, tf32)
    expectWithin(lse.dataSync(), expected.lse, (i) => boundOfLse(expected.lse[i]!))
    expectSameBits(mlaDecode(qLatent, cache, settings).dataSync(), out.dataSync())
  }

  const shape = { B: 3, Tq: 2, Tk: 48, H: 3, D: 7, Dv: 5, R: 9, Dr: 3 }

  test('golden rank512: with the projections around it, it is mlaAttention', async () => {
    const [golden] = await goldenCases('mla_attention', 'golden_mla_rank512.npz')
    const { inputs, out } = golden!
    const [B, Tq, H, D] = inputs.q!.shape as [number, number, number, number]
    const Tk = inputs.l!.shape[1]!
    const sizes = {
      B,
      Tq,
      Tk,
      H,
      D,
      R: inputs.wk!.shape[0]!,
      Dv: inputs.wv!.shape[2]!,
      Dr: inputs.kr!.shape[2]!,
    }
    const data = {
      q: float32(inputs.q),
      kvLatent: float32(inputs.l),
      wUpK: float32(inputs.wk),
      wUpV: float32(inputs.wv),
      qRope: float32(inputs.qr),
      kRope: float32(inputs.kr),
    }
    for (const dtype of floatDTypes) {
      const { out: context, exact } = decode(sizes, data, {}, { dtype, device })
      const result = projectUp(exact, context.dataSync())
      // A half absorbed query is rounded once more than the inputs are.
      const expected = dtype === 'float32' ? out.data : expandedMla(exact)
      expect(relativeL2(result, expected)).toBeLessThanOrEqual(mlaBounds[dtype])
    }
  })

  describe.each(floatDTypes)('%s', (dtype) => {
    test('by hand: two keys, one head, a rotated part', () => {
      // Logits ln 2·latent + ln 2·kRope: exponentials 2·2 and 4·1, so the mean of latents 1 and 2 is 1.5.
      const ln2 = Math.LN2
      const make = <const S extends readonly number[]>(data: number[], lengths: S) =>
        tensor(data, { shape: lengths, dtype, device })
      const cache = { kvLatent: make([1, 2], [1, 2, 1]), kRope: make([1, 0], [1, 2, 1]) }
      const qLatent = make([ln2, ln2], [1, 1, 1, 2])
      const { out, lse } = mlaDecode(qLatent, cache, { scale: 1, returnLse: true })
      const rounded = { float32: 0, float16: 2 ** -10, bfloat16: 2 ** -7 }[dtype]
      expect(out).toBeCloseToTensor([[[[1.5]]]], { atol: 1e-6 + rounded })
      expect(lse).toBeCloseToTensor([[[Math.log(8)]]], { atol: 1e-6 + 2 * rounded })
    })

    test.each<[string, MlaVariant & How]>([
      ['all keys', {}],
      ['lengths, one of 0 and one of fewer keys than queries', { lengths: [48, 0, 1] }],
      ['not causal', { lengths: [17, 0, 48], causal: false }],
      ['an offset', { queryOffset: 20 }],
      ['a negative offset', { queryOffset: -1 }],
      ['pages of 16', { pageSize: 16, lengths: [16, 15, 17] }],
      ['pages of 64', { pageSize: 64, lengths: [64, 1, 0], queryOffset: 5 }],
      ['splits', { pageSize: 16, lengths: [48, 33, 1], numSplits: 3 }],
      ['more splits than keys', { lengths: [3, 2, 1], numSplits: 16 }],
    ])('%s', (_, variant) => {
      check(shape, variant, dtype, 5)
      check({ ...shape, Tq: 1, Dr: 0 }, variant, dtype, 6)
    })

    const varied = (['Tq', 'Tk', 'H', 'R', 'Dr', 'B'] as const).flatMap((name) =>
      edgyLengths.map((length) => [name, length] as const),
    )
    test.each(varied)('%s = %i', (name, length) => {
      check({ ...shape, [name]: length }, {}, dtype, length)
    })

    test('the definition on random shapes, lengths, offsets and pages', () => {
      const arbitrary = fc
        .record({
          B: fc.integer({ min: 0, max: 3 }),
          Tq: fc.integer({ min: 0, max: 4 }),
          Tk: fc.integer({ min: 0, max: 70 }),
          H: fc.integer({ min: 1, max: 5 }),
          D: fc.constant(4),
          Dv: fc.constant(0),
          R: fc.integer({ min: 0, max: 40 }),
          Dr: fc.constantFrom(0, 0, 1, 8, 9),
        })
        .chain((sizes) =>
          fc.record(
            {
              sizes: fc.constant(sizes),
              seed: fc.nat(),
              causal: fc.boolean(),
              pageSize: fc.constantFrom(16, 32),
              lengths: fc.array(fc.integer({ min: 0, max: sizes.Tk }), {
                minLength: sizes.B,
                maxLength: sizes.B,
              }),
              queryOffset: fc.integer({ min: -4, max: sizes.Tk + 4 }),
              numSplits: fc.constantFrom(0, 1, 2, 5),
            },
            { requiredKeys: ['sizes', 'seed'] },
          ),
        )
      fc.assert(
        fc.property(arbitrary, ({ sizes, seed, queryOffset, ...variant }) => {
          const offset = queryOffset === undefined || variant.causal === false ? {} : { queryOffset }
          check(sizes, { ...variant, ...offset }, dtype, seed)
        }),
        { numRuns: 60 },
      )
    })

    test('is mlaAttention between its projections', () => {
      const sizes = { ...shape, Tk: 64 }
      const variant = { pageSize: 32, lengths: [64, 3, 40] }
      const data = randomMlaData(sizes, 8)
      const { q, kvLatent, wUpK, wUpV, options, exact, out, lse } = decode(sizes, data, variant, {
        dtype,
        device,
      })
      const attention = mlaAttention(q, kvLatent, wUpK, wUpV, { ...options, returnLse: true })
      const bound = 2 * mlaBounds[dtype]
      expect(relativeL2(projectUp(exact, out.dataSync()), attention.out.dataSync())).toBeLessThanOrEqual(
        bound,
      )
      expect(relativeL2(lse.dataSync(), attention.lse.dataSync())).toBeLessThanOrEqual(bound)
      expect(relativeL2(lse.dataSync(), mlaLse(exact))).toBeLessThanOrEqual(bound)
    })

    test('NaN in keys that causality hides stays there', () => {
      const sizes = { ...shape, B: 1, Tq: 3, Tk: 40 }
      const data = randomMlaData(sizes, 4)
      const { latent } = decode(sizes, data, {}, { dtype, device })
      const expected = latentMla(latent)
      // Query 0 sees keys 0 to 37, the others at least one of those that are NaN.
      const poisoned = { ...data, kvLatent: data.kvLatent.slice().fill(NaN, 38 * sizes.R) }
      const { out, lse } = decode(sizes, poisoned, {}, { dtype, device })
      const bound = elementBound(latent, dtype, device)
      const clean = sizes.H * sizes.R
      expectWithin(out.dataSync().slice(0, clean), expected.out.slice(0, clean), () => bound(1, 1))
      expect(out.dataSync().slice(clean).every(Number.isNaN)).toBe(true)
      expect(Array.from(lse.dataSync(), Number.isNaN)).toEqual(
        Array(sizes.H).fill([false, true, true]).flat(),
      )
    })

    test.each([1, 3])('a query has the same bits alone and in a batch with numSplits %i', (numSplits) => {
      const lengths = [300, 7, 129]
      const whole = { ...shape, Tk: 304 }
      const data = randomMlaData(whole, 11)
      const together = decode(whole, data, { lengths, numSplits }, { dtype, device })
      for (const [b, length] of lengths.entries()) {
        const own = { ...data }
        for (const name of ['q', 'kvLatent', 'qRope', 'kRope'] as const) own[name] = rowsOf(data[name], b)
        const alone = decode({ ...whole, B: 1 }, own, { lengths: [length], numSplits }, { dtype, device })
        expectSameBits(alone.out.dataSync(), rowsOf(together.out.dataSync(), b))
        expectSameBits(alone.lse.dataSync(), rowsOf(together.lse.dataSync(), b))
      }
    })
  })

  test('tf32', () => {
    check({ ...shape, R: 64, H: 8, Tk: 200 }, { precision: 'tf32' }, 'float32', 3)
  })
})

/** The rows of one of three sequences. */
function rowsOf(values: Float32Array, b: number): Float32Array {
  return values.slice((b * values.length) / 3, ((b + 1) * values.length) / 3)
}
