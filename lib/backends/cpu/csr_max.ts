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
    const row = i * features
    if (begin === end) {
      out.fill(empty, row, row + features)
      winners?.fill(-1, row, row + features)
      continue
    }
    const first = colIdx[begin]! * features
    for (let f = 0; f < features; f++) out[row + f] = x[first + f]!
    winners?.fill(begin, row, row + features)
    for (let e = begin + 1; e < end; e++) {
      const src = colIdx[e]! * features
      for (let f = 0; f < features; f++) {
        const max = out[row + f]!
        const value = x[src + f]!
        // Larger, or the first NaN.
        if (!(value <= max) && !Number.isNaN(max)) {
          out[row + f] = value
          if (winners) winners[row + f] = e
        }
      }
    }
  }
}
