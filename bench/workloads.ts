import type { FloatDType } from 'lib/dtype'
import type { GraphName } from './graphs'

/** The ops as peers.py and the file names call them. */
export type OpName = 'segment_softmax' | 'gcn_aggregate' | 'csr_max' | 'mla_attention'

export type SetName = 'seed' | 'arxiv' | 'reddit' | 'products' | 'mla' | 'cpu'

/** One thing to measure: an op on a graph of bench/graphs.ts with inputs of one width and dtype. */
export interface Workload {
  /** op/graph/width/dtype, as it stands in every table. */
  readonly name: string
  readonly op: OpName
  /** Null for an op without a graph. */
  readonly graph: GraphName | null
  /** The sizes of attention; null for the others. */
  readonly mla: MlaShape | null
  /** Heads of a softmax, features of an aggregation. */
  readonly width: number
  readonly dtype: FloatDType
  readonly withIndices: boolean
  readonly sets: readonly SetName[]
  /** Whether the chart shows it; the tables show all. */
  readonly inChart: boolean
}

/** The sizes of a workload of attention; keys and values are of one dimension. */
export interface MlaShape {
  readonly batch: number
  readonly numQueries: number
  readonly numKeys: number
  readonly heads: number
  readonly headDim: number
  readonly rank: number
  readonly ropeDim: number
}

export const mlaSeed: MlaShape = {
  batch: 2,
  numQueries: 32,
  numKeys: 32,
  heads: 4,
  headDim: 16,
  rank: 24,
  ropeDim: 0,
}

/** DeepSeek-V3's heads: 128 + 64 for keys, latents of 512. */
const deepSeek = { headDim: 128, rank: 512, ropeDim: 64 }
const prefill = (length: number): MlaShape => {
  return { ...deepSeek, batch: 1, numQueries: length, numKeys: length, heads: 16 }
}
const decode = (batch: number, numKeys: number, heads: number): MlaShape => {
  return { ...deepSeek, batch, numQueries: 1, numKeys, heads }
}

const shortNames = { float32: 'f32', float16: 'f16', bfloat16: 'bf16' } as const
const stems = {
  segment_softmax: 'softmax',
  gcn_aggregate: 'gcn',
  csr_max: 'max',
  mla_attention: 'mla',
} as const

interface Row {
  readonly op: OpName
  readonly graph: GraphName | null
  /** Attention has a name and sizes instead of a graph. */
  readonly mla?: readonly [name: string, shape: MlaShape]
  readonly widths: readonly number[]
  readonly dtypes: readonly FloatDType[]
  readonly withIndices?: boolean
  /** Measured on the CPU too. */
  readonly cpu?: boolean
}

const f32 = ['float32'] as const
const halves = ['float16', 'bfloat16'] as const
const both = ['float32', 'bfloat16'] as const
/** Narrow ones have paths of their own; 33 and 100 do not fit the vector loads. */
const otherWidths = [1, 2, 4, 8, 16, 33, 100]
const twinWidths = [1, 2, 4, 8, 16, 128]

/** By graph, so that each is made once in a run. */
const rows: readonly Row[] = [
  { op: 'segment_softmax', graph: 'seed-384x18', widths: [8], dtypes: f32, cpu: true },
  { op: 'csr_max', graph: 'seed-512x24', widths: [64], dtypes: f32, cpu: true },
  { op: 'csr_max', graph: 'seed-512x24', widths: [64], dtypes: f32, withIndices: true },
  { op: 'gcn_aggregate', graph: 'seed-640x16', widths: [80], dtypes: f32, cpu: true },
  { op: 'csr_max', graph: 'seed-640x16', widths: [80], dtypes: f32 },
  { op: 'csr_max', graph: 'seed-640x16', widths: [80], dtypes: f32, withIndices: true },
  { ...attention('seed', mlaSeed), dtypes: f32, cpu: true },

  { op: 'segment_softmax', graph: 'arxiv', widths: [8], dtypes: f32, cpu: true },
  { op: 'segment_softmax', graph: 'arxiv', widths: [8], dtypes: halves },
  { op: 'segment_softmax', graph: 'arxiv', widths: [1], dtypes: f32 },
  ...aggregations('arxiv', [128], f32, { cpu: true }),
  ...aggregations('arxiv', [128], halves),
  ...aggregations('arxiv', otherWidths, f32),
  { op: 'csr_max', graph: 'arxiv', widths: [128], dtypes: ['float32', ...halves], withIndices: true },
  { op: 'segment_softmax', graph: 'arxiv-uniform', widths: [8], dtypes: f32 },
  ...aggregations('arxiv-uniform', twinWidths, f32),
  { op: 'csr_max', graph: 'arxiv-uniform', widths: [128], dtypes: f32, withIndices: true },

  ...aggregations('reddit', [128], both),
  { op: 'csr_max', graph: 'reddit', widths: [128], dtypes: both, withIndices: true },
  ...aggregations('reddit-uniform', [128], f32),
  { op: 'csr_max', graph: 'reddit-uniform', widths: [128], dtypes: f32, withIndices: true },

  { ...attention('prefill-4k', prefill(4096)), dtypes: ['bfloat16'] },
  { ...attention('prefill-2k', prefill(2048)), dtypes: f32 },
  { ...attention('decode-64x4k-h16', decode(64, 4096, 16)), dtypes: ['bfloat16'] },
  { ...attention('decode-32x8k-h128', decode(32, 8192, 128)), dtypes: ['bfloat16'] },
  { ...attention('decode-128x4k-h128', decode(128, 4096, 128)), dtypes: ['bfloat16'] },

  ...aggregations('products', [100], both),
  { op: 'csr_max', graph: 'products', widths: [100], dtypes: both, withIndices: true },
]

/** Everything that is measured. */
export const workloads: readonly Workload[] = rows.flatMap((row) =>
  row.widths.flatMap((width) => row.dtypes.map((dtype) => workload(row, width, dtype))),
)

/** The workloads of a set, or of all, whose names contain one of the texts, which commas separate. */
export function selectWorkloads(set: SetName | 'all', only: string): Workload[] {
  const texts = only.split(',')
  return workloads.filter(({ name, sets }) => {
    return (set === 'all' || sets.includes(set)) && texts.some((text) => name.includes(text))
  })
}

function aggregations(
  graph: GraphName,
  widths: readonly number[],
  dtypes: readonly FloatDType[],
  more: Pick<Row, 'cpu'> = {},
): Row[] {
  return (['gcn_aggregate', 'csr_max'] as const).map((op) => ({ op, graph, widths, dtypes, ...more }))
}

function attention(name: string, shape: MlaShape) {
  return { op: 'mla_attention', graph: null, mla: [name, shape], widths: [shape.headDim] } as const
}

function workload(row: Row, width: number, dtype: FloatDType): Workload {
  const { op, graph, mla = null, withIndices = false, cpu = false } = row
  const own = mla && mla[0] !== 'seed' ? 'mla' : ((graph ?? 'seed').split('-')[0] as SetName)
  const widthName = op === 'segment_softmax' ? `h${width}` : `f${width}`
  const parts = [stems[op], graph ?? mla![0], widthName, shortNames[dtype]]
  if (op === 'mla_attention') parts.splice(2, 1)
  const name = parts.join('/') + (withIndices ? '+indices' : '')
  const sets = cpu ? ([own, 'cpu'] as const) : [own]
  const mainWidth = row.widths !== otherWidths && row.widths !== twinWidths
  const inChart = mainWidth && !withIndices && !graph?.endsWith('-uniform')
  return { name, op, graph, mla: mla?.[1] ?? null, width, dtype, withIndices, sets, inChart }
}
