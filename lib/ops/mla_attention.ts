import { argumentError, checkOptions } from '../argument'
import {
  checkBoolean,
  checkDimension,
  checkNumber,
  checkSameDevice,
  checkSameDType,
  checkTensor,
  checkTogether,
} from '../check'
import type { FloatDType } from '../dtype'
import { compute, type Tensor } from '../tensor'

export interface MlaAttentionOptions<D extends FloatDType = FloatDType> {
  /** (B, Tq, H, Dr): the rotated part of the queries. Together with `kRope`, or not at all. */
  readonly qRope?: Tensor<D, 4>
  /** (B, Tk, Dr): the rotated part of the keys, shared by all heads. */
  readonly kRope?: Tensor<D, 3>
  /** Factor of the logits; 1/√(D + Dr) when absent. */
  readonly scale?: number
  /** Query t sees the keys s ≤ t + Tk − Tq (the last query sees all); true when absent. */
  readonly causal?: boolean
}

/**
 * Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): k = latent·wUpK and v = latent·wUpV per head, then
 * softmax(scale·(q·k + qRope·kRope))·v.
 *
 * @param q (B, Tq, H, D) queries
 * @param kvLatent (B, Tk, R) compressed keys and values, shared by all heads
 * @param wUpK (R, H, D) up-projection to keys
 * @param wUpV (R, H, Dv) up-projection to values
 * @returns (B, Tq, H, Dv) in q's dtype. A query that sees no key gives zeros.
 * @throws TypeError (`ERR_ARG_TYPE`, `ERR_DTYPE`, `ERR_DEVICE_MISMATCH`, `ERR_DISPOSED`), RangeError (`ERR_SHAPE`,
 * `ERR_ARG_VALUE`)
 */
export function mlaAttention<D extends FloatDType>(
  q: Tensor<D, 4>,
  kvLatent: Tensor<NoInfer<D>, 3>,
  wUpK: Tensor<NoInfer<D>, 3>,
  wUpV: Tensor<NoInfer<D>, 3>,
  options: MlaAttentionOptions<NoInfer<D>> = {},
): Tensor<D, 4> {
  const op = 'mlaAttention'
  const known = ['qRope', 'kRope', 'scale', 'causal'] as const
  const { qRope, kRope, causal = true, ...rest } = checkOptions(op, options, known)
  checkTensor(op, 'q', q, { rank: [4, 4] })
  checkTensor(op, 'kvLatent', kvLatent, { rank: [3, 3] })
  checkTensor(op, 'wUpK', wUpK, { rank: [3, 3] })
  checkTensor(op, 'wUpV', wUpV, { rank: [3, 3] })
  const named: [string, Tensor][] = [
    ['kvLatent', kvLatent],
    ['wUpK', wUpK],
    ['wUpV', wUpV],
  ]
  const [batch, numQueries, heads, headDim] = q.shape
  const [, numKeys, rank] = kvLatent.shape
  const valueDim = wUpV.shape[2]
  checkDimension(op, 'kvLatent', kvLatent, 0, batch, "q's batch")
  checkDimension(op, 'wUpK', wUpK, 0, rank, "kvLatent's rank")
  checkDimension(op, 'wUpK', wUpK, 1, heads, "q's heads")
  checkDimension(op, 'wUpK', wUpK, 2, headDim, "q's head dimension")
  checkDimension(op, 'wUpV', wUpV, 0, rank, "kvLatent's rank")
  checkDimension(op, 'wUpV', wUpV, 1, heads, "q's heads")
  let ropeDim = 0
  checkTogether(op, { qRope, kRope })
  if (qRope !== undefined || kRope !== undefined) {
    checkTensor(op, 'qRope', qRope, { rank: [4, 4] })
    checkTensor(op, 'kRope', kRope, { rank: [3, 3] })
    ropeDim = qRope!.shape[3]
    checkDimension(op, 'qRope', qRope!, 0, batch, "q's batch")
    checkDimension(op, 'qRope', qRope!, 1, numQueries, "q's queries")
    checkDimension(op, 'qRope', qRope!, 2, heads, "q's heads")
    checkDimension(op, 'kRope', kRope!, 0, batch, "q's batch")
    checkDimension(op, 'kRope', kRope!, 1, numKeys, "kvLatent's keys")
    checkDimension(op, 'kRope', kRope!, 2, ropeDim, "qRope's dimension")
    named.push(['qRope', qRope!], ['kRope', kRope!])
  }
  checkSameDType(op, ['q', q], ...named)
  const backend = checkSameDevice(op, ['q', q], ...named)
  checkBoolean(op, 'causal', causal)
  const scale = checkScale(op, rest.scale, headDim + ropeDim)
  const sizes = { batch, numQueries, numKeys, heads, headDim, valueDim, rank, ropeDim, scale, causal }
  const tensors = {
    q: q.storage,
    kvLatent: kvLatent.storage,
    wUpK: wUpK.storage,
    wUpV: wUpV.storage,
    qRope: qRope && ropeDim > 0 ? qRope.storage : null,
    kRope: kRope && ropeDim > 0 ? kRope.storage : null,
  }
  return compute(backend, q.dtype, [batch, numQueries, heads, valueDim], (out) => {
    backend.mlaAttention(tensors, out, sizes)
  })
}

/** The factor of the logits. Without any dimension to sum over all logits are 0, whatever the factor. */
function checkScale(op: string, scale: unknown, dimensions: number): number {
  if (scale === undefined) return dimensions === 0 ? 1 : 1 / Math.sqrt(dimensions)
  const number = checkNumber(op, 'scale', scale)
  if (!Number.isFinite(Math.fround(number))) {
    throw argumentError('ERR_ARG_VALUE', op, 'scale', 'be finite in float32', String(number))
  }
  return number
}
