import { argumentError, checkOptions } from '../argument'
import type { MlaAlgorithm } from '../backend'
import { checkAlike, checkChoice, checkDimension, checkTensor, checkTogether } from '../check'
import type { FloatDType } from '../dtype'
import type { Tensor } from '../tensor'
import {
  checkCache,
  checkScale,
  checkSettings,
  computeAttention,
  type MlaCache,
  type MlaResult,
  type MlaSettings,
  settingNames,
} from './mla_keys'

export interface MlaAttentionOptions<D extends FloatDType = FloatDType>
  extends MlaSettings,
    Omit<MlaCache<D>, 'kvLatent'> {
  /** (B, Tq, H, Dr): the rotated part of the queries. Together with `kRope`, or not at all. */
  readonly qRope?: Tensor<D, 4> | undefined
  /** Factor of the logits; 1/√(D + Dr) when absent. */
  readonly scale?: number | undefined
  /**
   * `'absorb'` takes the queries down to the latents, whose rows are then keys and values: best for few queries;
   * `'expand'` makes the keys and values of all heads first: best for many. `'auto'` (when absent) counts which is
   * less work, and absorbs with `numSplits` above 0.
   *
   * On a GPU `'expand'` needs compute capability 8.0 and dimensions D, Dv and Dr up to 256; where it cannot, the
   * queries are absorbed all the same. The CPU always expands.
   */
  readonly algorithm?: MlaAlgorithm | undefined
}

const optionNames = [
  'qRope',
  'kRope',
  'scale',
  'kvLengths',
  'blockTable',
  'algorithm',
  ...settingNames,
] as const

/**
 * Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): k = latent·wUpK and v = latent·wUpV per head, then
 * softmax(scale·(q·k + qRope·kRope))·v over the keys that the query sees.
 *
 * Keys that no query sees are not read: NaN in them, in rows past a length and in pages of nobody stays there. Half
 * types are accumulated in float32.
 *
 * `kvLengths` and `blockTable` are checked here when they were made from data. When ops on a GPU computed them, or a
 * captured function rewrites them, they are not known here: lengths and page numbers out of range are then clamped.
 *
 * @param q (B, Tq, H, D) queries
 * @param kvLatent (B, Tk, R) compressed keys and values, shared by all heads; with `blockTable` (numPages, pageSize, R)
 * @param wUpK (R, H, D) up-projection to keys
 * @param wUpV (R, H, Dv) up-projection to values
 * @returns (B, Tq, H, Dv) in q's dtype; with `returnLse`, `{ out, lse }`. A query that sees no key gives zeros and an
 * lse of −∞.
 * @throws TypeError (`ERR_ARG_TYPE`, `ERR_DTYPE`, `ERR_DEVICE_MISMATCH`, `ERR_DISPOSED`), RangeError (`ERR_SHAPE`,
 * `ERR_ARG_VALUE`)
 */
