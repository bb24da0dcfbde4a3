import { inspect } from 'node:util'
import { runInNewContext } from 'node:vm'
import {
  type DType,
  type NestedNumbers,
  type NumericArray,
  type SelfDescribing,
  Tensor,
  tensor,
} from 'warpgraph'
import { onEachDevice } from './devices'

onEachDevice('tensor()', (device) => {
  /** dtype, shape and elements of a tensor, in one comparison. */
  function facts(t: Tensor): [DType, number[], number[]] {
    return [t.dtype, Array.from(t.shape), Array.from(t.dataSync())]
  }

  test.each<[string, SelfDescribing | NestedNumbers, DType, number[], number[]]>([
    ['a number', 2.5, 'float32', [], [2.5]],
    ['an array', [1, 2, 3], 'float32', [3], [1, 2, 3]],
    ['an empty array', [], 'float32', [0], []],
    ['an array of empty arrays', [[], []], 'float32', [2, 0], []],
    [
      'a matrix',
      [
        [1, 2, 3],
        [4, 5, 6],
      ],
      'float32',
      [2, 3],
      [1, 2, 3, 4, 5, 6],
    ],
    ['rank 4', [[[[1], [2]]], [[[3], [4]]]], 'float32', [2, 1, 2, 1], [1, 2, 3, 4]],
    ['Float32Array', Float32Array.of(0.1, -Infinity), 'float32', [2], [Math.fround(0.1), -Infinity]],
    ['Float64Array, rounded', Float64Array.of(0.1, 1e300), 'float32', [2], [Math.fround(0.1), Infinity]],
    ['Int8Array', Int8Array.of(-128, 127), 'int32', [2], [-128, 127]],
    ['Uint8Array', Uint8Array.of(255), 'int32', [1], [255]],
    ['Uint8ClampedArray', Uint8ClampedArray.of(300), 'int32', [1], [255]],
    ['Int16Array', Int16Array.of(-32768), 'int32', [1], [-32768]],
    ['Int32Array', Int32Array.of(-2147483648, 2147483647), 'int32', [2], [-2147483648, 2147483647]],
    ['Uint32Array', Uint32Array.of(7), 'int32', [1], [7]],
    ['BigInt64Array', BigInt64Array.of(-5n, 2147483647n), 'int32', [2], [-5, 2147483647]],
    ['an empty typed array', new Float32Array(0), 'float32', [0], []],
    ['NaN and minus zero', [NaN, -0], 'float32', [2], [NaN, -0]],
  ])('infers dtype and shape of %s', (_, data, dtype, shape, values) => {
    using t = tensor(data, { device })
    expect(facts(t)).toEqual([dtype, shape, values])
    expect([t.rank, t.size, t.device]).toEqual([shape.length, values.length, device])
  })

  test.each<[string, NumericArray | NestedNumbers, DType, number[]]>([
    ['Uint16Array bits as float16', Uint16Array.of(0x3c00, 0xc000, 0x7bff), 'float16', [1, -2, 65504]],
    ['Uint16Array bits as bfloat16', Uint16Array.of(0x3f80, 0xc000, 0x4049), 'bfloat16', [1, -2, 3.140625]],
    ['Uint16Array values as float32', Uint16Array.of(0x3c00), 'float32', [0x3c00]],
    ['Uint16Array values as int32', Uint16Array.of(65535), 'int32', [65535]],
    ['numbers as float16, rounded', [2049, 65520, 1e-9], 'float16', [2048, Infinity, 0]],
    ['Float32Array as bfloat16, rounded', Float32Array.of(257, 0.5), 'bfloat16', [256, 0.5]],
    ['Int32Array as float32', Int32Array.of(16777217, 3), 'float32', [16777216, 3]],
    ['whole numbers as int32', [3, -0, -7], 'int32', [3, 0, -7]],
    ['Float64Array as int32', Float64Array.of(2147483647), 'int32', [2147483647]],
    ['BigUint64Array as int32', BigUint64Array.of(9n) as unknown as BigInt64Array, 'int32', [9]],
  ])('takes %s', (_, data, dtype, values) => {
    using t = tensor(data, { dtype, device })
    expect(facts(t)).toEqual([dtype, [values.length], values])
  })

  test('takes typed arrays and arrays of another realm', () => {
    const [floats, ints, nested] = runInNewContext(
      '[Float32Array.of(1.5, 2), BigInt64Array.of(3n), [[1, 2], [3, 4]]]',
    )
    expect(floats).not.toBeInstanceOf(Float32Array)
    expect(facts(tensor(floats, { device }))).toEqual(['float32', [2], [1.5, 2]])
    expect(facts(tensor(ints, { device }))).toEqual(['int32', [1], [3]])
    expect(facts(tensor(nested, { device }))).toEqual(['float32', [2, 2], [1, 2, 3, 4]])
  })

  test('takes a view into a larger buffer', () => {
    const whole = Float32Array.of(9, 1, 2, 9)
    expect(facts(tensor(whole.subarray(1, 3), { device }))).toEqual(['float32', [2], [1, 2]])
    const bits = Uint16Array.of(0, 0x3c00, 0).subarray(1, 2)
    expect(facts(tensor(bits, { dtype: 'float16', device }))).toEqual(['float16', [1], [1]])
  })

  test.each<[number[], number[]]>([
    [[6], [6]],
    [
      [2, 3],
      [2, 3],
    ],
    [
      [-1, 2],
      [3, 2],
    ],
    [
      [3, -1],
      [3, 2],
    ],
    [
      [1, -1, 1],
      [1, 6, 1],
    ],
  ])('shape %j of six elements is %j', (shape, full) => {
    using t = tensor([1, 2, 3, 4, 5, 6], { shape, device })
    expect(facts(t)).toEqual(['float32', full, [1, 2, 3, 4, 5, 6]])
  })

  test.each<[number[], number[]]>([
    [
      [0, 5],
      [0, 5],
    ],
    [
      [-1, 5],
      [0, 5],
    ],
  ])('shape %j of no elements is %j', (shape, full) => {
    using t = tensor([], { shape, device })
    expect(facts(t)).toEqual(['float32', full, []])
  })

  test('−1 beside a 0 could be anything, and is refused', () => {
    expect(() => tensor([], { shape: [3, 0, -1], device })).toThrow(
      'tensor: shape must divide 0 elements, got [3, 0, -1]',
    )
  })

  test('is immutable: neither the source nor what it gives reaches inside', async () => {
    const source = Float32Array.of(1, 2)
    using t = tensor(source, { device })
    source[0] = 9
    const given = await t.data()
    given[1] = 9
    t.dataSync().fill(9)
    expect(Array.from(t.dataSync())).toEqual([1, 2])
    expect(() => {
      ;(t.shape as unknown as number[])[0] = 7
    }).toThrow(TypeError)
    expect(t.shape).toEqual([2])
  })

  test.each(['dtype', 'shape', 'rank', 'size', 'device', 'disposed'] as const)('%s cannot be set', (name) => {
    using t = tensor([1, 2], { device })
    const before = t[name]
    expect(() => Object.assign(t, { [name]: 'int32' })).toThrow(TypeError)
    expect(t[name]).toEqual(before)
  })

  test('has no fields of its own that could be set', () => {
    using t = tensor([1, 2], { device })
    expect(Reflect.ownKeys(t)).toEqual([])
  })

  test('an int32 tensor is immutable as well', () => {
    const source = Int32Array.of(1, 2)
    using t = tensor(source, { device })
    source[0] = 9
    t.dataSync()[1] = 9
    expect(t.dataSync()).toEqual(Int32Array.of(1, 2))
  })

  test('data() has the array type of the dtype', async () => {
    for (const dtype of ['float32', 'float16', 'bfloat16'] as const) {
      using t = tensor([1], { dtype, device })
      expect(await t.data()).toEqual(Float32Array.of(1))
    }
    using i = tensor([1], { dtype: 'int32', device })
    expect(await i.data()).toEqual(Int32Array.of(1))
  })

  test('array() nests as deep as the rank', async () => {
    expect(await tensor(5, { device }).array()).toBe(5)
    expect(await tensor([], { device }).array()).toEqual([])
    expect(await tensor([], { shape: [2, 0], device }).array()).toEqual([[], []])
    expect(await tensor([], { shape: [0, 2], device }).array()).toEqual([])
    expect(await tensor([1, 2, 3, 4], { shape: [2, 1, 2], dtype: 'int32', device }).array()).toEqual([
      [[1, 2]],
      [[3, 4]],
    ])
  })

  test('item() gives the only element, whatever the rank', async () => {
    expect(await tensor(2.5, { device }).item()).toBe(2.5)
    expect(await tensor([[[7]]], { dtype: 'int32', device }).item()).toBe(7)
  })

  test('to() the same device shares the memory, to the CPU copies; each lives on by itself', () => {
    const t = tensor([[1, 2]], { dtype: 'float16', device })
    const same = t.to(device)
    const onCpu = t.to('cpu')
    t.dispose()
    expect(facts(same)).toEqual(['float16', [1, 2], [1, 2]])
    expect(facts(onCpu)).toEqual(['float16', [1, 2], [1, 2]])
    using back = onCpu.to(device)
    expect([same.device, onCpu.device, back.device]).toEqual([device, 'cpu', device])
    expect(facts(back)).toEqual(['float16', [1, 2], [1, 2]])
    same.dispose()
    onCpu.dispose()
  })

  test('cast() to its own dtype shares the memory and lives on', () => {
    const t = tensor([1, 2], { device })
    using same = t.cast('float32')
    t.dispose()
    expect(facts(same)).toEqual(['float32', [2], [1, 2]])
  })

  test('reshape() keeps the order, and either of the two may go first', () => {
    const t = tensor([1, 2, 3, 4, 5, 6], { shape: [2, 3], device })
    const r = t.reshape([3, -1])
    const flat = r.reshape([-1])
    r.dispose()
    expect(facts(t)).toEqual(['float32', [2, 3], [1, 2, 3, 4, 5, 6]])
    t.dispose()
    expect(facts(flat)).toEqual(['float32', [6], [1, 2, 3, 4, 5, 6]])
    flat.dispose()
    const one = tensor([5], { device }).reshape([])
    expect(facts(one)).toEqual(['float32', [], [5]])
  })

  test('reads in flight give the values although the tensor is disposed and its memory taken', async () => {
    const first = tensor(new Float32Array(100_000).fill(1), { device })
    const reading = first.data()
    first.dispose()
    using second = tensor(new Float32Array(100_000).fill(2), { device })
    expect((await reading).every((x) => x === 1)).toBe(true)
    expect((await second.data()).every((x) => x === 2)).toBe(true)
  })

  test('many reads of one tensor at once', async () => {
    using t = tensor([1, 2, 3], { device })
    const all = await Promise.all(Array.from({ length: 50 }, () => t.data()))
    expect(all).toEqual(Array.from({ length: 50 }, () => Float32Array.of(1, 2, 3)))
  })

  test('shows what it is', () => {
    const t = tensor([[1, 2]], { dtype: 'bfloat16', device })
    expect(String(t)).toBe('[object Tensor<bfloat16> [1, 2]]')
    const head = `Tensor<bfloat16> [1, 2] on ${device}`
    expect(inspect(t)).toBe(device === 'cpu' ? `${head} [ [ 1, 2 ] ]` : head)
    expect(inspect({ a: { t } }, { depth: 1 })).toContain(head)
    expect(inspect({ a: { b: { t } } }, { depth: 1 })).not.toContain('[ [ 1, 2 ] ]')
    t.dispose()
    expect(inspect(t)).toBe(`${head} (disposed)`)
  })

  test('a long tensor is shown short', () => {
    using t = tensor(new Float32Array(1000), { device })
    expect(inspect(t).length).toBeLessThan(200)
  })

  test('the prototype is printed too', () => {
    expect(inspect(Tensor.prototype)).toContain('Tensor')
  })
})
