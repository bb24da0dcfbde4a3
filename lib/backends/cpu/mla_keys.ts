import { argumentError } from '../../argument'
import type { MlaKeys, MlaSizes } from '../../backend'
import { exp, prepareExp } from './exp'

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

/** The rows of x (·, width) with these numbers, in double precision, one behind the other. */
export function rowsOf(x: Float32Array, rows: Float64Array, width: number): Float64Array {
  const out = new Float64Array(rows.length * width)
  for (let s = 0; s < rows.length; s++) {
    const row = rows[s]! * width
    for (let i = 0; i < width; i++) out[s * width + i] = x[row + i]!
  }
  return out
}

/**
 * Turns the first `count` logits, before their scale, into the weights of a mean, which sum to 1, or to 0 where no logit
 * is above −∞. Returns the natural logarithm of Σ exp(logit).
 */
export function softmax(logits: Float64Array, count: number, scale: number): number {
  prepareExp()
  let max = -Infinity
  for (let s = 0; s < count; s++) {
    const logit = logits[s]! * scale
    logits[s] = logit
    if (logit > max) max = logit // NaN is passed over: it shows up in the sum
  }
  if (max === -Infinity) max = 0
  let sum = 0
  for (let s = 0; s < count; s++) {
    const weight = exp(logits[s]! - max)
    logits[s] = weight
    sum += weight
  }
  const inverse = sum === 0 ? 0 : 1 / sum
  for (let s = 0; s < count; s++) logits[s] = logits[s]! * inverse
  return max + Math.log(sum)
}
