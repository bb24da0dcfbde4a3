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
  const dstFactors = Float64Array.from(dstDegrees, inverseRoot)
  const srcFactors = Float64Array.from(srcDegrees, inverseRoot)
  for (let i = 0; i + 1 < rowPtr.length; i++) {
    const begin = rowPtr[i]!
    const end = rowPtr[i + 1]!
    const row = i * features
    if (begin === end) {
      out.fill(0, row, row + features)
      continue
    }
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

function inverseRoot(degree: number): number {
  return degree === 0 ? 0 : 1 / Math.sqrt(degree)
}
