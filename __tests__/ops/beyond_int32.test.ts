import {
  csr,
  csrMax,
  gcnAggregate,
  memory,
  mlaAttention,
  mlaDecode,
  scope,
  segmentSoftmax,
  segments,
  tensor,
} from 'warpgraph'
import { onEachDevice } from '../devices'
import 'warpgraph/testing/jest'

// torch_scatter#456, #497 and flashinfer#3130: more than 2³¹ elements, so that 32-bit offsets wrap. The large tensor
// is 12,143,200 × 192 in float16 and is made and reduced on the device: only a few rows travel. With few rows the
// same test runs everywhere, so that what it expects is itself tested.

const features = 192
const large = 12_143_200
const small = 17_200
/** Rows that are reduced to one; divides both numbers of rows, as 16 does, and takes every value. */
const chunk = 4300
/** Rows of the small source: 64 different values, (r·7 + f·3) mod 64 / 64, exact in float16. */
const sources = 1000
const valueAt = (row: number, f: number) => (((row % sources) * 7 + f * 3) % 64) / 64

/** Row i has the one source `source(i)`. */
function oneEdgeEach(rows: number, numSrc: number, source: (i: number) => number) {
  const rowPtr = new Int32Array(rows + 1)
  const colIdx = new Int32Array(rows)
  for (let i = 0; i < rows; i++) {
    rowPtr[i + 1] = i + 1
    colIdx[i] = source(i)
  }
  return csr(rowPtr, colIdx, { numSrc })
}