export function mlaAttention<D extends FloatDType>(
  q: Tensor<D, 4>,
  kvLatent: Tensor<NoInfer<D>, 3>,
  wUpK: Tensor<NoInfer<D>, 3>,
  wUpV: Tensor<NoInfer<D>, 3>,
  options: MlaAttentionOptions<NoInfer<D>> & { readonly returnLse: true },
): MlaResult<D>
export function mlaAttention<D extends FloatDType>(
  q: Tensor<D, 4>,
  kvLatent: Tensor<NoInfer<D>, 3>,
  wUpK: Tensor<NoInfer<D>, 3>,
  wUpV: Tensor<NoInfer<D>, 3>,
  options?: MlaAttentionOptions<NoInfer<D>> & { readonly returnLse?: false | undefined },
): Tensor<D, 4>
export function mlaAttention<D extends FloatDType>(
  q: Tensor<D, 4>,
  kvLatent: Tensor<NoInfer<D>, 3>,
  wUpK: Tensor<NoInfer<D>, 3>,
  wUpV: Tensor<NoInfer<D>, 3>,
  options?: MlaAttentionOptions<NoInfer<D>>,
): Tensor<D, 4> | MlaResult<D>
export function mlaAttention<D extends FloatDType>(
  q: Tensor<D, 4>,
  kvLatent: Tensor<NoInfer<D>, 3>,
  wUpK: Tensor<NoInfer<D>, 3>,
  wUpV: Tensor<NoInfer<D>, 3>,
  options?: MlaAttentionOptions<NoInfer<D>>,
): Tensor<D, 4> | MlaResult<D> {
  const op = 'mlaAttention'
  const given = checkOptions(op, options, optionNames)
  checkTensor(op, 'q', q, 4)
  const [batch, numQueries, heads, headDim] = q.lengths
  const { qRope, kRope, kvLengths, blockTable } = given
  if (qRope !== undefined || kRope !== undefined) checkTogether(op, { qRope, kRope })
  const cache = checkCache(op, { kvLatent, kRope, kvLengths, blockTable }, 'q', q, "q's batch")
  const { keys, rank, ropeDim } = cache
  checkTensor(op, 'wUpK', wUpK, 3)
  checkTensor(op, 'wUpV', wUpV, 3)
  checkDimension(op, 'wUpK', wUpK, 0, rank, "kvLatent's rank")
  checkDimension(op, 'wUpK', wUpK, 1, heads, "q's heads")
  checkDimension(op, 'wUpK', wUpK, 2, headDim, "q's head dimension")
  checkDimension(op, 'wUpV', wUpV, 0, rank, "kvLatent's rank")
  checkDimension(op, 'wUpV', wUpV, 1, heads, "q's heads")
  const valueDim = wUpV.lengths[2]
  if (qRope !== undefined) {
    checkTensor(op, 'qRope', qRope, 4)
    checkDimension(op, 'qRope', qRope, 0, batch, "q's batch")
    checkDimension(op, 'qRope', qRope, 1, numQueries, "q's queries")
    checkDimension(op, 'qRope', qRope, 2, heads, "q's heads")
    checkDimension(op, 'qRope', qRope, 3, ropeDim, "kRope's dimension")
  }
  checkAlike(op, 'wUpK', wUpK, 'q', q)
  checkAlike(op, 'wUpV', wUpV, 'q', q)
  checkAlike(op, 'qRope', qRope, 'q', q)
  const { backend } = q.storage
  const { settings, returnLse } = checkSettings(op, given, q.dtype)
  const algorithm = checkAlgorithm(op, given.algorithm, settings.numSplits)
  // Without any dimension to sum over all logits are 0, whatever the factor.
  const scale = checkScale(op, given.scale ?? 1 / Math.sqrt(headDim + ropeDim || 1))
  const call = {
    q: q.storage,
    qRope: qRope === undefined || ropeDim === 0 ? null : qRope.storage,
    wUpK: wUpK.storage,
    wUpV: wUpV.storage,
    keys,
    batch,
    numQueries,
    heads,
    headDim,
    valueDim,
    rank,
    ropeDim,
    scale,
    // One by one: an object spread into another is slow.
    causal: settings.causal,
    queryOffset: settings.queryOffset,
    numSplits: settings.numSplits,
    tf32: settings.tf32,
    algorithm,
  }
  const shape = [batch, numQueries, heads, valueDim] as const
  return computeAttention(backend, q.dtype, shape, returnLse, (out, lse) => {
    backend.mlaAttention(call, out, lse)
  })
}

function checkAlgorithm(op: string, algorithm: unknown = 'auto', numSplits: number): MlaAlgorithm {
  const choice = checkChoice(op, 'algorithm', algorithm, ['auto', 'absorb', 'expand'])
  if (choice === 'expand' && numSplits > 0) {
    throw argumentError('ERR_ARG_VALUE', op, 'numSplits', "be 0 with algorithm 'expand'", String(numSplits))
  }
  return choice
}
