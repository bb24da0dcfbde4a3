import './devices' // where WARPGRAPH_DEVICE asks for a GPU, its absence is a failure
import { loadAddon } from '../lib/backends/cuda/addon'
import { dtypes, type FloatDType, narrow, type RawArray, widen } from '../lib/dtype'
import type { Addon, BufferHandle } from '../typings/addon'
import { notTested } from './absent'
import { uniform } from './arbitraries'
import { floatDTypes, relativeL2 } from './tolerance'

// The matrix product is no public op: it is tested as the addon has it, against loops in double precision.

const { addon } = loadAddon()
const isUsable = addon !== null && addon.driverStatus().deviceCount > 0
if (!isUsable) notTested('the matrix product of the addon', 'no GPU')

interface Product {
  readonly dtype: FloatDType
  readonly batch: number
  readonly m: number
  readonly n: number
  readonly k: number
  readonly transposed: boolean
  readonly tf32: boolean
  readonly large: boolean
  /** Elements between the end of a row and the next one; 1 makes everything unaligned. */
  readonly gap: number
  readonly pages: { readonly size: number; readonly firstRow: number } | null
  /** Rows that count, per batch entry, and the limits' offset; the others hold NaN. */
  readonly limits: { readonly rows: readonly number[]; readonly offset: number } | null
  /** All batch entries share b. */
  readonly shared: boolean
}

const plain: Omit<Product, 'dtype' | 'm' | 'n' | 'k'> = {
  batch: 1,
  transposed: false,
  tf32: false,
  large: false,
  gap: 0,
  pages: null,
  limits: null,
  shared: false,
}

/** Relative L2: what the product has to keep to, rounding of the result included. */
function bound({ dtype, tf32 }: Product): number {
  if (dtype === 'float32') return tf32 ? 2e-3 : 2e-6
  return dtype === 'float16' ? 1e-3 : 6e-3
}

function rounded(dtype: FloatDType, values: Float32Array): RawArray {
  const raw = new dtypes[dtype].array(values.length)
  narrow(dtype, values, raw)
  return raw
}

function blank(dtype: FloatDType, length: number): RawArray {
  return rounded(dtype, new Float32Array(length).fill(-77))
}

/** Which rows of `a` the rows of the result are made of, and the table that says so to the addon. */
function layOut({ batch, m, pages }: Product): {
  numRows: number
  table: Int32Array
  rowOf: (b: number, i: number) => number
} {
  if (pages === null) return { numRows: batch * m, table: new Int32Array(0), rowOf: (b, i) => b * m + i }
  const perSequence = Math.ceil((pages.firstRow + m) / pages.size)
  const numPages = batch * perSequence + 2
  const table = Int32Array.from({ length: batch * perSequence }, (_, i) => numPages - 1 - i)
  return {
    numRows: numPages * pages.size,
    table,
    rowOf: (b, i) => {
      const row = pages.firstRow + i
      return table[b * perSequence + Math.floor(row / pages.size)]! * pages.size + (row % pages.size)
    },
  }
}

