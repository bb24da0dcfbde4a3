import { argumentError, describe, formatShape } from './argument'
import type { Backend, Recorded } from './backend'
import { checkIsTensor, checkSameDevice } from './check'
import { Net } from './net'
import { during, refuseInCapture, throwRefusal } from './recording'
import { checkSynchronous, isPlainObject, scope, untracked } from './scope'
import { release, type Storage } from './storage'
import { Tensor } from './tensor'

/** What a captured function may give: a tensor, or arrays and records of them. */
export type CapturedResult = Tensor | readonly CapturedResult[] | { readonly [name: string]: CapturedResult }

/** What a captured function that gives `O` must give, interfaces too. `apply` is what every function has. */
export type CapturedOf<O> =
  | Tensor
  | (object & { readonly [K in keyof O]: CapturedOf<O[K]> } & { readonly apply?: never })

/** A captured function. */
export interface Captured<I extends readonly Tensor[], O> {
  /**
   * Computes the function on new inputs of the example inputs' dtypes and shapes, on their device. The results are
   * valid until the next call, which disposes them; so are views of them (`reshape`, `cast` to their own dtype).
   */
  (...inputs: I): O
  /** Gives back the recorded work, its memory and the last results. */
  dispose(): void
  [Symbol.dispose](): void
}

/**
 * Records the ops that `fn` calls and replays them as one CUDA graph: one launch for all of them, where the launches
 * cost more than the work. On the CPU nothing is recorded, and a call calls `fn`.
 *
 * `fn` runs twice here, on copies of the example inputs, and on a GPU never again: what it does besides calling ops
 * happens then only, and the tensors and graphs that it uses besides its inputs are kept as they are. Both times it
 * must call the same ops. It must not read tensors, make them from data, be asynchronous or a generator.
 *
 * ```ts
 * using layer = capture((x) => gcnAggregate(graph, x), [x])
 * const y = layer(x2) // valid until the next call
 * ```
 *
 * @param exampleInputs tensors on one device
 * @throws TypeError (`ERR_ARG_TYPE`, `ERR_CAPTURE`, `ERR_DEVICE_MISMATCH`, `ERR_DISPOSED`); what `fn` throws. A call
 * throws TypeError (`ERR_ARG_TYPE`, `ERR_DTYPE`, `ERR_DEVICE_MISMATCH`, `ERR_DISPOSED`, `ERR_CAPTURE`) or RangeError
 * (`ERR_SHAPE`) for other inputs than the examples
 */
export function capture<const I extends readonly Tensor[], O extends CapturedOf<O>>(
  fn: (...inputs: I) => O,
  exampleInputs: I,
): Captured<I, O> {
  const op = 'capture'
  if (typeof fn !== 'function') throw argumentError('ERR_ARG_TYPE', op, 'fn', 'be a function', describe(fn))
  if (!Array.isArray(exampleInputs) || exampleInputs.length === 0) {
    const expected = 'be an array of at least one tensor'
    throw argumentError('ERR_ARG_TYPE', op, 'exampleInputs', expected, describe(exampleInputs))
  }
  checkSynchronous(op, fn)
  const named = exampleInputs.map((input, i): [string, Tensor] => {
    const name = `exampleInputs[${i}]`
    return [name, checkIsTensor(op, name, input)]
  })
  const [firstName, first] = named[0]!
  for (const [name, input] of named) checkSameDevice(op, name, input, firstName, first)
  const untyped = fn as unknown as (...inputs: Tensor[]) => CapturedResult
  return untracked(() => new CapturedFunction(untyped, exampleInputs, first.storage.backend)).callable<I, O>()
}

