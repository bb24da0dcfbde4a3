import { mlaDecode, tensor } from 'warpgraph'
import { blanks } from '../blanks'
import { onEachDevice } from '../devices'
import { refused } from '../refused'

/** Called without types: most of what is refused here does not compile either. */
const call = mlaDecode as unknown as (...args: unknown[]) => unknown

onEachDevice('mlaDecode refuses', (device) => {
  const { make, half, int, gone } = blanks(device)
  const ints = (values: number[], shape: number[] = [values.length]) =>
    tensor(Int32Array.from(values), { shape, device })
  const q = make(2, 3, 4, 16)
  const cache = { kvLatent: make(2, 6, 7), kRope: make(2, 6, 9) }
  const withCache = (changes: object) => () => call(q, { ...cache, ...changes }, { scale: 1 })
  const withOptions = (options: object) => () => call(q, cache, { scale: 1, ...options })

  refused('ERR_ARG_TYPE', [
    ['mlaDecode: qLatent must be a Tensor, got undefined', () => call(undefined, cache, { scale: 1 })],
    ['mlaDecode: cache must be an object, got undefined', () => call(q)],
    ['mlaDecode: kvLatent must be a Tensor, got undefined', () => call(q, {}, { scale: 1 })],
    [
      'mlaDecode: cache must be an object, got Tensor<float32> [2, 6, 7]',
      () => call(q, cache.kvLatent, { scale: 1 }),
    ],
    ['mlaDecode: scale must be a number, got undefined', () => call(q, cache)],
    ['mlaDecode: scale must be a number, got undefined', () => call(q, cache, { causal: false })],
    ['mlaDecode: causal must be a boolean, got null', withOptions({ causal: null })],
    ['mlaDecode: kRope must be a Tensor, got null', withCache({ kRope: null })],
  ])

  refused('ERR_ARG_VALUE', [
    [
      'mlaDecode: cache must have only kvLatent, kRope, kvLengths, blockTable, got "qRope"',
      withCache({ qRope: q }),
    ],
    [
      'mlaDecode: options must have only scale, causal, queryOffset, returnLse, numSplits, precision, got "algorithm"',
      withOptions({ algorithm: 'absorb' }),
    ],
    ['mlaDecode: scale must be finite in float32, got NaN', withOptions({ scale: NaN })],
    ['mlaDecode: numSplits must be an integer of at least 0, got -2', withOptions({ numSplits: -2 })],
    ['mlaDecode: numSplits must be at most 1024, got 1025', withOptions({ numSplits: 1025 })],
    ['mlaDecode: queryOffset must be an integer, got 1.5', withOptions({ queryOffset: 1.5 })],
    [
      'mlaDecode: queryOffset must be given only where causal is true, got 3',
      withOptions({ queryOffset: 3, causal: false }),
    ],
    [
      'mlaDecode: precision must be given only with float32 tensors, got "tf32" with float16',
      () => call(half(2, 3, 4, 7), { kvLatent: half(2, 6, 7) }, { scale: 1, precision: 'tf32' }),
    ],
    [
      'mlaDecode: kvLengths must be in [0, 6] (keys of a sequence), got 9 at index 0',
      withCache({ kvLengths: ints([9, 0]) }),
    ],
    [
      "mlaDecode: blockTable must be in [0, 2) (kvLatent's pages), got 2 at [1, 0]",
      () => {
        const pages = { kvLatent: make(2, 16, 16), blockTable: ints([0, 2], [2, 1]) }
        return call(q, pages, { scale: 1 })
      },
    ],
    [
      "mlaDecode: blockTable must be in [0, 2) (kvLatent's pages), got -1 at [1, 0]",
      () => {
        const pages = { kvLatent: make(2, 16, 16), blockTable: ints([0, -1], [2, 1]) }
        return call(q, pages, { scale: 1 })
      },
    ],
  ])

  refused('ERR_DTYPE', [
    [
      "mlaDecode: kvLatent must have qLatent's dtype float32, got float16",
      () => call(q, { kvLatent: half(2, 6, 16) }, { scale: 1 }),
    ],
    [
      'mlaDecode: qLatent must have dtype float32, float16 or bfloat16, got int32',
      () => call(int(2, 3, 4, 16), cache, { scale: 1 }),
    ],
    ['mlaDecode: kvLengths must have dtype int32, got float32', withCache({ kvLengths: make(2) })],
  ])

  refused('ERR_SHAPE', [
    [
      "mlaDecode: qLatent must have 7 in axis 3 (kvLatent's rank), got shape [2, 3, 4, 16]",
      () => call(q, { kvLatent: cache.kvLatent }, { scale: 1 }),
    ],
    [
      "mlaDecode: qLatent must have 16 in axis 3 (kvLatent's rank and kRope's dimension), got shape [2, 3, 4, 7]",
      () => call(make(2, 3, 4, 7), cache, { scale: 1 }),
    ],
    [
      "mlaDecode: kvLatent must have 2 in axis 0 (qLatent's batch), got shape [3, 6, 7]",
      withCache({ kvLatent: make(3, 6, 7) }),
    ],
    [
      "mlaDecode: kRope must have 6 in axis 1 (kvLatent's keys), got shape [2, 5, 9]",
      withCache({ kRope: make(2, 5, 9) }),
    ],
    [
      'mlaDecode: kvLatent must have a power of two of at least 16 in axis 1 (the page size), got shape [2, 6, 7]',
      withCache({ blockTable: int(2, 1) }),
    ],
  ])

  refused('ERR_DISPOSED', [
    ['mlaDecode: kvLatent must be alive, got one that was disposed', withCache({ kvLatent: gone(2, 6, 7) })],
  ])
})
