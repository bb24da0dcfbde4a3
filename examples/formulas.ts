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
  const queries = new Float64Array(tokens * heads * rank)
  const out = new Float64Array(tokens * heads * valueDim)
  for (const [at, head] of rowsOf(tokens, heads)) {
    for (let r = 0; r < rank; r++) {
      const weight = (d: number) => wUpK[(r * heads + head) * headDim + d]!
      queries[at * rank + r] = sum(headDim, (d) => weight(d) * q[at * headDim + d]!)
    }
  }
  const means = decodeFormula(queries, latent, 1 / Math.sqrt(headDim), { tokens, heads, rank })
  for (const [at, head] of rowsOf(tokens, heads)) {
    for (let d = 0; d < valueDim; d++) {
      const weight = (r: number) => wUpV[(r * heads + head) * valueDim + d]!
      out[at * valueDim + d] = sum(rank, (r) => means[at * rank + r]! * weight(r))
    }
  }
  return out
}

/** The part in between, in the latents' space: causal softmax(scale·query·latent)·latent per head. */
export function decodeFormula(
  queries: ArrayLike<number>,
  latent: Float32Array,
  scale: number,
  { tokens, heads, rank }: Pick<MlaShape, 'tokens' | 'heads' | 'rank'>,
): Float64Array {
  const out = new Float64Array(tokens * heads * rank)
  for (const [at, , t] of rowsOf(tokens, heads)) {
    const weights = Float64Array.from({ length: t + 1 }, (_, s) =>
      Math.exp(scale * sum(rank, (r) => queries[at * rank + r]! * latent[s * rank + r]!)),
    )
    const total = sum(t + 1, (s) => weights[s]!)
    for (let r = 0; r < rank; r++) {
      out[at * rank + r] = sum(t + 1, (s) => weights[s]! * latent[s * rank + r]!) / total
    }
  }
  return out
}

/** Every row of (tokens, heads, …), its head and its token. */
function* rowsOf(tokens: number, heads: number): Generator<[row: number, head: number, token: number]> {
  for (let t = 0; t < tokens; t++) for (let h = 0; h < heads; h++) yield [t * heads + h, h, t]
}

/** Σ term(i) for i in [0, length). */
function sum(length: number, term: (i: number) => number): number {
  let total = 0
  for (let i = 0; i < length; i++) total += term(i)
  return total
}

function edgeList(graph: Csr): [dst: number, src: number][] {
  const { rowPtr, colIdx } = graph
  const edges: [number, number][] = []
  for (let dst = 0; dst < graph.numRows; dst++) {
    for (const src of colIdx.subarray(rowPtr[dst], rowPtr[dst + 1])) edges.push([dst, src])
  }
  return edges
}