class CapturedFunction {
  /** Of those that recorded something: what nobody can call any more is released. */
  static readonly #net = new Net<CapturedFunction>((captured) => {
    const recorded = captured.#recorded!
    return () => recorded.drop()
  })

  readonly #fn: (...inputs: Tensor[]) => CapturedResult
  readonly #backend: Backend
  /** The inputs that the work was recorded on; each call's inputs are copied into them. */
  readonly #inputs: Tensor[] = []
  /** The results that the work was recorded into, and the tensors last given for them. */
  #recordedResult: CapturedResult | undefined
  #given: CapturedResult | undefined
  #recorded: Recorded | null = null
  #disposed = false

  constructor(fn: (...inputs: Tensor[]) => CapturedResult, examples: readonly Tensor[], backend: Backend) {
    this.#fn = fn
    this.#backend = backend
    try {
      for (const example of examples) this.#inputs.push(this.#ownInput(example))
      // Once for what happens on first use: graphs copied to the device, schedules made, mistakes found.
      during('rehearsal', () => scope(() => void this.#compute(this.#inputs)))
      this.#recorded = during('recording', () =>
        backend.record(() => {
          this.#recordedResult = this.#compute(this.#inputs)
        }),
      )
      // On the CPU nothing was recorded, and nothing rewrites what `fn` gave.
      if (this.#recorded === null) return
      CapturedFunction.#net.add(this)
      // A replay writes into the results, and what is derived from them must not be kept either.
      forEachTensor(this.#recordedResult!, (tensor) => {
        tensor.storage.isRewritten = true
      })
    } catch (error) {
      this.dispose()
      throw error
    }
  }

  callable<I extends readonly Tensor[], O>(): Captured<I, O> {
    const call = (...inputs: Tensor[]) => this.#call(inputs)
    return Object.assign(call, {
      dispose: () => this.dispose(),
      [Symbol.dispose]: () => this.dispose(),
    }) as unknown as Captured<I, O>
  }

  dispose(): void {
    this.#disposed = true
    if (this.#recorded !== null) {
      CapturedFunction.#net.remove(this)
      this.#recorded.drop()
      this.#recorded = null
    }
    for (const result of [this.#given, this.#recordedResult]) if (result) disposeAll(result)
    this.#given = undefined
    this.#recordedResult = undefined
    for (const input of this.#inputs.splice(0)) input.dispose()
  }

  #ownInput(example: Tensor): Tensor {
    const own = this.#copyOf(example.storage)
    own.isRewritten = true
    return new Tensor(own, example.lengths)
  }

  /** The result of `fn`, in tensors that no scope of its own disposes. */
  #compute(inputs: readonly Tensor[]): CapturedResult {
    const call = () => {
      const result = this.#fn(...inputs)
      throwRefusal()
      return result
    }
    return scope(() => sharedResult(scope(call)))
  }

  #call(inputs: Tensor[]): CapturedResult {
    const op = 'captured function'
    refuseInCapture(op, 'it', 'be called outside of capture()')
    if (this.#disposed) throw argumentError('ERR_DISPOSED', op, 'it', 'be alive', 'one that was disposed')
    this.#checkInputs(op, inputs)
    const given =
      this.#recorded === null ? during('rehearsal', () => this.#compute(inputs)) : this.#replay(inputs)
    // The last results may be this call's inputs: they go when they are no longer needed.
    if (this.#given) disposeAll(this.#given)
    this.#given = given
    return given
  }

  #replay(inputs: readonly Tensor[]): CapturedResult {
    const own = this.#inputs.map((input) => input.storage)
    release((keep) => {
      // Results may be the recorded inputs themselves; given back in another order they must not overwrite each other.
      const sources = inputs.map(({ storage }) =>
        own.includes(storage) ? keep(this.#copyOf(storage)) : storage,
      )
      for (const [i, source] of sources.entries()) this.#backend.copy(source, own[i]!)
    })
    this.#recorded!.replay()
    return sharedResult(this.#recordedResult!)
  }

  #copyOf(storage: Storage): Storage {
    const copy = this.#backend.allocate(storage.dtype, storage.length)
    this.#backend.copy(storage, copy)
    return copy
  }

  #checkInputs(op: string, inputs: readonly Tensor[]): void {
    if (inputs.length !== this.#inputs.length) {
      const expected = `be ${this.#inputs.length} tensors, as captured`
      throw argumentError('ERR_ARG_TYPE', op, 'inputs', expected, String(inputs.length))
    }
    for (const [i, own] of this.#inputs.entries()) {
      const name = `inputs[${i}]`
      const input = checkIsTensor(op, name, inputs[i])
      checkSameDevice(op, name, input, 'the captured input', own)
      if (input.dtype !== own.dtype) {
        throw argumentError('ERR_DTYPE', op, name, `have dtype ${own.dtype}, as captured`, input.dtype)
      }
      if (formatShape(input.shape) !== formatShape(own.shape)) {
        const expected = `have shape ${formatShape(own.shape)}, as captured`
        throw argumentError('ERR_SHAPE', op, name, expected, `shape ${formatShape(input.shape)}`)
      }
    }
  }
}

/** The result with other tensors on the same storages: to dispose them leaves those of `fn` alone. */
function sharedResult(result: CapturedResult): CapturedResult {
  return mapTensors(result, (tensor) => new Tensor(tensor.storage.retain(), tensor.lengths))
}

function disposeAll(result: CapturedResult): void {
  forEachTensor(result, (tensor) => tensor.dispose())
}

function forEachTensor(result: CapturedResult, visit: (tensor: Tensor) => void): void {
  mapTensors(result, (tensor) => {
    visit(tensor)
    return tensor
  })
}

/**
 * The result with each tensor replaced.
 *
 * @param around the arrays and records that hold this one: a result that holds itself has no end
 * @throws TypeError (`ERR_ARG_TYPE`) when it holds anything but tensors, arrays and plain records
 */
function mapTensors(
  result: CapturedResult,
  replace: (tensor: Tensor) => Tensor,
  around: readonly unknown[] = [],
): CapturedResult {
  if (result instanceof Tensor) return replace(result)
  const inner = (item: CapturedResult) => mapTensors(item, replace, [...around, result])
  if (!around.includes(result)) {
    if (Array.isArray(result)) return result.map(inner)
    if (isPlainObject(result)) {
      return Object.fromEntries(Object.entries(result).map(([name, item]) => [name, inner(item)]))
    }
  }
  const expected = 'return a tensor, or arrays or records of them'
  const actual = around.includes(result) ? 'a result that holds itself' : describe(result)
  throw argumentError('ERR_ARG_TYPE', 'capture', 'fn', expected, actual)
}
