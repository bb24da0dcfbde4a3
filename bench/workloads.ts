import type { FloatDType } from 'lib/dtype'
import type { GraphName } from './graphs'

/** The ops as peers.py and the file names call them. */
export type OpName = 'segment_softmax' | 'gcn_aggregate' | 'csr_max' | 'mla_attention'

export type SetName = 'seed' | 'arxiv' | 'reddit' | 'products' | 'cpu'

/** One thing to measure: an op on a graph of bench/graphs.ts with inputs of one width and dtype. */
export interface Workload {
  /** op/graph/width/dtype, as it stands in every table. */
  readonly name: string
  readonly op: OpName
  /** Null for an op without a graph. */
  readonly graph: GraphName | null
  /** Heads of a softmax, features of an aggregation. */
  readonly width: number
  readonly dtype: FloatDType
  readonly withIndices: boolean
  readonly sets: readonly SetName[]
  /** Whether the chart shows it; the tables show all. */
  readonly inChart: boolean
}

/** B, T (queries and keys alike), H, D (keys and values alike) and R of the attention workload. */
export const mlaSeed = { batch: 2, length: 32, heads: 4, headDim: 16, rank: 24 } as const

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
  { op: 'mla_attention', graph: null, widths: [mlaSeed.headDim], dtypes: f32, cpu: true },

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

  ...aggregations('products', [100], both),
  { op: 'csr_max', graph: 'products', widths: [100], dtypes: both, withIndices: true },
]

/** Everything that is measured. */
export const workloads: readonly Workload[] = rows.flatMap((row) =>
  row.widths.flatMap((width) => row.dtypes.map((dtype) => workload(row, width, dtype))),
)

/** The workloads of a set, or of all, whose names contain a text. */
export function selectWorkloads(set: SetName | 'all', only: string): Workload[] {
  return workloads.filter(({ name, sets }) => (set === 'all' || sets.includes(set)) && name.includes(only))
}

function aggregations(
  graph: GraphName,
  widths: readonly number[],
  dtypes: readonly FloatDType[],
  more: Pick<Row, 'cpu'> = {},
): Row[] {
  return (['gcn_aggregate', 'csr_max'] as const).map((op) => ({ op, graph, widths, dtypes, ...more }))
}

function workload(row: Row, width: number, dtype: FloatDType): Workload {
  const { op, graph, withIndices = false, cpu = false } = row
  const own = (graph ?? 'seed').split('-')[0] as SetName
  const widthName = op === 'segment_softmax' ? `h${width}` : `f${width}`
  const parts = [stems[op], graph ?? 'seed', widthName, shortNames[dtype]]
  if (op === 'mla_attention') parts.splice(2, 1)
  const name = parts.join('/') + (withIndices ? '+indices' : '')
  const sets = cpu ? ([own, 'cpu'] as const) : [own]
  const mainWidth = row.widths !== otherWidths && row.widths !== twinWidths
  const inChart = mainWidth && !withIndices && !graph?.endsWith('-uniform')
  return { name, op, graph, width, dtype, withIndices, sets, inChart }
}
