import fc from 'fast-check'
import { loadAddon } from '../lib/backends/cuda/addon'
import { lengths as countedLengths, makeSchedule } from '../lib/backends/cuda/schedule'
import { notTested } from './absent'
import './devices' // where WARPGRAPH_DEVICE asks for a GPU, its absence is a failure

const rowPointer = (lengths: readonly number[]) => {
  let sum = 0
  return Int32Array.from([0, ...lengths.map((length) => (sum += length))])
}

/** Row lengths with empty rows, short rows and hubs. */
const rowLengths = fc.array(fc.oneof(fc.nat(3), fc.nat(80), fc.nat(3000)), { maxLength: 200 })

const fours = (array: Int32Array) =>
  Array.from({ length: array.length / 4 }, (_, i) => Array.from(array.subarray(4 * i, 4 * i + 4)))

function hubsAndPieces({ cut, numHubs, numPieces }: ReturnType<typeof makeSchedule>) {
  const entries = fours(cut)
  expect(entries).toHaveLength(numHubs + numPieces)
  return { hubs: entries.slice(0, numHubs), pieces: entries.slice(numHubs) }
}

test('rows that are too long, and no others, are cut into pieces, in order, and no edge is lost', () => {
  fc.assert(
    fc.property(rowLengths, (lengths) => {
      const rowPtr = rowPointer(lengths)
      const schedule = makeSchedule(rowPtr)
      const { hubs, pieces } = hubsAndPieces(schedule)
      const tooLong = lengths.flatMap((length, row) => (length > schedule.longest ? [row] : []))
      expect(hubs.map(([row]) => row)).toEqual(tooLong)
      let next = 0
      hubs.forEach(([row, firstPiece, count], hub) => {
        expect(firstPiece).toBe(next)
        next += count!
        const own = pieces.slice(firstPiece!, next)
        expect(own).toHaveLength(count!)
        expect(own.every((piece) => piece[0] === row && piece[3] === hub)).toBe(true)
        expect(own.map((piece) => piece[1])).toEqual([rowPtr[row!], ...own.slice(0, -1).map((p) => p[2])])
        expect(own.at(-1)![2]).toBe(rowPtr[row! + 1])
      })
      expect(pieces).toHaveLength(next)
      schedule.longer.forEach((count, k) => {
        const whole = lengths.filter((length) => length > countedLengths[k]! && length <= schedule.longest)
        expect(count).toBe(pieces.length + whole.length)
      })
    }),
  )
})

test('rows are counted by length', () => {
  const { longer } = makeSchedule(rowPointer([2, 0, 33, 2, 40, 0, 32, 1]))
  // More than 1, 2, 4, 8, 16, 24, 32, 48 … edges.
  expect(longer).toEqual([5, 3, 3, 3, 3, 3, 2, 0, 0, 0, 0, 0, 0, 0])
})

test('a hub is cut, into at most 1,024 pieces', () => {
  const lengths = Array.from({ length: 5000 }, (_, i) => (i === 77 ? 1_000_000 : i % 30))
  const schedule = makeSchedule(rowPointer(lengths))
  const { numPieces, largestHub, longer } = schedule
  const { hubs, pieces } = hubsAndPieces(schedule)
  expect(hubs).toEqual([[77, 0, numPieces, 0]])
  expect(largestHub).toBe(numPieces)
  // Rows of 17 … 29 edges: 13 of every 30 up to row 4,979, and 3 of the last 20 (17, 18, 19).
  expect(longer[countedLengths.indexOf(16)]).toBe(numPieces + 166 * 13 + 3 - 1)
  expect(longer[countedLengths.indexOf(32)]).toBe(numPieces)
  expect(numPieces).toBeLessThanOrEqual(1024)
  const longest = Math.max(...pieces.map(([, begin, end]) => end! - begin!))
  expect(longest).toBe(Math.ceil(1_000_000 / 1024))
})

