import { type Csr, csr } from 'warpgraph'

/** The graph with exactly one edge from every node to itself, as the last of its row. */
export function withSelfLoops(graph: Csr): Csr {
  const { rowPtr, colIdx } = graph
  const loopedRowPtr = [0]
  const loopedColIdx: number[] = []
  for (let i = 0; i < graph.numRows; i++) {
    for (const src of colIdx.subarray(rowPtr[i], rowPtr[i + 1])) if (src !== i) loopedColIdx.push(src)
    loopedColIdx.push(i)
    loopedRowPtr.push(loopedColIdx.length)
  }
  return csr(loopedRowPtr, loopedColIdx)
}
