import { type Csr, gcnAggregate, tensor } from 'warpgraph'
import { addBias, linear, type Matrix, relu, type SparseMatrix, sparseLinear } from './dense'

/** One layer: weight (out, in), bias (out). */
export interface GcnLayer {
  readonly weight: Matrix
  readonly bias: Float32Array
}

/**
 * The two-layer graph convolutional network of Kipf and Welling (arXiv:1609.02907) in evaluation mode.
 *
 * @param graph with self-loops
 * @param features (N, in)
 * @returns logits (N, classes)
 */
export async function gcn(
  graph: Csr,
  features: SparseMatrix,
  [first, second]: readonly [GcnLayer, GcnLayer],
): Promise<Matrix> {
  const hidden = relu(addBias(await propagate(graph, sparseLinear(features, first.weight)), first.bias))
  return addBias(await propagate(graph, linear(hidden, second.weight)), second.bias)
}

async function propagate(graph: Csr, x: Matrix): Promise<Matrix> {
  using input = tensor(x.data, { shape: [x.rows, x.cols] })
  using output = gcnAggregate(graph, input)
  return { ...x, data: await output.data() }
}
