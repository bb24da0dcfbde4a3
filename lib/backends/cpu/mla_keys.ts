import { argumentError } from '../../argument'
import type { MlaKeys, MlaSizes } from '../../backend'

/** The keys as arrays; shapes as in the public function. */
export interface KeyArrays extends Pick<MlaKeys, 'numKeys' | 'pageSize' | 'numPages' | 'pagesPerSequence'> {
  readonly kvLatent: Float32Array
  readonly kRope: Float32Array | null
  readonly kvLengths: Int32Array | null
  readonly blockTable: Int32Array | null
}

/**
 * Where the keys of sequence b lie, one row of the latents (and of their rope part) per key. Lengths and pages are
 * checked here too: an op may have computed them.
 */
export function keyRows(op: string, keys: KeyArrays, b: number): Float64Array {
  const { kvLengths, blockTable, numKeys, pageSize, numPages, pagesPerSequence } = keys
  const length = kvLengths === null ? numKeys : kvLengths[b]!
  if (length < 0 || length > numKeys) {
    const expected = `be in [0, ${numKeys}] (keys of a sequence)`
    throw argumentError('ERR_ARG_VALUE', op, 'kvLengths', expected, `${length} at index ${b}`)
  }
  const rows = new Float64Array(length)
  for (let s = 0; s < length; s++) {
    if (blockTable === null) {
      rows[s] = b * numKeys + s
      continue
    }
    const entry = Math.floor(s / pageSize)
    const page = blockTable[b * pagesPerSequence + entry]!
    if (page < 0 || page >= numPages) {
      const expected = `be in [0, ${numPages}) (kvLatent's pages) where a sequence has keys`
      throw argumentError('ERR_ARG_VALUE', op, 'blockTable', expected, `${page} at [${b}, ${entry}]`)
    }
    rows[s] = page * pageSize + (s % pageSize)
  }
  return rows
}

/** How many of a sequence's keys query t sees: the first ones. */
export function keysSeen({ causal, queryOffset, numQueries }: MlaSizes, length: number, t: number): number {
  if (!causal) return length
  const offset = queryOffset ?? length - numQueries
  return Math.min(Math.max(t + offset + 1, 0), length)
}

/**
 * Turns logits into the weights of a mean, which sum to 1, or to 0 where no logit is above −∞. Returns the natural
 * logarithm of Σ exp(logit).
 */
export function softmax(logits: Float64Array): number {
  let max = -Infinity
  for (const logit of logits) max = Math.max(max, logit)
  if (max === -Infinity) max = 0
  let sum = 0
  for (let s = 0; s < logits.length; s++) {
    logits[s] = Math.exp(logits[s]! - max)
    sum += logits[s]!
  }
  for (let s = 0; s < logits.length; s++) logits[s] = sum === 0 ? 0 : logits[s]! / sum
  return max + Math.log(sum)
}

/** Σ a[aStart + i]·b[bStart + i] over i < length. */
export function dot(
  a: ArrayLike<number>,
  aStart: number,
  b: ArrayLike<number>,
  bStart: number,
  length: number,
): number {
  let sum = 0
  for (let i = 0; i < length; i++) sum += a[aStart + i]! * b[bStart + i]!
  return sum
}
