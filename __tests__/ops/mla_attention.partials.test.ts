import { mlaAttention, type Tensor, tensor } from 'warpgraph'
import { expandedMla, mlaLse } from '../definitions'
import { onEachDevice } from '../devices'
import { type MlaShape, mlaCall, randomMlaData } from '../mla'
import { expectSameBits, expectWithin, floatDTypes, relativeL2 } from '../tolerance'
import 'warpgraph/testing/jest'

// Results over parts of the keys: their lse, how they merge, and that splits depend on nothing else.

onEachDevice('mlaAttention', (device) => {
  const shape = { B: 3, Tq: 4, Tk: 48, H: 2, D: 7, Dv: 5, R: 9, Dr: 3 }

  describe.each(floatDTypes)('%s', (dtype) => {
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
