import { argmaxRows, type Matrix, normalizeRows } from './dense'
import { largestDifference } from './difference'
import { gat } from './gat'
import { gcn } from './gcn'
import type { Planetoid, StoredModel } from './planetoid'
import { withSelfLoops } from './self_loops'
import { UsageError } from './usage_error'

/** A stored model's answers beside the ones it was saved with. */
export interface Evaluation {
  readonly kind: StoredModel['kind']
  /** One run of the whole model, dense layers in TypeScript and copies included. */
  readonly milliseconds: number
  /** Of the logits. */
  readonly difference: number
  /** Test nodes labelled rightly, here and when the model was saved. */
  readonly correct: number
  readonly storedCorrect: number
  readonly tested: number
}

/** Evaluates a stored model on the default device. */
export async function evaluate(data: Planetoid, model: StoredModel): Promise<Evaluation> {
  checkFit(data, model)
  const features = normalizeRows(data.features)
  using graph = withSelfLoops(data.graph)
  const start = performance.now()
  const logits =
    model.kind === 'GCN' ? await gcn(graph, features, model.layers) : await gat(graph, features, model.layers)
  const milliseconds = performance.now() - start
  const tested = data.testNodes.length
  return {
    kind: model.kind,
    milliseconds,
    difference: largestDifference(logits.data, model.logits.data),
    correct: countCorrect(data, logits),
    storedCorrect: Math.round(model.testAccuracy * tested),
    tested,
  }
}

function countCorrect({ labels, testNodes }: Planetoid, logits: Matrix): number {
  const predicted = argmaxRows(logits)
  return testNodes.filter((node) => predicted[node] === labels[node]).length
}

function checkFit({ name, graph, features }: Planetoid, { kind, layers, logits }: StoredModel): void {
  const { cols } = layers[0].weight
  if (cols !== features.cols)
    throw new UsageError(`the ${kind} takes ${cols} features, ${name} has ${features.cols}`)
  if (logits.rows !== graph.numRows)
    throw new UsageError(`the ${kind} was saved for ${logits.rows} nodes, ${name} has ${graph.numRows}`)
}
