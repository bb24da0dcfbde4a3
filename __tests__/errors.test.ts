import {
  csr,
  csrMax,
  DeviceError,
  device,
  emptyCache,
  fromNdarray,
  memory,
  setDefaultDevice,
  synchronize,
  Tensor,
  tensor,
} from 'warpgraph'
import { argumentError, describe as describeValue } from '../lib/argument'
import { onEachDevice } from './devices'
import { argumentErrorWith, refused } from './refused'

/** Functions as a program without types sees them. */
// biome-ignore lint/suspicious/noExplicitAny: wrong arguments are the point
type Untyped = (...args: any[]) => unknown
const make: Untyped = tensor
const AnyTensor = Tensor as unknown as new (...args: unknown[]) => Tensor
const deviceForms = "device must be 'cpu', 'cuda' or 'cuda:N'"
const isData = 'be a number, an array or a typed array (an ndarray goes to fromNdarray)'
/** An array as its sender is left with. */
function sent<A extends Float32Array | Uint16Array | Int32Array | BigInt64Array>(array: A): A {
  structuredClone(array.buffer, { transfer: [array.buffer as ArrayBuffer] })
  return array
}
const four = () => tensor([1, 2, 3, 4], { device: 'cpu' })

refused('ERR_ARG_TYPE', [
  [`tensor: data must ${isData}, got undefined`, () => make()],
  [`tensor: data must ${isData}, got "12"`, () => make('12')],
  [`tensor: data must ${isData}, got Object`, () => make({ data: [1], shape: [1] })],
  [`tensor: data must ${isData}, got ArrayBuffer`, () => make(new ArrayBuffer(4))],
  [`tensor: data must ${isData}, got Tensor<float32> [4]`, () => make(four())],
  ['tensor: data must hold numbers, got string at index 0', () => make(['1'])],
  ['tensor: data must hold numbers, got null at index 1', () => make([1, null])],
  ['tensor: data must hold numbers, got bigint at index 0', () => make([1n])],
  [
    'tensor: data must hold numbers, got string at index 3',
    () =>
      make([
        [1, 2],
        [3, '4'],
      ]),
  ],
  [
    'tensor: data must come with a dtype: float16 or bfloat16 for bits, float32 or int32 for numbers, got Uint16Array',
    () => make(Uint16Array.of(1)),
  ],
  [
    'tensor: data must have its elements, got an array whose buffer was transferred',
    () => make(sent(Float32Array.of(1, 2))),
  ],
  [
    'tensor: data must have its elements, got an array whose buffer was transferred',
    () => make(sent(Uint16Array.of(1)), { dtype: 'float16' }),
  ],
  [
    'csr: rowPtr must have its elements, got an array whose buffer was transferred',
    () => csr(sent(Int32Array.of(0, 1)), [0]),
  ],
  [
    'csr: colIdx must have its elements, got an array whose buffer was transferred',
    () => csr([0, 1], sent(BigInt64Array.of(0n))),
  ],
  ['tensor: data must hold numbers, got string at index 0', () => make(['1'], { dtype: 'int32' })],
  ['tensor: data must hold numbers, got an array of length 1 at index 1', () => make([[1], [[2]]])],
  ['new Tensor: data must be given to tensor() or fromNdarray(), got undefined', () => new AnyTensor()],
  [
    'new Tensor: data must be given to tensor() or fromNdarray(), got an array of length 2',
    () => new AnyTensor([1, 2], [2]),
  ],
  [
    'new Tensor: data must be given to tensor() or fromNdarray(), got Float32Array',
    () => new (class extends AnyTensor {})(Float32Array.of(1)),
  ],
  ['tensor: shape must be an array of lengths, got number 2', () => make([1, 2], { shape: 2 })],
  ['tensor: options must be an object, got an array of length 1', () => make([1, 2], [2])],
  ['tensor: options must be an object, got null', () => make([1, 2], null)],
  ['tensor: options must be an object, got "float16"', () => make([1, 2], 'float16')],
  [
    'fromNdarray: options must be an object, got null',
    () => (fromNdarray as Untyped)({ data: [1], shape: [1], stride: [1], offset: 0 }, null),
  ],
  [
    'reshape: shape must be an array of lengths, got undefined',
    () => four().reshape(undefined as unknown as number[]),
  ],
  [`device: ${deviceForms}, got number 0`, () => (device as Untyped)(0)],
  [`setDefaultDevice: ${deviceForms}, got undefined`, () => (setDefaultDevice as Untyped)(undefined)],
])

