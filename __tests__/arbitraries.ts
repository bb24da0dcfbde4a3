import fc from 'fast-check'
import { type Csr, csr } from 'warpgraph'

// Globals are slow to look up in jest's sandbox, and these are used per element.
const { floor, imul, min } = Math

/** A graph as plain arrays. */
export interface GraphArrays {
  readonly rowPtr: Int32Array
  readonly colIdx: Int32Array
  readonly numDst: number
  readonly numSrc: number
}

/** Row lengths at which kernels that work in warps and blocks change their path. */
export const edgyLengths = [0, 1, 31, 32, 33, 127, 128, 129] as const

/** Numbers of [low, high) that depend on the seed alone (a 32-bit LCG; the high bits are used). */
export function uniform(seed: number, length: number, low = -1, high = 1): Float32Array {
  const out = new Float32Array(length)
  let state = (imul(seed, 2654435761) + 12345) >>> 0
  for (let i = 0; i < length; i++) {
    state = (imul(state, 1664525) + 1013904223) >>> 0
    out[i] = low + ((high - low) * (state >>> 8)) / 2 ** 24
  }
  return out
}

/** Integers of [0, end). */
export function uniformInts(seed: number, length: number, end: number): Int32Array {
  return Int32Array.from(uniform(seed, length, 0, end), (value) => min(floor(value), end - 1))
}

export function rowPtrOf(lengths: ArrayLike<number>): Int32Array {
  const rowPtr = new Int32Array(lengths.length + 1)
  for (let i = 0; i < lengths.length; i++) rowPtr[i + 1] = rowPtr[i]! + lengths[i]!
  return rowPtr
}

/** A graph whose rows have these lengths, sources drawn from the seed. */
export function graphOf(lengths: ArrayLike<number>, numSrc: number, seed: number): GraphArrays {
  const rowPtr = rowPtrOf(lengths)
  return { rowPtr, colIdx: uniformInts(seed, rowPtr.at(-1)!, numSrc), numDst: lengths.length, numSrc }
}

export function toCsr({ rowPtr, colIdx, numSrc }: GraphArrays): Csr {
  return csr(rowPtr, colIdx, { numSrc })
}

/** Lengths of rows: many empty and short ones, some at the edges of a warp or block, a hub now and then. */
export const rowLengths: fc.Arbitrary<number[]> = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.constant(0) },
    { weight: 8, arbitrary: fc.integer({ min: 1, max: 6 }) },
    { weight: 2, arbitrary: fc.constantFrom(...edgyLengths) },
    { weight: 1, arbitrary: fc.integer({ min: 150, max: 400 }) },
  ),
  { maxLength: 30 },
)

/**
 * Graphs, square or bipartite, with empty rows, hubs and duplicate edges (there are few sources for many edges, down
 * to one); also without edges, without sources and without rows.
 */
export function graphs({ square = false } = {}): fc.Arbitrary<GraphArrays> {
  return fc
    .record({ lengths: rowLengths, sources: fc.integer({ min: 0, max: 40 }), seed: fc.nat() })
    .map(({ lengths, sources, seed }) => {
      const numSrc = square ? lengths.length : sources
      return graphOf(numSrc === 0 ? lengths.map(() => 0) : lengths, numSrc, seed)
    })
}
