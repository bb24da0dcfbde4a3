import { type FloatDType, mlaAttention } from 'warpgraph'
import { absorbQueries, latentMla, projectUp } from '../definitions'
import { onEachDevice } from '../devices'
import {
  type MlaData,
  type MlaHow,
  type MlaShape,
  type MlaVariant,
  mlaBounds,
  mlaCall,
  randomMlaData,
} from '../mla'
import {
  clipped,
  coarseMlaData,
  dataOf,
  expectLseWithin,
  expectRowsWithin,
  paged,
  pageSizes,
  rowsOf,
  sizesFor,
  tableFor,
  wideVariants,
} from '../mla_wide'
import { expectSameBits, floatDTypes } from '../tolerance'

const anyDType: readonly MlaHow[] = [
  {},
  { algorithm: 'absorb' },
  { algorithm: 'expand' },
  ...[1, 2, 3].map((numSplits) => ({ algorithm: 'absorb', numSplits }) as const),
]
const hows: Record<FloatDType, readonly MlaHow[]> = {
  float32: [
    ...anyDType,
    { algorithm: 'absorb', precision: 'tf32' },
    { algorithm: 'expand', precision: 'tf32' },
    { precision: 'tf32', numSplits: 2 },
  ],
  float16: anyDType,
  bfloat16: anyDType,
}

const shapes: readonly (readonly [string, Omit<MlaShape, 'B'>])[] = [
  ['rank 512', { H: 20, D: 128, Dv: 128, R: 512, Dr: 64, Tq: 2, Tk: 200 }],
  ['rank 320, no rotated part', { H: 20, D: 64, Dv: 64, R: 320, Dr: 0, Tq: 2, Tk: 200 }],
  ['many queries', { H: 2, D: 128, Dv: 128, R: 64, Dr: 64, Tq: 132, Tk: 200 }],
  ['more queries than keys', { H: 2, D: 64, Dv: 64, R: 64, Dr: 0, Tq: 200, Tk: 140 }],
]

/** By the definition, absorbed: expanded it takes a minute. */
function definition({ exact }: Pick<ReturnType<typeof mlaCall>, 'exact'>) {
  const { out, lse } = latentMla({ ...exact, qLatent: absorbQueries(exact) })
  return { out: projectUp(exact, out), lse }
}