const endless: unknown[] = []
endless.push(endless)
const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)])
const shared = new Array(1e5).fill(new Array(1e6).fill(0))

refused('ERR_SHAPE', [
  ['tensor: data must be nested at most 64 deep, got deeper arrays', () => make(endless)],
  ['tensor: data must be nested at most 64 deep, got deeper arrays', () => make(nested(65))],
  [
    'tensor: data must have as many elements as memory has room for, got 100000000000 in shape [100000, 1000000]',
    () => make(shared),
  ],
  [
    'tensor: data must be nested evenly as [2, 2], got an array of length 1 in axis 1',
    () => make([[1, 2], [3]]),
  ],
  ['tensor: data must be nested evenly as [2, 1], got number 2 in axis 1', () => make([[1], 2])],
  [
    'tensor: data must be nested evenly as [2, 1, 1], got an array of length 2 in axis 2',
    () => make([[[1]], [[2, 3]]]),
  ],
  ['tensor: shape must be one of 3 elements, got [2, 2]', () => make([1, 2, 3], { shape: [2, 2] })],
  ['tensor: shape must be one of 3 elements, got []', () => make([1, 2, 3], { shape: [] })],
  ['tensor: shape must divide 3 elements, got [-1, 2]', () => make([1, 2, 3], { shape: [-1, 2] })],
  ['tensor: shape must divide 4 elements, got [-1, -1]', () => make([1, 2, 3, 4], { shape: [-1, -1] })],
  ['tensor: shape must divide 2 elements, got [-1, 0]', () => make([1, 2], { shape: [-1, 0] })],
  ['tensor: shape must hold integers of at least 0, got [-2]', () => make([1, 2], { shape: [-2] })],
  ['tensor: shape must hold integers of at least 0, got [1.5]', () => make([1, 2], { shape: [1.5] })],
  ['tensor: shape must hold integers of at least 0, got [2]', () => make([1, 2], { shape: ['2'] })],
  ['reshape: shape must be one of 4 elements, got [3]', () => four().reshape([3])],
  ['reshape: shape must divide 4 elements, got [-1, 3]', () => four().reshape([-1, 3])],
])

refused('ERR_ARG_VALUE', [
  ['tensor: data must hold integers within int32, got 1.5 at index 0', () => make([1.5], { dtype: 'int32' })],
  [
    'tensor: data must hold integers within int32, got NaN at index 1',
    () => make([0, NaN], { dtype: 'int32' }),
  ],
  [
    'tensor: data must hold integers within int32, got 2147483648 at index 0',
    () => make([2 ** 31], { dtype: 'int32' }),
  ],
  [
    'tensor: data must hold integers within int32, got -Infinity at index 0',
    () => make(Float32Array.of(-Infinity), { dtype: 'int32' }),
  ],
  [
    'tensor: data must hold integers within int32, got 4294967295 at index 1',
    () => make(Uint32Array.of(0, 2 ** 32 - 1)),
  ],
  [
    'tensor: data must hold integers within int32, got 9007199254740993 at index 0',
    () => make(BigInt64Array.of(2n ** 53n + 1n)),
  ],
  [
    'tensor: data must hold integers within int32, got 2147483648 at index 1',
    () => make(BigUint64Array.of(1n, 2n ** 31n)),
  ],
  [
    'tensor: options must have only shape, dtype, device, got "dType"',
    () => make([1, 2], { dType: 'int32' }),
  ],
  [`tensor: ${deviceForms}, got "gpu"`, () => tensor([1], { device: 'gpu' as never })],
  [`tensor: ${deviceForms}, got ""`, () => tensor([1], { device: '' as never })],
  [`to: ${deviceForms}, got "CPU"`, () => four().to('CPU' as never)],
  [`device: ${deviceForms}, got "cuda:"`, () => device('cuda:' as never)],
  [`device: ${deviceForms}, got "cuda:01"`, () => device('cuda:01')],
  [`device: ${deviceForms}, got "cuda:-1"`, () => device('cuda:-1')],
  [`device: ${deviceForms}, got " cpu"`, () => device(' cpu' as never)],
  [`memory: ${deviceForms}, got "cpu:0"`, () => memory('cpu:0' as never)],
  [`emptyCache: ${deviceForms}, got "x"`, () => emptyCache('x' as never)],
  [`synchronize: ${deviceForms}, got "cuda:1.5"`, () => synchronize('cuda:1.5')],
  [`setDefaultDevice: ${deviceForms}, got "tpu"`, () => setDefaultDevice('tpu' as never)],
])

