import { expect as imported } from '@jest/globals'
import { csr, memory, segments, tensor } from 'warpgraph'
import { testDevices } from './devices'
import 'warpgraph/testing/jest'

describe.each(testDevices)('toBeCloseToTensor on %s', (device) => {
  const x = () =>
    tensor(
      [
        [1, 2],
        [3, 4],
      ],
      { device },
    )

  test.each([
    [
      'a tensor',
      tensor(
        [
          [1, 2],
          [3, 4],
        ],
        { device: 'cpu' },
      ),
    ],
    [
      'a tensor of another dtype',
      tensor(
        [
          [1, 2],
          [3, 4],
        ],
        { dtype: 'int32', device: 'cpu' },
      ),
    ],
    [
      'nested arrays',
      [
        [1, 2],
        [3, 4],
      ],
    ],
    ['rows', [new Float64Array([1, 2]), [3, 4]]],
    ['a typed array', new Float64Array([1, 2, 3, 4])],
    ['64-bit integers', new BigInt64Array([1n, 2n, 3n, 4n])],
  ])('passes: %s', (_, expected) => {
    expect(x()).toBeCloseToTensor(expected, { atol: 0 })
    expect(() => expect(x()).not.toBeCloseToTensor(expected, { atol: 0 })).toThrow(
      'the largest difference is 0',
    )
  })

  test('a scalar', () => {
    expect(tensor(3, { device })).toBeCloseToTensor(3)
    expect(tensor(3, { device })).not.toBeCloseToTensor([3])
  })

  test.each([
    [
      'a value',
      [
        [1, 2],
        [3, 4.5],
      ],
      'worst at [1, 1]: expected 4.5, received 4, difference 0.5, tolerance 0.25 (atol 0.25 + rtol 0·|expected|)',
    ],
    [
      'NaN expected',
      [
        [1, NaN],
        [3, 4],
      ],
      'elements that are NaN on one side only: 1, the first at [0, 1]',
    ],
    [
      '∞ expected',
      [
        [1, Infinity],
        [3, 4],
      ],
      'worst at [0, 1]: expected Infinity, received 2, difference Infinity, tolerance 0',
    ],
    ['a shape', [[1, 2, 3, 4]], 'expected shape [1, 4], received [2, 2]'],
    ['a flat array', [1, 2, 3, 4], 'expected shape [4], received [2, 2]'],
    ['a length', new Float32Array(3), 'expected 3 elements, received 4'],
  ])('fails: %s', (_, expected, message) => {
    expect(() => expect(x()).toBeCloseToTensor(expected, { atol: 0.25 })).toThrow(message)
    expect(x()).not.toBeCloseToTensor(expected, { atol: 0.25 })
  })

  test('NaN received, and NaN on both sides', () => {
    const nan = tensor([1, NaN], { device })
    const message = 'elements that are NaN on one side only: 1, the first at [1]'
    expect(() => expect(nan).toBeCloseToTensor([1, 2], { atol: 1e300, rtol: 1e300 })).toThrow(message)
    expect(nan).toBeCloseToTensor([1, NaN], { atol: 0 })
  })

  test('what is no tensor, or cannot be expected, fails also under `not`', () => {
    const untyped = (expected: unknown) => expected as number
    expect(() => expect([1]).toBeCloseToTensor([1])).toThrow(
      'received must be a Tensor, got an array of length 1',
    )
    expect(() => expect([1]).not.toBeCloseToTensor([1])).toThrow('received must be a Tensor')
    const what = 'expected must be a Tensor, a typed array, or numbers nested in arrays, got "1"'
    expect(() => expect(x()).not.toBeCloseToTensor(untyped('1'))).toThrow(what)
    const uneven = 'expected must be nested evenly, row 1 is not'
    expect(() => expect(x()).not.toBeCloseToTensor([[1, 2], [3]])).toThrow(uneven)
    expect(() => expect(x()).toBeCloseToTensor(x(), 1e-6 as unknown as object)).toThrow(
      'toBeCloseToTensor: tolerance must be an object { rtol?, atol? }, got number 0.000001',
    )
    expect(() => expect(x()).not.toBeCloseToTensor(1, { tol: 0 } as object)).toThrow(
      'toBeCloseToTensor: tolerance must have only rtol, atol, got "tol"',
    )
    expect(() => expect(x()).not.toBeCloseToTensor(1, { atol: NaN })).toThrow(
      'atol must be finite and at least 0',
    )
  })

  test('a disposed tensor is an error', () => {
    const gone = x()
    gone.dispose()
    expect(() =>
      expect(gone).toBeCloseToTensor([
        [1, 2],
        [3, 4],
      ]),
    ).toThrow('must be alive')
  })

  test('default tolerances are those of the dtype', () => {
    expect(tensor([1], { device })).toBeCloseToTensor([1 + 1e-5])
    expect(tensor([1], { device })).not.toBeCloseToTensor([1 + 2e-5])
    expect(tensor([1], { dtype: 'bfloat16', device })).toBeCloseToTensor([1.01])
    expect(tensor([1], { dtype: 'float16', device })).not.toBeCloseToTensor([1.01])
    expect(tensor([1], { dtype: 'int32', device })).not.toBeCloseToTensor([1 + 1e-9])
  })

  test('is the same for the expect of @jest/globals', () => {
    imported(x()).toBeCloseToTensor([
      [1, 2],
      [3, 4],
    ])
    expect(() =>
      imported(x()).toBeCloseToTensor([
        [1, 2],
        [3, 5],
      ]),
    ).toThrow('worst at [1, 1]')
  })

  test('lets toEqual see the elements', () => {
    const of = (values: number[], dtype: 'float32' | 'float16' = 'float32') =>
      tensor(values, { dtype, device })
    expect(of([1, NaN])).toEqual(of([1, NaN]))
    expect({ y: [of([1, 2])] }).toEqual({ y: [of([1, 2])] })
    expect(of([1, 2])).not.toEqual(of([1, 3]))
    expect(of([1, 2])).not.toEqual(of([1, NaN]))
    expect(of([1, 2])).not.toEqual(of([1, 2], 'float16'))
    expect(of([1, 2])).not.toEqual(of([1, 2]).reshape([2, 1]))
    expect(of([1])).not.toEqual([1])
  })

  test('lets toEqual see the edges', () => {
    expect(csr([0, 2], [0, 1], { numSrc: 2 })).toEqual(csr([0, 2], [0, 1], { numSrc: 2 }))
    expect(csr([0, 2], [0, 1], { numSrc: 2 })).not.toEqual(csr([0, 2], [0, 1], { numSrc: 3 }))
    expect(csr([0, 1, 2], [0, 1])).not.toEqual(csr([0, 1, 2], [1, 1]))
    expect(csr([0, 1, 2], [0, 1])).not.toEqual(csr([0, 2, 2], [0, 1]))
    expect(csr([0, 1, 2], [0, 1])).not.toEqual(segments([0, 1, 2]))
    expect({ y: [segments([0, 1, 2])] }).toEqual({ y: [segments([0, 1, 2])] })
    expect(segments([0, 1, 2])).not.toEqual(segments([0, 2, 2]))
    expect(segments([0])).not.toEqual([0])
  })

  test('makes nothing that stays', () => {
    const value = x()
    const before = memory(device).tensors
    expect(value).toBeCloseToTensor([
      [1, 2],
      [3, 4],
    ])
    expect(memory(device).tensors).toBe(before)
  })
})
