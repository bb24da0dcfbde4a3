import { csr, gcnAggregate, segments } from 'warpgraph'
import { blanks } from '../blanks'
import { onEachDevice } from '../devices'
import { refused } from '../refused'
import 'warpgraph/testing/jest'

/** Called without types: most of what is refused here does not compile either. */
const call = gcnAggregate as unknown as (...args: unknown[]) => unknown

onEachDevice('gcnAggregate refuses', (device) => {
  const { make, half, int, gone, goneGraph } = blanks(device)
  const square = csr([0, 2, 3, 3], [0, 1, 2])
  const bipartite = csr([0, 2, 3], [0, 1, 3], { numSrc: 4 })
  const x = make(3, 2)
  const degrees = (value: unknown) => () => call(square, x, { degrees: value })
  const ends = (value: unknown) => () => call(bipartite, make(4, 2), { degrees: value })

  refused('ERR_ARG_TYPE', [
    [
      `gcnAggregate: graph must be made by csr(), got Segments of 1 rows, 1 edges`,
      () => call(segments([0, 1]), x),
    ],
    [`gcnAggregate: x must be a Tensor, got an array of length 1`, () => call(square, [[1]])],
    [`gcnAggregate: options must be an object, got Tensor<float32> [3]`, () => call(square, x, make(3))],
    [`gcnAggregate: options must be an object, got null`, () => call(square, x, null)],
    [`gcnAggregate: degrees must be a Tensor or { dst, src }, got number 3`, degrees(3)],
    [`gcnAggregate: degrees must be a Tensor or { dst, src }, got null`, degrees(null)],
    [`gcnAggregate: degrees must be a Tensor or { dst, src }, got an array of length 3`, degrees([1, 2, 3])],
    [
      `gcnAggregate: degrees must be a Tensor or { dst, src }, got Float32Array`,
      degrees(Float32Array.of(1, 2, 3)),
    ],
    [`gcnAggregate: degrees.src must come together with degrees.dst, got undefined`, ends({ dst: make(2) })],
  ])

  refused('ERR_ARG_VALUE', [
    [
      `gcnAggregate: options must have only degrees, got "degree"`,
      () => call(square, x, { degree: make(3) }),
    ],
    [
      `gcnAggregate: graph must be square unless degrees are { dst, src }, got one with 2 destinations and 4 sources`,
      () => call(bipartite, make(4, 2)),
    ],
    [
      `gcnAggregate: graph must be square unless degrees are { dst, src }, got one with 2 destinations and 4 sources`,
      ends(make(2)),
    ],
  ])

  refused('ERR_DTYPE', [
    [
      `gcnAggregate: x must have dtype float32, float16 or bfloat16, got int32`,
      () => call(square, int(3, 2)),
    ],
    [`gcnAggregate: degrees must have dtype float32 or int32, got float16`, degrees(half(3))],
  ])

  refused('ERR_SHAPE', [
    [`gcnAggregate: x must have rank 2, got shape [3]`, () => call(square, make(3))],
    [`gcnAggregate: x must have rank 2, got shape [3, 2, 1]`, () => call(square, make(3, 2, 1))],
    [
      `gcnAggregate: x must have 4 rows (the graph's source nodes), got shape [2, 5]`,
      () => call(bipartite, make(2, 5)),
    ],
    [`gcnAggregate: degrees must have 3 rows (the graph's nodes), got shape [2]`, degrees(make(2))],
    [`gcnAggregate: degrees must have rank 1, got shape [3, 1]`, degrees(make(3, 1))],
    [
      `gcnAggregate: degrees.dst must have 2 rows (the graph's destination nodes), got shape [4]`,
      ends({ dst: make(4), src: make(4) }),
    ],
    [
      `gcnAggregate: degrees.src must have 4 rows (the graph's source nodes), got shape [2]`,
      ends({ dst: make(2), src: make(2) }),
    ],
  ])

  refused('ERR_DISPOSED', [
    [`gcnAggregate: graph must be alive, got one that was disposed`, () => call(goneGraph(), make(1, 2))],
    [`gcnAggregate: x must be alive, got one that was disposed`, () => call(square, gone(3, 2))],
    [`gcnAggregate: degrees must be alive, got one that was disposed`, degrees(gone(3))],
    [
      `gcnAggregate: degrees.src must be alive, got one that was disposed`,
      ends({ dst: make(2), src: gone(4) }),
    ],
  ])

  // One device is none to mix with the CPU.
  if (device !== 'cpu') {
    const on = (...shape: number[]) => make(...shape).to('cpu')
    refused('ERR_DEVICE_MISMATCH', [
      [
        `gcnAggregate: degrees must be on x's device ${device}, got cpu`,
        () => call(square, make(3, 2), { degrees: on(3) }),
      ],
      [
        `gcnAggregate: degrees.src must be on x's device ${device}, got cpu`,
        () => call(bipartite, make(4, 2), { degrees: { dst: make(2), src: on(4) } }),
      ],
    ])
  }

  test('after a refused call the next one works', () => {
    expect(degrees({ dst: make(3), src: make(2) })).toThrow(RangeError)
    expect(gcnAggregate(square, x)).toBeCloseToTensor(new Float32Array(6), { atol: 0 })
  })
})
