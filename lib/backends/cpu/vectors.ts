/**
 * Loops over rows of doubles. Several sums at a time are kept in local variables, which V8 holds in registers: a sum in
 * an array would be read and written at each step, and one alone waits for its last addition.
 */

/** out[outStart + i] += Σ weights[first + s]·rows[start + s·stride + i] over s < count, for i < width. */
export function addWeightedSum(
  weights: Float64Array,
  first: number,
  count: number,
  rows: Float64Array,
  start: number,
  stride: number,
  width: number,
  out: Float64Array,
  outStart: number,
): void {
  let i = 0
  for (; i + 8 <= width; i += 8) {
    const to = outStart + i
    let a = out[to]!
    let b = out[to + 1]!
    let c = out[to + 2]!
    let d = out[to + 3]!
    let e = out[to + 4]!
    let f = out[to + 5]!
    let g = out[to + 6]!
    let h = out[to + 7]!
    let at = start + i
    for (let s = first; s < first + count; s++) {
      const weight = weights[s]!
      a += weight * rows[at]!
      b += weight * rows[at + 1]!
      c += weight * rows[at + 2]!
      d += weight * rows[at + 3]!
      e += weight * rows[at + 4]!
      f += weight * rows[at + 5]!
      g += weight * rows[at + 6]!
      h += weight * rows[at + 7]!
      at += stride
    }
    out[to] = a
    out[to + 1] = b
    out[to + 2] = c
    out[to + 3] = d
    out[to + 4] = e
    out[to + 5] = f
    out[to + 6] = g
    out[to + 7] = h
  }
  for (; i < width; i++) {
    let sum = out[outStart + i]!
    for (let s = 0; s < count; s++) sum += weights[first + s]! * rows[start + s * stride + i]!
    out[outStart + i] = sum
  }
}

/** out[s] = Σ vector[first + i]·rows[start + s·stride + i] over i < length, for s < count. */
export function dots(
  vector: Float64Array,
  first: number,
  length: number,
  rows: Float64Array,
  start: number,
  stride: number,
  count: number,
  out: Float64Array,
): void {
  let s = 0
  for (; s + 4 <= count; s += 4) {
    let a = 0
    let b = 0
    let c = 0
    let d = 0
    const at0 = start + s * stride
    const at1 = at0 + stride
    const at2 = at1 + stride
    const at3 = at2 + stride
    for (let i = 0; i < length; i++) {
      const value = vector[first + i]!
      a += value * rows[at0 + i]!
      b += value * rows[at1 + i]!
      c += value * rows[at2 + i]!
      d += value * rows[at3 + i]!
    }
    out[s] = a
    out[s + 1] = b
    out[s + 2] = c
    out[s + 3] = d
  }
  for (; s < count; s++) {
    let sum = 0
    for (let i = 0; i < length; i++) sum += vector[first + i]! * rows[start + s * stride + i]!
    out[s] = sum
  }
}
