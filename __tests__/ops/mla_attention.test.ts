import fc from 'fast-check'
import { type DeviceName, type FloatDType, mlaAttention, tensor } from 'warpgraph'
import { compareDevices } from 'warpgraph/testing'
import { edgyLengths } from '../arbitraries'
import { absorbedMla, expandedMla } from '../definitions'
import { onEachDevice } from '../devices'
import { float32, type GoldenCase, goldenCases } from '../golden'
import {
  elementBound,
  expectRelativeL2,
  type MlaData,
  type MlaShape,
  type MlaVariant,
  mlaBounds,
  mlaCall,
  randomMlaData,
} from '../mla'
import {
  ErrorTable,
  expectSameBits,
  expectWithin,
  floatDTypes,
  maxAbsolute,
  relativeL2,
  roundedBound,
} from '../tolerance'
import 'warpgraph/testing/jest'

const table = new ErrorTable('mlaAttention, relative L2 against float64')
let golden: GoldenCase[]
beforeAll(async () => {
  golden = [
    ...(await goldenCases('mla_attention')),
    ...(await goldenCases('mla_attention', 'golden_mla_rank512.npz')),
  ]
})

interface Settings extends MlaVariant {
  readonly dtype: FloatDType
  readonly device: DeviceName
}

/** A call on tensors of this data, with its inputs for the definitions. */
function call(shape: MlaShape, data: MlaData, { dtype, device, ...variant }: Settings) {
  const made = mlaCall(shape, data, variant, { dtype, device })
  const { q, kvLatent, wUpK, wUpV, options } = made
  return { result: mlaAttention(q, kvLatent, wUpK, wUpV, options), ...made }
}

function expectExact({ result, exact }: ReturnType<typeof call>): void {
  const expected = expandedMla(exact)
  const magnitudes = expandedMla(exact, true)
  const bound = elementBound(exact, result.dtype, result.device)
  const values = result.dataSync() as Float32Array
  expectWithin(values, expected, (i) => bound(magnitudes[i]!, expected[i]!))
  expectRelativeL2(values, expected, exact, result.dtype)
}