onEachDevice('mlaAttention on the dimensions of models', (device) => {
  const isCpu = device === 'cpu'
  const { dtypes, variants } = tableFor(device, floatDTypes)

  function attend(made: ReturnType<typeof mlaCall>, how: MlaHow) {
    const { q, kvLatent, wUpK, wUpV, options } = made
    const result = mlaAttention(q, kvLatent, wUpK, wUpV, { ...options, ...how, returnLse: true })
    return { out: result.out.dataSync() as Float32Array, lse: result.lse.dataSync() }
  }

  const boundOf = (dtype: FloatDType, { precision }: MlaHow) => mlaBounds[precision ?? dtype]

  describe.each(shapes)('%s', (_, base) => {
    // By what is computed: the dtypes share it.
    const known = new Map<string, ReturnType<typeof definition>>()
    function expectedOf(what: string, made: ReturnType<typeof mlaCall>) {
      const expected = known.get(what) ?? definition(made)
      known.set(what, expected)
      return expected
    }

    describe.each(dtypes)('%s', (dtype) => {
      const on = { dtype, device }

      test.each(variants)('%s', (name, variant) => {
        const index = wideVariants.findIndex(([other]) => other === name)
        const sizes = sizesFor(base, variant)
        const data = coarseMlaData(sizes, index)
        const contiguous = { shape: sizes, data, variant: clipped(variant, base.Tk) }
        const inPages = paged(sizes, data, contiguous.variant, pageSizes[index % pageSizes.length]!)
        for (const { shape, data, variant } of isCpu ? [inPages] : [contiguous, inPages]) {
          const made = mlaCall(shape, data, variant, on)
          const expected = expectedOf(name, made)
          for (const how of isCpu ? [{}] : hows[dtype]) {
            const { out, lse } = attend(made, how)
            expectRowsWithin(out, expected.out, base.Dv, boundOf(dtype, how))
            expectLseWithin(lse, expected.lse, boundOf(dtype, how))
          }
        }
      })

      // What these look for is in kernels; the CPU has the same tests of small shapes.
      if (isCpu) return

      test.each([NaN, Infinity, -Infinity])('%p stays in the keys that causality hides', (wrong) => {
        const sizes = { ...base, B: 2 }
        const { Tq, Tk, H, Dv } = base
        // The last keys of the first sequence, which as many queries see.
        const hidden = Math.min(Math.ceil(Tq / 2), 20)
        const data = coarseMlaData(sizes, 4)
        const expected = expectedOf('hidden keys', mlaCall(sizes, data, {}, on))
        const [from, end] = [(Tq - hidden) * H * Dv, Tq * H * Dv]
        for (const name of ['kvLatent', 'kRope'] as const) {
          const width = { kvLatent: base.R, kRope: base.Dr }[name]
          if (width === 0) continue
          const poisoned: MlaData = { ...data, [name]: data[name].slice() }
          poisoned[name].fill(wrong, (Tk - hidden) * width, Tk * width)
          for (const pageSize of [undefined, 64]) {
            const call = pageSize === undefined ? undefined : paged(sizes, poisoned, {}, pageSize)
            const made = call
              ? mlaCall(call.shape, call.data, call.variant, on)
              : mlaCall(sizes, poisoned, {}, on)
            for (const how of hows[dtype]) {
              const { out } = attend(made, how)
              if (Number.isNaN(wrong)) expect(out.subarray(from, end).every(Number.isNaN)).toBe(true)
              out.set(expected.out.subarray(from, end), from)
              expectRowsWithin(out, expected.out, Dv, boundOf(dtype, how))
            }
          }
        }
      })

      test.each([1, 2, 3])(
        'a query has the same bits alone and in a batch with numSplits %i',
        (numSplits) => {
          const lengths = [200, 7, 129].map((length) => Math.min(length, base.Tk))
          const sizes = { ...base, B: 3 }
          const data = randomMlaData(sizes, 11)
          for (const pageSize of [undefined, 16, 128]) {
            const run = (shape: MlaShape, inputs: MlaData, variant: MlaVariant) => {
              const call = pageSize === undefined ? null : paged(shape, inputs, variant, pageSize)
              const made = call
                ? mlaCall(call.shape, call.data, call.variant, on)
                : mlaCall(shape, inputs, variant, on)
              return attend(made, { numSplits })
            }
            const together = run(sizes, data, { lengths })
            for (const [b, length] of lengths.entries()) {
              const alone = run({ ...sizes, B: 1 }, dataOf(data, b, 3), { lengths: [length] })
              expectSameBits(alone.out, rowsOf(together.out, b, 3))
              expectSameBits(alone.lse, rowsOf(together.lse, b, 3))
            }
          }
        },
      )
    })
  })

  if (isCpu) return

  // Many heads and sequences are projected by kernels of their own, and the splits of one sequence are merged by one.
  test.each(dtypes)('%s: a query has the same bits alone and in a large batch', (dtype) => {
    const sizes: MlaShape = { B: 70, H: 128, D: 32, Dv: 40, R: 192, Dr: 64, Tq: 1, Tk: 130 }
    const data = randomMlaData(sizes, 12)
    const run = (shape: MlaShape, inputs: MlaData) =>
      attend(mlaCall(shape, inputs, {}, { dtype, device }), { numSplits: 2 })
    const together = run(sizes, data)
    for (const b of [0, 33, 69]) {
      const alone = run({ ...sizes, B: 1 }, dataOf(data, b, sizes.B))
      expectSameBits(alone.out, rowsOf(together.out, b, sizes.B))
      expectSameBits(alone.lse, rowsOf(together.lse, b, sizes.B))
    }
  })

  // From 256 queries on projections take other tiles; with 128 tiles of these the merging kernel would take the splits.
  test('many queries have the same bits alone and in a batch', () => {
    const sizes: MlaShape = { B: 2, H: 16, D: 128, Dv: 128, R: 512, Dr: 64, Tq: 256, Tk: 300 }
    const data = randomMlaData(sizes, 13)
    const run = (shape: MlaShape, inputs: MlaData) =>
      attend(mlaCall(shape, inputs, {}, { dtype: 'bfloat16', device }), { numSplits: 2 })
    const together = run(sizes, data)
    for (const b of [0, 1]) {
      const alone = run({ ...sizes, B: 1 }, dataOf(data, b, 2))
      expectSameBits(alone.out, rowsOf(together.out, b, 2))
      expectSameBits(alone.lse, rowsOf(together.lse, b, 2))
    }
  })
})
