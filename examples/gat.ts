import { type Csr, segmentSoftmax, tensor } from 'warpgraph'
import { addBias, elu, linear, type Matrix, type SparseMatrix, sparseLinear } from './dense'

/** One layer with H heads of C features: weight (H·C, in), attSrc and attDst (H, C), bias (H·C). */
export interface GatLayer {
  readonly weight: Matrix
  readonly attSrc: Matrix
  readonly attDst: Matrix
  readonly bias: Float32Array
}

/**
 * The two-layer graph attention network of Veličković et al. (arXiv:1710.10903) in evaluation mode; the heads of a
 * layer are concatenated.
 *
 * @param graph with self-loops
 * @param features (N, in)
 * @returns logits (N, classes)
 */
export async function gat(
  graph: Csr,
  features: SparseMatrix,
  [first, second]: readonly [GatLayer, GatLayer],
): Promise<Matrix> {
  const hidden = elu(addBias(await attend(graph, sparseLinear(features, first.weight), first), first.bias))
  return addBias(await attend(graph, linear(hidden, second.weight), second), second.bias)
}

/** Each node's attention-weighted sum of its neighbours, per head: x and result (N, H·C). */
async function attend(graph: Csr, x: Matrix, layer: GatLayer): Promise<Matrix> {
  const heads = layer.attSrc.rows
  using scores = tensor(edgeScores(graph, x, layer), { shape: [graph.numEdges, heads] })
  using weights = segmentSoftmax(graph, scores)
  return weightedSum(graph, x, await weights.data(), heads)
}

/** LeakyReLU(attDst·x[dst] + attSrc·x[src]) per edge and head: (E, H). */
function edgeScores(graph: Csr, x: Matrix, { attSrc, attDst }: GatLayer): Float32Array {
  const heads = attSrc.rows
  const { rowPtr, colIdx } = graph
  const [fromSrc, fromDst] = [headScores(x, attSrc), headScores(x, attDst)]
  const scores = new Float32Array(graph.numEdges * heads)
  for (let i = 0; i < graph.numRows; i++) {
    for (let e = rowPtr[i]!; e < rowPtr[i + 1]!; e++) {
      for (let h = 0; h < heads; h++) {
        const score = fromDst[i * heads + h]! + fromSrc[colIdx[e]! * heads + h]!
        scores[e * heads + h] = score < 0 ? 0.2 * score : score
      }
    }
  }
  return scores
}

/** attention·x per node and head: (N, H). */
function headScores(x: Matrix, attention: Matrix): Float64Array {
  const { rows: heads, cols: width, data } = attention
  const scores = new Float64Array(x.rows * heads)
  for (let i = 0; i < x.data.length; i++) scores[Math.floor(i / width)]! += x.data[i]! * data[i % x.cols]!
  return scores
}

function weightedSum(graph: Csr, x: Matrix, weights: Float32Array, heads: number): Matrix {
  const { rowPtr, colIdx } = graph
  const width = x.cols / heads
  const data = new Float32Array(x.rows * x.cols)
  const sum = new Float64Array(x.cols)
  for (let i = 0; i < graph.numRows; i++) {
    sum.fill(0)
    for (let e = rowPtr[i]!; e < rowPtr[i + 1]!; e++) {
      for (let f = 0; f < x.cols; f++) {
        sum[f]! += weights[e * heads + Math.floor(f / width)]! * x.data[colIdx[e]! * x.cols + f]!
      }
    }
    data.set(sum, i * x.cols)
  }
  return { ...x, data }
}