;(isUsable ? describe : describe.skip)('the matrix product of the addon', () => {
  const loaded: Addon = addon!
  const held: BufferHandle[] = []

  function hold(elements: RawArray): BufferHandle {
    const handle = loaded.upload(0, elements)
    held.push(handle)
    return handle
  }

  afterEach(() => {
    for (const handle of held.splice(0)) loaded.release(handle)
  })

  interface Result {
    readonly values: Float32Array
    readonly allFinite: boolean
  }

  /** The product's elements (batch, m, n), after a look at what lies between them. */
  function multiply(product: Product, a: RawArray, b: RawArray): Result {
    const { dtype, batch, m, n, k, transposed, tf32, large, gap, pages, limits, shared } = product
    const { table } = layOut(product)
    const [aRow, bRow, cRow] = [k + gap, (transposed ? k : n) + gap, n + gap]
    const c = blank(dtype, batch * m * cRow)
    const out = hold(c)
    const flag = hold(Int32Array.of(0))
    const limitOf = limits && hold(Int32Array.from(limits.rows, (rows) => rows + limits.offset))
    loaded.matmul(
      hold(a),
      hold(b),
      out,
      dtypes[dtype].code,
      batch,
      m,
      n,
      k,
      aRow,
      m * aRow,
      bRow,
      shared ? 0 : (transposed ? n : k) * bRow,
      transposed,
      cRow,
      m * cRow,
      tf32,
      large,
      pages && hold(table),
      pages ? table.length / batch : 0,
      pages ? pages.size : 0,
      pages ? a.length / aRow / pages.size : 0,
      pages ? pages.firstRow : 0,
      limitOf,
      limits ? limits.offset : 0,
      flag,
    )
    loaded.download(out, c)
    const all = widen(dtype, c)
    const values = new Float32Array(batch * m * n)
    for (let row = 0; row < batch * m; row++) {
      values.set(all.subarray(row * cRow, row * cRow + n), row * n)
      for (let j = n; j < cRow; j++) expect(all[row * cRow + j]).toBe(-77)
    }
    const isSet = new Int32Array(1)
    loaded.download(flag, isSet)
    return { values, allFinite: isSet[0] === 0 }
  }

  /** Operands from a seed; rows of `a` that do not count, or that no page lists, hold NaN. */
  function operands(product: Product, seed: number): { a: RawArray; b: RawArray } {
    const { dtype, batch, m, n, k, transposed, gap, limits, shared } = product
    const { numRows, rowOf } = layOut(product)
    const aRow = k + gap
    const a = new Float32Array(numRows * aRow).fill(NaN)
    const values = uniform(seed, batch * m * k)
    for (let e = 0; e < batch; e++) {
      for (let i = 0; i < Math.min(m, limits ? limits.rows[e]! : m); i++) {
        a.set(values.subarray((e * m + i) * k, (e * m + i + 1) * k), rowOf(e, i) * aRow)
      }
    }
    const bRow = (transposed ? k : n) + gap
    return {
      a: rounded(dtype, a),
      b: rounded(dtype, uniform(seed + 1, (shared ? 1 : batch) * (transposed ? n : k) * bRow)),
    }
  }

  function expected(product: Product, a: RawArray, b: RawArray): Float64Array {
    const { dtype, batch, m, n, k, transposed, gap, limits, shared } = product
    const { rowOf } = layOut(product)
    const [wideA, wideB] = [widen(dtype, a), widen(dtype, b)]
    const [aRow, bRow] = [k + gap, (transposed ? k : n) + gap]
    const out = new Float64Array(batch * m * n)
    for (let e = 0; e < batch; e++) {
      const firstOfB = shared ? 0 : e * (transposed ? n : k) * bRow
      for (let i = 0; i < Math.min(m, limits ? limits.rows[e]! : m); i++) {
        const row = rowOf(e, i) * aRow
        for (let j = 0; j < n; j++) {
          let sum = 0
          for (let p = 0; p < k; p++) {
            sum += wideA[row + p]! * wideB[firstOfB + (transposed ? j * bRow + p : p * bRow + j)]!
          }
          out[(e * m + i) * n + j] = sum
        }
      }
    }
    return out
  }

  function check(product: Product, seed = 1): void {
    const { a, b } = operands(product, seed)
    const { values, allFinite } = multiply(product, a, b)
    const right = expected(product, a, b)
    const difference = relativeL2(values, right)
    if (!(difference <= bound(product))) throw new Error(`${JSON.stringify(product)}: off by ${difference}`)
    for (let i = 0; i < right.length; i++) if (right[i] === 0 && product.limits) expect(values[i]).toBe(0)
    expect(allFinite).toBe(true)
  }

  describe.each(floatDTypes)('%s', (dtype) => {
    test.each([false, true])('sizes around those of tiles, transposed: %p', (transposed) => {
      for (const large of [false, true]) {
        for (const [m, n, k] of [
          [1, 1, 1],
          [1, 7, 3],
          [17, 64, 64],
          [31, 65, 33],
          [33, 8, 128],
          [63, 129, 65],
          [65, 33, 512],
          [128, 128, 64],
          [129, 256, 72],
          [130, 264, 200],
        ] as const) {
          for (const gap of [0, 1, 8]) check({ ...plain, dtype, m, n, k, transposed, large, gap })
        }
      }
    })

    test('every tile, and batches', () => {
      for (const large of [false, true]) {
        check({ ...plain, dtype, batch: 40, m: 30, n: 72, k: 40, large })
        check({ ...plain, dtype, batch: 50, m: 20, n: 260, k: 40, large })
        check({ ...plain, dtype, batch: 50, m: 20, n: 260, k: 72, large, transposed: true })
        check({ ...plain, dtype, batch: 40, m: 70, n: 200, k: 24, large, shared: true })
        check({ ...plain, dtype, batch: 12, m: 300, n: 320, k: 72, large, transposed: true })
      }
    })

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

    test('rows gathered by pages, rows that do not count', () => {
      for (const large of [false, true]) {
        for (const [size, firstRow] of [
          [16, 0],
          [16, 48],
          [64, 128],
          [128, 5],
          [1, 3],
          [256, 256],
        ] as const) {
          const pages = { size, firstRow }
          const product = { ...plain, dtype, batch: 3, m: 150, n: 136, k: 72, large, pages }
          check(product)
          check({ ...product, limits: { rows: [150, 0, 77], offset: firstRow } })
        }
        check({
          ...plain,
          dtype,
          batch: 4,
          m: 90,
          n: 40,
          k: 16,
          large,
          limits: { rows: [0, 1, 64, 90], offset: 0 },
        })
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
        loaded.matmul(...call, large, table, 2, 16, 2, 0, null, 0, null)
        const c = blank(dtype, 32 * 16)
        loaded.download(out, c)
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
          const many: Product = { ...plain, dtype, batch: 3, m: 200, n, k, large }
          const { a, b } = operands(many, 5)
          const { values } = multiply(many, a, b)
          for (const [e, m] of [
            [0, 1],
            [1, 40],
            [2, 70],
          ] as const) {
            const rows = a.slice(e * 200 * k, (e * 200 + m) * k)
            const alone = multiply({ ...many, batch: 1, m }, rows, b.slice(e * k * n, (e + 1) * k * n))
            expect(alone.values).toEqual(values.slice(e * 200 * n, (e * 200 + m) * n))
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

  test('float32 keeps its accuracy over long sums, one TF32 product its own', () => {
    for (const transposed of [false, true]) {
      check({ ...plain, dtype: 'float32', m: 70, n: 80, k: 2048, transposed })
      check({ ...plain, dtype: 'float32', m: 70, n: 80, k: 2048, transposed, tf32: true })
    }
  })

  test('wrong buffers, sizes and dtypes are refused', () => {
    const floats = (length: number) => hold(new Float32Array(length))
    const table = hold(Int32Array.of(0, 1))
    const [limits, flag] = [hold(Int32Array.of(4)), hold(Int32Array.of(0))]
    // m 4, n 3, k 2; two pages of two rows.
    const right: unknown[] = [
      floats(8),
      floats(6),
      floats(12),
      0,
      1,
      4,
      3,
      2,
      2,
      8,
      3,
      6,
      false,
      3,
      12,
      false,
      false,
    ]
    right.push(table, 2, 2, 2, 0, limits, 0, flag)
    // biome-ignore lint/suspicious/noExplicitAny: wrong arguments are the point
    const call = (args: unknown[]) => () => (loaded as any).matmul(...args)
    expect(call(right)).not.toThrow()
    const refused = expect.objectContaining({ message: expect.stringMatching(/^matmul: .+/) })
    const tiny = loaded.allocate(0, 1)
    held.push(tiny)
    for (const position of [0, 1, 2, 17, 22, 24]) {
      for (const wrong of [tiny, 987654321, -1, NaN, '1', undefined]) {
        expect(call(right.with(position, wrong))).toThrow(refused)
      }
    }
    for (const position of [4, 5, 6, 7, 8, 10, 13, 18, 19, 20]) {
      for (const wrong of [2 ** 32 + 1, 2 ** 52, -1, 1.5, NaN, '2', undefined]) {
        expect(call(right.with(position, wrong))).toThrow(refused)
      }
    }
    expect(call(right.with(19, 0))).toThrow(refused)
    for (const wrong of [3, 4, -1, NaN, 'float32', undefined])
      expect(call(right.with(3, wrong))).toThrow(refused)
    for (const position of [12, 15, 16]) expect(call(right.with(position, 1))).toThrow(refused)
    expect(call(right.slice(1))).toThrow(refused)
    loaded.synchronize(0)
  })
})
