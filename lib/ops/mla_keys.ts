import { argumentError, formatShape } from '../argument'
import type { Backend, MlaKeys, MlaSizes } from '../backend'
import {
  checkAlike,
  checkBoolean,
  checkChoice,
  checkDimension,
  checkInteger,
  checkNumber,
  checkSameDevice,
  checkTensor,
} from '../check'
import type { FloatDType } from '../dtype'
import { isRecording } from '../recording'
import { release, type Storage } from '../storage'
import { compute, sizeOf, Tensor } from '../tensor'

/** The latent cache: the keys of multi-head latent attention, shared by all heads. */
export interface MlaCache<D extends FloatDType = FloatDType> {
  /** (B, Tk, R) compressed keys and values; with `blockTable` (numPages, pageSize, R). */
  readonly kvLatent: Tensor<D, 3>
  /** (B, Tk, Dr) the rotated part of the keys; with `blockTable` (numPages, pageSize, Dr). */
  readonly kRope?: Tensor<D, 3> | undefined
  /** (B) keys of each sequence, from 0 to Tk; Tk when absent. Rows past a length are never read. */
  readonly kvLengths?: Tensor<'int32', 1> | undefined
  /**
   * (B, pages) the pages that hold each sequence's keys in order, so that Tk = pages · pageSize; pageSize is a power of
   * two of at least 16. With `kvLengths`, −1 may mark an entry past the sequence's length. A −1 within a length is
   * refused on the CPU; on a GPU, where lengths are not read back, it is clamped to page 0.
   */
  readonly blockTable?: Tensor<'int32', 2> | undefined
}

/** Which keys a query sees, and how to compute. */
export interface MlaSettings {
  /** Query t sees the keys s ≤ t + queryOffset only; true when absent. */
  readonly causal?: boolean | undefined
  /**
   * The position of query 0 among the keys; only where `causal` is true. Absent: each sequence's length − Tq, so that
   * its last query sees all of its keys (aligned bottom-right).
   */
  readonly queryOffset?: number | undefined
  /** Also give the logarithm of the sum of each query's exponentials. */
  readonly returnLse?: boolean | undefined
  /**
   * Into how many pieces the keys of a sequence are cut, to be computed at once and merged, up to 1024; 0 (when
   * absent) chooses by what else there is to do, so that the last bits of a query's result may depend on the other
   * sequences of the batch. With a number of one's own they do not.
   */
  readonly numSplits?: number | undefined
  /**
   * For float32 tensors: `'tf32'` rounds the factors of products to TF32 (11 significant bits), which tensor cores
   * multiply several times as fast; `'float32'` when absent.
   */
  readonly precision?: 'float32' | 'tf32' | undefined
}

/** Results with `returnLse`. */
export type MlaResult<D extends FloatDType> = {
  /** What the op gives without `returnLse`. */
  readonly out: Tensor<D, 4>
  /**
   * (B, H, Tq): natural logarithm of Σ exp(logit) over the keys that the query sees, −∞ where it sees none. Results
   * over disjoint sets of keys are merged with weights exp(lse).
   */
  readonly lse: Tensor<'float32', 3>
}

/** The names of what `checkSettings` reads. */
export const settingNames = ['causal', 'queryOffset', 'returnLse', 'numSplits', 'precision'] as const

/** Arguments as they may come. */
type Given<T> = { readonly [K in keyof T]: T[K] | undefined }

/** A checked cache. */
interface CheckedCache {
  readonly keys: MlaKeys
  readonly rank: number
  readonly ropeDim: number
}

/** The cache of as many sequences as the queries have, checked. `batchOf` says what those are: `q's batch`. */
export function checkCache(
  op: string,
  { kvLatent, kRope, kvLengths, blockTable }: Given<MlaCache>,
  queriesName: string,
  queries: Tensor,
  batchOf: string,
): CheckedCache {
  const batch = queries.lengths[0]!
  checkTensor(op, 'kvLatent', kvLatent, 3)
  const [first, second, rank] = kvLatent!.lengths
  const isPaged = blockTable !== undefined
  let pagesPerSequence = 0
  if (isPaged) {
    checkTensor(op, 'blockTable', blockTable, 2, 2, ['int32'])
    checkDimension(op, 'blockTable', blockTable, 0, batch, batchOf)
    if (second < 16 || !Number.isInteger(Math.log2(second))) {
      const expected = 'have a power of two of at least 16 in axis 1 (the page size)'
      throw argumentError('ERR_SHAPE', op, 'kvLatent', expected, `shape ${formatShape(kvLatent!.shape)}`)
    }
    pagesPerSequence = blockTable.lengths[1]
    // Without lengths every entry holds keys.
    const least = kvLengths === undefined ? 0 : -1
    checkBounds(op, 'blockTable', blockTable, least, first - 1, `[${least}, ${first}) (kvLatent's pages)`)
  } else {
    checkDimension(op, 'kvLatent', kvLatent!, 0, batch, batchOf)
  }
  const numKeys = isPaged ? pagesPerSequence * second : second
  if (kRope !== undefined) {
    checkTensor(op, 'kRope', kRope, 3)
    checkDimension(op, 'kRope', kRope, 0, first, isPaged ? "kvLatent's pages" : batchOf)
    checkDimension(op, 'kRope', kRope, 1, second, isPaged ? "kvLatent's page size" : "kvLatent's keys")
  }
  if (kvLengths !== undefined) {
    checkTensor(op, 'kvLengths', kvLengths, 1, 1, ['int32'])
    checkDimension(op, 'kvLengths', kvLengths, 0, batch, batchOf)
    checkBounds(op, 'kvLengths', kvLengths, 0, numKeys, `[0, ${numKeys}] (keys of a sequence)`)
  }
  checkAlike(op, 'kvLatent', kvLatent, queriesName, queries)
  checkAlike(op, 'kRope', kRope, queriesName, queries)
  checkSameDevice(op, 'blockTable', blockTable, queriesName, queries)
  checkSameDevice(op, 'kvLengths', kvLengths, queriesName, queries)
  const ropeDim = kRope === undefined ? 0 : kRope.lengths[2]
  const keys = {
    kvLatent: kvLatent!.storage,
    kRope: kRope === undefined || ropeDim === 0 ? null : kRope.storage,
    kvLengths: kvLengths === undefined ? null : kvLengths.storage,
    blockTable: isPaged ? blockTable.storage : null,
    numKeys,
    pageSize: isPaged ? second : 0,
    numPages: isPaged ? first : 0,
    pagesPerSequence,
  }
  return { keys, rank, ropeDim }
}

