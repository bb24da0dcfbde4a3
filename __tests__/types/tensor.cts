// What the types of tensors promise, seen from CommonJS. Compiled, never run: see types.test.ts.
import warpgraph = require('warpgraph')

import type { Tensor } from 'warpgraph'

const { fromNdarray, scope, tensor } = warpgraph

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
declare function same<A, B>(answer: Same<A, B>): void

// The dtype follows the data, or the option.
const floats = tensor([1, 2])
same<typeof floats.dtype, 'float32'>(true)
same<typeof floats.dtype, 'int32'>(false)
const ints = tensor(Int32Array.of(1))
same<typeof ints.dtype, 'int32'>(true)
const longs = tensor(BigInt64Array.of(1n))
same<typeof longs.dtype, 'int32'>(true)
const doubles = tensor(Float64Array.of(1))
same<typeof doubles.dtype, 'float32'>(true)
const halves = tensor([1, 2], { dtype: 'float16' })
same<typeof halves.dtype, 'float16'>(true)
const cast = halves.cast('bfloat16')
same<typeof cast.dtype, 'bfloat16'>(true)
const bits = tensor(Uint16Array.of(1), { dtype: 'bfloat16', shape: [1] })
same<typeof bits, Tensor<'bfloat16', 1>>(true)
const numbers = tensor(Uint16Array.of(1), { dtype: 'int32' })
same<typeof numbers.dtype, 'int32'>(true)
// @ts-expect-error: bits or numbers, and bits of which dtype?
tensor(Uint16Array.of(1))
// @ts-expect-error: nor does a shape tell
tensor(Uint16Array.of(1), { shape: [1, 1] })
declare const someArray: Uint16Array | Float32Array
tensor(someArray, { dtype: 'float32' })
// @ts-expect-error: it may be one that tells no dtype
tensor(someArray)
// Functions of a user's own pass dtype and data on.
const zeros = <D extends 'float32' | 'int32'>(dtype: D) => tensor([0], { dtype })
same<ReturnType<typeof zeros<'int32'>>['dtype'], 'int32'>(true)
const fromBits = <D extends 'float16' | 'bfloat16'>(bits: Uint16Array, dtype: D) => tensor(bits, { dtype })
same<ReturnType<typeof fromBits<'float16'>>['dtype'], 'float16'>(true)
const asFloats = <T extends warpgraph.NumericArray>(data: T) => tensor(data, { dtype: 'float32' })
same<ReturnType<typeof asFloats<Int8Array>>['dtype'], 'float32'>(true)
const onCpu = <T extends number[] | Int32Array>(data: T) => tensor(data, { device: 'cpu' })
same<ReturnType<typeof onCpu<Int32Array>>['dtype'], 'int32'>(true)
// @ts-expect-error: no such dtype
tensor([1], { dtype: 'float64' })
// @ts-expect-error: no such dtype
floats.cast('int64')
// @ts-expect-error: strings are no numbers
tensor(['1'])
// @ts-expect-error: an option that does not exist
tensor([1], { type: 'int32' })

// The rank follows the shape.
const matrix = tensor([1, 2, 3, 4], { shape: [2, 2] })
same<typeof matrix, Tensor<'float32', 2>>(true)
same<typeof matrix.shape, readonly [number, number]>(true)
const scalar = tensor(1, { shape: [] })
same<typeof scalar, Tensor<'float32', 0>>(true)
const cube = matrix.reshape([1, -1, 2])
same<typeof cube, Tensor<'float32', 3>>(true)
same<ReturnType<typeof matrix.cast<'int32'>>, Tensor<'int32', 2>>(true)
const moved = matrix.to('cpu')
same<typeof moved, Tensor<'float32', 2>>(true)
const lengths: number[] = [2, 2]
const unknownRank = tensor([1, 2, 3, 4], { shape: lengths })
// Not known, so it fits every rank: the check is left to the call.
const asMatrix: Tensor<'float32', 2> = unknownRank
const asVector: Tensor<'float32', 1> = unknownRank
// @ts-expect-error: rank 2 is not rank 3
const asCube: Tensor<'float32', 3> = matrix
// @ts-expect-error: float32 is not float16
const asHalf: Tensor<'float16', 2> = matrix
const anyTensor: Tensor = matrix

// The arrays that come out follow the dtype.
same<ReturnType<typeof floats.dataSync>, Float32Array>(true)
same<ReturnType<typeof halves.dataSync>, Float32Array>(true)
same<ReturnType<typeof ints.dataSync>, Int32Array>(true)
same<ReturnType<typeof ints.data>, Promise<Int32Array>>(true)
// @ts-expect-error: the values of int32 are no Float32Array
const wrong: Promise<Float32Array> = ints.data()
// @ts-expect-error: a promise is no array
const early: Float32Array = floats.data()

// Tensors cannot be changed.
// @ts-expect-error: read-only
floats.dtype = 'int32'
// @ts-expect-error: read-only
matrix.shape[0] = 3
// @ts-expect-error: read-only
floats.size = 3
// @ts-expect-error: a tensor is made by tensor(), not by hand
const handmade: Tensor = { dtype: 'float32', shape: [1], size: 1, rank: 1, device: 'cpu' }

