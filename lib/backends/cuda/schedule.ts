/**
 * How a graph's edges are dealt to workers on the GPU: an item per row, about in order of length, the longest first; rows
 * that would keep a worker long after the others are cut into pieces. The layout is that of csrc/cuda/schedule.h.
 *
 * Made once per graph. What sizes launches is counted here, from the row pointer in host memory, so that no count has to
 * be read back from the device; the rows are sorted there (csrc/cuda/deal_rows.cu).
 */
export interface Schedule {
  /**
   * (numHubs, 4): the rows that are cut: row, first piece, number of pieces, 0; then (numPieces, 4): row, first edge, end
   * of edges, hub.
   */
  readonly cut: Int32Array
  readonly numHubs: number
  readonly numPieces: number
  /** Pieces of the hub that has most. */
  readonly largestHub: number
  /** Edges of the longest row that may be left whole. */
  readonly longest: number
  /** longer[k]: pieces, and whole rows of more than lengths[k] edges. */
  readonly longer: readonly number[]
}

/** kLengths of csrc/cuda/schedule.h. */
export const lengths = [1, 2, 4, 8, 16, 24, 32, 48, 64, 128, 256, 512, 1024, 2048] as const

/** Edges of a piece: enough pieces to keep every worker of a large card busy, and not so short that starts show. */
const shortestPiece = 128
const longestPiece = 1024
const itemsWanted = 16384

/** Pieces of a row, so that meeting them stays short. */
const mostPieces = 1024

/** @param rowPtr N + 1 elements, as `segments()` checked it */
export function makeSchedule(rowPtr: Int32Array): Schedule {
  const numRows = rowPtr.length - 1
  const piece = edgesPerPiece(rowPtr[numRows]!)
  const longest = 2 * piece
  const hubs: number[] = []
  const pieces: number[] = []
  const rowsOfLength = new Int32Array(longest + 1)
  let largestHub = 0
  for (let row = 0; row < numRows; row++) {
    const begin = rowPtr[row]!
    const end = rowPtr[row + 1]!
    const length = end - begin
    if (length <= longest) {
      rowsOfLength[length]!++
      continue
    }
    const size = Math.max(piece, Math.ceil(length / mostPieces))
    const count = Math.ceil(length / size)
    const hub = hubs.length / 4
    hubs.push(row, pieces.length / 4, count, 0)
    for (let at = begin; at < end; at += size) pieces.push(row, at, Math.min(at + size, end), hub)
    largestHub = Math.max(largestHub, count)
  }
  const cut = new Int32Array(hubs.length + pieces.length)
  cut.set(hubs)
  cut.set(pieces, hubs.length)
  const numPieces = pieces.length / 4
  const longer = countLonger(rowsOfLength, numPieces)
  return { cut, numHubs: hubs.length / 4, numPieces, largestHub, longest, longer }
}

/** For each k, the pieces and the rows of more than lengths[k] edges. */
function countLonger(rowsOfLength: Int32Array, numPieces: number): number[] {
  const longer = new Array<number>(lengths.length)
  let count = numPieces
  let length = rowsOfLength.length - 1
  for (let k = lengths.length - 1; k >= 0; k--) {
    for (; length > lengths[k]!; length--) count += rowsOfLength[length]!
    longer[k] = count
  }
  return longer
}

/** A power of two. */
function edgesPerPiece(numEdges: number): number {
  const wanted = 2 ** Math.ceil(Math.log2(Math.max(numEdges / itemsWanted, 1)))
  return Math.min(Math.max(wanted, shortestPiece), longestPiece)
}
