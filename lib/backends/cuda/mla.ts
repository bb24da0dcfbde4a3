import type { Addon, BufferHandle } from '../../../typings/addon'
import type { MlaAlgorithm, MlaAttention, MlaDecode } from '../../backend'
import { dtypes } from '../../dtype'
import type { Storage } from '../../storage'
import { handleOf } from './handle'

/** The numbers are those of `enum class MlaAlgorithm` in csrc/cuda/mla_attention.h. */
const algorithmCodes: Readonly<Record<MlaAlgorithm, number>> = { auto: 0, absorb: 1, expand: 2 }

// What both calls have in common is spelled out in each: V8 makes a call that arrays are spread into by a slow path.

export function callMlaAttention(addon: Addon, call: MlaAttention, out: Storage, lse: Storage | null): void {
  const { keys } = call
  addon.mlaAttention(
    handleOf(call.q),
    handleOrNull(call.qRope),
    handleOf(call.wUpK),
    handleOf(call.wUpV),
    handleOf(keys.kvLatent),
    handleOrNull(keys.kRope),
    handleOrNull(keys.kvLengths),
    handleOrNull(keys.blockTable),
    keys.numKeys,
    keys.pageSize,
    keys.numPages,
    keys.pagesPerSequence,
    handleOf(out),
    handleOrNull(lse),
    dtypes[out.dtype].code,
    call.batch,
    call.numQueries,
    call.heads,
    call.headDim,
    call.valueDim,
    call.rank,
    call.ropeDim,
    call.scale,
    call.causal,
    call.queryOffset,
    call.tf32,
    call.numSplits,
    algorithmCodes[call.algorithm],
  )
}

export function callMlaDecode(addon: Addon, call: MlaDecode, out: Storage, lse: Storage | null): void {
  const { keys } = call
  addon.mlaDecode(
    handleOf(call.qLatent),
    handleOf(keys.kvLatent),
    handleOrNull(keys.kRope),
    handleOrNull(keys.kvLengths),
    handleOrNull(keys.blockTable),
    keys.numKeys,
    keys.pageSize,
    keys.numPages,
    keys.pagesPerSequence,
    handleOf(out),
    handleOrNull(lse),
    dtypes[out.dtype].code,
    call.batch,
    call.numQueries,
    call.heads,
    call.rank,
    call.ropeDim,
    call.scale,
    call.causal,
    call.queryOffset,
    call.tf32,
    call.numSplits,
  )
}

function handleOrNull(storage: Storage | null): BufferHandle | null {
  return storage && handleOf(storage)
}
