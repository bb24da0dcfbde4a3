import type { Csr } from 'warpgraph'

/**
 * What the ops compute, written out once more: over a list of edges (dst, src) instead of rows, in double precision,
 * and with nothing shared with the library's own CPU code.
 */

/** exp(score) divided by the sum of exp(score) over the edges with the same destination, per head. */
export function softmaxFormula(graph: Csr, scores: Float32Array, heads: number): Float64Array {
  const edges = edgeList(graph)
  const sums = new Float64Array(graph.numRows * heads)
  for (const [e, [dst]] of edges.entries()) {
    for (let h = 0; h < heads; h++) sums[dst * heads + h]! += Math.exp(scores[e * heads + h]!)
  }
  return Float64Array.from(scores, (score, at) => {
    const [dst] = edges[Math.floor(at / heads)]!
    return Math.exp(score) / sums[dst * heads + (at % heads)]!
  })
}

/** Σ x[src] / √(degree of dst · degree of src). */
export function gcnFormula(graph: Csr, x: Float32Array, features: number): Float64Array {
  const edges = edgeList(graph)
  const degrees = new Float64Array(graph.numRows)
  for (const [dst] of edges) degrees[dst]!++
  const out = new Float64Array(graph.numRows * features)
  for (const [dst, src] of edges) {
    const root = Math.sqrt(degrees[dst]! * degrees[src]!)
    // A neighbour of degree 0 counts for nothing.
    if (root === 0) continue
    for (let f = 0; f < features; f++) out[dst * features + f]! += x[src * features + f]! / root
  }
  return out
}

/** The largest x[src] per destination and feature, and the first edge that has it. */
export function maxFormula(graph: Csr, x: Float32Array, features: number): [Float64Array, Int32Array] {
  const values = new Float64Array(graph.numRows * features).fill(-Infinity)
  const indices = new Int32Array(values.length).fill(-1)
  for (const [e, [dst, src]] of edgeList(graph).entries()) {
    for (let f = 0; f < features; f++) {
      const at = dst * features + f
      if (x[src * features + f]! <= values[at]!) continue
      values[at] = x[src * features + f]!
      indices[at] = e
    }
  }
  return [values, indices]
}

export interface MlaShape {
  readonly tokens: number
  readonly heads: number
  readonly headDim: number
  readonly rank: number
  readonly valueDim: number
}

/**
 * Causal latent attention of one sequence without making a key or a value: q·(latent·wUpK) = (wUpK·q)·latent, and
 * the weighted sum of latents is projected up instead of each latent.
 */
export function mlaFormula(
  q: Float32Array,
  latent: Float32Array,
  wUpK: Float32Array,
  wUpV: Float32Array,
  { tokens, heads, headDim, rank, valueDim }: MlaShape,
): Float64Array {
  const out = new Float64Array(tokens * heads * valueDim)
  const range = (length: number) => Array.from({ length }, (_, i) => i)
  const sum = (length: number, term: (i: number) => number) => range(length).reduce((a, i) => a + term(i), 0)
  for (let t = 0; t < tokens; t++) {
    for (let h = 0; h < heads; h++) {
      const query = range(rank).map((r) =>
        sum(headDim, (d) => wUpK[(r * heads + h) * headDim + d]! * q[(t * heads + h) * headDim + d]!),
      )
      const weights = range(t + 1).map((s) =>
        Math.exp(sum(rank, (r) => query[r]! * latent[s * rank + r]!) / Math.sqrt(headDim)),
      )
      const total = sum(t + 1, (s) => weights[s]!)
      const mean = range(rank).map((r) => sum(t + 1, (s) => weights[s]! * latent[s * rank + r]!) / total)
      for (let d = 0; d < valueDim; d++) {
        const projected = sum(rank, (r) => mean[r]! * wUpV[(r * heads + h) * valueDim + d]!)
        out[(t * heads + h) * valueDim + d] = projected
      }
    }
  }
  return out
}

function edgeList(graph: Csr): [dst: number, src: number][] {
  const { rowPtr, colIdx } = graph
  const edges: [number, number][] = []
  for (let dst = 0; dst < graph.numRows; dst++) {
    for (const src of colIdx.subarray(rowPtr[dst], rowPtr[dst + 1])) edges.push([dst, src])
  }
  return edges
}
