import fc from 'fast-check'
import { makeSchedule } from '../lib/backends/cuda/schedule'

const rowPointer = (lengths: readonly number[]) =>
  Int32Array.from([0, ...lengths.map((_, i) => lengths.slice(0, i + 1).reduce((a, b) => a + b, 0))])

/** Row lengths with empty rows, short rows and hubs. */
const rowLengths = fc.array(fc.oneof(fc.nat(3), fc.nat(80), fc.nat(3000)), { maxLength: 200 })

const rows = (array: Int32Array) =>
  Array.from({ length: array.length / 4 }, (_, i) => Array.from(array.subarray(4 * i, 4 * i + 4)))

test('every row is in one run or cut into the pieces of one hub, in order, and no edge is lost', () => {
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
        expect(pieces.every((piece) => piece[0] === row && piece[1] === -1 - hub)).toBe(true)
        expect(pieces.map((piece) => piece[2])).toEqual([
          rowPtr[row!],
          ...pieces.slice(0, -1).map((p) => p[3]),
        ])
        expect(pieces.at(-1)![3]).toBe(rowPtr[row! + 1])
      })
      for (const [first, end, begin, stop] of all.slice(numPieces)) {
        expect([begin, stop]).toEqual([rowPtr[first!], rowPtr[end!]])
        for (let row = first!; row < end!; row++) covered[row]! += 1
      }
      expect(all.slice(0, numPieces).every((item) => item[1]! < 0)).toBe(true)
      expect(covered).toEqual(lengths.map(() => 1))
    }),
  )
})

test('a hub is cut, and no item is much longer than another', () => {
  const lengths = Array.from({ length: 5000 }, (_, i) => (i === 77 ? 100_000 : i % 30))
  const { items, hubs, numPieces } = makeSchedule(rowPointer(lengths))
  expect(rows(hubs)).toEqual([[77, 0, numPieces, 0]])
  const longest = Math.max(...rows(items).map(([, , begin, stop]) => stop! - begin!))
  expect(longest).toBeLessThanOrEqual(100)
})

test('empty rows are shared out too', () => {
  const { items } = makeSchedule(new Int32Array(5_000_001))
  const counts = rows(items).map(([first, end]) => end! - first!)
  expect(counts.reduce((a, b) => a + b, 0)).toBe(5_000_000)
  expect(Math.max(...counts)).toBe(64)
})

test('no rows, no items', () => {
  expect(makeSchedule(Int32Array.of(0))).toEqual({
    items: new Int32Array(0),
    hubs: new Int32Array(0),
    numPieces: 0,
  })
})
