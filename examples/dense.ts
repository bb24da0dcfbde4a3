/**
 * The dense layers of a graph network in plain TypeScript: row-major matrices, sums in double precision, results
 * rounded to single precision once.
 */

export interface Matrix {
  readonly rows: number
  readonly cols: number
  /** rows × cols elements. */
  readonly data: Float32Array
}

/** A matrix in compressed sparse rows: row i has `values[k]` in column `colIdx[k]`, k from rowPtr[i] to rowPtr[i + 1]. */
export interface SparseMatrix {
  readonly rows: number
  readonly cols: number
  readonly rowPtr: Int32Array
  readonly colIdx: Int32Array
  readonly values: Float32Array
}

/** x · weightᵀ: x (N, in), weight (out, in) as PyTorch's `nn.Linear` keeps it, result (N, out). */
export function linear(x: Matrix, weight: Matrix): Matrix {
  checkWidths(x, weight)
  const data = new Float32Array(x.rows * weight.rows)
  for (let i = 0; i < x.rows; i++) {
    for (let o = 0; o < weight.rows; o++) {
      let sum = 0
      for (let k = 0; k < x.cols; k++) sum += x.data[i * x.cols + k]! * weight.data[o * x.cols + k]!
      data[i * weight.rows + o] = sum
    }
  }
  return { rows: x.rows, cols: weight.rows, data }
}

/** The same for sparse x: only its stored elements are visited. */
export function sparseLinear(x: SparseMatrix, weight: Matrix): Matrix {
  checkWidths(x, weight)
  const data = new Float32Array(x.rows * weight.rows)
  for (let i = 0; i < x.rows; i++) {
    for (let o = 0; o < weight.rows; o++) {
      let sum = 0
      for (let k = x.rowPtr[i]!; k < x.rowPtr[i + 1]!; k++) {
        sum += x.values[k]! * weight.data[o * x.cols + x.colIdx[k]!]!
      }
      data[i * weight.rows + o] = sum
    }
  }
  return { rows: x.rows, cols: weight.rows, data }
}

/** Each row divided by its sum; a row that sums to 0 is left as it is. */
export function normalizeRows(x: SparseMatrix): SparseMatrix {
  const values = x.values.slice()
  for (let i = 0; i < x.rows; i++) {
    const row = values.subarray(x.rowPtr[i]!, x.rowPtr[i + 1]!)
    const sum = row.reduce((a, b) => a + b, 0)
    if (sum !== 0) for (let k = 0; k < row.length; k++) row[k]! /= sum
  }
  return { ...x, values }
}

/** x plus the same bias (cols) in every row. */
export function addBias(x: Matrix, bias: Float32Array): Matrix {
  if (bias.length !== x.cols) throw new RangeError(`a bias of ${bias.length} for ${x.cols} columns`)
  return { ...x, data: x.data.map((value, i) => value + bias[i % x.cols]!) }
}

export function relu(x: Matrix): Matrix {
  return { ...x, data: x.data.map((value) => Math.max(value, 0)) }
}

export function elu(x: Matrix): Matrix {
  return { ...x, data: x.data.map((value) => (value < 0 ? Math.expm1(value) : value)) }
}

/** The column of each row's largest element, the first on ties. */
export function argmaxRows(x: Matrix): Int32Array {
  return Int32Array.from({ length: x.rows }, (_, i) => {
    const row = x.data.subarray(i * x.cols, (i + 1) * x.cols)
    return row.reduce((best, value, col) => (value > row[best]! ? col : best), 0)
  })
}

function checkWidths(x: { readonly cols: number }, weight: Matrix): void {
  if (x.cols !== weight.cols)
    throw new RangeError(`x has ${x.cols} columns, the weight is for ${weight.cols}`)
}
