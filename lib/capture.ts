import { argumentError, checkAlive, describe, formatShape } from './argument'
import type { Backend, Recorded } from './backend'
import { checkSameDevice } from './check'
import { during } from './recording'
import { scope, untracked } from './scope'
import { Tensor } from './tensor'

/** What a captured function may give: a tensor, or arrays and records of them. */
export type CapturedResult = Tensor | readonly CapturedResult[] | { readonly [name: string]: CapturedResult }

/** A captured function. */
export interface Captured<I extends readonly Tensor[], O extends CapturedResult> {
  /**
   * Computes the function on new inputs of the example inputs' dtypes and shapes, on their device. The results are
   * valid until the next call, which disposes them.
   */
  (...inputs: I): O
  /** Gives back the recorded work, its memory and the last results. */
  dispose(): void
  [Symbol.dispose](): void
}

/**
 * Records the ops that `fn` calls and replays them as one CUDA graph: one launch for all of them, where the launches
 * cost more than the work. On the CPU a call just calls `fn`.
 *
 * `fn` runs twice here, on copies of the example inputs, and never again: what it does besides calling ops happens
 * then only. Tensors and graphs that it uses besides its inputs are kept as they are. It must not read tensors, make
 * them from data or be asynchronous.
 *
 * ```ts
 * using layer = capture((x) => gcnAggregate(graph, x), [x])
 * const y = layer(x2) // valid until the next call
 * ```
 *
 * @param exampleInputs tensors on one device
 * @throws TypeError (`ERR_ARG_TYPE`, `ERR_CAPTURE`, `ERR_DEVICE_MISMATCH`, `ERR_DISPOSED`); what `fn` throws. A call
 * throws TypeError (`ERR_DTYPE`, `ERR_DEVICE_MISMATCH`) or RangeError (`ERR_SHAPE`) for other inputs than the examples
 */
export function capture<const I extends readonly Tensor[], O extends CapturedResult>(
  fn: (...inputs: I) => O,
  exampleInputs: I,
): Captured<I, O> {
  const op = 'capture'
  if (typeof fn !== 'function') throw argumentError('ERR_ARG_TYPE', op, 'fn', 'be a function', describe(fn))
  if (!Array.isArray(exampleInputs) || exampleInputs.length === 0) {
    const expected = 'be an array of at least one tensor'
    throw argumentError('ERR_ARG_TYPE', op, 'exampleInputs', expected, describe(exampleInputs))
  }
  const named = exampleInputs.map((input, i): [string, Tensor] => [
    `exampleInputs[${i}]`,
    aTensor(op, i, input),
  ])
  const backend = checkSameDevice(op, ...(named as [[string, Tensor], ...[string, Tensor][]]))
  const untyped = fn as unknown as (...inputs: Tensor[]) => O
  return untracked(() => new CapturedFunction(untyped, exampleInputs, backend)).callable()
}

function aTensor(op: string, index: number, value: unknown): Tensor {
  const name = `exampleInputs[${index}]`
  if (!(value instanceof Tensor))
    throw argumentError('ERR_ARG_TYPE', op, name, 'be a Tensor', describe(value))
  checkAlive(op, name, value)
  return value
}

class CapturedFunction<O extends CapturedResult> {
  readonly #fn: (...inputs: Tensor[]) => O
  readonly #backend: Backend
  /** The inputs that the work was recorded on; each call's inputs are copied into them. */
  readonly #inputs: Tensor[] = []
  /** The results that the work was recorded into, and the tensors last given for them. */
  #recordedResult: O | undefined
  #given: O | undefined
  #recorded: Recorded | null = null
  #disposed = false

  constructor(fn: (...inputs: Tensor[]) => O, examples: readonly Tensor[], backend: Backend) {
    this.#fn = fn
    this.#backend = backend
    try {
      for (const example of examples) this.#inputs.push(this.#ownInput(example))
      // Once for what happens on first use: graphs copied to the device, schedules made, mistakes found.
      during('rehearsal', () => scope(() => void sharedResult(fn(...this.#inputs))))
      this.#recorded = during('recording', () =>
        backend.record(() => {
          this.#recordedResult = scope(() => sharedResult(fn(...this.#inputs)))
        }),
      )
    } catch (error) {
      this.dispose()
      throw error
    }
  }

  callable<I extends readonly Tensor[]>(): Captured<I, O> {
    const call = (...inputs: Tensor[]) => this.#call(inputs)
    return Object.assign(call, {
      dispose: () => this.dispose(),
      [Symbol.dispose]: () => this.dispose(),
    }) as unknown as Captured<I, O>
  }

  dispose(): void {
    this.#disposed = true
    this.#recorded?.drop()
    this.#recorded = null
    for (const result of [this.#given, this.#recordedResult]) if (result) disposeAll(result)
    this.#given = undefined
    this.#recordedResult = undefined
    for (const input of this.#inputs.splice(0)) input.dispose()
  }

  #ownInput(example: Tensor): Tensor {
    const { storage } = example
    const own = this.#backend.allocate(storage.dtype, storage.length)
    own.isRewritten = true
    const tensor = new Tensor(own, example.shape)
    this.#backend.copy(storage, own)
    return tensor
  }

  #call(inputs: Tensor[]): O {
    const op = 'captured function'
    if (this.#disposed) throw argumentError('ERR_DISPOSED', op, 'it', 'be alive', 'one that was disposed')
    this.#checkInputs(op, inputs)
    if (this.#given) disposeAll(this.#given)
    this.#given = undefined
    if (this.#recorded === null) {
      // A backend that records nothing computes at once.
      this.#given = during('rehearsal', () => scope(() => sharedResult(this.#fn(...inputs))))
      return this.#given
    }
    for (const [i, input] of inputs.entries()) this.#backend.copy(input.storage, this.#inputs[i]!.storage)
    this.#recorded.replay()
    this.#given = sharedResult(this.#recordedResult!)
    return this.#given
  }

  #checkInputs(op: string, inputs: readonly Tensor[]): void {
    if (inputs.length !== this.#inputs.length) {
      const expected = `be ${this.#inputs.length} tensors, as captured`
      throw argumentError('ERR_ARG_TYPE', op, 'inputs', expected, String(inputs.length))
    }
    for (const [i, own] of this.#inputs.entries()) {
      const name = `inputs[${i}]`
      const input = inputs[i]
      if (!(input instanceof Tensor))
        throw argumentError('ERR_ARG_TYPE', op, name, 'be a Tensor', describe(input))
      checkAlive(op, name, input)
      checkSameDevice(op, ['the captured input', own], [name, input])
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
function sharedResult<O extends CapturedResult>(result: O): O {
  return mapTensors(result, (tensor) => new Tensor(tensor.storage.retain(), tensor.shape)) as O
}

function disposeAll(result: CapturedResult): void {
  mapTensors(result, (tensor) => {
    tensor.dispose()
    return tensor
  })
}

/** The result with each tensor replaced. @throws TypeError (`ERR_ARG_TYPE`) when it holds anything else */
function mapTensors(result: CapturedResult, replace: (tensor: Tensor) => Tensor): CapturedResult {
  if (result instanceof Tensor) return replace(result)
  if (Array.isArray(result)) return result.map((item) => mapTensors(item, replace))
  if (Object.prototype.toString.call(result) === '[object Object]') {
    const entries = Object.entries(result as object).map(([name, item]) => [name, mapTensors(item, replace)])
    return Object.fromEntries(entries)
  }
  const expected = 'return a tensor, or arrays or records of them'
  throw argumentError('ERR_ARG_TYPE', 'capture', 'fn', expected, describe(result))
}
