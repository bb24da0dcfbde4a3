/**
 * How a graph's edges are dealt to workers on the GPU: items of about equally many edges, each a run of whole rows or
 * a piece of a long row. The layout is that of csrc/cuda/schedule.h.
 *
 * Made once per graph, here and not on the device: the row pointer is in host memory anyway, one pass over it costs
 * less than the copy that follows, and the sizes of the launches are known without waiting for the device.
 */
export interface ScheduleArrays {
  /** (numItems, 4): first row, end of rows, first edge, end of edges; of a piece, −1 − hub in place of the second. */
  readonly items: Int32Array
  /** (numHubs, 4): row, first piece, number of pieces, 0. */
  readonly hubs: Int32Array
  readonly numPieces: number
}

/** An item's edges: enough items to keep every worker of a large card busy, and not so few edges that starts show. */
const fewestEdges = 32
const mostEdges = 512
const itemsWanted = 32768

/** Rows of an item, so that a run of empty rows is shared out as well. */
const mostRows = 64

/** Pieces of a row, so that meeting them stays short. */
const mostPieces = 1024

/** @param rowPtr N + 1 elements, as `segments()` checked it */
export function makeSchedule(rowPtr: Int32Array): ScheduleArrays {
  const numRows = rowPtr.length - 1
  const edges = edgesPerItem(rowPtr[numRows]!)
  const pieces: number[] = []
  const runs: number[] = []
  const hubs: number[] = []
  let first = 0 // the run being collected: rows first … row − 1
  const closeRun = (row: number) => {
    if (row > first) runs.push(first, row, rowPtr[first]!, rowPtr[row]!)
  }
  for (let row = 0; row < numRows; row++) {
    const begin = rowPtr[row]!
    const end = rowPtr[row + 1]!
    if (end - begin > 2 * edges) {
      closeRun(row)
      first = row + 1
      const size = Math.max(edges, Math.ceil((end - begin) / mostPieces))
      const hub = hubs.length / 4
      hubs.push(row, pieces.length / 4, Math.ceil((end - begin) / size), 0)
      for (let at = begin; at < end; at += size) pieces.push(row, -1 - hub, at, Math.min(at + size, end))
    } else if (row > first && (end - rowPtr[first]! > edges || row - first === mostRows)) {
      closeRun(row)
      first = row
    }
  }
  closeRun(numRows)
  const items = new Int32Array(pieces.length + runs.length)
  items.set(pieces)
  items.set(runs, pieces.length)
  return { items, hubs: Int32Array.from(hubs), numPieces: pieces.length / 4 }
}

/** A power of two. */
function edgesPerItem(numEdges: number): number {
  const wanted = 2 ** Math.ceil(Math.log2(Math.max(numEdges / itemsWanted, 1)))
  return Math.min(Math.max(wanted, fewestEdges), mostEdges)
}
