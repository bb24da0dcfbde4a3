import { type DeviceName, emptyCache, type FloatDType, memory, mlaAttention, tensor } from 'warpgraph'
import { notTested } from '../absent'
import { absorbQueries, latentMla, projectUp } from '../definitions'
import { onEachDevice, testDevices } from '../devices'
import { type MlaData, type MlaShape, type MlaVariant, mlaBounds, mlaCall, randomMlaData } from '../mla'
import { expectLseWithin, expectRowsWithin, paged } from '../mla_wide'
import { expectWithin, floatDTypes } from '../tolerance'

// The CPU computes all of them in one way.
const howsOf = (device: DeviceName) =>
  device === 'cpu' ? [{}] : ([{}, { algorithm: 'absorb' }, { algorithm: 'expand' }] as const)

/** Projections that keep the size of what they project: without, logits of wide heads are tens, and so is their error. */
function asTrained({ R }: MlaShape, data: MlaData): MlaData {
  const scaled = (values: Float32Array) => values.map((value) => value / Math.sqrt(R))
  return { ...data, wUpK: scaled(data.wUpK), wUpV: scaled(data.wUpV) }
}

onEachDevice('mlaAttention at the ends of its dimensions', (device) => {
  const dtypes: readonly FloatDType[] = device === 'cpu' ? ['float32'] : floatDTypes

  test.each<[string, MlaShape, MlaVariant]>([
    ['rank 1024', { B: 1, Tq: 2, Tk: 70, H: 2, D: 16, Dv: 16, R: 1024, Dr: 8 }, {}],
    ['rank 1024, one query', { B: 2, Tq: 1, Tk: 70, H: 3, D: 128, Dv: 128, R: 1024, Dr: 64 }, {}],
    ['heads of 256', { B: 1, Tq: 3, Tk: 70, H: 2, D: 256, Dv: 256, R: 64, Dr: 256 }, {}],
    ['heads past 256', { B: 1, Tq: 3, Tk: 70, H: 2, D: 264, Dv: 260, R: 64, Dr: 0 }, {}],
    ['131,072 queries of 20 keys', { B: 1, Tq: 131_072, Tk: 20, H: 1, D: 8, Dv: 8, R: 8, Dr: 0 }, {}],
    [
      '131,072 queries of 4 keys, not causal',
      { B: 1, Tq: 131_072, Tk: 4, H: 1, D: 64, Dv: 64, R: 8, Dr: 0 },
      { causal: false },
    ],
  ])('%s', (_, shape, variant) => {
    const data = asTrained(shape, randomMlaData(shape, 3))
    for (const dtype of dtypes) {
      const { q, kvLatent, wUpK, wUpV, options, exact } = mlaCall(shape, data, variant, { dtype, device })
      const { out: mean, lse } = latentMla({ ...exact, qLatent: absorbQueries(exact) })
      const expected = projectUp(exact, mean)
      for (const how of howsOf(device)) {
        const result = mlaAttention(q, kvLatent, wUpK, wUpV, { ...options, ...how, returnLse: true })
        const values = result.out.dataSync() as Float32Array
        // Rows of 8 elements may cancel to little: the whole stands for them.
        expectRowsWithin(values, expected, shape.Dv < 16 ? values.length : shape.Dv, mlaBounds[dtype])
        expectLseWithin(result.lse.dataSync(), lse, mlaBounds[dtype])
      }
    }
  })

  test('one key each of 3,000 sequences: the weight is 1, and memory in between stays bounded', () => {
    const [B, H, D, R] = [3000, 16, 128, 2]
    const kvLatent = Float32Array.from({ length: B * R }, (_, i) => (i % 7) - 3)
    const wUpV = Float32Array.from({ length: R * H * D }, (_, i) => (i % 11) - 5)
    const on = (data: Float32Array, shape: readonly number[]) =>
      tensor(data, { shape, dtype: 'float32', device })
    emptyCache(device)
    using out = mlaAttention(
      on(new Float32Array(B * H * D).fill(1), [B, 1, H, D]),
      on(kvLatent, [B, 1, R]),
      on(new Float32Array(R * H * D).fill(1), [R, H, D]),
      on(wUpV, [R, H, D]),
      { algorithm: 'expand' },
    )
    const values = out.dataSync()
    const wrong = values.findIndex((value, i) => {
      const [b, column] = [Math.floor(i / (H * D)), i % (H * D)]
      return value !== kvLatent[b * R]! * wUpV[column]! + kvLatent[b * R + 1]! * wUpV[H * D + column]!
    })
    expect(wrong).toBe(-1)
    expect(memory(device).cachedBytes).toBeLessThan(2 ** 30)
  })

  test('131,072 keys of one query', () => {
    // Latents of one half and wUpV of ones: the mean is 32, the sum of weights the number of keys. The last key counts
    // as much as all others: its logit is ln 131,071, its latents are twice as large.
    const [Tk, R] = [131_072, 64]
    const latents = new Float32Array(Tk * R).fill(0.5)
    for (let s = 0; s < Tk; s++) latents[s * R] = 0
    latents.fill(1, (Tk - 1) * R)
    const shape = { B: 1, Tq: 1, Tk, H: 1, D: 8, Dv: 8, R, Dr: 0 }
    const data = {
      q: new Float32Array(8).fill(1 / 8),
      kvLatent: latents,
      wUpK: Float32Array.from({ length: R * 8 }, (_, i) => (i < 8 ? 1 : 0)),
      wUpV: new Float32Array(R * 8).fill(1),
      qRope: new Float32Array(),
      kRope: new Float32Array(),
    }
    const variant = { scale: Math.log(Tk - 1) }
    const inPages = paged(shape, data, variant, 64)
    for (const dtype of dtypes) {
      for (const { shape: sizes, data: of, variant: options } of [{ shape, data, variant }, inPages]) {
        const made = mlaCall(sizes, of, options, { dtype, device })
        for (const how of [...howsOf(device), { numSplits: 7 }]) {
          const settings = { ...made.options, ...how, returnLse: true } as const
          const { out, lse } = mlaAttention(made.q, made.kvLatent, made.wUpK, made.wUpV, settings)
          const relative = { float32: 1e-4, float16: 4e-3, bfloat16: 2e-2 }[dtype]
          expectWithin(out.dataSync(), new Float64Array(8).fill((31.5 + 64) / 2), () => relative * 48)
          expectWithin(lse.dataSync(), [Math.log(2 * (Tk - 1))], () => relative * 12)
        }
      }
    }
  })
})

