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
  const sum = new Float64Array(features)
  for (let i = 0; i + 1 < rowPtr.length; i++) {
    sum.fill(0)
    for (let e = rowPtr[i]!; e < rowPtr[i + 1]!; e++) {
      const src = colIdx[e]!
      const weight = dstFactors[i]! * srcFactors[src]!
      for (let f = 0; f < features; f++) sum[f]! += weight * x[src * features + f]!
    }
    out.set(sum, i * features)
  }
}

function inverseRoot(degree: number): number {
  return degree === 0 ? 0 : 1 / Math.sqrt(degree)
}