// @ts-expect-error: nor by its constructor
new warpgraph.Tensor()
// @ts-expect-error: nor with data
new warpgraph.Tensor([1, 2], [2])
class Mine extends warpgraph.Tensor {}
// @ts-expect-error: nor by another class
new Mine()
declare const something: unknown
if (something instanceof warpgraph.Tensor) something satisfies Tensor
// Its class can be handed to what takes one, such as a schema's check of instances.
// biome-ignore lint/suspicious/noExplicitAny: what `InstanceType` asks of a class.
declare function instanceOf<C extends abstract new (...args: any) => unknown>(type: C): InstanceType<C>
const instance: Tensor = instanceOf(warpgraph.Tensor)
const sameInstance: InstanceType<typeof warpgraph.Tensor> = matrix

// A scope gives what its function gives, unless that is a promise.
const kept = scope(() => ({ values: matrix, count: 1 }))
same<typeof kept, { values: Tensor<'float32', 2>; count: number }>(true)
const counted = scope(() => 1)
same<typeof counted, number>(true)
const nothing = scope(() => matrix.dispose())
same<typeof nothing, void>(true)
const pair: ['a' | 'b', Tensor?] = scope(() => ['a', matrix])
const some = scope(() => something)
same<typeof some, unknown>(true)
const maybe = scope(() => (counted > 1 ? matrix : null))
same<typeof maybe, Tensor<'float32', 2> | null>(true)
const ofGeneric = <D extends 'float32' | 'float16'>(t: Tensor<D, 2>) => scope(() => t.reshape([-1]))
same<ReturnType<typeof ofGeneric<'float16'>>, Tensor<'float16', 1>>(true)
const literals: { readonly mode: 'sum' | 'mean'; readonly pair: [number, Tensor] } = scope(() => ({
  mode: 'mean',
  pair: [1, matrix],
}))
const listed: readonly [Tensor, ...Tensor[]] = scope(() => [matrix, matrix])
const called: (x: number) => number = scope(() => (x) => x + 1)
const narrow: 'a' | 1 = scope(() => 'a')
// Generic functions give what their parameters hold, and what functions of theirs give, as long as that is no promise.
const sameOf = <T extends Tensor>(x: T) => scope(() => x)
same<ReturnType<typeof sameOf<Tensor<'int32', 1>>>, Tensor<'int32', 1>>(true)
const recordOf = <K extends string>(tensors: Record<K, Tensor>) => scope(() => tensors)
same<ReturnType<typeof recordOf<'a'>>, Record<'a', Tensor>>(true)
const objectOf = <O extends { hidden: Tensor }>(state: O) => scope(() => state)
same<ReturnType<typeof objectOf<{ hidden: Tensor; step: number }>>, { hidden: Tensor; step: number }>(true)
const memberOf = <M extends Record<string, Tensor>, K extends keyof M>(m: M, k: K): M[K] => scope(() => m[k])
same<ReturnType<typeof memberOf<{ a: Tensor<'int32', 1> }, 'a'>>, Tensor<'int32', 1>>(true)
class Layer<I, O extends Tensor> {
  constructor(readonly fn: (input: I) => O) {}
  run(input: I): O {
    return scope(() => this.fn(input))
  }
}
same<ReturnType<Layer<number, Tensor<'float32', 2>>['run']>, Tensor<'float32', 2>>(true)
// @ts-expect-error: an asynchronous function
scope(async () => matrix)
// @ts-expect-error: a promise
scope(() => matrix.data())
// @ts-expect-error: perhaps a promise
scope(() => (counted > 1 ? matrix : matrix.data()))
declare const thenable: { then(resolve: (t: Tensor) => void): void }
// @ts-expect-error: the promise of another library
scope(() => thenable)
// Functions of a user's own pass callbacks on.
function timed<T>(fn: () => warpgraph.Synchronous<T>): T {
  return scope(fn)
}
const passed = timed(() => matrix)
same<typeof passed, Tensor<'float32', 2>>(true)
// @ts-expect-error: an asynchronous function all the same
timed(async () => matrix)
function unbound<T>(fn: () => T): T {
  // @ts-expect-error: it may give a promise
  return scope(fn)
}

const view = { data: Int32Array.of(1), shape: [1], stride: [1], offset: 0 }
same<ReturnType<typeof fromNdarray<Int32Array>>['dtype'], 'int32'>(true)
fromNdarray(view, { dtype: 'float32' })
const bitView = { ...view, data: Uint16Array.of(1) }
const ofBits = fromNdarray(bitView, { dtype: 'float16' })
same<typeof ofBits.dtype, 'float16'>(true)
// @ts-expect-error: bits or numbers, and bits of which dtype?
fromNdarray(bitView)
// @ts-expect-error: not an ndarray
fromNdarray({ data: Int32Array.of(1) })

{
  using short = tensor([1])
  short.dispose()
}

export = {
  pair,
  instance,
  sameInstance,
  literals,
  listed,
  called,
  narrow,
  unbound,
  asMatrix,
  asVector,
  asCube,
  asHalf,
  anyTensor,
  wrong,
  early,
  handmade,
}
