import { mlaAttention, tensor } from 'warpgraph'
import { blanks } from '../blanks'
import { onEachDevice } from '../devices'
import { refused } from '../refused'

/** Called without types: most of what is refused here does not compile either. */
const call = mlaAttention as unknown as (...args: unknown[]) => unknown

onEachDevice('mlaAttention refuses', (device) => {
  const { make, half, int, gone } = blanks(device)
  const ints = (values: number[], shape: number[] = [values.length]) =>
    tensor(Int32Array.from(values), { shape, device })
  const [q, latents, wUpK, wUpV] = [make(2, 3, 4, 5), make(2, 6, 7), make(7, 4, 5), make(7, 4, 8)]
  const [qRope, kRope] = [make(2, 3, 4, 9), make(2, 6, 9)]
  const withOptions = (options: unknown) => () => call(q, latents, wUpK, wUpV, options)
  // Keys in pages of 16, two for each sequence, which may share one.
  const pages = make(3, 16, 7)
  const table = ints([0, 0, 1, 2], [2, 2])
  const paged = (options: object, latents = pages) => {
    return () => call(q, latents, wUpK, wUpV, { blockTable: table, ...options })
  }
  const rope = (a: unknown, b: unknown) => withOptions({ qRope: a, kRope: b })

  refused('ERR_ARG_TYPE', [
    [`mlaAttention: q must be a Tensor, got undefined`, () => call(undefined, latents, wUpK, wUpV)],
    [`mlaAttention: wUpV must be a Tensor, got undefined`, () => call(q, latents, wUpK)],
    [`mlaAttention: kRope must come together with qRope, got undefined`, rope(qRope, undefined)],
    [`mlaAttention: qRope must come together with kRope, got undefined`, rope(undefined, kRope)],
    [`mlaAttention: options must be an object, got Tensor<float32> [2, 3, 4, 5]`, withOptions(q)],
    [`mlaAttention: causal must be a boolean, got number 1`, withOptions({ causal: 1 })],
    [`mlaAttention: scale must be a number, got "1"`, withOptions({ scale: '1' })],
    [`mlaAttention: queryOffset must be a number, got "1"`, withOptions({ queryOffset: '1' })],
    [`mlaAttention: returnLse must be a boolean, got number 1`, withOptions({ returnLse: 1 })],
    [`mlaAttention: numSplits must be a number, got null`, withOptions({ numSplits: null })],
    [
      `mlaAttention: algorithm must be 'auto', 'absorb' or 'expand', got number 1`,
      withOptions({ algorithm: 1 }),
    ],
    [`mlaAttention: precision must be 'float32' or 'tf32', got null`, withOptions({ precision: null })],
    [
      `mlaAttention: kvLengths must be a Tensor, got an array of length 2`,
      withOptions({ kvLengths: [6, 6] }),
    ],
    [
      `mlaAttention: blockTable must be a Tensor, got Int32Array`,
      withOptions({ blockTable: new Int32Array(2) }),
    ],
  ])

  refused('ERR_ARG_VALUE', [
    [
      `mlaAttention: options must have only qRope, kRope, scale, kvLengths, blockTable, algorithm, causal, queryOffset, returnLse, numSplits, precision, got "mask"`,
      withOptions({ mask: true }),
    ],
    [`mlaAttention: scale must be finite in float32, got NaN`, withOptions({ scale: NaN })],
    [`mlaAttention: scale must be finite in float32, got Infinity`, withOptions({ scale: Infinity })],
    [`mlaAttention: queryOffset must be an integer, got 0.5`, withOptions({ queryOffset: 0.5 })],
    [`mlaAttention: queryOffset must be an integer, got -Infinity`, withOptions({ queryOffset: -Infinity })],
    [`mlaAttention: numSplits must be an integer of at least 0, got -1`, withOptions({ numSplits: -1 })],
    [`mlaAttention: numSplits must be an integer of at least 0, got 1.5`, withOptions({ numSplits: 1.5 })],
    [
      `mlaAttention: queryOffset must be given only where causal is true, got 0`,
      withOptions({ queryOffset: 0, causal: false }),
    ],
    [`mlaAttention: numSplits must be at most 1024, got 1025`, withOptions({ numSplits: 1025 })],
    [`mlaAttention: numSplits must be at most 1024, got 4294967297`, withOptions({ numSplits: 2 ** 32 + 1 })],
    [
      `mlaAttention: numSplits must be 0 with algorithm 'expand', got 2`,
      withOptions({ algorithm: 'expand', numSplits: 2 }),
    ],
    [
      `mlaAttention: algorithm must be 'auto', 'absorb' or 'expand', got "absorbed"`,
      withOptions({ algorithm: 'absorbed' }),
    ],
    [`mlaAttention: precision must be 'float32' or 'tf32', got "fp32"`, withOptions({ precision: 'fp32' })],
    [
      `mlaAttention: precision must be given only with float32 tensors, got "tf32" with float16`,
      () => call(half(2, 3, 4, 5), half(2, 6, 7), half(7, 4, 5), half(7, 4, 8), { precision: 'tf32' }),
    ],
    [
      `mlaAttention: precision must be given only with float32 tensors, got "float32" with float16`,
      () => call(half(2, 3, 4, 5), half(2, 6, 7), half(7, 4, 5), half(7, 4, 8), { precision: 'float32' }),
    ],
    [
      `mlaAttention: kvLengths must be in [0, 6] (keys of a sequence), got 7 at index 0`,
      withOptions({ kvLengths: ints([7, 0]) }),
    ],
    [
      `mlaAttention: kvLengths must be in [0, 6] (keys of a sequence), got -1 at index 1`,
      withOptions({ kvLengths: ints([6, -1]) }),
    ],
    [
      `mlaAttention: kvLengths must be in [0, 32] (keys of a sequence), got 33 at index 1`,
      paged({ kvLengths: ints([16, 33]) }),
    ],
    [
      `mlaAttention: blockTable must be in [-1, 3) (kvLatent's pages), got 3 at [1, 1]`,
      paged({ blockTable: ints([0, -1, 1, 3], [2, 2]), kvLengths: ints([16, 32]) }),
    ],
    [
      `mlaAttention: blockTable must be in [-1, 3) (kvLatent's pages), got -2 at [0, 1]`,
      paged({ blockTable: ints([0, -2, 1, 2], [2, 2]), kvLengths: ints([16, 32]) }),
    ],
    [
      `mlaAttention: blockTable must be in [0, 3) (kvLatent's pages), got -1 at [0, 1]`,
      paged({ blockTable: ints([0, -1, 1, 2], [2, 2]) }),
    ],
    [
      `mlaAttention: blockTable must be in [0, 3) (kvLatent's pages), got 3 at [1, 1]`,
      paged({ blockTable: ints([0, 0, 1, 3], [2, 2]) }),
    ],
  ])

  refused('ERR_DTYPE', [
    [
      `mlaAttention: kvLatent must have dtype float32, float16 or bfloat16, got int32`,
      () => call(q, int(2, 6, 7), wUpK, wUpV),
    ],
    [
      `mlaAttention: kvLatent must have q's dtype float32, got float16`,
      () => call(q, half(2, 6, 7), wUpK, wUpV),
    ],
    [`mlaAttention: kRope must have q's dtype float32, got float16`, rope(qRope, half(2, 6, 9))],
    [`mlaAttention: kvLengths must have dtype int32, got float32`, withOptions({ kvLengths: make(2) })],
    [`mlaAttention: blockTable must have dtype int32, got float32`, paged({ blockTable: make(2, 2) })],
  ])

  refused('ERR_SHAPE', [
    [`mlaAttention: q must have rank 4, got shape [2, 3, 4]`, () => call(make(2, 3, 4), latents, wUpK, wUpV)],
    [
      `mlaAttention: kvLatent must have rank 3, got shape [2, 6, 7, 1]`,
      () => call(q, make(2, 6, 7, 1), wUpK, wUpV),
    ],
    [
      `mlaAttention: kvLatent must have 2 in axis 0 (q's batch), got shape [1, 6, 7]`,
      () => call(q, make(1, 6, 7), wUpK, wUpV),
    ],
    [
      `mlaAttention: wUpK must have 7 in axis 0 (kvLatent's rank), got shape [8, 4, 5]`,
      () => call(q, latents, make(8, 4, 5), wUpV),
    ],
    [
      `mlaAttention: wUpK must have 4 in axis 1 (q's heads), got shape [7, 3, 5]`,
      () => call(q, latents, make(7, 3, 5), wUpV),
    ],
    [
      `mlaAttention: wUpK must have 5 in axis 2 (q's head dimension), got shape [7, 4, 6]`,
      () => call(q, latents, make(7, 4, 6), wUpV),
    ],
    [
      `mlaAttention: wUpV must have 7 in axis 0 (kvLatent's rank), got shape [6, 4, 8]`,
      () => call(q, latents, wUpK, make(6, 4, 8)),
    ],
    [
      `mlaAttention: wUpV must have 4 in axis 1 (q's heads), got shape [7, 5, 8]`,
      () => call(q, latents, wUpK, make(7, 5, 8)),
    ],
    [
      `mlaAttention: qRope must have 3 in axis 1 (q's queries), got shape [2, 1, 4, 9]`,
      rope(make(2, 1, 4, 9), kRope),
    ],
    [
      `mlaAttention: kRope must have 6 in axis 1 (kvLatent's keys), got shape [2, 5, 9]`,
      rope(qRope, make(2, 5, 9)),
    ],
    [
      `mlaAttention: qRope must have 8 in axis 3 (kRope's dimension), got shape [2, 3, 4, 9]`,
      rope(qRope, make(2, 6, 8)),
    ],
  ])

  refused('ERR_SHAPE', [
    [
      `mlaAttention: kvLengths must have rank 1, got shape [2, 1]`,
      withOptions({ kvLengths: ints([6, 6], [2, 1]) }),
    ],
    [
      `mlaAttention: kvLengths must have 2 rows (q's batch), got shape [3]`,
      withOptions({ kvLengths: ints([6, 6, 6]) }),
    ],
    [`mlaAttention: blockTable must have rank 2, got shape [2]`, paged({ blockTable: ints([0, 1]) })],
    [
      `mlaAttention: blockTable must have 2 rows (q's batch), got shape [1, 2]`,
      paged({ blockTable: ints([0, 1], [1, 2]) }),
    ],
    ...[0, 6, 8, 24].map((size) => {
      const expected = 'have a power of two of at least 16 in axis 1 (the page size)'
      const message = `mlaAttention: kvLatent must ${expected}, got shape [3, ${size}, 7]`
      return [message, paged({}, make(3, size, 7))] as const
    }),
    [
      `mlaAttention: kvLatent must have rank 3, got shape [3, 16, 1, 7]`,
      paged({}, make(3, 16, 1, 7) as unknown as typeof pages),
    ],
    [
      `mlaAttention: kRope must have 3 in axis 0 (kvLatent's pages), got shape [2, 6, 9]`,
      paged({ qRope, kRope }),
    ],
    [
      `mlaAttention: kRope must have 16 in axis 1 (kvLatent's page size), got shape [3, 32, 9]`,
      paged({ qRope, kRope: make(3, 32, 9) }),
    ],
  ])

  refused('ERR_DISPOSED', [
    [`mlaAttention: kvLengths must be alive, got one that was disposed`, withOptions({ kvLengths: gone(2) })],
    [
      `mlaAttention: q must be alive, got one that was disposed`,
      () => call(gone(2, 3, 4, 5), latents, wUpK, wUpV),
    ],
  ])

  test('bounds are known of what moved between devices, and kept by views', () => {
    const moved = ints([7, 0]).to('cpu').to(device).reshape([1, 2]).reshape([2])
    expect(withOptions({ kvLengths: moved })).toThrow(
      'kvLengths must be in [0, 6] (keys of a sequence), got 7 at index 0',
    )
  })

  // One device is none to mix with the CPU.
  if (device !== 'cpu') {
    const on = (...shape: number[]) => make(...shape).to('cpu')
    const [q, latents, wUpK, wUpV] = [make(1, 1, 1, 1), make(1, 1, 1), make(1, 1, 1), make(1, 1, 1)]
    refused('ERR_DEVICE_MISMATCH', [
      [
        `mlaAttention: kvLatent must be on q's device ${device}, got cpu`,
        () => call(q, on(1, 1, 1), wUpK, wUpV),
      ],
      [
        `mlaAttention: wUpV must be on q's device ${device}, got cpu`,
        () => call(q, latents, wUpK, on(1, 1, 1)),
      ],
      [
        `mlaAttention: kRope must be on q's device ${device}, got cpu`,
        () => call(q, latents, wUpK, wUpV, { qRope: q, kRope: on(1, 1, 1) }),
      ],
      [
        `mlaAttention: kvLengths must be on q's device ${device}, got cpu`,
        () => call(q, latents, wUpK, wUpV, { kvLengths: ints([1]).to('cpu') }),
      ],
    ])
  }
})
