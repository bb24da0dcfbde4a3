import { argumentError } from './argument'

/**
 * What `capture()` is doing in this thread: nothing, a rehearsal of the function (which may bring graphs to the
 * device), or the recording itself (when nothing may move between host and device).
 */
type Phase = 'none' | 'rehearsal' | 'recording'

let phase: Phase = 'none'

/** The first refusal of the phase. */
let refusal: Error | undefined

/** What the recording touched that is not to be trusted afterwards. */
const touched = new Set<{ forget(): void }>()

/**
 * Tells that something was derived, or looked up, while recording. What was made then was only recorded, not
 * computed, so that all of it is forgotten when the recording ends, and made anew when it is next asked for.
 */
export function touchedByRecording(derived: { forget(): void }): void {
  touched.add(derived)
}

export function isRecording(): boolean {
  return phase === 'recording'
}

/** Runs `body` in a phase. Captures do not nest. */
export function during<T>(next: Exclude<Phase, 'none'>, body: () => T): T {
  refuseInCapture('capture', 'fn', 'not capture itself')
  phase = next
  try {
    return body()
  } finally {
    phase = 'none'
    refusal = undefined
    for (const derived of touched) derived.forget()
    touched.clear()
  }
}

/** Throws what was refused in this phase, which may have gone into a promise that nobody awaits. */
export function throwRefusal(): void {
  if (refusal !== undefined) throw refusal
}

/** Throws inside `capture()`: for what waits for the device, or is done once and not again at each replay. */
export function refuseInCapture(op: string, argument: string, expected: string): void {
  if (phase === 'none') return
  const error = argumentError('ERR_CAPTURE', op, argument, expected, 'a call inside it')
  refusal ??= error
  throw error
}
