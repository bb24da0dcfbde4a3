import { csr, segmentSoftmax, segments } from 'warpgraph'
import { blanks } from '../blanks'
import { onEachDevice } from '../devices'
import { refused } from '../refused'

/** Called without types: most of what is refused here does not compile either. */
const call = segmentSoftmax as unknown as (...args: unknown[]) => unknown

onEachDevice('segmentSoftmax refuses', (device) => {
  const { make, int, gone, goneGraph } = blanks(device)
  const square = csr([0, 2, 3, 3], [0, 1, 2])

  refused('ERR_ARG_TYPE', [
    [
      `segmentSoftmax: segments must be made by segments() or csr(), got an array of length 2`,
      () => call([0, 1], make(1)),
    ],
    [
      `segmentSoftmax: segments must be made by segments() or csr(), got undefined`,
      () => call(undefined, make(1)),
    ],
    [
      `segmentSoftmax: segments must be made by segments() or csr(), got Tensor<float32> [1]`,
      () => call(make(1), square),
    ],
    [`segmentSoftmax: scores must be a Tensor, got Float32Array`, () => call(square, new Float32Array(3))],
    [
      `segmentSoftmax: scores must be a Tensor, got a Promise (is an await missing?)`,
      () => call(square, Promise.resolve(make(3))),
    ],
    [`segmentSoftmax: scores must be a Tensor, got Csr of 3 rows, 3 edges`, () => call(square, square)],
    [`segmentSoftmax: scores must be a Tensor, got undefined`, () => call(square)],
  ])

  refused('ERR_DTYPE', [
    [
      `segmentSoftmax: scores must have dtype float32, float16 or bfloat16, got int32`,
      () => call(square, int(3)),
    ],
  ])

  refused('ERR_SHAPE', [
    [`segmentSoftmax: scores must have rank 1 or more, got shape []`, () => call(square, make())],
    [
      `segmentSoftmax: scores must have 3 rows (the graph's edges), got shape [2, 8]`,
      () => call(square, make(2, 8)),
    ],
    [
      `segmentSoftmax: scores must have 0 rows (the graph's edges), got shape [1]`,
      () => call(segments([0]), make(1)),
    ],
  ])

  refused('ERR_DISPOSED', [
    [`segmentSoftmax: segments must be alive, got one that was disposed`, () => call(goneGraph(), make(1))],
    [`segmentSoftmax: scores must be alive, got one that was disposed`, () => call(square, gone(3))],
  ])
})
