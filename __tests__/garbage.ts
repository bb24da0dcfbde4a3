import { setTimeout as delay } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Far longer than finalizers wait on a busy machine. */
const mostMs = 10_000

/**
 * Collects what earlier tests left, and lets its finalizers run: whoever counts live tensors across tasks would count them
 * too. Finalizers run in tasks of their own, some time after the collection: so until `done` says so, or, without it,
 * those of an object made here have run.
 */
export async function collectGarbage(done?: () => boolean): Promise<void> {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  let finalized = false
  const registry = new FinalizationRegistry(() => {
    finalized = true
  })
  registry.register({}, undefined)
  const end = Date.now() + mostMs
  for (let round = 0; round < 3 || (!(done ?? (() => finalized))() && Date.now() < end); round++) {
    collect()
    await delay(2)
  }
}