onEachDevice('mlaAttention', (device) => {
  test.each(['seed', 'single_token', 'rope', 'full', 'rank512'])('golden %s', (name) => {
    const { inputs, out } = golden.find((found) => found.name === name)!
    const [B, Tq, H, D] = inputs.q!.shape as [number, number, number, number]
    const [R, Dv, Dr] = [inputs.wk!.shape[0]!, inputs.wv!.shape[2]!, inputs.qr?.shape[3] ?? 0]
    const sizes = { B, Tq, Tk: inputs.l!.shape[1]!, H, D, Dv, R, Dr }
    const none = new Float32Array(0)
    const data = {
      q: float32(inputs.q),
      kvLatent: float32(inputs.l),
      wUpK: float32(inputs.wk),
      wUpV: float32(inputs.wv),
      qRope: inputs.qr ? float32(inputs.qr) : none,
      kRope: inputs.kr ? float32(inputs.kr) : none,
    }
    const causal = name !== 'full'
    for (const dtype of floatDTypes) {
      const { result, exact } = call(sizes, data, { dtype, device, causal })
      expect([result.dtype, result.shape, result.device]).toEqual([dtype, [B, Tq, H, Dv], device])
      const expected = dtype === 'float32' ? out.data : expandedMla(exact)
      table.check(name, dtype, device, relativeL2(result.dataSync(), expected), mlaBounds[dtype])
      if (dtype !== 'float32') continue
      expect(relativeL2(expandedMla(exact), out.data)).toBeLessThanOrEqual(1e-12)
      expect(relativeL2(absorbedMla(exact), out.data)).toBeLessThanOrEqual(1e-12)
    }
  })

  describe.each(floatDTypes)('%s', (dtype) => {
    test('by hand: two keys, one head', () => {
      // Latents 1 and 2, wUpK = ln 2, so k = (ln 2, 2·ln 2); q = 1, scale 1: weights 2 : 4. wUpV = 3: values 3, 6.
      const ln2 = Math.LN2
      const make = (value: number) => tensor([[[value]]], { shape: [1, 1, 1], dtype, device })
      const q = tensor([1, 1], { shape: [1, 2, 1, 1], dtype, device })
      const latents = tensor([1, 2], { shape: [1, 2, 1], dtype, device })
      // ln 2 is rounded to the dtype: at most 2^-9·ln 2 off in bfloat16, times the slope 2/9 · 3.
      const atol = roundedBound(
        dtype,
        2 ** -21 + { float32: 0, float16: 2 ** -12, bfloat16: 2 ** -9 }[dtype],
        5,
      )
      const causal = mlaAttention(q, latents, make(ln2), make(3))
      expect(causal).toBeCloseToTensor([[[[3]], [[5]]]], { atol })
      const full = mlaAttention(q, latents, make(ln2), make(3), { causal: false })
      expect(full).toBeCloseToTensor([[[[5]], [[5]]]], { atol })
      const uniformWeights = mlaAttention(q, latents, make(ln2), make(3), { scale: 0 })
      expect(uniformWeights).toBeCloseToTensor([[[[3]], [[4.5]]]], { atol })
      const negative = mlaAttention(q, latents, make(ln2), make(3), { scale: -1 })
      // Weights 1/2 : 1/4.
      expect(negative).toBeCloseToTensor([[[[3]], [[4]]]], { atol })
    })

    test('by hand: the rope part decides, and the scale counts its dimensions', () => {
      // q·k is 0; qRope·kRope = (0, 2·ln 3), the scale 1/√(3 + 1): weights 1 : 3.
      const zeros = tensor([0, 0, 0], { shape: [1, 1, 1, 3], dtype, device })
      const latents = tensor([4, 8], { shape: [1, 2, 1], dtype, device })
      const wUpK = tensor([1, 1, 1], { shape: [1, 1, 3], dtype, device })
      const wUpV = tensor([1], { shape: [1, 1, 1], dtype, device })
      const qRope = tensor([2], { shape: [1, 1, 1, 1], dtype, device })
      const kRope = tensor([0, Math.log(3)], { shape: [1, 2, 1], dtype, device })
      const atol = roundedBound(
        dtype,
        2 ** -21 + { float32: 0, float16: 2 ** -11, bfloat16: 2 ** -8 }[dtype],
        7,
      )
      const result = mlaAttention(zeros, latents, wUpK, wUpV, { qRope, kRope })
      expect(result).toBeCloseToTensor([[[[7]]]], { atol })
    })

    const anyLength = fc.integer({ min: 1, max: 40 })
    const anySizes = fc.record({
      B: fc.integer({ min: 0, max: 3 }),
      Tq: fc.integer({ min: 0, max: 12 }),
      Tk: fc.oneof(fc.integer({ min: 0, max: 12 }), fc.constantFrom(31, 32, 33)),
      H: fc.integer({ min: 0, max: 9 }),
      D: fc.oneof({ weight: 5, arbitrary: anyLength }, { weight: 1, arbitrary: fc.constant(0) }),
      Dv: fc.oneof({ weight: 5, arbitrary: anyLength }, { weight: 1, arbitrary: fc.constant(0) }),
      R: fc.oneof({ weight: 5, arbitrary: anyLength }, { weight: 1, arbitrary: fc.constant(0) }),
      Dr: fc.constantFrom(0, 0, 1, 8, 33),
    })

    test('the definition, expanded and absorbed, on random shapes', () => {
      fc.assert(
        fc.property(
          anySizes,
          fc.boolean(),
          fc.constantFrom(undefined, 0, 0.3, -0.7),
          fc.nat(),
          (sizes, causal, scale, seed) => {
            const settings = { dtype, device, causal, ...(scale === undefined ? {} : { scale }) }
            const done = call(sizes, randomMlaData(sizes, seed), settings)
            expect(done.result.shape).toEqual([sizes.B, sizes.Tq, sizes.H, sizes.Dv])
            expectExact(done)
            const [expanded, absorbed] = [expandedMla(done.exact), absorbedMla(done.exact)]
            expect(maxAbsolute(absorbed, expanded)).toBeLessThanOrEqual(1e-11)
          },
        ),
        { numRuns: 40 },
      )
    })

    const base = { B: 2, Tq: 3, Tk: 5, H: 2, D: 6, Dv: 4, R: 7, Dr: 3 }
    const varied = (['Tq', 'Tk', 'H', 'D', 'Dv', 'R', 'Dr', 'B'] as const).flatMap((name) =>
      edgyLengths.map((length) => [name, length] as const),
    )
    test.each(varied)('%s = %i', (name, length) => {
      expectExact(
        call({ ...base, [name]: length }, randomMlaData({ ...base, [name]: length }, length), {
          dtype,
          device,
        }),
      )
    })

    test('the same inputs give the same bits', () => {
      const sizes = { B: 2, Tq: 17, Tk: 65, H: 3, D: 33, Dv: 20, R: 48, Dr: 8 }
      const run = () => call(sizes, randomMlaData(sizes, 4), { dtype, device }).result.dataSync()
      const first = run()
      for (let i = 0; i < 3; i++) expectSameBits(run(), first)
    })

    test('agrees with the CPU', async () => {
      const sizes = { B: 2, Tq: 9, Tk: 33, H: 3, D: 16, Dv: 24, R: 20, Dr: 8 }
      const { q, kvLatent, wUpK, wUpV, cache, options, exact } = call(sizes, randomMlaData(sizes, 6), {
        dtype,
        device: 'cpu',
      })
      const result = await compareDevices(
        ({ q, kvLatent, wUpK, wUpV, qRope, kRope }) =>
          mlaAttention(q, kvLatent, wUpK, wUpV, { qRope, kRope }),
        { q, kvLatent, wUpK, wUpV, qRope: options.qRope!, kRope: cache.kRope! },
        {
          devices: [device],
          // Values are averages of sums of 20 random terms, about 1 in size.
          atol: 2 * elementBound(exact, dtype, device)(1, 1),
          rtol: dtype === 'float32' ? 0 : 2 * roundedBound(dtype, 0, 1),
        },
      )
      expect(result).toMatchObject({ ok: true, devices: [{ device, outputs: [{ nanMismatches: 0 }] }] })
    })
  })
})
