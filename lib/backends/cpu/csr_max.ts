/**
 * out[i] = feature-wise maximum of x[src] over the edges into i; `empty` for a row without edges.
 *
 * x: (S, features), out and winners: (N, features). winners gets the edge that won: the lowest on ties, −1 for empty
 * rows. NaN wins over every number, the first NaN over later ones.
 */
export function csrMax(
  rowPtr: Int32Array,
  colIdx: Int32Array,
  x: Float32Array,
  features: number,
  empty: number,
  out: Float32Array,
  winners: Int32Array | null,
): void {
  for (let i = 0; i + 1 < rowPtr.length; i++) {
    const begin = rowPtr[i]!
    const end = rowPtr[i + 1]!
    for (let f = 0; f < features; f++) {
      let max = empty
      let winner = -1
      for (let e = begin; e < end; e++) {
        const value = x[colIdx[e]! * features + f]!
        const wins = winner < 0 || value > max || (Number.isNaN(value) && !Number.isNaN(max))
        if (wins) {
          max = value
          winner = e
        }
      }
      out[i * features + f] = max
      if (winners) winners[i * features + f] = winner
    }
  }
}
