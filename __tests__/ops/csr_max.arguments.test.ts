import { csr, csrMax, segments } from 'warpgraph'
import { blanks } from '../blanks'
import { onEachDevice } from '../devices'
import { refused } from '../refused'

/** Called without types: most of what is refused here does not compile either. */
const call = csrMax as unknown as (...args: unknown[]) => unknown

onEachDevice('csrMax refuses', (device) => {
  const { make, half, int, gone, goneGraph } = blanks(device)
  const square = csr([0, 2, 3, 3], [0, 1, 2])
  const x = make(3, 2)

  refused('ERR_ARG_TYPE', [
    [`csrMax: graph must be made by csr(), got Segments of 1 rows, 1 edges`, () => call(segments([0, 1]), x)],
    [`csrMax: graph must be made by csr(), got Object`, () => call({ rowPtr: [0], colIdx: [] }, x)],
    [`csrMax: x must be a Tensor, got null`, () => call(square, null)],
    [`csrMax: options must be an object, got number 0`, () => call(square, x, 0)],
    [`csrMax: empty must be a number, got "0"`, () => call(square, x, { empty: '0' })],
    [`csrMax: empty must be a number, got null`, () => call(square, x, { empty: null })],
    [`csrMax: withIndices must be a boolean, got number 1`, () => call(square, x, { withIndices: 1 })],
  ])

  refused('ERR_ARG_VALUE', [
    [`csrMax: options must have only empty, withIndices, got "fill"`, () => call(square, x, { fill: 0 })],
    [
      `csrMax: empty must be finite in float32, or infinite, got 1e+39`,
      () => call(square, x, { empty: 1e39 }),
    ],
    [
      `csrMax: empty must be finite in float16, or infinite, got -65520`,
      () => call(square, half(3, 2), { empty: -65520 }),
    ],
    [
      `csrMax: empty must be finite in bfloat16, or infinite, got 3.4e+38`,
      () => call(square, make(3, 2).cast('bfloat16'), { empty: 3.4e38 }),
    ],
  ])

  test('empty may be any number of the dtype, infinities and NaN included', () => {
    const emptyRow = (empty: number) => csrMax(square, half(3, 2), { empty }).dataSync()[4]
    expect([65519, -65504, Infinity, -Infinity, NaN].map(emptyRow)).toEqual([
      65504,
      -65504,
      Infinity,
      -Infinity,
      NaN,
    ])
  })

  refused('ERR_DTYPE', [
    [`csrMax: x must have dtype float32, float16 or bfloat16, got int32`, () => call(square, int(3, 2))],
  ])

  refused('ERR_SHAPE', [
    [`csrMax: x must have rank 2, got shape [3]`, () => call(square, make(3))],
    [
      `csrMax: x must have 3 rows (the graph's source nodes), got shape [4, 2]`,
      () => call(square, make(4, 2)),
    ],
  ])

  refused('ERR_DISPOSED', [
    [`csrMax: graph must be alive, got one that was disposed`, () => call(goneGraph(), make(1, 2))],
    [`csrMax: x must be alive, got one that was disposed`, () => call(square, gone(3, 2))],
  ])
})
