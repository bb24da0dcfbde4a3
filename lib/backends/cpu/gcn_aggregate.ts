/** About what a processor's second-level cache holds. */
const cacheBytes = 2 ** 20

/** Numbers of a cache line, of 64 bytes. */
const lineLength = 16

/**
 * out[i] = Σ x[src] / √(deg[i]·deg[src]) over the edges into i: the propagation of Kipf and Welling's GCN
 * (arXiv:1609.02907), with degrees as given.
 *
 * x: (S, features), out: (N, features). A degree of 0 counts as a factor of 0; a negative one is NaN where it is used.
 */
export function gcnAggregate(
  rowPtr: Int32Array,
  colIdx: Int32Array,
  x: Float32Array,
  dstDegrees: Float32Array,
  srcDegrees: Float32Array,
  features: number,
  out: Float32Array,
): void {
  const dstFactors = inverseRoots(dstDegrees)
  const srcFactors = inverseRoots(srcDegrees)
  const outgrowsCache = x.byteLength > cacheBytes
  const touched = new Float64Array(1)
  for (let i = 0; i + 1 < rowPtr.length; i++) {
    const begin = rowPtr[i]!
    const end = rowPtr[i + 1]!
    const row = i * features
    if (begin === end) {
      out.fill(0, row, row + features)
      continue
    }
    if (outgrowsCache) touched[0] = touch(colIdx, begin, end, x, features)
    const factor = dstFactors[i]!
    let column = 0
    // Eight columns at a time, their sums in registers.
    for (; column + 8 <= features; column += 8) {
      let a = 0
      let b = 0
      let c = 0
      let d = 0
      let e = 0
      let f = 0
      let g = 0
      let h = 0
      for (let edge = begin; edge < end; edge++) {
        const src = colIdx[edge]!
        const weight = srcFactors[src]!
        const at = src * features + column
        a += weight * x[at]!
        b += weight * x[at + 1]!
        c += weight * x[at + 2]!
        d += weight * x[at + 3]!
        e += weight * x[at + 4]!
        f += weight * x[at + 5]!
        g += weight * x[at + 6]!
        h += weight * x[at + 7]!
      }
      const to = row + column
      out[to] = factor * a
      out[to + 1] = factor * b
      out[to + 2] = factor * c
      out[to + 3] = factor * d
      out[to + 4] = factor * e
      out[to + 5] = factor * f
      out[to + 6] = factor * g
      out[to + 7] = factor * h
    }
    for (; column < features; column++) {
      let sum = 0
      for (let edge = begin; edge < end; edge++) {
        const src = colIdx[edge]!
        sum += srcFactors[src]! * x[src * features + column]!
      }
      out[row + column] = factor * sum
    }
  }
}

/**
 * Reads a number of every cache line of the edges' rows of x, and returns their sum, so that V8 does not leave it out. In
 * so short a loop many reads are under way at once; the loops above would wait for memory at every edge.
 */
function touch(colIdx: Int32Array, begin: number, end: number, x: Float32Array, features: number): number {
  let sum = 0
  for (let edge = begin; edge < end; edge++) {
    const first = colIdx[edge]! * features
    const last = first + features - 1
    for (let at = first; at < last; at += lineLength) sum += x[at]!
    sum += x[last]!
  }
  return sum
}

function inverseRoots(degrees: Float32Array): Float64Array {
  const roots = new Float64Array(degrees.length)
  // A loop: Float64Array.from() takes fourteen times as long.
  for (let i = 0; i < roots.length; i++) roots[i] = degrees[i] === 0 ? 0 : 1 / Math.sqrt(degrees[i]!)
  return roots
}
