/**
 * How a graph's edges are dealt to workers on the GPU: an item per row, in order of length, the longest first; rows
 * that would keep a worker long after the others are cut into pieces. The layout is that of csrc/cuda/schedule.h.
 *
 * Made once per graph, here and not on the device: the row pointer is in host memory anyway, two passes over it cost
 * less than the copy that follows, and the sizes of the launches are known without waiting for the device.
 */
export interface ScheduleArrays {
  /** (numItems, 4): row, first edge, end of edges; then −1 for a whole row, the hub for a piece. Pieces come first. */
  readonly items: Int32Array
  /** (numHubs, 4): row, first piece, number of pieces, 0. */
  readonly hubs: Int32Array
  readonly numPieces: number
  /** Pieces of the hub that has most. */
  readonly largestHub: number
  /** longer[k]: items that are pieces, or rows of more than 2^k edges; the first ones. */
  readonly longer: readonly number[]
}

/** kLengthClasses of csrc/cuda/schedule.h. */
const lengthClasses = 12

/** Edges of a piece: enough pieces to keep every worker of a large card busy, and not so short that starts show. */
const shortestPiece = 128
const longestPiece = 1024
const itemsWanted = 16384

/** Pieces of a row, so that meeting them stays short. */
const mostPieces = 1024

/** @param rowPtr N + 1 elements, as `segments()` checked it */
export function makeSchedule(rowPtr: Int32Array): ScheduleArrays {
  const numRows = rowPtr.length - 1
  const piece = edgesPerPiece(rowPtr[numRows]!)
  const longest = 2 * piece // of a row that is not cut
  const pieces: number[] = []
  const hubs: number[] = []
  const rowsOfLength = new Int32Array(longest + 1)
  for (let row = 0; row < numRows; row++) {
    const begin = rowPtr[row]!
    const end = rowPtr[row + 1]!
    const length = end - begin
    if (length <= longest) {
      rowsOfLength[length]!++
      continue
    }
    const size = Math.max(piece, Math.ceil(length / mostPieces))
    const hub = hubs.length / 4
    hubs.push(row, pieces.length / 4, Math.ceil(length / size), 0)
    for (let at = begin; at < end; at += size) pieces.push(row, at, Math.min(at + size, end), hub)
  }
  const numPieces = pieces.length / 4
  const items = new Int32Array(4 * (numPieces + numRows - hubs.length / 4))
  items.set(pieces)
  sortRows(rowPtr, rowsOfLength, items.subarray(pieces.length))
  let largestHub = 0
  for (let at = 2; at < hubs.length; at += 4) largestHub = Math.max(largestHub, hubs[at]!)
  const longer = countLonger(rowsOfLength, numPieces)
  return { items, hubs: Int32Array.from(hubs), numPieces, largestHub, longer }
}

/** Writes an item per row that is not cut, the longest first, rows of one length in their order (a counting sort). */
function sortRows(rowPtr: Int32Array, rowsOfLength: Int32Array, items: Int32Array): void {
  const next = new Int32Array(rowsOfLength.length) // where the next row of a length goes
  for (let length = next.length - 2; length >= 0; length--) {
    next[length] = next[length + 1]! + rowsOfLength[length + 1]!
  }
  for (let row = 0; row + 1 < rowPtr.length; row++) {
    const length = rowPtr[row + 1]! - rowPtr[row]!
    if (length >= next.length) continue
    const at = 4 * next[length]!++
    items[at] = row
    items[at + 1] = rowPtr[row]!
    items[at + 2] = rowPtr[row + 1]!
    items[at + 3] = -1
  }
}

/** For each k, the pieces and the rows of more than 2^k edges. */
function countLonger(rowsOfLength: Int32Array, numPieces: number): number[] {
  const longer: number[] = []
  let count = numPieces
  let length = rowsOfLength.length - 1
  for (let k = lengthClasses - 1; k >= 0; k--) {
    for (; length > 2 ** k; length--) count += rowsOfLength[length]!
    longer[k] = count
  }
  return longer
}

/** A power of two. */
function edgesPerPiece(numEdges: number): number {
  const wanted = 2 ** Math.ceil(Math.log2(Math.max(numEdges / itemsWanted, 1)))
  return Math.min(Math.max(wanted, shortestPiece), longestPiece)
}
