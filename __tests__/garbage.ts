import { setImmediate as nextTask } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Collects what earlier tests left, and lets its finalizers run: whoever counts live tensors across tasks would count them
 * too.
 */
export async function collectGarbage(): Promise<void> {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  for (let round = 0; round < 3; round++) {
    collect()
    await nextTask()
  }
}
