import { csr, csrMax, gcnAggregate, mlaAttention, segmentSoftmax, segments, tensor } from 'warpgraph'
import { onEachDevice, testDevices } from '../devices'

/** Called without types: what is refused here mostly does not compile either. */
type Untyped = (...args: unknown[]) => unknown
const [softmax, gcn, max, mla] = [segmentSoftmax, gcnAggregate, csrMax, mlaAttention] as unknown as Untyped[]

type Row = [call: () => unknown, message: string, type: 'TypeError' | 'RangeError', code: string]

function expectRefused(rows: readonly Row[]): void {
  for (const [call, message, name, code] of rows) {
    let thrown: unknown
    try {
      call()
    } catch (error) {
      thrown = error
    }
    expect(thrown).toMatchObject({ message, name, code })
  }
}

onEachDevice('bad arguments', (device) => {
  const make = (...shape: number[]) => {
    return tensor(new Float32Array(shape.reduce((a, b) => a * b, 1)), { shape, device })
  }
  const half = (...shape: number[]) => make(...shape).cast('float16')
  const int = (...shape: number[]) => make(...shape).cast('int32')
  const gone = (...shape: number[]) => {
    const result = make(...shape)
    result.dispose()
    return result
  }
  const goneGraph = () => {
    const result = csr([0, 1], [0])
    result.dispose()
    return result
  }
  const square = csr([0, 2, 3, 3], [0, 1, 2])
  const bipartite = csr([0, 2, 3], [0, 1, 3], { numSrc: 4 })

  test('segmentSoftmax', () => {
    const op = 'segmentSoftmax:'
    expectRefused([
      [
        () => softmax!([0, 1], make(1)),
        `${op} segments must be made by segments() or csr(), got an array of length 2`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        () => softmax!(undefined, make(1)),
        `${op} segments must be made by segments() or csr(), got undefined`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        () => softmax!(make(1), square),
        `${op} segments must be made by segments() or csr(), got Tensor<float32> [1]`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        () => softmax!(goneGraph(), make(1)),
        `${op} segments must be alive, got one that was disposed`,
        'TypeError',
        'ERR_DISPOSED',
      ],
      [
        () => softmax!(square, new Float32Array(3)),
        `${op} scores must be a Tensor, got Float32Array`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        () => softmax!(square, Promise.resolve(make(3))),
        `${op} scores must be a Tensor, got a Promise (is an await missing?)`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        () => softmax!(square, square),
        `${op} scores must be a Tensor, got Csr of 3 rows, 3 edges`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [() => softmax!(square), `${op} scores must be a Tensor, got undefined`, 'TypeError', 'ERR_ARG_TYPE'],
      [
        () => softmax!(square, gone(3)),
        `${op} scores must be alive, got one that was disposed`,
        'TypeError',
        'ERR_DISPOSED',
      ],
      [
        () => softmax!(square, int(3)),
        `${op} scores must have dtype float32, float16 or bfloat16, got int32`,
        'TypeError',
        'ERR_DTYPE',
      ],
      [
        () => softmax!(square, make()),
        `${op} scores must have rank 1 or more, got shape []`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        () => softmax!(square, make(2, 8)),
        `${op} scores must have 3 rows (the graph's edges), got shape [2, 8]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        () => softmax!(segments([0]), make(1)),
        `${op} scores must have 0 rows (the graph's edges), got shape [1]`,
        'RangeError',
        'ERR_SHAPE',
      ],
    ])
  })

  test('gcnAggregate', () => {
    const op = 'gcnAggregate:'
    const x = make(3, 2)
    const degrees = (value: unknown) => () => gcn!(square, x, { degrees: value })
    const ends = (value: unknown) => () => gcn!(bipartite, make(4, 2), { degrees: value })
    expectRefused([
      [
        () => gcn!(segments([0, 1]), x),
        `${op} graph must be made by csr(), got Segments of 1 rows, 1 edges`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        () => gcn!(goneGraph(), make(1, 2)),
        `${op} graph must be alive, got one that was disposed`,
        'TypeError',
        'ERR_DISPOSED',
      ],
      [
        () => gcn!(square, [[1]]),
        `${op} x must be a Tensor, got an array of length 1`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        () => gcn!(square, gone(3, 2)),
        `${op} x must be alive, got one that was disposed`,
        'TypeError',
        'ERR_DISPOSED',
      ],
      [
        () => gcn!(square, int(3, 2)),
        `${op} x must have dtype float32, float16 or bfloat16, got int32`,
        'TypeError',
        'ERR_DTYPE',
      ],
      [() => gcn!(square, make(3)), `${op} x must have rank 2, got shape [3]`, 'RangeError', 'ERR_SHAPE'],
      [
        () => gcn!(square, make(3, 2, 1)),
        `${op} x must have rank 2, got shape [3, 2, 1]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        () => gcn!(bipartite, make(2, 5)),
        `${op} x must have 4 rows (the graph's source nodes), got shape [2, 5]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        () => gcn!(square, x, make(3)),
        `${op} options must be an object, got Tensor<float32> [3]`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [() => gcn!(square, x, null), `${op} options must be an object, got null`, 'TypeError', 'ERR_ARG_TYPE'],
      [
        () => gcn!(square, x, { degree: make(3) }),
        `${op} options must have only degrees, got "degree"`,
        'RangeError',
        'ERR_ARG_VALUE',
      ],
      [
        () => gcn!(bipartite, make(4, 2)),
        `${op} graph must be square unless degrees are { dst, src }, got one with 2 destinations and 4 sources`,
        'RangeError',
        'ERR_ARG_VALUE',
      ],
      [
        ends(make(2)),
        `${op} graph must be square unless degrees are { dst, src }, got one with 2 destinations and 4 sources`,
        'RangeError',
        'ERR_ARG_VALUE',
      ],
      [
        degrees(3),
        `${op} degrees must be a Tensor or { dst, src }, got number 3`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        degrees(null),
        `${op} degrees must be a Tensor or { dst, src }, got null`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        degrees(make(2)),
        `${op} degrees must have 3 rows (the graph's nodes), got shape [2]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [degrees(make(3, 1)), `${op} degrees must have rank 1, got shape [3, 1]`, 'RangeError', 'ERR_SHAPE'],
      [degrees(half(3)), `${op} degrees must have dtype float32, got float16`, 'TypeError', 'ERR_DTYPE'],
      [
        degrees(gone(3)),
        `${op} degrees must be alive, got one that was disposed`,
        'TypeError',
        'ERR_DISPOSED',
      ],
      [
        ends({ dst: make(2) }),
        `${op} degrees.src must be a Tensor, got undefined`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        ends({ dst: make(4), src: make(4) }),
        `${op} degrees.dst must have 2 rows (the graph's destination nodes), got shape [4]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        ends({ dst: make(2), src: make(2) }),
        `${op} degrees.src must have 4 rows (the graph's source nodes), got shape [2]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        ends({ dst: make(2), src: gone(4) }),
        `${op} degrees.src must be alive, got one that was disposed`,
        'TypeError',
        'ERR_DISPOSED',
      ],
    ])
  })

  test('csrMax', () => {
    const op = 'csrMax:'
    const x = make(3, 2)
    expectRefused([
      [
        () => max!(segments([0, 1]), x),
        `${op} graph must be made by csr(), got Segments of 1 rows, 1 edges`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        () => max!({ rowPtr: [0], colIdx: [] }, x),
        `${op} graph must be made by csr(), got Object`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        () => max!(goneGraph(), make(1, 2)),
        `${op} graph must be alive, got one that was disposed`,
        'TypeError',
        'ERR_DISPOSED',
      ],
      [() => max!(square, null), `${op} x must be a Tensor, got null`, 'TypeError', 'ERR_ARG_TYPE'],
      [
        () => max!(square, gone(3, 2)),
        `${op} x must be alive, got one that was disposed`,
        'TypeError',
        'ERR_DISPOSED',
      ],
      [
        () => max!(square, int(3, 2)),
        `${op} x must have dtype float32, float16 or bfloat16, got int32`,
        'TypeError',
        'ERR_DTYPE',
      ],
      [() => max!(square, make(3)), `${op} x must have rank 2, got shape [3]`, 'RangeError', 'ERR_SHAPE'],
      [
        () => max!(square, make(4, 2)),
        `${op} x must have 3 rows (the graph's source nodes), got shape [4, 2]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        () => max!(square, x, { fill: 0 }),
        `${op} options must have only empty, withIndices, got "fill"`,
        'RangeError',
        'ERR_ARG_VALUE',
      ],
      [
        () => max!(square, x, 0),
        `${op} options must be an object, got number 0`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        () => max!(square, x, { empty: '0' }),
        `${op} empty must be a number, got "0"`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        () => max!(square, x, { empty: null }),
        `${op} empty must be a number, got null`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        () => max!(square, x, { withIndices: 1 }),
        `${op} withIndices must be a boolean, got number 1`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
    ])
  })

  test('mlaAttention', () => {
    const op = 'mlaAttention:'
    const [q, latents, wUpK, wUpV] = [make(2, 3, 4, 5), make(2, 6, 7), make(7, 4, 5), make(7, 4, 8)]
    const [qRope, kRope] = [make(2, 3, 4, 9), make(2, 6, 9)]
    const withOptions = (options: unknown) => () => mla!(q, latents, wUpK, wUpV, options)
    const rope = (a: unknown, b: unknown) => withOptions({ qRope: a, kRope: b })
    expectRefused([
      [
        () => mla!(undefined, latents, wUpK, wUpV),
        `${op} q must be a Tensor, got undefined`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        () => mla!(q, latents, wUpK),
        `${op} wUpV must be a Tensor, got undefined`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        () => mla!(gone(2, 3, 4, 5), latents, wUpK, wUpV),
        `${op} q must be alive, got one that was disposed`,
        'TypeError',
        'ERR_DISPOSED',
      ],
      [
        () => mla!(make(2, 3, 4), latents, wUpK, wUpV),
        `${op} q must have rank 4, got shape [2, 3, 4]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        () => mla!(q, make(2, 6, 7, 1), wUpK, wUpV),
        `${op} kvLatent must have rank 3, got shape [2, 6, 7, 1]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        () => mla!(q, int(2, 6, 7), wUpK, wUpV),
        `${op} kvLatent must have dtype float32, float16 or bfloat16, got int32`,
        'TypeError',
        'ERR_DTYPE',
      ],
      [
        () => mla!(q, half(2, 6, 7), wUpK, wUpV),
        `${op} kvLatent must have q's dtype float32, got float16`,
        'TypeError',
        'ERR_DTYPE',
      ],
      [
        () => mla!(q, make(1, 6, 7), wUpK, wUpV),
        `${op} kvLatent must have 2 rows (q's batch), got shape [1, 6, 7]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        () => mla!(q, latents, make(8, 4, 5), wUpV),
        `${op} wUpK must have 7 rows (kvLatent's rank), got shape [8, 4, 5]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        () => mla!(q, latents, make(7, 3, 5), wUpV),
        `${op} wUpK must have 4 in axis 1 (q's heads), got shape [7, 3, 5]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        () => mla!(q, latents, make(7, 4, 6), wUpV),
        `${op} wUpK must have 5 in axis 2 (q's head dimension), got shape [7, 4, 6]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        () => mla!(q, latents, wUpK, make(6, 4, 8)),
        `${op} wUpV must have 7 rows (kvLatent's rank), got shape [6, 4, 8]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        () => mla!(q, latents, wUpK, make(7, 5, 8)),
        `${op} wUpV must have 4 in axis 1 (q's heads), got shape [7, 5, 8]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [rope(qRope, undefined), `${op} kRope must be a Tensor, got undefined`, 'TypeError', 'ERR_ARG_TYPE'],
      [rope(undefined, kRope), `${op} qRope must be a Tensor, got undefined`, 'TypeError', 'ERR_ARG_TYPE'],
      [
        rope(make(2, 1, 4, 9), kRope),
        `${op} qRope must have 3 in axis 1 (q's queries), got shape [2, 1, 4, 9]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        rope(qRope, make(2, 5, 9)),
        `${op} kRope must have 6 in axis 1 (kvLatent's keys), got shape [2, 5, 9]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        rope(qRope, make(2, 6, 8)),
        `${op} kRope must have 9 in axis 2 (qRope's dimension), got shape [2, 6, 8]`,
        'RangeError',
        'ERR_SHAPE',
      ],
      [
        rope(qRope, half(2, 6, 9)),
        `${op} kRope must have q's dtype float32, got float16`,
        'TypeError',
        'ERR_DTYPE',
      ],
      [
        withOptions({ mask: true }),
        `${op} options must have only qRope, kRope, scale, causal, got "mask"`,
        'RangeError',
        'ERR_ARG_VALUE',
      ],
      [
        withOptions(q),
        `${op} options must be an object, got Tensor<float32> [2, 3, 4, 5]`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [
        withOptions({ causal: 1 }),
        `${op} causal must be a boolean, got number 1`,
        'TypeError',
        'ERR_ARG_TYPE',
      ],
      [withOptions({ scale: '1' }), `${op} scale must be a number, got "1"`, 'TypeError', 'ERR_ARG_TYPE'],
      [withOptions({ scale: NaN }), `${op} scale must be finite, got NaN`, 'RangeError', 'ERR_ARG_VALUE'],
      [
        withOptions({ scale: Infinity }),
        `${op} scale must be finite, got Infinity`,
        'RangeError',
        'ERR_ARG_VALUE',
      ],
    ])
  })

  // One device is none to mix with the CPU.
  const mixed = testDevices.length > 1 && device !== 'cpu'
  ;(mixed ? test : test.skip)('devices are not mixed', () => {
    const on = (...shape: number[]) => make(...shape).to('cpu')
    const [q, latents, wUpK, wUpV] = [make(1, 1, 1, 1), make(1, 1, 1), make(1, 1, 1), make(1, 1, 1)]
    expectRefused([
      [
        () => gcn!(square, make(3, 2), { degrees: on(3) }),
        `gcnAggregate: degrees must be on x's device ${device}, got cpu`,
        'TypeError',
        'ERR_DEVICE_MISMATCH',
      ],
      [
        () => gcn!(bipartite, make(4, 2), { degrees: { dst: make(2), src: on(4) } }),
        `gcnAggregate: degrees.src must be on x's device ${device}, got cpu`,
        'TypeError',
        'ERR_DEVICE_MISMATCH',
      ],
      [
        () => mla!(q, on(1, 1, 1), wUpK, wUpV),
        `mlaAttention: kvLatent must be on q's device ${device}, got cpu`,
        'TypeError',
        'ERR_DEVICE_MISMATCH',
      ],
      [
        () => mla!(q, latents, wUpK, on(1, 1, 1)),
        `mlaAttention: wUpV must be on q's device ${device}, got cpu`,
        'TypeError',
        'ERR_DEVICE_MISMATCH',
      ],
      [
        () => mla!(q, latents, wUpK, wUpV, { qRope: q, kRope: on(1, 1, 1) }),
        `mlaAttention: kRope must be on q's device ${device}, got cpu`,
        'TypeError',
        'ERR_DEVICE_MISMATCH',
      ],
    ])
  })

  test('after a refused call the next one works', () => {
    const x = make(3, 2)
    expect(() => gcn!(square, x, { degrees: { dst: make(3), src: make(2) } })).toThrow(RangeError)
    expect(gcnAggregate(square, x).shape).toEqual([3, 2])
  })
})
