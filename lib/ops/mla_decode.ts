import { argumentError, checkOptions } from '../argument'
import { checkDimension, checkTensor } from '../check'
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

export interface MlaDecodeOptions extends MlaSettings {
  /**
   * Factor of the logits. It belongs to the model that the weights come from, 1/√(D + Dr) of its heads before they were
   * absorbed and what its position encoding adds, and cannot be told from the absorbed query.
   */
  readonly scale: number
}

/**
 * Multi-head latent attention on queries that were absorbed already (DeepSeek-V2, arXiv:2405.04434, section 2.1.2):
 * softmax(scale·(qLatent·latent + qRope·kRope))·latent over the keys that the query sees. With
 * qLatent = q·wUpKᵀ per head, the result times wUpV is what `mlaAttention` gives.
 *
 * What is read, and how lengths and pages are checked, is as in `mlaAttention`.
 *
 * @param qLatent (B, Tq, H, R + Dr): per head the query in the latents' space, then its rotated part, which is there
 * when the cache has a `kRope`
 * @param cache the latents and where they lie
 * @returns (B, Tq, H, R) in qLatent's dtype; with `returnLse`, `{ out, lse }`. A query that sees no key gives zeros and
 * an lse of −∞.
 * @throws TypeError (`ERR_ARG_TYPE`, `ERR_DTYPE`, `ERR_DEVICE_MISMATCH`, `ERR_DISPOSED`), RangeError (`ERR_SHAPE`,
 * `ERR_ARG_VALUE`)
 */
export function mlaDecode<D extends FloatDType>(
  qLatent: Tensor<D, 4>,
  cache: MlaCache<NoInfer<D>>,
  options: MlaDecodeOptions & { readonly returnLse: true },
): MlaResult<D>
export function mlaDecode<D extends FloatDType>(
  qLatent: Tensor<D, 4>,
  cache: MlaCache<NoInfer<D>>,
  options: MlaDecodeOptions & { readonly returnLse?: false | undefined },
): Tensor<D, 4>
export function mlaDecode<D extends FloatDType>(
  qLatent: Tensor<D, 4>,
  cache: MlaCache<NoInfer<D>>,
  options: MlaDecodeOptions,
): Tensor<D, 4> | MlaResult<D>
export function mlaDecode<D extends FloatDType>(
  qLatent: Tensor<D, 4>,
  cache: MlaCache<NoInfer<D>>,
  options: MlaDecodeOptions,
): Tensor<D, 4> | MlaResult<D> {
  const op = 'mlaDecode'
  checkTensor(op, 'qLatent', qLatent, 4)
  const [batch, numQueries, heads] = qLatent.lengths
  if (cache === undefined) throw argumentError('ERR_ARG_TYPE', op, 'cache', 'be an object', 'undefined')
  const cacheNames = ['kvLatent', 'kRope', 'kvLengths', 'blockTable'] as const
  const { kvLatent, kRope, kvLengths, blockTable } = checkOptions(op, cache, cacheNames, 'cache')
  const { keys, rank, ropeDim } = checkCache(
    op,
    { kvLatent, kRope, kvLengths, blockTable },
    'qLatent',
    qLatent,
    "qLatent's batch",
  )
  const width = ropeDim === 0 ? "kvLatent's rank" : "kvLatent's rank and kRope's dimension"
  checkDimension(op, 'qLatent', qLatent, 3, rank + ropeDim, width)
  const { backend } = qLatent.storage
  const given = checkOptions<Partial<MlaDecodeOptions>>(op, options, ['scale', ...settingNames])
  const { settings, returnLse } = checkSettings(op, given, qLatent.dtype)
  const call = {
    qLatent: qLatent.storage,
    keys,
    batch,
    numQueries,
    heads,
    rank,
    ropeDim,
    scale: checkScale(op, given.scale),
    // One by one: an object spread into another is slow.
    causal: settings.causal,
    queryOffset: settings.queryOffset,
    numSplits: settings.numSplits,
    tf32: settings.tf32,
  }
  const shape = [batch, numQueries, heads, rank] as const
  return computeAttention(backend, qLatent.dtype, shape, returnLse, (out, lse) => {
    backend.mlaDecode(call, out, lse)
  })
}
