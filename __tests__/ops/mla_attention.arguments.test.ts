import { mlaAttention } from 'warpgraph'
import { blanks } from '../blanks'
import { onEachDevice } from '../devices'
import { refused } from '../refused'

/** Called without types: most of what is refused here does not compile either. */
const call = mlaAttention as unknown as (...args: unknown[]) => unknown

onEachDevice('mlaAttention refuses', (device) => {
  const { make, half, int, gone } = blanks(device)
  const [q, latents, wUpK, wUpV] = [make(2, 3, 4, 5), make(2, 6, 7), make(7, 4, 5), make(7, 4, 8)]
  const [qRope, kRope] = [make(2, 3, 4, 9), make(2, 6, 9)]
  const withOptions = (options: unknown) => () => call(q, latents, wUpK, wUpV, options)
  const rope = (a: unknown, b: unknown) => withOptions({ qRope: a, kRope: b })

  refused('ERR_ARG_TYPE', [
    [`mlaAttention: q must be a Tensor, got undefined`, () => call(undefined, latents, wUpK, wUpV)],
    [`mlaAttention: wUpV must be a Tensor, got undefined`, () => call(q, latents, wUpK)],
    [`mlaAttention: kRope must come together with qRope, got undefined`, rope(qRope, undefined)],
    [`mlaAttention: qRope must come together with kRope, got undefined`, rope(undefined, kRope)],
    [`mlaAttention: options must be an object, got Tensor<float32> [2, 3, 4, 5]`, withOptions(q)],
    [`mlaAttention: causal must be a boolean, got number 1`, withOptions({ causal: 1 })],
    [`mlaAttention: scale must be a number, got "1"`, withOptions({ scale: '1' })],
  ])

  refused('ERR_ARG_VALUE', [
    [
      `mlaAttention: options must have only qRope, kRope, scale, causal, got "mask"`,
      withOptions({ mask: true }),
    ],
    [`mlaAttention: scale must be finite in float32, got NaN`, withOptions({ scale: NaN })],
    [`mlaAttention: scale must be finite in float32, got Infinity`, withOptions({ scale: Infinity })],
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
      `mlaAttention: kRope must have 9 in axis 2 (qRope's dimension), got shape [2, 6, 8]`,
      rope(qRope, make(2, 6, 8)),
    ],
  ])

  refused('ERR_DISPOSED', [
    [
      `mlaAttention: q must be alive, got one that was disposed`,
      () => call(gone(2, 3, 4, 5), latents, wUpK, wUpV),
    ],
  ])

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
    ])
  }
})
