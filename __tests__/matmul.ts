import './devices' // where WARPGRAPH_DEVICE asks for a GPU, its absence is a failure
import { loadAddon } from '../lib/backends/cuda/addon'
import { dtypes, type FloatDType, narrow, type RawArray, widen } from '../lib/dtype'
import type { Addon, BufferHandle } from '../typings/addon'
import { notTested } from './absent'
import { uniform } from './arbitraries'
import { relativeL2 } from './tolerance'

/**
 * The matrix product is no public op: it is tested as the addon has it, against loops in double precision. Elements are
 * compared by loops too: a call of expect() for each of a million of them takes longer than all products do.
 */

export interface Product {
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

export const plain: Omit<Product, 'dtype' | 'm' | 'n' | 'k'> = {
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
export function bound({ dtype, tf32 }: Product): number {
  if (dtype === 'float32') return tf32 ? 2e-3 : 2e-6
  return dtype === 'float16' ? 1e-3 : 6e-3
}

export function rounded(dtype: FloatDType, values: Float32Array): RawArray {
  const raw = new dtypes[dtype].array(values.length)
  narrow(dtype, values, raw)
  return raw
}

/** What a result is filled with before the product, so that an element not written is seen. */
const unwritten = -77

export function blank(dtype: FloatDType, length: number): RawArray {
  return rounded(dtype, new Float32Array(length).fill(unwritten))
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

function rowsThatCount({ m, limits }: Product, entry: number): number {
  return limits === null ? m : Math.min(m, limits.rows[entry]!)
}

/** Operands from a seed; rows of `a` that do not count, or that no page lists, hold NaN. */
export function operands(product: Product, seed: number): { a: RawArray; b: RawArray } {
  const { dtype, batch, m, n, k, transposed, gap, shared } = product
  const { numRows, rowOf } = layOut(product)
  const aRow = k + gap
  const a = new Float32Array(numRows * aRow).fill(NaN)
  const values = uniform(seed, batch * m * k)
  for (let e = 0; e < batch; e++) {
    for (let i = 0; i < rowsThatCount(product, e); i++) {
      a.set(values.subarray((e * m + i) * k, (e * m + i + 1) * k), rowOf(e, i) * aRow)
    }
  }
  const bRow = (transposed ? k : n) + gap
  return {
    a: rounded(dtype, a),
    b: rounded(dtype, uniform(seed + 1, (shared ? 1 : batch) * (transposed ? n : k) * bRow)),
  }
}

/** The product (batch, m, n) in double precision; rows that do not count are zeros. */
export function expected(product: Product, a: RawArray, b: RawArray): Float64Array {
  const { dtype, batch, m, n, k, transposed, gap, shared } = product
  const { rowOf } = layOut(product)
  const [wideA, wideB] = [widen(dtype, a), widen(dtype, b)]
  const [aRow, bRow] = [k + gap, (transposed ? k : n) + gap]
  const [nextColumn, nextTerm] = transposed ? [bRow, 1] : [1, bRow]
  const out = new Float64Array(batch * m * n)
  for (let e = 0; e < batch; e++) {
    const firstOfB = shared ? 0 : e * (transposed ? n : k) * bRow
    for (let i = 0; i < rowsThatCount(product, e); i++) {
      const row = rowOf(e, i) * aRow
      for (let j = 0; j < n; j++) {
        const column = firstOfB + j * nextColumn
        let sum = 0
        for (let p = 0; p < k; p++) sum += wideA[row + p]! * wideB[column + p * nextTerm]!
        out[(e * m + i) * n + j] = sum
      }
    }
  }
  return out
}

/** The addon, and calls of its product. What they upload is released after each test. */
export interface Calls {
  readonly addon: Addon
  hold(elements: RawArray): BufferHandle
  /** The product's elements (batch, m, n), after a look at what lies between them, and whether none was reported. */
  multiply(product: Product, a: RawArray, b: RawArray): { values: Float32Array; allFinite: boolean }
  /** Multiplies operands from a seed, and compares with the product in double precision. */
  check(product: Product, seed?: number): void
}

/** A block of tests that call the product; without a GPU they are skipped, which is said. */
export function withMatmul(name: string, body: (calls: Calls) => void): void {
  const { addon } = loadAddon()
  const isUsable = addon !== null && addon.driverStatus().deviceCount > 0
  if (!isUsable) notTested(name, 'no GPU')
  ;(isUsable ? describe : describe.skip)(name, () => body(callsOf(addon!)))
}

function callsOf(addon: Addon): Calls {
  const held: BufferHandle[] = []
  afterEach(() => {
    for (const handle of held.splice(0)) addon.release(handle)
  })

  function hold(elements: RawArray): BufferHandle {
    const handle = addon.upload(0, elements)
    held.push(handle)
    return handle
  }

  function multiply(product: Product, a: RawArray, b: RawArray) {
    const { dtype, batch, m, n, k, transposed, tf32, large, gap, pages, limits, shared } = product
    const { table } = layOut(product)
    const [aRow, bRow, cRow] = [k + gap, (transposed ? k : n) + gap, n + gap]
    const c = blank(dtype, batch * m * cRow)
    const out = hold(c)
    const flag = hold(Int32Array.of(0))
    const limitOf = limits && hold(Int32Array.from(limits.rows, (rows) => rows + limits.offset))
    addon.matmul(
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
    addon.download(out, c)
    const all = widen(dtype, c)
    const values = new Float32Array(batch * m * n)
    for (let row = 0; row < batch * m; row++) {
      values.set(all.subarray(row * cRow, row * cRow + n), row * n)
      for (let j = n; j < cRow; j++) {
        if (all[row * cRow + j] !== unwritten)
          throw new Error(`${JSON.stringify(product)}: wrote past ${row}`)
      }
    }
    const isSet = new Int32Array(1)
    addon.download(flag, isSet)
    return { values, allFinite: isSet[0] === 0 }
  }

  function check(product: Product, seed = 1): void {
    const { a, b } = operands(product, seed)
    const { values, allFinite } = multiply(product, a, b)
    const right = expected(product, a, b)
    const fail = (what: string) => {
      throw new Error(`${JSON.stringify(product)}: ${what}`)
    }
    const difference = relativeL2(values, right)
    if (!(difference <= bound(product))) fail(`off by ${difference}`)
    if (product.limits) {
      for (let i = 0; i < right.length; i++) {
        if (right[i] === 0 && !Object.is(values[i], 0)) fail(`${values[i]} at ${i}, which does not count`)
      }
    }
    expect(allFinite).toBe(true)
  }

  return { addon, hold, multiply, check }
}
