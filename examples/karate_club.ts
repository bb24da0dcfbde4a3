import { type Csr, csr } from 'warpgraph'

/**
 * The friendships in a university karate club, each pair once, members numbered from 0: member 0 is the instructor,
 * member 33 the club's president. W. W. Zachary, "An information flow model for conflict and fission in small
 * groups", Journal of Anthropological Research 33 (1977).
 */
// biome-ignore format: one line per member, with the friends that have a lower number
export const friendships: readonly (readonly [number, number])[] = [
  [1, 0],
  [2, 0], [2, 1],
  [3, 0], [3, 1], [3, 2],
  [4, 0],
  [5, 0],
  [6, 0], [6, 4], [6, 5],
  [7, 0], [7, 1], [7, 2], [7, 3],
  [8, 0], [8, 2],
  [9, 2],
  [10, 0], [10, 4], [10, 5],
  [11, 0],
  [12, 0], [12, 3],
  [13, 0], [13, 1], [13, 2], [13, 3],
  [16, 5], [16, 6],
  [17, 0], [17, 1],
  [19, 0], [19, 1],
  [21, 0], [21, 1],
  [25, 23], [25, 24],
  [27, 2], [27, 23], [27, 24],
  [28, 2],
  [29, 23], [29, 26],
  [30, 1], [30, 8],
  [31, 0], [31, 24], [31, 25], [31, 28],
  [32, 2], [32, 8], [32, 14], [32, 15], [32, 18], [32, 20], [32, 22], [32, 23], [32, 29], [32, 30], [32, 31],
  [33, 8], [33, 9], [33, 13], [33, 14], [33, 15], [33, 18], [33, 19], [33, 20], [33, 22], [33, 23], [33, 26],
  [33, 27], [33, 28], [33, 29], [33, 30], [33, 31], [33, 32],
]

export const numMembers = 34

/** The club as a graph: an edge in each direction per friendship, each row's neighbours in ascending order. */
export function karateClub(): Csr {
  const neighbours: number[][] = Array.from({ length: numMembers }, () => [])
  for (const [a, b] of friendships) {
    neighbours[a]!.push(b)
    neighbours[b]!.push(a)
  }
  const rowPtr = [0]
  for (const row of neighbours) rowPtr.push(rowPtr.at(-1)! + row.length)
  return csr(
    rowPtr,
    neighbours.flatMap((row) => row.sort((a, b) => a - b)),
  )
}
