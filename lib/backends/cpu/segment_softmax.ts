import { exp, prepareExp } from './exp'

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
  prepareExp()
  // The exponentials of one segment, of one head and of four, in double precision: the costly part, and needed twice.
  const ofOne = new Float64Array(longestSegment(rowPtr, Infinity))
  const ofFour = heads < 4 ? [] : new Array<number>(4 * longestSegment(rowPtr, mostSideBySide)).fill(NaN)
  for (let i = 0; i + 1 < rowPtr.length; i++) {
    const begin = rowPtr[i]! * heads
    const end = rowPtr[i + 1]! * heads
    if (begin === end) continue
    const endOfFours = rowPtr[i + 1]! - rowPtr[i]! <= mostSideBySide ? begin + heads - (heads % 4) : begin
    for (let first = begin; first < begin + heads; first++) {
      // Four heads that cannot go side by side go one by one, and the next four are tried again.
      if (
        first < endOfFours &&
        (first - begin) % 4 === 0 &&
        fourHeads(scores, first, end, heads, ofFour, out)
      ) {
        first += 3
        continue
      }
      // Written here and not as a function of its own, which V8 would not compile into this loop: it is too long.
      let sum = exponentiate(scores, first, end, heads, scores[first]!, ofOne)
      if (Number.isNaN(sum)) {
        sum = exponentiate(scores, first, end, heads, maximum(scores, first, end, heads), ofOne)
      }
      const inverse = sum === 0 ? 0 : 1 / sum // 0: all are −∞
      let at = first
      let j = 0
      for (; at + heads < end; at += 2 * heads) {
        out[at] = ofOne[j]! * inverse
        out[at + heads] = ofOne[j + 1]! * inverse
        j += 2
      }
      if (at < end) out[at] = ofOne[j]! * inverse
    }
  }
}

/**
 * The edges of the longest segment whose heads are computed four at a time: their exponentials are 256 KiB, which stay in a
 * second-level cache. Of more edges that is not always faster, and of many slower.
 */
const mostSideBySide = 2 ** 13

/**
 * The softmax of four heads side by side, from the first edge's scores at `first` on. One walk over the edges does for all:
 * at every turn V8 checks anew what the arrays are, and most segments are short. Returns false, with nothing written,
 * where a score is not finite or lies far above the first one.
 *
 * The exponentials are kept in an array: it is read and written with fewer checks than a typed one, of which V8 asks at each
 * access whether its memory is gone, once any was: as soon as, say, the memory of a WebAssembly module grew.
 */
function fourHeads(
  scores: Float32Array,
  first: number,
  end: number,
  heads: number,
  exponentials: number[],
  out: Float32Array,
): boolean {
  // The first score does for m unless others lie far above it; finding the maximum takes as long as all the rest.
  const m0 = scores[first]!
  const m1 = scores[first + 1]!
  const m2 = scores[first + 2]!
  const m3 = scores[first + 3]!
  // The first edge's exponential is 1, or NaN where its score is not finite.
  let sum0 = 1 + (m0 - m0)
  let sum1 = 1 + (m1 - m1)
  let sum2 = 1 + (m2 - m2)
  let sum3 = 1 + (m3 - m3)
  let j = 0
  for (let at = first + heads; at < end; at += heads) {
    const a = exp(scores[at]! - m0)
    const b = exp(scores[at + 1]! - m1)
    const c = exp(scores[at + 2]! - m2)
    const d = exp(scores[at + 3]! - m3)
    exponentials[j] = a
    exponentials[j + 1] = b
    exponentials[j + 2] = c
    exponentials[j + 3] = d
    sum0 += a
    sum1 += b
    sum2 += c
    sum3 += d
    j += 4
  }
  if (Number.isNaN(sum0 + sum1 + sum2 + sum3)) return false
  const inverse0 = 1 / sum0
  const inverse1 = 1 / sum1
  const inverse2 = 1 / sum2
  const inverse3 = 1 / sum3
  out[first] = inverse0
  out[first + 1] = inverse1
  out[first + 2] = inverse2
  out[first + 3] = inverse3
  j = 0
  for (let at = first + heads; at < end; at += heads) {
    out[at] = exponentials[j]! * inverse0
    out[at + 1] = exponentials[j + 1]! * inverse1
    out[at + 2] = exponentials[j + 2]! * inverse2
    out[at + 3] = exponentials[j + 3]! * inverse3
    j += 4
  }
  return true
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

/** The edges of the longest segment of at most `most`. */
function longestSegment(rowPtr: Int32Array, most: number): number {
  let longest = 0
  for (let i = 0; i + 1 < rowPtr.length; i++) {
    const length = rowPtr[i + 1]! - rowPtr[i]!
    if (length > longest && length <= most) longest = length
  }
  return longest
}
