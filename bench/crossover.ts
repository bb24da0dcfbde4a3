// Where absorbing and expanding cross: both ways of mlaAttention, over the number of queries.
//
//   npm run bench:crossover -- [bfloat16|float16|float32] [numKeys]

import type { FloatDType } from 'lib/dtype'
import { defaultDevice, mlaAttention, synchronize, type Tensor } from 'warpgraph'
import { formatTable } from '../examples/table'
import { InputMaker } from './inputs'
import { formatRatio, formatUs } from './results'
import { Subject } from './subject'
import { time } from './timing'
import { selectWorkloads } from './workloads'

const [dtype = 'bfloat16', keys = '4096'] = process.argv.slice(2)
const device = defaultDevice()
const [model] = selectWorkloads('mla', 'prefill-4k')

const rows = [16, 32, 64, 96, 128, 192, 256, 512].map((numQueries) => {
  const mla = { ...model!.mla!, numQueries, numKeys: Number(keys) }
  const workload = { ...model!, mla, dtype: dtype as FloatDType }
  const subject = new Subject(workload, new InputMaker(() => {}).make(workload), device)
  const [q, kvLatent, wUpK, wUpV, qRope, kRope] = subject.tensors as Tensor<FloatDType>[]
  const us = (['absorb', 'expand'] as const).map((algorithm) => {
    const call = () => {
      mlaAttention(q!, kvLatent!, wUpK!, wUpV!, { qRope: qRope!, kRope: kRope!, algorithm }).dispose()
    }
    return time(call, () => synchronize(device)).medianUs
  })
  subject.dispose()
  return [String(numQueries), formatUs(us[0]), formatUs(us[1]), formatRatio(us[0]! / us[1]!)]
})
console.log(`${dtype}, ${keys} keys, 16 heads, rank 512, 128 + 64 dimensions, on ${device}`)
console.log(formatTable(['queries', 'absorbed', 'expanded', 'ratio'], rows))