test('no rows, no schedule', () => {
  const { cut, numHubs, numPieces, largestHub, longer } = makeSchedule(Int32Array.of(0))
  expect({ cut, numHubs, numPieces, largestHub, longer }).toEqual({
    cut: new Int32Array(0),
    numHubs: 0,
    numPieces: 0,
    largestHub: 0,
    longer: countedLengths.map(() => 0),
  })
})

const { addon } = loadAddon()
const isUsable = addon !== null && addon.driverStatus().deviceCount > 0
if (!isUsable) notTested('how rows are dealt on a GPU', 'no GPU')

;(isUsable ? describe : describe.skip)('on a GPU', () => {
  const loaded = addon!

  function itemsOf(rowPtr: Int32Array): number[][] {
    const { cut, numHubs, numPieces, longest } = makeSchedule(rowPtr)
    const numRows = rowPtr.length - 1
    const dealt = new Int32Array(4 * (numPieces + numRows - numHubs))
    const buffers = [
      loaded.upload(0, rowPtr),
      loaded.upload(0, cut),
      loaded.allocate(0, dealt.byteLength),
    ] as const
    try {
      loaded.fill(buffers[2], 0xff)
      loaded.dealRows(...buffers, numRows, numHubs, numPieces, longest)
      loaded.download(buffers[2], dealt)
    } finally {
      for (const buffer of buffers) loaded.release(buffer)
    }
    return fours(dealt)
  }

  /** Rows are in order of this: up to 8 edges a power of two, beyond a multiple of 8. */
  const roundedUp = (length: number) =>
    length > 8 ? Math.ceil(length / 8) * 8 : length === 0 ? 0 : 2 ** Math.ceil(Math.log2(length))

  /** The pieces, then the rows that are whole, the longest first and those of about one length in their order. */
  function expectedItems(rowPtr: Int32Array): number[][] {
    const schedule = makeSchedule(rowPtr)
    const whole = Array.from({ length: rowPtr.length - 1 }, (_, row) => [
      row,
      rowPtr[row]!,
      rowPtr[row + 1]!,
      -1,
    ])
      .filter(([, begin, end]) => end! - begin! <= schedule.longest)
      .sort((a, b) => roundedUp(b[2]! - b[1]!) - roundedUp(a[2]! - a[1]!)) // stable
    return [...hubsAndPieces(schedule).pieces, ...whole]
  }

  test('rows come longest first, and those of about one length in their order', () => {
    const rowPtr = rowPointer([2, 0, 33, 2, 41, 0, 32, 1, 40, 3, 4, 25])
    expect(itemsOf(rowPtr).map(([row]) => row)).toEqual([4, 2, 8, 6, 11, 9, 10, 0, 3, 7, 1, 5])
    fc.assert(
      fc.property(rowLengths, (lengths) => {
        const pointer = rowPointer(lengths)
        expect(itemsOf(pointer)).toEqual(expectedItems(pointer))
      }),
    )
  })

  test.each([1, 31, 32, 33, 255, 256, 257, 300_000])('%d rows, hubs among them', (numRows) => {
    const lengths = Array.from({ length: numRows }, (_, i) => (i % 1000 === 7 ? 5000 + i : (i * 7919) % 61))
    const pointer = rowPointer(lengths)
    expect(itemsOf(pointer)).toEqual(expectedItems(pointer))
  })

  test('rows of the longest length that stays whole, many of them', () => {
    // So many edges that pieces are as long as they get: rows of up to 2,048 edges are whole.
    const lengths = Array.from({ length: 10_000 }, (_, i) =>
      i === 0 ? 20_000_000 : i % 3 === 0 ? 2048 : i % 3,
    )
    const pointer = rowPointer(lengths)
    expect(makeSchedule(pointer).longest).toBe(2048)
    expect(itemsOf(pointer)).toEqual(expectedItems(pointer))
  })

  test('no rows, no items', () => {
    expect(itemsOf(Int32Array.of(0))).toEqual([])
  })
})