/**
 * Integers made on the host are checked here, before anything is launched. What a device computed is not known: there
 * the CPU checks when it reads, and a GPU clamps.
 */
function checkBounds(
  op: string,
  name: string,
  tensor: Tensor,
  least: number,
  most: number,
  range: string,
): void {
  const { bounds } = tensor.storage
  if (bounds === null || (bounds.least >= least && bounds.greatest <= most)) return
  throw argumentError('ERR_ARG_VALUE', op, name, `be in ${range}`, firstOutside(tensor, least, most))
}

/** The first element outside of the range, and where it is. Nothing may be read while recording: there a bound alone. */
function firstOutside({ storage, shape }: Tensor, least: number, most: number): string {
  if (isRecording()) {
    const bounds = storage.bounds!
    return String(bounds.least < least ? bounds.least : bounds.greatest)
  }
  const elements = storage.backend.download(storage)
  let at = 0
  while (elements[at]! >= least && elements[at]! <= most) at++
  const columns = shape[1]
  const place = columns === undefined ? `index ${at}` : `[${Math.floor(at / columns)}, ${at % columns}]`
  return `${elements[at]} at ${place}`
}

/** The most pieces that keys are cut into: past that there is nothing to win, and partial results only cost memory. */
const mostSplits = 1024

/** The settings as backends take them, for tensors of this dtype, and whether the lse is asked for. */
export function checkSettings(
  op: string,
  { causal = true, queryOffset, returnLse = false, numSplits = 0, precision }: MlaSettings,
  dtype: FloatDType,
): {
  readonly settings: Pick<MlaSizes, 'causal' | 'queryOffset' | 'numSplits' | 'tf32'>
  readonly returnLse: boolean
} {
  checkBoolean(op, 'causal', causal)
  if (queryOffset !== undefined) {
    checkInteger(op, 'queryOffset', queryOffset)
    if (!causal) {
      const expected = 'be given only where causal is true'
      throw argumentError('ERR_ARG_VALUE', op, 'queryOffset', expected, String(queryOffset))
    }
  }
  checkBoolean(op, 'returnLse', returnLse)
  checkInteger(op, 'numSplits', numSplits, 0)
  if (numSplits > mostSplits) {
    throw argumentError('ERR_ARG_VALUE', op, 'numSplits', `be at most ${mostSplits}`, String(numSplits))
  }
  if (precision !== undefined) {
    checkChoice(op, 'precision', precision, ['float32', 'tf32'])
    if (dtype !== 'float32') {
      const expected = 'be given only with float32 tensors'
      throw argumentError('ERR_ARG_VALUE', op, 'precision', expected, `"${precision}" with ${dtype}`)
    }
  }
  const settings = { causal, queryOffset: queryOffset ?? null, numSplits, tf32: precision === 'tf32' }
  return { settings, returnLse }
}

/** A factor of the logits. */
export function checkScale(op: string, scale: unknown): number {
  const number = checkNumber(op, 'scale', scale)
  if (!Number.isFinite(Math.fround(number))) {
    throw argumentError('ERR_ARG_VALUE', op, 'scale', 'be finite in float32', String(number))
  }
  return number
}

/** The results, which `fill` computes unless both are empty; nothing stays behind when that throws. */
export function computeAttention<D extends FloatDType>(
  backend: Backend,
  dtype: D,
  shape: readonly [number, number, number, number],
  withLse: boolean,
  fill: (out: Storage, lse: Storage | null) => void,
): Tensor<D, 4> | MlaResult<D> {
  if (!withLse) return compute(backend, dtype, shape, (out) => fill(out, null))
  const [batch, numQueries, heads] = shape
  const lseShape = [batch, heads, numQueries]
  return release((keep) => {
    const out = keep(backend.allocate(dtype, sizeOf(shape)))
    const lse = keep(backend.allocate('float32', sizeOf(lseShape)))
    if (out.length > 0 || lse.length > 0) fill(out, lse)
    return {
      out: new Tensor<D, 4>(out.retain(), shape),
      lse: new Tensor<'float32', 3>(lse.retain(), lseShape),
    }
  })
}
