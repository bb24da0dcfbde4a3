import { basename } from 'node:path'
import { type Csr, csr } from 'warpgraph'
import type { Matrix, SparseMatrix } from './dense'
import type { GatLayer } from './gat'
import type { GcnLayer } from './gcn'
import { type NpzArray, readNpz } from './npz'
import { UsageError } from './usage_error'

/** A citation graph with sparse node features, as in the Planetoid data sets (Yang et al., arXiv:1603.08861). */
export interface Planetoid {
  readonly name: string
  readonly graph: Csr
  readonly features: SparseMatrix
  readonly labels: Int32Array
  /** The nodes that accuracy is measured on. */
  readonly testNodes: Int32Array
}

interface Stored {
  /** What the model answered when it was saved. */
  readonly logits: Matrix
  readonly testAccuracy: number
}

/** A two-layer model trained with PyTorch Geometric. */
export type StoredModel =
  | (Stored & { readonly kind: 'GCN'; readonly layers: readonly [GcnLayer, GcnLayer] })
  | (Stored & { readonly kind: 'GAT'; readonly layers: readonly [GatLayer, GatLayer] })

/**
 * Reads a data set of N nodes from an `.npz` file with these arrays: `row_ptr` (N + 1) and `col_idx` (E), row i the edges
 * into node i; `num_features` and the node features in compressed sparse rows, `feat_row_ptr` (N + 1), `feat_col_idx` and
 * `feat_val`; `labels` (N); `test_idx`, the test nodes. All int32, `feat_val` float32.
 *
 * @throws UsageError when the file cannot be read or is not such a data set
 */
export async function readPlanetoid(path: string): Promise<Planetoid> {
  const { integers, floats } = await open(path)
  return reading(`${path} is not a Planetoid data set`, () => {
    const graph = csr(integers('row_ptr'), integers('col_idx'))
    const cols = integers('num_features')[0] ?? NaN
    // Checks the matrix as it checks a graph: every column index lies inside.
    const rows = csr(integers('feat_row_ptr'), integers('feat_col_idx'), { numSrc: cols })
    const values = floats('feat_val')
    const labels = integers('labels')
    const testNodes = integers('test_idx')
    const nodes = graph.numRows
    ensure(rows.numRows === nodes, `its features are for ${rows.numRows} nodes, the graph has ${nodes}`)
    ensure(values.length === rows.numEdges, 'feat_val and feat_col_idx differ in length')
    ensure(labels.length === nodes, `it has ${labels.length} labels for ${nodes} nodes`)
    ensure(
      testNodes.every((node) => node >= 0 && node < nodes),
      'test_idx names a node that is not there',
    )
    const features = { rows: nodes, cols, rowPtr: rows.rowPtr, colIdx: rows.colIdx, values }
    return { name: basename(path), graph, features, labels, testNodes }
  })
}

/**
 * Reads a model of two layers, `c1` and `c2`, from an `.npz` file with float32 arrays: PyTorch Geometric's parameters
 * `weights/c1.lin.weight`, `weights/c1.bias` and so on (with `weights/c1.att_src` and `weights/c1.att_dst` it is a GAT,
 * without them a GCN), the `logits` (N, classes) it gave in evaluation mode and its `test_accuracy`. Its features are
 * divided by their row's sum, and every node has one self-loop.
 *
 * @throws UsageError when the file cannot be read or is not such a model
 */
export async function readModel(path: string): Promise<StoredModel> {
  const { floats, matrix, has } = await open(path)
  return reading(`${path} is not a trained GCN or GAT`, () => {
    const stored = { logits: matrix('logits'), testAccuracy: floats('test_accuracy')[0]! }
    const gcnLayer = (layer: string): GcnLayer => {
      const weight = matrix(`weights/${layer}.lin.weight`)
      const bias = floats(`weights/${layer}.bias`)
      ensure(bias.length === weight.rows, `${layer}'s weight and bias do not fit`)
      return { weight, bias }
    }
    const gatLayer = (layer: string): GatLayer => {
      const attSrc = matrix(`weights/${layer}.att_src`)
      const attDst = matrix(`weights/${layer}.att_dst`)
      const { weight, bias } = gcnLayer(layer)
      const outputs = attSrc.data.length
      const fits = outputs === weight.rows && attDst.data.length === outputs && attDst.rows === attSrc.rows
      ensure(fits, `${layer}'s weight, att_src and att_dst do not fit`)
      return { weight, bias, attSrc, attDst }
    }
    const model: StoredModel = has('weights/c1.att_src')
      ? { ...stored, kind: 'GAT', layers: [gatLayer('c1'), gatLayer('c2')] }
      : { ...stored, kind: 'GCN', layers: [gcnLayer('c1'), gcnLayer('c2')] }
    const [first, second] = model.layers
    ensure(first.weight.rows === second.weight.cols, 'its two layers do not fit')
    ensure(second.weight.rows === model.logits.cols, 'its second layer and its logits do not fit')
    return model
  })
}

/** The arrays of an `.npz` file, asked for by name. */
async function open(path: string) {
  const arrays = await readNpz(path).catch((error: Error & { code?: string }) => {
    const reason = error.code === 'ENOENT' ? 'no such file' : error.message
    throw new UsageError(`cannot read ${path}: ${reason}`)
  })
  const array = (name: string): NpzArray => {
    ensure(name in arrays, `it has no ${name}`)
    return arrays[name]!
  }
  const floats = (name: string): Float32Array => {
    const { data } = array(name)
    ensure(data instanceof Float32Array, `${name} is not float32`)
    return data as Float32Array
  }
  const integers = (name: string): Int32Array => {
    const { data } = array(name)
    ensure(data instanceof Int32Array, `${name} is not int32`)
    return data as Int32Array
  }
  const matrix = (name: string): Matrix => {
    // PyTorch Geometric stores attention vectors as (1, heads, width).
    const [rows, cols] = array(name).shape.slice(-2) as [number, number]
    ensure(cols !== undefined, `${name} is not a matrix`)
    return { rows, cols, data: floats(name) }
  }
  return { floats, integers, matrix, has: (name: string) => name in arrays }
}

function ensure(holds: boolean, problem: string): void {
  if (!holds) throw new UsageError(problem)
}

/** Problems with a file's contents, found here or by the library, are told with what they mean for the file. */
function reading<T>(meaning: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    const isProblem = error instanceof UsageError || error instanceof RangeError
    throw isProblem ? new UsageError(`${meaning}: ${error.message}`) : error
  }
}
