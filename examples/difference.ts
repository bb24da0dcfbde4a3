/** The largest |a − b|. Equal infinities and NaN in both places differ by 0; NaN in one place counts as infinite. */
export function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return Infinity
  let largest = 0
  for (let i = 0; i < a.length; i++) {
    if (a[i] === b[i] || (Number.isNaN(a[i]) && Number.isNaN(b[i]))) continue
    const difference = Math.abs(a[i]! - b[i]!)
    largest = Math.max(largest, Number.isNaN(difference) ? Infinity : difference)
  }
  return largest
}
