import type { Addon, BufferHandle } from '../../../typings/addon'
import type { MlaAlgorithm, MlaAttention, MlaDecode, MlaKeys, MlaSizes } from '../../backend'
import { dtypes } from '../../dtype'
import type { Storage } from '../../storage'
import { handleOf } from './handle'

/** The numbers are those of `enum class MlaAlgorithm` in csrc/cuda/mla_attention.h. */
const algorithmCodes: Readonly<Record<MlaAlgorithm, number>> = { auto: 0, absorb: 1, expand: 2 }

// The addon reads a call's numbers before it returns, so that one array per function serves all calls of a thread. As
// arguments they would be taken over one by one, which takes as long as all else that the addon does in a call.
const attentionCall = new ArrayBuffer(28 * 8)
const attentionNumbers = new Float64Array(attentionCall)
const decodeCall = new ArrayBuffer(22 * 8)
const decodeNumbers = new Float64Array(decodeCall)

export function callMlaAttention(addon: Addon, call: MlaAttention, out: Storage, lse: Storage | null): void {
  const numbers = attentionNumbers
  writeCommon(numbers, call, call.keys, out, lse)
  numbers[21] = handleOf(call.q)
  numbers[22] = handleOrNaN(call.qRope)
  numbers[23] = handleOf(call.wUpK)
  numbers[24] = handleOf(call.wUpV)
  numbers[25] = call.headDim
  numbers[26] = call.valueDim
  numbers[27] = algorithmCodes[call.algorithm]
  addon.mlaAttention(attentionCall)
}

export function callMlaDecode(addon: Addon, call: MlaDecode, out: Storage, lse: Storage | null): void {
  const numbers = decodeNumbers
  writeCommon(numbers, call, call.keys, out, lse)
  numbers[21] = handleOf(call.qLatent)
  addon.mlaDecode(decodeCall)
}

/** The numbers that stand first in both calls, in the order of `enum MlaPlace` in csrc/binding/mla_arguments.h. */
function writeCommon(
  numbers: Float64Array,
  sizes: MlaSizes,
  keys: MlaKeys,
  out: Storage,
  lse: Storage | null,
): void {
  numbers[0] = dtypes[out.dtype].code
  numbers[1] = handleOf(out)
  numbers[2] = handleOrNaN(lse)
  numbers[3] = handleOf(keys.kvLatent)
  numbers[4] = handleOrNaN(keys.kRope)
  numbers[5] = handleOrNaN(keys.kvLengths)
  numbers[6] = handleOrNaN(keys.blockTable)
  numbers[7] = keys.numKeys
  numbers[8] = keys.pageSize
  numbers[9] = keys.numPages
  numbers[10] = keys.pagesPerSequence
  numbers[11] = sizes.batch
  numbers[12] = sizes.numQueries
  numbers[13] = sizes.heads
  numbers[14] = sizes.rank
  numbers[15] = sizes.ropeDim
  numbers[16] = sizes.scale
  numbers[17] = sizes.causal ? 1 : 0
  numbers[18] = sizes.queryOffset ?? NaN
  numbers[19] = sizes.tf32 ? 1 : 0
  numbers[20] = sizes.numSplits
}

function handleOrNaN(storage: Storage | null): BufferHandle {
  return storage === null ? NaN : handleOf(storage)
}
