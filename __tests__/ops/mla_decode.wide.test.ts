import { type FloatDType, type MlaCache, mlaDecode, type Tensor, tensor } from 'warpgraph'
import { absorbQueries, latentMla } from '../definitions'
import { onEachDevice } from '../devices'
import { type MlaData, type MlaShape, type MlaVariant, mlaBounds, mlaCall, randomMlaData } from '../mla'
import {
  clipped,
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

/** Heads times queries choose the kernel: up to 16, up to 32, or tiles of 64. */
const rows: readonly (readonly [string, Pick<MlaShape, 'H' | 'Tq'>])[] = [
  ['15 rows', { H: 5, Tq: 3 }],
  ['16 rows', { H: 16, Tq: 1 }],
  ['30 rows', { H: 10, Tq: 3 }],
  ['32 rows', { H: 8, Tq: 4 }],
  ['40 rows', { H: 20, Tq: 2 }],
  ['66 rows', { H: 33, Tq: 2 }],
]
const hasAllDTypes = (name: string) => name === '15 rows' || name === '40 rows'
const dimensions: readonly (readonly [string, Pick<MlaShape, 'R' | 'Dr'>])[] = [
  ['rank 512', { R: 512, Dr: 64 }],
  ['rank 320, no rotated part', { R: 320, Dr: 0 }],
]

onEachDevice('mlaDecode on the dimensions of models', (device) => {
  const isCpu = device === 'cpu'
  const { dtypes, variants } = tableFor(device, floatDTypes)
  const splits = isCpu ? [0] : [0, 1, 2, 3]

  describe.each(dimensions)('%s', (_, dims) => {
    // All of few and of many rows; the sizes between them once, since what differs is the shape of the tile.
    const between = dims.R === 512 ? rows : rows.filter(([name]) => hasAllDTypes(name))
    describe.each(between)('%s', (name, { H, Tq }) => {
      const base = { H, Tq, Tk: 200, D: 32, Dv: 0, ...dims }
      describe.each(hasAllDTypes(name) ? dtypes : dtypes.slice(-1))('%s', (dtype) => {
        const on = { dtype, device }

        /** The keys of a call, with its absorbed queries as the dtype rounds them. */
        function prepare(shape: MlaShape, data: MlaData, variant: MlaVariant) {
          const { cache, settings, exact } = mlaCall(shape, data, variant, on)
          const absorbed = Float32Array.from(absorbQueries(exact))
          const qLatent = tensor(absorbed, { shape: [shape.B, Tq, H, dims.R + dims.Dr], ...on })
          const latent = { ...exact, qLatent: qLatent.dataSync() }
          return { qLatent, cache, latent, settings: { ...settings, scale: exact.scale } }
        }

        function decode({ qLatent, cache, settings }: ReturnType<typeof prepare>, how: object) {
          const result = mlaDecode(qLatent, cache, { ...settings, ...how, returnLse: true })
          return { out: result.out.dataSync() as Float32Array, lse: result.lse.dataSync() }
        }

        test.each(variants)('%s', (name, variant) => {
          const index = wideVariants.findIndex(([other]) => other === name)
          const sizes = sizesFor(base, variant)
          const data = randomMlaData(sizes, index)
          const contiguous = { shape: sizes, data, variant: clipped(variant, base.Tk) }
          const inPages = paged(sizes, data, variant, pageSizes[index % pageSizes.length]!)
          let expected: ReturnType<typeof latentMla> | undefined
          for (const { shape, data, variant } of isCpu ? [inPages] : [contiguous, inPages]) {
            const made = prepare(shape, data, variant)
            expected ??= latentMla(made.latent)
            for (const numSplits of splits) {
              const { out, lse } = decode(made, { numSplits })
              expectRowsWithin(out, expected.out, dims.R, mlaBounds[dtype])
              expectLseWithin(lse, expected.lse, mlaBounds[dtype])
            }
          }
        })

        if (isCpu) return

        test.each([NaN, Infinity, -Infinity])('%p stays in the keys that causality hides', (wrong) => {
          if (Tq === 1) return
          const sizes = { ...base, B: 2 }
          const data = randomMlaData(sizes, 4)
          const expected = latentMla(prepare(sizes, data, {}).latent).out
          // The last key of the first sequence, which its last query alone sees.
          const [from, end] = [(Tq - 1) * H * dims.R, Tq * H * dims.R]
          for (const name of ['kvLatent', 'kRope'] as const) {
            const width = { kvLatent: dims.R, kRope: dims.Dr }[name]
            if (width === 0) continue
            const poisoned: MlaData = { ...data, [name]: data[name].slice() }
            poisoned[name].fill(wrong, (base.Tk - 1) * width, base.Tk * width)
            const inPages = paged(sizes, poisoned, {}, 16)
            for (const made of [
              prepare(sizes, poisoned, {}),
              prepare(inPages.shape, inPages.data, inPages.variant),
            ]) {
              for (const numSplits of splits) {
                const { out } = decode(made, { numSplits })
                if (Number.isNaN(wrong)) expect(out.subarray(from, end).every(Number.isNaN)).toBe(true)
                out.set(expected.subarray(from, end), from)
                expectRowsWithin(out, expected, dims.R, mlaBounds[dtype])
              }
            }
          }
        })

        test('a query has the same bits alone and in a batch', () => {
          const lengths = [200, 7, 129]
          const sizes = { ...base, B: 3 }
          const data = randomMlaData(sizes, 11)
          for (const pageSize of [16, 64, 128]) {
            const run = (shape: MlaShape, inputs: MlaData, variant: MlaVariant) => {
              const inPages = paged(shape, inputs, variant, pageSize)
              const made = prepare(inPages.shape, inPages.data, inPages.variant)
              return [1, 2, 3].map((numSplits) => decode(made, { numSplits }))
            }
            const together = run(sizes, data, { lengths })
            for (const [b, length] of lengths.entries()) {
              const alone = run({ ...sizes, B: 1 }, dataOf(data, b, 3), { lengths: [length] })
              for (const [i, { out, lse }] of alone.entries()) {
                expectSameBits(out, rowsOf(together[i]!.out, b, 3))
                expectSameBits(lse, rowsOf(together[i]!.lse, b, 3))
              }
            }
          }
        })
      })
    })
  })

  /** What bfloat16 keeps to, however many splits there are. */
  function expectInSplits(
    splits: readonly number[],
    qLatent: Tensor<FloatDType, 4>,
    cache: MlaCache,
    scale: number,
    expected: ReturnType<typeof latentMla>,
  ) {
    const R = cache.kvLatent.shape[2]
    for (const numSplits of splits) {
      const { out, lse } = mlaDecode(qLatent, cache, { scale, numSplits, returnLse: true })
      expectRowsWithin(out.dataSync(), expected.out, R, mlaBounds.bfloat16)
      expectLseWithin(lse.dataSync(), expected.lse, mlaBounds.bfloat16)
    }
  }

  // What an H200 likes: one sequence of 128 heads is cut into 16 splits, each of 23 to 33 into two, which clusters of
  // blocks merge; 34 short ones stay whole, and of 70 some blocks take two, as of 264 with 16 heads. 34 longer ones, and
  // 300, are laid end to end and cut into equal shares. Lengths that only the GPU knows go the same ways by the kernel
  // for shares.
  test.each(
    isCpu
      ? [[2, 2, 9]]
      : [
          [1, 128, 4096],
          [23, 128, 450],
          [33, 128, 450],
          [34, 128, 450],
          [34, 128, 900],
          [70, 128, 200],
          [264, 16, 256],
          [300, 16, 256],
        ],
  )('%i sequences of %i heads and %i keys: as many splits as the device likes', (B, H, Tk) => {
    const on = { dtype: 'bfloat16' as FloatDType, device }
    const sizes = { B, H, Tk, Tq: 1, D: 8, Dv: 0, R: 64, Dr: 64 }
    const data = randomMlaData(sizes, 3)
    const inPages = paged(sizes, data, {}, 64)
    const { exact } = mlaCall(sizes, data, {}, on)
    const qLatent = tensor(Float32Array.from(absorbQueries(exact)), { shape: [B, 1, H, 128], ...on })
    const expected = latentMla({ ...exact, qLatent: qLatent.dataSync() })
    for (const { cache } of [
      mlaCall(sizes, data, {}, on),
      mlaCall(sizes, data, { lengths: Array<number>(B).fill(Tk) }, on),
      mlaCall(inPages.shape, inPages.data, inPages.variant, on),
    ]) {
      expectInSplits([0, 1, 2, 4], qLatent, cache, exact.scale, expected)
    }
  })

  // Long enough that a warpgroup takes a second tile of keys in each of up to three splits, with all the queries' columns.
  test.each([
    ['all keys', undefined],
    ['lengths', [700, 641, 385, 257, 1, 0]],
  ])('many tiles of keys of rank 512: %s', (_, lengths) => {
    const on = { dtype: 'bfloat16' as FloatDType, device }
    const sizes = { B: 6, H: isCpu ? 2 : 40, Tk: 700, Tq: 1, D: 8, Dv: 0, R: 512, Dr: 64 }
    const data = randomMlaData(sizes, 5)
    const variant = lengths === undefined ? {} : { lengths }
    const { exact } = mlaCall(sizes, data, variant, on)
    const qLatent = tensor(Float32Array.from(absorbQueries(exact)), { shape: [6, 1, sizes.H, 576], ...on })
    const expected = latentMla({ ...exact, qLatent: qLatent.dataSync() })
    const inPages = paged(sizes, data, variant, 16)
    for (const { cache } of [
      mlaCall(sizes, data, variant, on),
      mlaCall(inPages.shape, inPages.data, inPages.variant, on),
    ]) {
      expectInSplits([0, 1, 2, 3], qLatent, cache, exact.scale, expected)
    }
  })

  test('tf32', () => {
    const on = { dtype: 'float32' as FloatDType, device }
    const shape = { B: 3, H: 20, Tq: 2, Tk: 200, D: 32, Dv: 0, R: 512, Dr: 64 }
    const { cache, exact } = mlaCall(shape, randomMlaData(shape, 1), { lengths: [200, 65, 1] }, on)
    const qLatent = tensor(Float32Array.from(absorbQueries(exact)), { shape: [3, 2, 20, 576], ...on })
    const expected = latentMla({ ...exact, qLatent: qLatent.dataSync() })
    for (const numSplits of splits) {
      const settings = { scale: exact.scale, precision: 'tf32', numSplits, returnLse: true } as const
      const { out, lse } = mlaDecode(qLatent, cache, settings)
      expectRowsWithin(out.dataSync(), expected.out, 512, mlaBounds.tf32)
      expectLseWithin(lse.dataSync(), expected.lse, mlaBounds.tf32)
    }
  })
})
