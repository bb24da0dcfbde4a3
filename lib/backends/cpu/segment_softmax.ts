/**
 * Softmax over each segment's edges, per head: out[e] = exp(x[e] − m) / Σ exp(x − m), m the segment's maximum.
 *
 * scores, out: (E, heads). A segment of −∞ alone gives zeros; NaN or +∞ makes its segment-head NaN.
 */
export function segmentSoftmax(
  rowPtr: Int32Array,
  scores: Float32Array,
  heads: number,
  out: Float32Array,
): void {
  const max = new Float64Array(heads)
  const sum = new Float64Array(heads)
  // The exponentials of one segment, in double precision: they are the costly part, and needed twice.
  const exponentials = new Float64Array(longestSegment(rowPtr) * heads)
  for (let i = 0; i + 1 < rowPtr.length; i++) {
    const first = rowPtr[i]! * heads
    const length = rowPtr[i + 1]! * heads - first
    max.fill(-Infinity)
    for (let at = 0; at < length; at += heads) {
      for (let head = 0; head < heads; head++) {
        const score = scores[first + at + head]!
        if (score > max[head]!) max[head] = score // NaN is passed over: it shows up in the sum
      }
    }
    for (let head = 0; head < heads; head++) {
      // −∞ − −∞ is NaN: with nothing but −∞, any finite maximum leaves exp at 0.
      if (max[head] === -Infinity) max[head] = 0
      sum[head] = 0
    }
    for (let at = 0; at < length; at += heads) {
      for (let head = 0; head < heads; head++) {
        const exponential = Math.exp(scores[first + at + head]! - max[head]!)
        exponentials[at + head] = exponential
        sum[head] = sum[head]! + exponential
      }
    }
    for (let head = 0; head < heads; head++) sum[head] = sum[head] === 0 ? 1 : sum[head]! // then all are 0
    for (let at = 0; at < length; at += heads) {
      for (let head = 0; head < heads; head++) out[first + at + head] = exponentials[at + head]! / sum[head]!
    }
  }
}

function longestSegment(rowPtr: Int32Array): number {
  let longest = 0
  for (let i = 0; i + 1 < rowPtr.length; i++) longest = Math.max(longest, rowPtr[i + 1]! - rowPtr[i]!)
  return longest
}
