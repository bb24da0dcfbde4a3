import type { MlaKeyArguments, MlaSettingArguments } from '../../../typings/addon'
import type { MlaAlgorithm, MlaKeys, MlaSizes } from '../../backend'
import { handleOf } from './handle'

/** The numbers are those of `enum class MlaAlgorithm` in csrc/cuda/mla_attention.h. */
export const algorithmCodes: Readonly<Record<MlaAlgorithm, number>> = { auto: 0, absorb: 1, expand: 2 }

export function keyArguments(keys: MlaKeys): MlaKeyArguments {
  return [
    handleOf(keys.kvLatent),
    keys.kRope && handleOf(keys.kRope),
    keys.kvLengths && handleOf(keys.kvLengths),
    keys.blockTable && handleOf(keys.blockTable),
    keys.numKeys,
    keys.pageSize,
    keys.numPages,
    keys.pagesPerSequence,
  ]
}

export function settingArguments(sizes: MlaSizes): MlaSettingArguments {
  return [sizes.scale, sizes.causal, sizes.queryOffset, sizes.tf32, sizes.numSplits]
}
