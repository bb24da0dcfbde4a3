import { checkDimension, checkSegments, checkTensor } from '../check'
import type { Segments } from '../csr'
import type { FloatDType } from '../dtype'
import { compute, sizeOf, type Tensor } from '../tensor'

/**
 * Softmax of edge scores over each segment, separately per head, with the segment's maximum subtracted:
 * out[e] = exp(x[e] − m) / Σ exp(x − m) over the edges of e's segment. The attention weights of GAT
 * (arXiv:1710.10903).
 *
 * @param segments from `segments()` or `csr()`; a graph's edges are grouped by destination
 * @param scores (E) or (E, H…), one score per edge and head
 * @returns weights of the same shape and dtype. A segment of −∞ alone gives zeros; NaN or +∞ in a segment-head makes
 * that segment-head NaN and no other.
 * @throws TypeError (`ERR_ARG_TYPE`, `ERR_DTYPE`, `ERR_DISPOSED`), RangeError (`ERR_SHAPE`)
 */
export function segmentSoftmax<D extends FloatDType, R extends number>(
  segments: Segments,
  scores: Tensor<D, R>,
): Tensor<D, R> {
  const op = 'segmentSoftmax'
  checkSegments(op, segments)
  checkTensor(op, 'scores', scores, 1, Infinity)
  checkDimension(op, 'scores', scores, 0, segments.numEdges, "the graph's edges")
  const { backend } = scores.storage
  const heads = sizeOf(scores.lengths, 1)
  return compute(backend, scores.dtype, scores.lengths, (out) => {
    backend.segmentSoftmax(segments.on(backend), scores.storage, out, heads)
  })
}
