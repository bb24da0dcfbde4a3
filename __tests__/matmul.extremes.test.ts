import { dtypes, widen } from '../lib/dtype'
import { uniform } from './arbitraries'
import { blank, bound, expected, operands, type Product, plain, rounded, withMatmul } from './matmul'
import { expectSameBits, floatDTypes, relativeL2 } from './tolerance'

withMatmul('extremes of the matrix product of the addon', ({ addon, hold, multiply }) => {
  describe.each(floatDTypes)('%s', (dtype) => {
    test('no rows, no columns, nothing to add up', () => {
      expect(
        multiply({ ...plain, dtype, m: 0, n: 5, k: 5 }, blank(dtype, 0), blank(dtype, 25)).values.length,
      ).toBe(0)
      expect(
        multiply({ ...plain, dtype, m: 5, n: 0, k: 5 }, blank(dtype, 25), blank(dtype, 0)).values.length,
      ).toBe(0)
      for (const large of [false, true]) {
        const { values } = multiply(
          { ...plain, dtype, m: 5, n: 9, k: 0, large },
          blank(dtype, 0),
          blank(dtype, 0),
        )
        expect(Array.from(values)).toEqual(new Array(45).fill(0))
      }
    })

    test('a page that does not exist is one that does', () => {
      for (const large of [false, true]) {
        const product: Product = {
          ...plain,
          dtype,
          m: 32,
          n: 16,
          k: 8,
          large,
          pages: { size: 16, firstRow: 0 },
        }
        const [a, b] = [rounded(dtype, uniform(1, 32 * 8)), rounded(dtype, uniform(2, 8 * 16))]
        const out = hold(blank(dtype, 32 * 16))
        const table = hold(Int32Array.of(-5, 1 << 30))
        const call = [
          hold(a),
          hold(b),
          out,
          dtypes[dtype].code,
          1,
          32,
          16,
          8,
          8,
          0,
          16,
          0,
          false,
          16,
          512,
          false,
        ] as const
        addon.matmul(...call, large, table, 2, 16, 2, 0, null, 0, null)
        const c = blank(dtype, 32 * 16)
        addon.download(out, c)
        const right = expected({ ...product, pages: null }, a, b)
        expect(relativeL2(widen(dtype, c), right)).toBeLessThanOrEqual(bound(product))
      }
    })

    test('a row has the same bits alone and among others', () => {
      for (const large of [false, true]) {
        for (const [n, k] of [
          [512, 128],
          [128, 512],
          [33, 47],
        ] as const) {
          const many: Product = { ...plain, dtype, batch: 35, m: 200, n, k, large }
          const { a, b } = operands(many, 5)
          const { values } = multiply(many, a, b)
          for (const [e, m] of [
            [0, 1],
            [1, 40],
            [2, 64],
            [33, 65],
            [34, 70],
          ] as const) {
            const rows = a.slice(e * 200 * k, (e * 200 + m) * k)
            const alone = multiply({ ...many, batch: 1, m }, rows, b.slice(e * k * n, (e + 1) * k * n))
            expectSameBits(alone.values, values.slice(e * 200 * n, (e * 200 + m) * n))
          }
        }
      }
    })

    test('what is not finite stays in its row, is reported, and does not reach rows that do not count', () => {
      for (const large of [false, true]) {
        for (const bad of [NaN, Infinity]) {
          const product: Product = { ...plain, dtype, m: 40, n: 24, k: 16, large }
          const a = uniform(3, 40 * 16)
          a[5 * 16 + 3] = bad
          const b = rounded(dtype, uniform(4, 16 * 24, 0.5, 1))
          const { values, allFinite } = multiply(product, rounded(dtype, a), b)
          expect(allFinite).toBe(false)
          const rowsHit = Array.from(values.keys(), (i) => Math.floor(i / 24)).filter(
            (_, i) => !Number.isFinite(values[i]),
          )
          expect(rowsHit).toEqual(new Array(24).fill(5))
          const limited = { ...product, limits: { rows: [5], offset: 0 } }
          expect(multiply(limited, rounded(dtype, a), b).allFinite).toBe(true)
        }
        const weights = rounded(dtype, new Float32Array(16 * 24).fill(NaN))
        const none: Product = {
          ...plain,
          dtype,
          m: 40,
          n: 24,
          k: 16,
          large,
          limits: { rows: [0], offset: 0 },
        }
        const { values, allFinite } = multiply(none, rounded(dtype, uniform(3, 40 * 16)), weights)
        expect(allFinite).toBe(true)
        expect(values.every((value) => value === 0)).toBe(true)
      }
    })
  })

  test('float16 beyond its range is reported', () => {
    for (const large of [false, true]) {
      const product: Product = { ...plain, dtype: 'float16', m: 8, n: 8, k: 8, large }
      const ones = rounded('float16', new Float32Array(64).fill(128))
      const { values, allFinite } = multiply(product, ones, rounded('float16', new Float32Array(64).fill(64)))
      expect([allFinite, values[0]]).toEqual([false, Infinity])
    }
  })
})
