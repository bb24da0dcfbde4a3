import { exp } from './exp'

/**
 * Softmax over each segment's edges, per head: out[e] = exp(x[e] − m) / Σ exp(x − m), for any m.
 *
 * scores, out: (E, heads). A segment of −∞ alone gives zeros; NaN or +∞ makes its segment-head NaN.
 */
export function segmentSoftmax(
  rowPtr: Int32Array,
  scores: Float32Array,
  heads: number,
  out: Float32Array,
): void {
  // The exponentials of one segment and head, in double precision: they are the costly part, and needed twice.
  const exponentials = new Float64Array(longestSegment(rowPtr))
  for (let i = 0; i + 1 < rowPtr.length; i++) {
    const begin = rowPtr[i]! * heads
    const end = rowPtr[i + 1]! * heads
    if (begin === end) continue
    for (let first = begin; first < begin + heads; first++) {
      // The first score does for m unless others lie far above it; finding the maximum takes as long as all the rest.
      let sum = exponentiate(scores, first, end, heads, scores[first]!, exponentials)
      if (Number.isNaN(sum)) {
        sum = exponentiate(scores, first, end, heads, maximum(scores, first, end, heads), exponentials)
      }
      const inverse = sum === 0 ? 0 : 1 / sum // 0: all are −∞
      let at = first
      let j = 0
      for (; at + heads < end; at += 2 * heads) {
        out[at] = exponentials[j]! * inverse
        out[at + heads] = exponentials[j + 1]! * inverse
        j += 2
      }
      if (at < end) out[at] = exponentials[j]! * inverse
    }
  }
}

/** exp(x − m) of every heads-th score from `first` on, and their sum; NaN where one lies far above m. */
function exponentiate(
  scores: Float32Array,
  first: number,
  end: number,
  heads: number,
  m: number,
  exponentials: Float64Array,
): number {
  const own = scores[first]! - m
  let sum = own === 0 ? 1 : exp(own) // mostly it is m itself
  exponentials[0] = sum
  let at = first + heads
  let j = 1
  // Two at a time: a tenth less time than one.
  for (; at + heads < end; at += 2 * heads) {
    const a = exp(scores[at]! - m)
    const b = exp(scores[at + heads]! - m)
    exponentials[j] = a
    exponentials[j + 1] = b
    sum += a + b
    j += 2
  }
  if (at < end) {
    exponentials[j] = exp(scores[at]! - m)
    sum += exponentials[j]!
  }
  return sum
}

/** The greatest of every heads-th score from `first` on, NaN passed over; 0 where all are −∞: −∞ − −∞ is NaN. */
function maximum(scores: Float32Array, first: number, end: number, heads: number): number {
  let max = -Infinity
  for (let at = first; at < end; at += heads) if (scores[at]! > max) max = scores[at]!
  return max === -Infinity ? 0 : max
}

function longestSegment(rowPtr: Int32Array): number {
  let longest = 0
  for (let i = 0; i + 1 < rowPtr.length; i++) longest = Math.max(longest, rowPtr[i + 1]! - rowPtr[i]!)
  return longest
}
