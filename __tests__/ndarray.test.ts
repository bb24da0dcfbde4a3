import { runInNewContext } from 'node:vm'
import ndarray from 'ndarray'
import { fromNdarray, type StridedArray, type Tensor, tensor } from 'warpgraph'
import { onEachDevice } from './devices'
import { runNode } from './programs/run'

/** Elements of a view read one by one through the ndarray package, in row-major order. */
function elementsOf(view: ndarray.NdArray<Float32Array>): number[] {
  const all: number[] = []
  const visit = (index: number[]): void => {
    if (index.length === view.shape.length) all.push(view.get(...index))
    else for (let i = 0; i < view.shape[index.length]!; i++) visit([...index, i])
  }
  visit([])
  return all
}

onEachDevice('ndarray', (device) => {
  const matrix = () => ndarray(Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3])
  const cube = () =>
    ndarray(
      Float32Array.from({ length: 24 }, (_, i) => i),
      [2, 3, 4],
    )

  test.each<[string, ndarray.NdArray<Float32Array>, number[], number[]]>([
    ['row-major', matrix(), [2, 3], [1, 2, 3, 4, 5, 6]],
    ['transposed', matrix().transpose(1, 0), [3, 2], [1, 4, 2, 5, 3, 6]],
    ['stepped', matrix().step(1, 2), [2, 2], [1, 3, 4, 6]],
    ['backwards', matrix().step(1, -1), [2, 3], [3, 2, 1, 6, 5, 4]],
    ['backwards both ways', matrix().step(-1, -1), [2, 3], [6, 5, 4, 3, 2, 1]],
    ['offset', matrix().lo(1, 1), [1, 2], [5, 6]],
    ['cut', matrix().hi(2, 1), [2, 1], [1, 4]],
    ['a column', matrix().pick(-1, 1), [2], [2, 5]],
    ['a single element', matrix().pick(1, 2), [], [6]],
    ['transposed, stepped and offset', matrix().transpose(1, 0).lo(1, 0).step(1, -1), [2, 2], [5, 2, 6, 3]],
    ['repeated by a stride of 0', ndarray(Float32Array.of(1, 2), [3, 2], [0, 1]), [3, 2], [1, 2, 1, 2, 1, 2]],
    ['empty', ndarray(new Float32Array(0), [0, 3]), [0, 3], []],
    ['empty in the last axis', ndarray(new Float32Array(0), [3, 0]), [3, 0], []],
  ])('flashinfer#1341: %s', (_, view, shape, values) => {
    const t = fromNdarray(view, { device })
    expect([t.dtype, t.device, t.shape, Array.from(t.dataSync())]).toEqual(['float32', device, shape, values])
  })

  test.each([
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
  ])('three axes in the order %i %i %i', (...order) => {
    const view = cube().transpose(...order)
    const t = fromNdarray(view, { device })
    expect([t.shape, Array.from(t.dataSync())]).toEqual([view.shape, elementsOf(view)])
    const cut = view.lo(1, 1, 1).step(1, -1, 1)
    expect(Array.from(fromNdarray(cut, { device }).dataSync())).toEqual(elementsOf(cut))
  })

  test('is a copy', () => {
    const view = matrix()
    const t = fromNdarray(view, { device })
    view.set(0, 0, 99)
    expect(Array.from(t.dataSync())).toEqual([1, 2, 3, 4, 5, 6])
  })

  test('other data: plain arrays, integers, bits, 64-bit integers, another realm', () => {
    const facts = (t: Tensor) => [t.dtype, Array.from(t.dataSync())]
    expect(facts(fromNdarray(ndarray([1, 2, 3, 4], [2, 2]).transpose(1, 0), { device }))).toEqual([
      'float32',
      [1, 3, 2, 4],
    ])
    const ints = ndarray(Int32Array.of(1, 2, 3, 4), [2, 2]).transpose(1, 0)
    expect(facts(fromNdarray(ints, { device }))).toEqual(['int32', [1, 3, 2, 4]])
    const doubles = ndarray(Float64Array.of(2049, 1, 1e9, -1), [2, 2]).transpose(1, 0)
    expect(facts(fromNdarray(doubles, { dtype: 'float16', device }))).toEqual([
      'float16',
      [2048, Infinity, 1, -1],
    ])
    const bits = ndarray(Uint16Array.of(0x3c00, 0x4000), [2]).step(-1)
    expect(facts(fromNdarray(bits, { dtype: 'float16', device }))).toEqual(['float16', [2, 1]])
    const long = { data: BigInt64Array.of(5n, -6n), shape: [2], stride: [-1], offset: 1 }
    expect(facts(fromNdarray(long, { device }))).toEqual(['int32', [-6, 5]])
    const foreign = { data: runInNewContext('Float32Array.of(7, 8)'), shape: [2], stride: [-1], offset: 1 }
    expect(facts(fromNdarray(foreign, { device }))).toEqual(['float32', [8, 7]])
  })

  test('bytes of a Buffer are numbers like others, without a deprecation warning', () => {
    const program = `
      const view = { data: Buffer.from([1, 2, 3]), shape: [3], stride: [-1], offset: 2 }
      const t = require('.').fromNdarray(view, { device: ${JSON.stringify(device)} })
      console.log(t.dtype, t.dataSync().join())`
    expect(runNode(['-e', program])).toEqual({ stdout: 'int32 3,2,1\n', stderr: '', code: 0, signal: null })
  })

  test('toNdarray() gives a row-major ndarray of its own', async () => {
    const t = tensor(
      [
        [1, 2, 3],
        [4, 5, 6],
      ],
      { device },
    )
    const view = await t.toNdarray()
    expect([view.shape, view.stride, view.offset]).toEqual([[2, 3], [3, 1], 0])
    expect([view.get(0, 2), view.get(1, 0)]).toEqual([3, 4])
    view.set(0, 0, 99)
    expect(Array.from(t.dataSync())).toEqual([1, 2, 3, 4, 5, 6])
    const back = fromNdarray(view.transpose(1, 0), { device })
    expect(await back.array()).toEqual([
      [99, 4],
      [2, 5],
      [3, 6],
    ])
  })

  test('toNdarray() of a number, of nothing and of integers', async () => {
    const one = await tensor(5, { device }).toNdarray()
    expect([one.shape, one.get()]).toEqual([[], 5])
    const none = await tensor([], { shape: [0, 4], device }).toNdarray()
    expect([none.shape, none.size]).toEqual([[0, 4], 0])
    const ints = await tensor(Int32Array.of(1, 2), { device }).toNdarray()
    expect(ints.data).toEqual(Int32Array.of(1, 2))
  })
})