onEachDevice('beyond 2³¹ elements', (device) => {
  describe.each([large, small])('%i rows', (rows) => {
    const { freeBytes } = memory(device)
    const fits = rows < large || (device !== 'cpu' && freeBytes > 30e9)
    if (!fits) {
      const reason =
        device === 'cpu' ? 'only on a GPU' : `needs 30 GB, ${(freeBytes / 1e9).toFixed(1)} GB are free`
      console.log(`${rows} × ${features} on ${device} was not run: ${reason}`)
    }
    const testIf = fits ? test : test.skip
    const picked = [
      0,
      1,
      63,
      Math.floor(rows / 2),
      Math.floor((2 ** 31 / features) % rows),
      rows - 2,
      rows - 1,
    ]

    /** x[r][f] = valueAt(r, f), (rows, features): written past 2³¹ by csrMax. */
    const makeLarge = () => {
      const data = Float32Array.from({ length: sources * features }, (_, at) => {
        return valueAt(Math.floor(at / features), at % features)
      })
      const x = tensor(data, { shape: [sources, features], dtype: 'float16', device })
      using graph = oneEdgeEach(rows, sources, (i) => i % sources)
      return csrMax(graph, x)
    }
    const expectedRows = (of: (row: number, f: number) => number) => {
      return picked.map((row) => Array.from({ length: features }, (_, f) => of(row, f)))
    }
    const pickRows = oneEdgeEach(picked.length, rows, (i) => picked[i]!)

    testIf('csrMax writes and reads every row', () => {
      scope(() => {
        const x = makeLarge()
        expect(csrMax(pickRows, x)).toBeCloseToTensor(expectedRows(valueAt), { atol: 0 })
        // Read backwards: row i from row rows − 1 − i.
        using reversing = oneEdgeEach(rows, rows, (i) => rows - 1 - i)
        const reversed = csrMax(reversing, x)
        const backwards = expectedRows((row, f) => valueAt(rows - 1 - row, f))
        expect(csrMax(pickRows, reversed)).toBeCloseToTensor(backwards, { atol: 0 })
        // All rows, in runs: NaN, which is what unwritten memory holds here, would win.
        const chunks = rows / chunk
        const rowPtr = Int32Array.from({ length: chunks + 1 }, (_, i) => i * chunk)
        const all = Int32Array.from({ length: rows }, (_, i) => i)
        using reducing = csr(rowPtr, all, { numSrc: rows })
        const maxima = csrMax(reducing, reversed).dataSync()
        expect(maxima.length).toBe(chunks * features)
        expect(maxima.findIndex((value) => value !== 63 / 64)).toBe(-1)
      })
    })

    testIf('gcnAggregate writes and reads every row', () => {
      scope(() => {
        const x = makeLarge()
        const one = tensor(new Float32Array(rows).fill(1), { shape: [rows], device })
        using reversing = oneEdgeEach(rows, rows, (i) => rows - 1 - i)
        const reversed = gcnAggregate(reversing, x, { degrees: one })
        const backwards = expectedRows((row, f) => valueAt(rows - 1 - row, f))
        expect(csrMax(pickRows, reversed)).toBeCloseToTensor(backwards, { atol: 0 })
      })
    })

    testIf('segmentSoftmax writes and reads every edge', () => {
      scope(() => {
        const x = makeLarge()
        const rowPtr = Int32Array.from({ length: rows / 2 + 1 }, (_, i) => i * 2)
        using pairs = segments(rowPtr)
        const weights = segmentSoftmax(pairs, x)
        // Edge r is paired with r ^ 1.
        const expected = expectedRows((row, f) => {
          const [own, other] = [Math.exp(valueAt(row, f)), Math.exp(valueAt(row ^ 1, f))]
          return own / (own + other)
        })
        expect(csrMax(pickRows, weights)).toBeCloseToTensor(expected, { atol: 2 ** -11 + 1e-6 })
      })
    })

    testIf('mlaAttention reads latents past 2³¹', () => {
      scope(() => {
        const keys = 8
        const batch = rows / keys
        const latents = makeLarge().reshape([batch, keys, features])
        // q = 0: equal weights. wUpV sums features 0 and 191.
        const q = tensor(new Float32Array(batch), { shape: [batch, 1, 1, 1], dtype: 'float16', device })
        const up = new Float32Array(features).fill(1, 0, 1).fill(1, features - 1)
        const wUpK = tensor(new Float32Array(features).fill(1), {
          shape: [features, 1, 1],
          dtype: 'float16',
          device,
        })
        const wUpV = tensor(up, { shape: [features, 1, 1], dtype: 'float16', device })
        const result = mlaAttention(q, latents, wUpK, wUpV).dataSync()
        expect(result.length).toBe(batch)
        // Below 2, so float16 rounds by at most 2^-11.
        let worst = 0
        const { abs, max } = Math
        for (let b = 0; b < batch; b++) {
          let sum = 0
          for (let s = b * keys; s < (b + 1) * keys; s++) sum += valueAt(s, 0) + valueAt(s, features - 1)
          worst = max(worst, abs(result[b]! - sum / keys))
        }
        // NaN stays in max(), and is not within any bound.
        expect(worst).toBeLessThanOrEqual(2 ** -11 + 1e-6)
      })
    })

    testIf('mlaDecode reads pages past 2³¹', () => {
      scope(() => {
        const pageSize = 16
        const numPages = rows / pageSize
        const kvLatent = makeLarge().reshape([numPages, pageSize, features])
        // Two sequences of one page, the first there is and the last.
        const blockTable = tensor(Int32Array.of(0, numPages - 1), { shape: [2, 1], device })
        const qLatent = tensor(new Float32Array(2 * features), {
          shape: [2, 1, 1, features],
          dtype: 'float16',
          device,
        })
        // q = 0: equal weights.
        const result = mlaDecode(qLatent, { kvLatent, blockTable }, { scale: 1 })
        const expected = [0, numPages - 1].flatMap((page) =>
          Array.from({ length: features }, (_, f) => {
            let sum = 0
            for (let s = page * pageSize; s < (page + 1) * pageSize; s++) sum += valueAt(s, f)
            return sum / pageSize
          }),
        )
        expect(result).toBeCloseToTensor(Float32Array.from(expected), { atol: 2 ** -11 + 1e-6 })
      })
    })
  })
})
