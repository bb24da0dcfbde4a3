import { argumentError, checkOptions } from '../argument'
import { checkCsr, checkDimension, checkSameDevice, checkTensor, checkTogether } from '../check'
import type { Csr } from '../csr'
import type { FloatDType } from '../dtype'
import type { Storage } from '../storage'
import { compute, Tensor } from '../tensor'

/** A degree per node. */
export type Degrees = Tensor<'float32' | 'int32', 1>

export interface GcnAggregateOptions {
  /**
   * Degrees (N) of a square graph's nodes, or `{ dst: (N), src: (S) }` for any graph. When absent, the row lengths
   * at both ends of a square graph.
   */
  readonly degrees?: Degrees | { readonly dst: Degrees; readonly src: Degrees } | undefined
}

/**
 * Sum over neighbours, normalised by degrees: out[i] = Σ x[src] / √(deg[i]·deg[src]) over the edges into i. The
 * propagation of GCN (Kipf and Welling, arXiv:1609.02907). Self-loops are not added: put them into the graph.
 *
 * @param graph from `csr()`
 * @param x (S, F) features of the source nodes
 * @returns (N, F) in x's dtype. A row without edges gives 0; a degree of 0 counts as a factor of 0; a negative
 * degree makes NaN of the rows that use it and of no other.
 * @throws TypeError (`ERR_ARG_TYPE`, `ERR_DTYPE`, `ERR_DEVICE_MISMATCH`, `ERR_DISPOSED`), RangeError (`ERR_SHAPE`,
 * `ERR_ARG_VALUE`)
 */
export function gcnAggregate<D extends FloatDType>(
  graph: Csr,
  x: Tensor<D, 2>,
  options?: GcnAggregateOptions,
): Tensor<D, 2> {
  const op = 'gcnAggregate'
  checkCsr(op, graph)
  checkTensor(op, 'x', x, 2)
  checkDimension(op, 'x', x, 0, graph.numSrc, "the graph's source nodes")
  const { degrees } = checkOptions(op, options, ['degrees'])
  const { backend } = x.storage
  const [dst, src] = degreeStorages(op, graph, x, degrees)
  const features = x.lengths[1]
  return compute(backend, x.dtype, [graph.numRows, features], (out) => {
    backend.gcnAggregate(graph.on(backend), x.storage, dst, src, out, features)
  })
}

/** The degrees at both ends, checked. */
function degreeStorages(
  op: string,
  graph: Csr,
  x: Tensor,
  degrees: GcnAggregateOptions['degrees'],
): [dst: Storage, src: Storage] {
  if (degrees === undefined) {
    requireSquare(op, graph)
    const own = graph.degreesOn(x.storage.backend)
    return [own, own]
  }
  if (degrees instanceof Tensor) {
    requireSquare(op, graph)
    checkDegrees(op, 'degrees', degrees, graph.numRows, "the graph's nodes")
    checkSameDevice(op, 'degrees', degrees, 'x', x)
    return [degrees.storage, degrees.storage]
  }
  const expected = 'be a Tensor or { dst, src }'
  const { dst, src } = checkOptions(op, degrees, ['dst', 'src'], 'degrees', expected)
  checkTogether(op, { 'degrees.dst': dst, 'degrees.src': src })
  checkDegrees(op, 'degrees.dst', dst, graph.numDst, "the graph's destination nodes")
  checkDegrees(op, 'degrees.src', src, graph.numSrc, "the graph's source nodes")
  checkSameDevice(op, 'degrees.dst', dst, 'x', x)
  checkSameDevice(op, 'degrees.src', src, 'x', x)
  return [dst.storage, src.storage]
}

function requireSquare(op: string, graph: Csr): void {
  if (graph.isSquare) return
  const actual = `one with ${graph.numDst} destinations and ${graph.numSrc} sources`
  throw argumentError('ERR_ARG_VALUE', op, 'graph', 'be square unless degrees are { dst, src }', actual)
}

function checkDegrees(op: string, name: string, value: unknown, length: number, meaning: string): void {
  const tensor = checkTensor(op, name, value, 1, 1, ['float32', 'int32'])
  checkDimension(op, name, tensor, 0, length, meaning)
}