refused('ERR_DTYPE', [
  [
    'tensor: dtype must be float32, float16, bfloat16, int32, got "float64"',
    () => make([1], { dtype: 'float64' }),
  ],
  [
    'tensor: dtype must be float32, float16, bfloat16, int32, got "toString"',
    () => make([1], { dtype: 'toString' }),
  ],
  [
    'tensor: dtype must be int32 for a BigInt64Array, got float32',
    () => make(BigInt64Array.of(1n), { dtype: 'float32' }),
  ],
  [
    'tensor: dtype must be int32 for a BigUint64Array, got float16',
    () => make(BigUint64Array.of(1n), { dtype: 'float16' }),
  ],
  [
    'cast: dtype must be float32, float16, bfloat16, int32, got "int64"',
    () => four().cast('int64' as 'int32'),
  ],
])

onEachDevice('item()', (name) => {
  test.each<[number[], string]>([
    [[1, 2], '[2]'],
    [[], '[0]'],
  ])('of %j is an error', async (values, shape) => {
    const message = `item: tensor must have one element, got shape ${shape}`
    await expect(tensor(values, { device: name }).item()).rejects.toEqual(
      argumentErrorWith('ERR_SHAPE', message),
    )
  })
})

test('ERR_ARG_TYPE, ERR_DTYPE, ERR_DEVICE_MISMATCH and ERR_DISPOSED are TypeErrors, the rest RangeErrors', () => {
  const codes = [
    'ERR_ARG_TYPE',
    'ERR_DTYPE',
    'ERR_DEVICE_MISMATCH',
    'ERR_DISPOSED',
    'ERR_ARG_VALUE',
    'ERR_SHAPE',
  ] as const
  const names = codes.map((code) => argumentError(code, 'op', 'x', 'be y', 'z'))
  expect(names.map(({ name, message }) => `${name} ${message}`)).toEqual([
    ...Array(4).fill('TypeError op: x must be y, got z'),
    ...Array(2).fill('RangeError op: x must be y, got z'),
  ])
  expect(names.map(({ code }) => code)).toEqual(codes)
})

test('a DeviceError is an Error with a name, a code and the name CUDA gives it', () => {
  const error = new DeviceError('lost', 'ERR_DEVICE_LOST', 'cudaErrorIllegalAddress')
  expect(error).toBeInstanceOf(Error)
  const { name, message, code, cudaName } = error
  expect({ name, message, code, cudaName }).toEqual({
    name: 'DeviceError',
    message: 'lost',
    code: 'ERR_DEVICE_LOST',
    cudaName: 'cudaErrorIllegalAddress',
  })
  expect(String(error)).toBe('DeviceError: lost')
})

test('values in messages are short and say what they are', () => {
  const values = [
    undefined,
    null,
    1,
    true,
    10n,
    'a',
    Symbol('s'),
    () => 1,
    [1, 2],
    {},
    new Map(),
    csr([0], []),
  ]
  expect(values.map(describeValue)).toEqual([
    'undefined',
    'null',
    'number 1',
    'boolean true',
    'bigint 10',
    '"a"',
    'symbol Symbol(s)',
    'a function',
    'an array of length 2',
    'Object',
    'Map',
    'Csr of 0 rows, 0 edges',
  ])
  expect(describeValue(Promise.resolve())).toBe('a Promise (is an await missing?)')
})

test('a result beyond what the CPU can hold is a DeviceError with the bytes asked for, and nothing is lost', () => {
  const before = memory('cpu').tensors
  const x = tensor(new Float32Array(1 << 20), { shape: [1, 1 << 20], device: 'cpu' })
  const graph = csr(new Int32Array((1 << 20) + 1), [], { numSrc: 1 })
  expect(() => csrMax(graph, x)).toThrow(
    expect.objectContaining({
      name: 'DeviceError',
      code: 'ERR_DEVICE_OUT_OF_MEMORY',
      message: expect.stringMatching(/\d/),
    }),
  )
  x.dispose()
  graph.dispose()
  expect(memory('cpu').tensors).toBe(before)
})