const data = Float32Array.of(1, 2, 3, 4)
const isNdarray = 'be an ndarray over an array of numbers'

test.each<[string, unknown, string, 'TypeError' | 'RangeError', string]>([
  ['nothing', undefined, `${isNdarray}, got undefined`, 'TypeError', 'ERR_ARG_TYPE'],
  ['null', null, `${isNdarray}, got null`, 'TypeError', 'ERR_ARG_TYPE'],
  ['an array', [1, 2], `${isNdarray}, got an array of length 2`, 'TypeError', 'ERR_ARG_TYPE'],
  [
    'data of another kind',
    { data: 'ab', shape: [2], stride: [1], offset: 0 },
    `${isNdarray}, got Object`,
    'TypeError',
    'ERR_ARG_TYPE',
  ],
  ['no stride', { data, shape: [2], offset: 0 }, `${isNdarray}, got Object`, 'TypeError', 'ERR_ARG_TYPE'],
  [
    'past the end',
    { data, shape: [2, 3], stride: [3, 1], offset: 0 },
    'stay inside its data, got offsets 0 to 5 in 4 elements',
    'RangeError',
    'ERR_SHAPE',
  ],
  [
    'one past the end',
    { data, shape: [4], stride: [1], offset: 1 },
    'stay inside its data, got offsets 1 to 4 in 4 elements',
    'RangeError',
    'ERR_SHAPE',
  ],
  [
    'before the start',
    { data, shape: [3], stride: [-1], offset: 1 },
    'stay inside its data, got offsets -1 to 1 in 4 elements',
    'RangeError',
    'ERR_SHAPE',
  ],
  [
    'a far element of an otherwise short view',
    { data, shape: [1, 2], stride: [9, 9], offset: 0 },
    'stay inside its data, got offsets 0 to 9 in 4 elements',
    'RangeError',
    'ERR_SHAPE',
  ],
  [
    'a single element outside',
    { data, shape: [], stride: [], offset: 4 },
    'stay inside its data, got offsets 4 to 4 in 4 elements',
    'RangeError',
    'ERR_SHAPE',
  ],
])('a view is refused, never misread: %s', (_, view, message, name, code) => {
  expect(() => fromNdarray(view as StridedArray<Float32Array>, { device: 'cpu' })).toThrow(
    expect.objectContaining({ message: `fromNdarray: view must ${message}`, name, code }),
  )
})

test.each<[string, Partial<StridedArray<Float32Array>>]>([
  ['a fractional offset', { offset: 0.5 }],
  ['an offset of NaN', { offset: NaN }],
  ['a fractional stride', { shape: [3], stride: [0.5] }],
  ['strides that cancel their fractions', { shape: [2, 2], stride: [0.5, 0.5] }],
  ['fewer strides than axes', { shape: [2, 1], stride: [1] }],
  ['more strides than axes', { shape: [2], stride: [1, 1] }],
  ['a fractional length', { shape: [1.5] }],
  ['a negative length', { shape: [-1] }],
  ['a length that is no number', { shape: ['2'] as unknown as number[] }],
])('a view with %s is refused', (_, parts) => {
  const view = { data, shape: [1], stride: [1], offset: 0, ...parts }
  expect(() => fromNdarray(view, { device: 'cpu' })).toThrow(
    expect.objectContaining({
      message: expect.stringMatching(/^fromNdarray: view must /),
      code: expect.stringMatching(/^ERR_(SHAPE|ARG_VALUE|ARG_TYPE)$/),
    }),
  )
})

test.each([
  ['plain', [1, 2]],
  ['typed', Float32Array.of(1, 2)],
])('a view of more elements than memory has room for is refused: %s data', (_, elements) => {
  const view = { data: elements, shape: [1e6, 1e5], stride: [0, 0], offset: 0 }
  const room = 'have as many elements as memory has room for, got 100000000000 in shape [1000000, 100000]'
  expect(() => fromNdarray(view, { device: 'cpu' })).toThrow(
    expect.objectContaining({ message: `fromNdarray: data must ${room}`, code: 'ERR_SHAPE' }),
  )
})

test('an element of a view that is no number is refused, and its place in the data is named', () => {
  const view = { data: [1, '2' as unknown as number, 3], shape: [2], stride: [-1], offset: 2 }
  expect(() => fromNdarray(view, { device: 'cpu' })).toThrow(
    expect.objectContaining({
      message: 'fromNdarray: data must hold numbers, got string at index 1',
      code: 'ERR_ARG_TYPE',
    }),
  )
})
