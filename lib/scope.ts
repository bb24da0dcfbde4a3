import { argumentError, describe } from './argument'

interface Disposable {
  dispose(): void
}

/** The innermost scope is the last one. */
const scopes: Set<Disposable>[] = []

/** Runs `body` outside of all scopes: what it makes belongs to somebody who disposes it. */
export function untracked<T>(body: () => T): T {
  scopes.push(new Set())
  try {
    return body()
  } finally {
    scopes.pop()
  }
}

/** Every new tensor reports here. */
export function trackInScope(tensor: Disposable): void {
  scopes.at(-1)?.add(tensor)
}

/**
 * What a synchronous function gives: anything but a promise. A generic function that hands on to `scope` a callback of
 * whatever result takes a `() => Synchronous<T>` too.
 */
export type Synchronous<T> = T extends { readonly then: (...args: never) => unknown } ? never : T

/** What is no promise as far as its constraint tells. A conditional type says nothing of a type that is still open. */
type NoPromise =
  | (object & { readonly then?: undefined })
  | string
  | number
  | bigint
  | boolean
  | symbol
  | null
  | undefined
  // biome-ignore lint/suspicious/noConfusingVoidType: what a function without a result gives.
  | void

/**
 * Runs `fn` and disposes every tensor made inside, except those in its result (a tensor, or arrays, plain
 * objects, maps and sets of them, however deep; not what other objects hold), which pass to the surrounding scope.
 * When `fn` throws, everything made inside is disposed.
 *
 * ```ts
 * const y = scope(() => gcnAggregate(graph, gcnAggregate(graph, x)))
 * ```
 *
 * @throws TypeError (`ERR_ARG_TYPE`) when `fn` is not a function, or is asynchronous or a generator: a scope ends when
 * `fn` returns, and those return before their work is done. Use `using` or `dispose()` there.
 */
export function scope<T>(fn: () => Synchronous<T>): T
/** The same in generic functions, for type parameters whose constraint is no promise. */
export function scope<T extends NoPromise>(fn: () => T): T
export function scope<T>(fn: () => T): T {
  if (typeof fn !== 'function') {
    throw argumentError('ERR_ARG_TYPE', 'scope', 'fn', 'be a function', describe(fn))
  }
  checkSynchronous('scope', fn)
  const made = new Set<Disposable>()
  const depth = scopes.push(made)
  let kept = new Set<unknown>()
  try {
    const result = fn()
    const found = reachable(result)
    const promises = [...found].filter(isThenable)
    if (promises.length > 0) {
      // The caller never gets the promises: a failure must not end the process as one that nobody handles.
      for (const promise of promises) Promise.resolve(promise).catch(() => {})
      const actual = 'a function that returns a promise'
      throw argumentError('ERR_ARG_TYPE', 'scope', 'fn', 'be synchronous', actual)
    }
    kept = found
    return result
  } finally {
    scopes.length = depth - 1
    for (const tensor of made) {
      if (kept.has(tensor)) trackInScope(tensor)
      else tensor.dispose()
    }
  }
}

/** Throws, before they run, for functions that return before their work is done. */
export function checkSynchronous(op: string, fn: unknown): void {
  const kind = Object.prototype.toString.call(fn)
  if (kind === '[object GeneratorFunction]') {
    throw argumentError('ERR_ARG_TYPE', op, 'fn', 'be synchronous', 'a generator function')
  }
  if (!kind.startsWith('[object Async')) return
  throw argumentError('ERR_ARG_TYPE', op, 'fn', 'be synchronous', 'an async function')
}

function isThenable(value: unknown): boolean {
  return (
    typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
  )
}

/** An object of literals or without a prototype, of whatever realm. */
export function isPlainObject(value: unknown): value is Record<string, never> {
  if (typeof value !== 'object' || value === null) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

/** The objects in a result: what arrays and plain objects hold, and other objects themselves. */
function reachable(value: unknown, seen = new Set<unknown>()): Set<unknown> {
  if (typeof value !== 'object' || value === null || seen.has(value)) return seen
  seen.add(value)
  if (Array.isArray(value) || isPlainObject(value))
    for (const item of Object.values(value)) reachable(item, seen)
  else if (value instanceof Map || value instanceof Set)
    for (const item of value.values()) reachable(item, seen)
  return seen
}
