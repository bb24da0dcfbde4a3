import { mlaAttention, tensor } from 'warpgraph'
import { uniform } from '../arbitraries'
import { absorbedMla } from '../definitions'
import { onEachDevice } from '../devices'
import { floatDTypes, relativeL2, roundoff } from '../tolerance'
import 'warpgraph/testing/jest'

// Public reports about other systems, each named by where it was filed.

onEachDevice('mlaAttention', (device) => {
  describe.each(floatDTypes)('%s', (dtype) => {
    const make = <const S extends readonly number[]>(shape: S, fill: number | Float32Array) => {
      const size = shape.reduce((a, b) => a * b, 1)
      const data = typeof fill === 'number' ? new Float32Array(size).fill(fill) : fill
      return tensor(data, { shape, dtype, device })
    }

    test('sglang#5875, vllm#27491: no keys at all give zeros', () => {
      for (const causal of [true, false]) {
        const q = make([2, 3, 4, 5], 1)
        const rope = { qRope: make([2, 3, 4, 6], 1), kRope: make([2, 0, 6], 1) }
        const [latents, wUpK, wUpV] = [make([2, 0, 7], 1), make([7, 4, 5], 1), make([7, 4, 8], 1)]
        for (const options of [{ causal }, { causal, ...rope }]) {
          const { out, lse } = mlaAttention(q, latents, wUpK, wUpV, { ...options, returnLse: true })
          expect(out.shape).toEqual([2, 3, 4, 8])
          expect(out).toBeCloseToTensor(new Float32Array(2 * 3 * 4 * 8), { atol: 0 })
          expect(lse).toBeCloseToTensor(new Float32Array(2 * 4 * 3).fill(-Infinity), { atol: 0 })
        }
      }
    })

    test('flashinfer#4401: logits around −6·10⁴ are not taken for masked', () => {
      // q·k = −60000 for both keys: equal weights, so the mean of values 2 and 4.
      const q = make([1, 1, 1, 2], Float32Array.of(-1, 0))
      const latents = make([1, 2, 2], Float32Array.of(1, 2, 1, 4))
      const wUpK = make([2, 1, 2], Float32Array.of(60000, 0, 0, 0))
      const wUpV = make([2, 1, 1], Float32Array.of(0, 1))
      for (const how of [{}, { numSplits: 2 }, { algorithm: 'expand' }] as const) {
        const { out, lse } = mlaAttention(q, latents, wUpK, wUpV, { scale: 1, returnLse: true, ...how })
        expect(out).toBeCloseToTensor([[[[3]]]], { atol: 0 })
        expect(lse).toBeCloseToTensor([[[wUpK.dataSync()[0]! * -1 + Math.LN2]]], { rtol: 1e-6 })
      }
    })

    test('flash-attention#1778: more queries than keys, causal: aligned bottom-right, leading rows zero', () => {
      // Five queries, two keys with equal logits and values 2, 6: queries 0 to 2 see none, 3 sees one, 4 both.
      const { out, lse } = mlaAttention(
        make([1, 5, 1, 1], 0),
        make([1, 2, 1], Float32Array.of(2, 6)),
        make([1, 1, 1], 1),
        make([1, 1, 1], 1),
        { returnLse: true },
      )
      expect(out).toBeCloseToTensor([[[[0]], [[0]], [[0]], [[2]], [[4]]]], { atol: 0 })
      const none = -Infinity
      expect(lse).toBeCloseToTensor([[[none, none, none, 0, Math.LN2]]], { atol: 1e-6 })
    })

    test('flash-attention#1778: NaN in a key that no query sees stays out', () => {
      // Two queries, four keys: query 0 sees keys 0 to 2, and not the last, which is NaN.
      const result = mlaAttention(
        make([1, 2, 1, 1], 0),
        make([1, 4, 1], Float32Array.of(1, 2, 6, NaN)),
        make([1, 1, 1], 1),
        make([1, 1, 1], 1),
      )
      expect(result).toBeCloseToTensor([[[[3]], [[NaN]]]], { atol: 2 ** -6, rtol: 0 })
    })

    test('seed runs: batch × heads × queries over 1,024 threads', () => {
      // Every (b, t, h) has its own value: latent b + 1, wUpV h + 1; equal logits.
      const [B, Tq, H] = [3, 40, 11]
      const result = mlaAttention(
        make([B, Tq, H, 1], 0),
        make(
          [B, Tq, 1],
          Float32Array.from({ length: B * Tq }, (_, i) => Math.floor(i / Tq) + 1),
        ),
        make([1, H, 1], 1),
        make(
          [1, H, 1],
          Float32Array.from({ length: H }, (_, h) => h + 1),
        ),
      )
      const expected = Float32Array.from({ length: B * Tq * H }, (_, i) => {
        return (Math.floor(i / (Tq * H)) + 1) * ((i % H) + 1)
      })
      // A mean of up to 40 equal values: exact but for the additions.
      expect(result).toBeCloseToTensor(expected, { rtol: 48 * 2 ** -24 + roundoff[dtype] })
    })

    test.each([
      ['batches', [70_000, 1, 1]],
      ['queries', [1, 70_000, 1]],
      ['heads', [1, 1, 70_000]],
    ] as const)('70,000 %s: past the hardware limit of a grid', (_, [B, Tq, H]) => {
      const values = Float32Array.from({ length: B }, (_, b) => (b % 100) + 1)
      const up = Float32Array.from({ length: H }, (_, h) => (h % 7) + 1)
      const options = { causal: false }
      const result = mlaAttention(
        make([B, Tq, H, 1], 1),
        make([B, 1, 1], values),
        make([1, H, 1], 1),
        make([1, H, 1], up),
        options,
      )
      const expected = Float32Array.from({ length: B * Tq * H }, (_, i) => {
        return values[Math.floor(i / (Tq * H))]! * up[i % H]!
      })
      // Three TF32 products for one of float32 are not exact, not even of small integers.
      expect(result).toBeCloseToTensor(expected, { atol: 0, rtol: 2e-6 })
    })

    test('seed runs: rank 300, head dimension 192, 600 keys', () => {
      const sizes = { B: 1, Tq: 2, Tk: 600, H: 2, D: 192, Dv: 130, R: 300, Dr: 0 }
      const q = make([1, 2, 2, 192], uniform(1, 2 * 2 * 192))
      const kvLatent = make([1, 600, 300], uniform(2, 600 * 300))
      const wUpK = make([300, 2, 192], uniform(3, 300 * 2 * 192, -0.1, 0.1))
      const wUpV = make([300, 2, 130], uniform(4, 300 * 2 * 130, -0.1, 0.1))
      const inputs = {
        ...sizes,
        q: q.dataSync(),
        kvLatent: kvLatent.dataSync(),
        wUpK: wUpK.dataSync(),
        wUpV: wUpV.dataSync(),
        qRope: [],
        kRope: [],
      }
      const exact = absorbedMla({ ...inputs, causal: true, scale: 1 / Math.sqrt(192) })
      const bound = { float32: 2e-6, float16: 2e-3, bfloat16: 1e-2 }[dtype]
      expect(relativeL2(mlaAttention(q, kvLatent, wUpK, wUpV).dataSync(), exact)).toBeLessThanOrEqual(bound)
    })

    test('no rank and no head dimension: equal weights and values of 0, or the mean', () => {
      const zeroRank = mlaAttention(
        make([1, 2, 3, 4], 1),
        make([1, 5, 0], 1),
        make([0, 3, 4], 1),
        make([0, 3, 2], 1),
      )
      expect(zeroRank).toBeCloseToTensor(new Float32Array(1 * 2 * 3 * 2), { atol: 0 })
      const latents = make([1, 2, 1], Float32Array.of(2, 6))
      const zeroDim = mlaAttention(make([1, 2, 1, 0], 1), latents, make([1, 1, 0], 1), make([1, 1, 1], 1))
      expect(zeroDim).toBeCloseToTensor([[[[2]], [[4]]]], { atol: 0 })
    })
  })
})
