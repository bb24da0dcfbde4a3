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
    const dstFactor = dstFactors[i]!
    let f = 0
    // Eight features at a time: their sums then stay in registers, which is twice as fast as an array of sums.
    for (; f + 8 <= features; f += 8) {
      let s0 = 0
      let s1 = 0
      let s2 = 0
      let s3 = 0
      let s4 = 0
      let s5 = 0
      let s6 = 0
      let s7 = 0
      for (let e = begin; e < end; e++) {
        const src = colIdx[e]!
        const weight = dstFactor * srcFactors[src]!
        const at = src * features + f
        s0 += weight * x[at]!
        s1 += weight * x[at + 1]!
        s2 += weight * x[at + 2]!
        s3 += weight * x[at + 3]!
        s4 += weight * x[at + 4]!
        s5 += weight * x[at + 5]!
        s6 += weight * x[at + 6]!
        s7 += weight * x[at + 7]!
      }
      const at = i * features + f
      out[at] = s0
      out[at + 1] = s1
      out[at + 2] = s2
      out[at + 3] = s3
      out[at + 4] = s4
      out[at + 5] = s5
      out[at + 6] = s6
      out[at + 7] = s7
    }
    for (; f < features; f++) {
      let sum = 0
      for (let e = begin; e < end; e++) {
        const src = colIdx[e]!
        sum += dstFactor * srcFactors[src]! * x[src * features + f]!
      }
      out[i * features + f] = sum
    }
  }
}

function inverseRoot(degree: number): number {
  return degree === 0 ? 0 : 1 / Math.sqrt(degree)
}
