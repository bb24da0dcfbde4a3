import { capture, type Tensor } from 'warpgraph'

/** Time per call, in µs: the median over repeats, and the fastest and slowest of them. */
export interface Timing {
  readonly medianUs: number
  readonly minUs: number
  readonly maxUs: number
  /** Calls per repeat. */
  readonly calls: number
  readonly repeats: number
}

const repeats = 9
const repeatMs = 50
const mostCalls = 10_000
/** Where a single call takes this long, fewer repeats do. */
const slowMs = 300
const slowRepeats = 3
/** V8 takes thousands of calls until it has compiled an op for good. */
const warmUpMs = 300

/**
 * The one way to time: warm up, then take the median, over repeats, of the time per call in a back-to-back loop. The
 * device is waited for before and after each loop, not within it.
 *
 * @param call queues the work and disposes its results
 * @param wait returns once the device has done all queued work
 * @param beforeEach is called before each repeat, outside of its time
 */
export function time(call: () => void, wait: () => void, beforeEach?: () => void): Timing {
  const estimate = warmUp(call, wait)
  const calls = Math.min(Math.max(Math.round(repeatMs / estimate), 1), mostCalls)
  const count = estimate > slowMs ? slowRepeats : repeats
  const perCall = Array.from({ length: count }, () => {
    beforeEach?.()
    return (loopMs(call, wait, calls) / calls) * 1000
  })
  return {
    medianUs: median(perCall),
    minUs: Math.min(...perCall),
    maxUs: Math.max(...perCall),
    calls,
    repeats: count,
  }
}

/** The middle one of an odd number of values. */
export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1]!
}

/** The time of one call that has work to do only once, in µs. */
export function timeOnce(call: () => void, wait: () => void): number {
  return loopMs(call, wait, 1) * 1000
}

/** Calls until compilers and caches have settled; the time of a call then, in ms. */
function warmUp(call: () => void, wait: () => void): number {
  const start = performance.now()
  let calls = 1
  let perCall = loopMs(call, wait, calls)
  while (performance.now() - start < warmUpMs) {
    // Longer loops by and by: single calls include the wait, and many queued at once would take too long.
    calls = Math.min(2 * calls, mostCalls, Math.max(1, Math.ceil(warmUpMs / 4 / perCall)))
    perCall = loopMs(call, wait, calls) / calls
  }
  return perCall
}

function loopMs(call: () => void, wait: () => void, calls: number): number {
  wait()
  const start = performance.now()
  for (let i = 0; i < calls; i++) call()
  wait()
  return performance.now() - start
}

const opsPerGraph = 20

/**
 * The time per op when `opsPerGraph` of them are replayed as one captured graph, which leaves out what a call costs on
 * the host.
 *
 * @param op one call; the first of its results is kept, the others are disposed
 */
export function timeCaptured(
  op: (inputs: readonly Tensor[]) => Tensor[],
  inputs: readonly Tensor[],
  wait: () => void,
): Timing {
  const replay = capture((...given: readonly Tensor[]) => {
    let kept: Tensor | undefined
    for (let i = 0; i < opsPerGraph; i++) {
      kept?.dispose()
      const [first, ...others] = op(given) as [Tensor, ...Tensor[]]
      for (const other of others) other.dispose()
      kept = first
    }
    return kept!
  }, inputs)
  try {
    const { medianUs, minUs, maxUs, ...counts } = time(() => void replay(...inputs), wait)
    const perOp = { medianUs: medianUs / opsPerGraph, minUs: minUs / opsPerGraph, maxUs: maxUs / opsPerGraph }
    return { ...perOp, ...counts }
  } finally {
    replay.dispose()
  }
}