// Keys and values are expanded in pieces of 256 MB: 4096 keys of 128 heads of 128 in half types, 2048 in float32. With
// small heads the same test runs everywhere, so that what it expects is itself tested.
if (testDevices.length === 1) notTested('keys that are expanded in several pieces', 'no GPU')

onEachDevice('mlaAttention in several pieces of keys', (device) => {
  const [many, width] = device === 'cpu' ? [2, 8] : [128, 128]

  test.each(floatDTypes)('%s', (dtype) => {
    // From key 4096 on latents are (1, 3, 0, …), before it (0, 1, 0, …). q·wUpK takes the first, times ln 4, wUpV the
    // second, times 0 to 7: keys from 4096 on weigh four times as much, and their values are three times as large.
    const [B, Tq, Tk, H, D, R] = [3, 3, 5000, many, width, 64]
    const lengths = [5000, 4097, 4000]
    const latents = new Float32Array(B * Tk * R)
    for (let s = 0; s < B * Tk; s++) {
      latents[s * R] = s % Tk < 4096 ? 0 : 1
      latents[s * R + 1] = s % Tk < 4096 ? 1 : 3
    }
    const q = new Float32Array(B * Tq * H * D)
    for (let at = 0; at < q.length; at += D) q[at] = 1
    const wUpK = new Float32Array(R * H * D)
    for (let h = 0; h < H; h++) wUpK[h * D] = 1
    const factor = (h: number, d: number) => (h + d) % 8
    const wUpV = new Float32Array(R * H * D)
    for (let i = 0; i < H * D; i++) wUpV[H * D + i] = factor(Math.floor(i / D), i % D)
    const make = <const S extends readonly number[]>(values: Float32Array, shape: S) =>
      tensor(values, { shape, dtype, device })
    const scale = Math.log(4)
    const result = mlaAttention(
      make(q, [B, Tq, H, D]),
      make(latents, [B, Tk, R]),
      make(wUpK, [R, H, D]),
      make(wUpV, [R, H, D]),
      {
        algorithm: 'expand',
        scale,
        kvLengths: tensor(Int32Array.from(lengths), { device }),
        returnLse: true,
      },
    )
    const sums = lengths.flatMap((length) => {
      return Array.from({ length: Tq }, (_, t) => {
        const seen = length - Tq + t + 1
        const after = Math.max(seen - 4096, 0)
        const before = seen - after
        return { weights: before + 4 * after, values: before + 12 * after }
      })
    })
    const expected = Float64Array.from({ length: B * Tq * H * D }, (_, at) => {
      const { weights, values } = sums[Math.floor(at / (H * D))]!
      return (values / weights) * factor(Math.floor(at / D) % H, at % D)
    })
    expectRowsWithin(result.out.dataSync() as Float32Array, expected, D, mlaBounds[dtype])
    const lse = Float64Array.from({ length: B * H * Tq }, (_, at) => {
      return Math.log(sums[Math.floor(at / (H * Tq)) * Tq + (at % Tq)]!.weights)
    })
    expectLseWithin(result.lse.dataSync(), lse, mlaBounds[dtype])
  })
})
