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
  for (let i = 0; i + 1 < rowPtr.length; i++) {
    const begin = rowPtr[i]! * heads
    const end = rowPtr[i + 1]! * heads
    for (let head = 0; head < heads; head++) {
      let max = -Infinity
      for (let at = begin + head; at < end; at += heads) max = Math.max(max, scores[at]!)
      // −∞ − −∞ is NaN: with nothing but −∞, any finite maximum leaves exp at 0.
      if (max === -Infinity) max = 0
      let sum = 0
      for (let at = begin + head; at < end; at += heads) sum += Math.exp(scores[at]! - max)
      for (let at = begin + head; at < end; at += heads) {
        out[at] = sum === 0 ? 0 : Math.exp(scores[at]! - max) / sum
      }
    }
  }
}
