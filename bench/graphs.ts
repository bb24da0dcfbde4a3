import { Random } from './random'

/** A graph to measure on, in CSR form. */
export interface BenchGraph {
  readonly rowPtr: Int32Array
  readonly colIdx: Int32Array
}

export interface GraphRecipe {
  readonly numNodes: number
  readonly numEdges: number
  /**
   * Exponent of the skew: with the nodes ranked in random order, node weights are rank^−skew; in-degrees are Poisson
   * around weight·edges, and sources are drawn with the same weights. 0 makes the uniform twin.
   */
  readonly skew: number
  /** Largest in-degree. */
  readonly cap: number
  readonly seed: number
}

/** The shapes of the public graphs they are called after; the seed graphs are small. */
export const recipes = {
  'seed-384x18': { numNodes: 384, numEdges: 384 * 18, skew: 0, cap: 64, seed: 1 },
  'seed-512x24': { numNodes: 512, numEdges: 512 * 24, skew: 0, cap: 64, seed: 2 },
  'seed-640x16': { numNodes: 640, numEdges: 640 * 16, skew: 0, cap: 64, seed: 3 },
  arxiv: { numNodes: 169_343, numEdges: 2_332_486, skew: 0.55, cap: 13_161, seed: 4 },
  'arxiv-uniform': { numNodes: 169_343, numEdges: 2_332_486, skew: 0, cap: 13_161, seed: 5 },
  reddit: { numNodes: 232_965, numEdges: 114_615_892, skew: 0.45, cap: 21_657, seed: 6 },
  'reddit-uniform': { numNodes: 232_965, numEdges: 114_615_892, skew: 0, cap: 21_657, seed: 7 },
  products: { numNodes: 2_449_029, numEdges: 61_859_140, skew: 0.45, cap: 17_481, seed: 8 },
} satisfies Record<string, GraphRecipe>

export type GraphName = keyof typeof recipes

/** The graph of a recipe. Its number of edges is random around the recipe's. */
export function makeGraph(recipe: GraphRecipe): BenchGraph {
  const random = new Random(recipe.seed)
  const weights = nodeWeights(recipe, random)
  const rowPtr = new Int32Array(recipe.numNodes + 1)
  for (let i = 0; i < recipe.numNodes; i++) {
    const degree = Math.min(random.poisson(weights[i]! * recipe.numEdges), recipe.cap)
    rowPtr[i + 1] = rowPtr[i]! + degree
  }
  const sources = new Sampler(weights)
  const colIdx = new Int32Array(rowPtr[recipe.numNodes]!)
  for (let e = 0; e < colIdx.length; e++) colIdx[e] = sources.draw(random)
  return { rowPtr, colIdx }
}

/** Weights that sum to 1. */
function nodeWeights({ numNodes, skew }: GraphRecipe, random: Random): Float64Array {
  const ranks = random.shuffle(Int32Array.from({ length: numNodes }, (_, i) => i + 1))
  const weights = Float64Array.from(ranks, (rank) => rank ** -skew)
  const sum = weights.reduce((a, b) => a + b, 0)
  return weights.map((weight) => weight / sum)
}

/** Draws indices with given weights in constant time (Walker's alias method, as set up by Vose). */
class Sampler {
  readonly #keep: Float64Array
  readonly #alias: Int32Array

  constructor(weights: Float64Array) {
    const scaled = weights.map((weight) => weight * weights.length)
    this.#keep = new Float64Array(weights.length).fill(1)
    this.#alias = Int32Array.from(weights, (_, i) => i)
    const small: number[] = []
    const large: number[] = []
    for (let i = 0; i < scaled.length; i++) (scaled[i]! < 1 ? small : large).push(i)
    while (small.length > 0 && large.length > 0) {
      const [below, above] = [small.pop()!, large.at(-1)!]
      this.#keep[below] = scaled[below]!
      this.#alias[below] = above
      scaled[above]! -= 1 - scaled[below]!
      if (scaled[above]! < 1) small.push(large.pop()!)
    }
  }

  draw(random: Random): number {
    const slot = Math.floor(random.uniform() * this.#keep.length)
    return random.uniform() < this.#keep[slot]! ? slot : this.#alias[slot]!
  }
}
