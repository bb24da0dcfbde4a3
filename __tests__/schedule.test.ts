import fc from 'fast-check'
import { makeSchedule } from '../lib/backends/cuda/schedule'

const rowPointer = (lengths: readonly number[]) =>
  Int32Array.from([0, ...lengths.map((_, i) => lengths.slice(0, i + 1).reduce((a, b) => a + b, 0))])

/** Row lengths with empty rows, short rows and hubs. */
const rowLengths = fc.array(fc.oneof(fc.nat(3), fc.nat(80), fc.nat(3000)), { maxLength: 200 })

const rows = (array: Int32Array) =>
  Array.from({ length: array.length / 4 }, (_, i) => Array.from(array.subarray(4 * i, 4 * i + 4)))

test('every row is one item or cut into the pieces of one hub, in order, and no edge is lost', () => {
  fc.assert(
    fc.property(rowLengths, (lengths) => {
      const rowPtr = rowPointer(lengths)
      const { items, hubs, numPieces } = makeSchedule(rowPtr)
      const covered = lengths.map(() => 0)
      const all = rows(items)
      rows(hubs).forEach(([row, firstPiece, count], hub) => {
        covered[row!]! += 1
        const pieces = all.slice(firstPiece!, firstPiece! + count!)
        expect(pieces).toHaveLength(count!)
        expect(pieces.every((piece) => piece[0] === row && piece[3] === hub)).toBe(true)
        expect(pieces.map((piece) => piece[1])).toEqual([
          rowPtr[row!],
          ...pieces.slice(0, -1).map((p) => p[2]),
        ])
        expect(pieces.at(-1)![2]).toBe(rowPtr[row! + 1])
      })
      for (const [row, begin, end, hub] of all.slice(numPieces)) {
        expect([begin, end, hub]).toEqual([rowPtr[row!], rowPtr[row! + 1], -1])
        covered[row!]! += 1
      }
      expect(all.slice(0, numPieces).every((item) => item[3]! >= 0)).toBe(true)
      expect(covered).toEqual(lengths.map(() => 1))
    }),
  )
})

test('rows come longest first, and those of one length in their order', () => {
  const { items, longer } = makeSchedule(rowPointer([2, 0, 33, 2, 40, 0, 32, 1]))
  expect(rows(items).map(([row]) => row)).toEqual([4, 2, 6, 0, 3, 7, 1, 5])
  // More than 1, 2, 4, 8, 16, 32, 64 … edges.
  expect(longer).toEqual([5, 3, 3, 3, 3, 2, 0, 0, 0, 0, 0, 0])
})

test('a hub is cut, into at most 1,024 pieces', () => {
  const lengths = Array.from({ length: 5000 }, (_, i) => (i === 77 ? 1_000_000 : i % 30))
  const { items, hubs, numPieces, largestHub, longer } = makeSchedule(rowPointer(lengths))
  expect(rows(hubs)).toEqual([[77, 0, numPieces, 0]])
  expect(largestHub).toBe(numPieces)
  // Rows of 17 … 29 edges: 13 of every 30 up to row 4,979, and 3 of the last 20 (17, 18, 19).
  expect(longer[4]).toBe(numPieces + 166 * 13 + 3 - 1)
  expect(longer[5]).toBe(numPieces)
  expect(numPieces).toBeLessThanOrEqual(1024)
  const longest = Math.max(...rows(items).map(([, begin, end]) => end! - begin!))
  expect(longest).toBe(Math.ceil(1_000_000 / 1024))
})

test('no rows, no items', () => {
  expect(makeSchedule(Int32Array.of(0))).toEqual({
    items: new Int32Array(0),
    hubs: new Int32Array(0),
    numPieces: 0,
    largestHub: 0,
    longer: Array(12).fill(0),
  })
})
