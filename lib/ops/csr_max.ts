import { argumentError, checkOptions } from '../argument'
import { checkBoolean, checkCsr, checkDimension, checkNumber, checkTensor } from '../check'
import type { Csr } from '../csr'
import { type FloatDType, rounded } from '../dtype'
import { compute, sizeOf, Tensor } from '../tensor'

export interface CsrMaxOptions {
  /** The value of rows without edges, within the range of x's dtype; −∞ when absent. */
  readonly empty?: number | undefined
  /** Also give the winning edges. */
  readonly withIndices?: boolean | undefined
}

/** The maxima and the edges that won them. */
export type CsrMaxResult<D extends FloatDType> = {
  /** (N, F) in x's dtype. */
  readonly values: Tensor<D, 2>
  /** (N, F): the position of the winning edge in `colIdx`, the lowest on ties, −1 for a row without edges. */
  readonly indices: Tensor<'int32', 2>
}

/**
 * Feature-wise maximum over neighbours: out[i] = max x[src] over the edges into i. The pooling of GraphSAGE
 * (arXiv:1706.02216).
 *
 * @param graph from `csr()`
 * @param x (S, F) features of the source nodes
 * @returns (N, F) in x's dtype; with `withIndices`, `{ values, indices }`. NaN wins over every number (as
 * `torch.amax`), infinities are kept; of equal zeros either sign may come out.
 * @throws TypeError (`ERR_ARG_TYPE`, `ERR_DTYPE`, `ERR_DISPOSED`), RangeError (`ERR_SHAPE`, `ERR_ARG_VALUE`)
 */
export function csrMax<D extends FloatDType>(
  graph: Csr,
  x: Tensor<D, 2>,
  options: CsrMaxOptions & { readonly withIndices: true },
): CsrMaxResult<D>
export function csrMax<D extends FloatDType>(
  graph: Csr,
  x: Tensor<D, 2>,
  options?: CsrMaxOptions & { readonly withIndices?: false | undefined },
): Tensor<D, 2>
export function csrMax<D extends FloatDType>(
  graph: Csr,
  x: Tensor<D, 2>,
  options?: CsrMaxOptions,
): Tensor<D, 2> | CsrMaxResult<D>
export function csrMax<D extends FloatDType>(
  graph: Csr,
  x: Tensor<D, 2>,
  options?: CsrMaxOptions,
): Tensor<D, 2> | CsrMaxResult<D> {
  const op = 'csrMax'
  checkCsr(op, graph)
  checkTensor(op, 'x', x, 2)
  checkDimension(op, 'x', x, 0, graph.numSrc, "the graph's source nodes")
  const { empty = -Infinity, withIndices = false } = checkOptions(op, options, ['empty', 'withIndices'])
  checkEmpty(op, empty, x.dtype)
  const { backend } = x.storage
  const shape = [graph.numRows, x.lengths[1]]
  const winners = checkBoolean(op, 'withIndices', withIndices)
    ? backend.allocate('int32', sizeOf(shape))
    : null
  try {
    const values = compute<D, 2>(backend, x.dtype, shape, (out) => {
      backend.csrMax(graph.on(backend), x.storage, empty, out, winners, x.lengths[1])
    })
    return winners === null ? values : { values, indices: new Tensor<'int32', 2>(winners, shape) }
  } catch (error) {
    winners?.drop()
    throw error
  }
}

/** The largest float16: every dtype holds numbers up to it. */
const inAllRanges = 65504

/** A number of the dtype's range; an infinity is one. */
function checkEmpty(op: string, empty: unknown, dtype: FloatDType): void {
  const number = checkNumber(op, 'empty', empty)
  if (Math.abs(number) <= inAllRanges || !Number.isFinite(number)) return
  if (Number.isFinite(rounded(dtype, number))) return
  throw argumentError('ERR_ARG_VALUE', op, 'empty', `be finite in ${dtype}, or infinite`, String(number))
}
