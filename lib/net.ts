/** Objects that are watched together, and so the most that wait to be. */
const mostYoung = 64

/**
 * The net below `dispose()`: what is unreachable and was not released is released by the garbage collector.
 *
 * Most results are disposed soon after they were made, and to have the collector watch an object costs more than all
 * else about it. So new objects are held for a moment, to the end of the running task or until many have come, and only
 * those that live on are watched.
 */
export class Net<T extends object> {
  readonly #young: T[] = []
  readonly #watched = new FinalizationRegistry<() => void>((release) => release())
  readonly #releaserOf: (object: T) => () => void
  /** One microtask at a time: a loop that makes and releases in one task would queue one a round. */
  #isScheduled = false

  /** @param releaserOf what releases the object; it must not refer to it, or the collector could never see it die */
  constructor(releaserOf: (object: T) => () => void) {
    this.#releaserOf = releaserOf
  }

  add(object: T): void {
    if (!this.#isScheduled) this.#schedule()
    if (this.#young.push(object) >= mostYoung) this.#watchYoung()
  }

  /** The object was released. */
  remove(object: T): void {
    // Nearly always it is the last that came, or one of the last. It must not be held any longer: on the CPU it is the
    // memory.
    const young = this.#young
    if (young[young.length - 1] === object) {
      young.pop()
      return
    }
    const at = young.lastIndexOf(object)
    if (at >= 0) young.splice(at, 1)
    else this.#watched.unregister(object)
  }

  #schedule(): void {
    this.#isScheduled = true
    queueMicrotask(() => {
      this.#isScheduled = false
      this.#watchYoung()
    })
  }

  #watchYoung(): void {
    for (const object of this.#young.splice(0)) {
      this.#watched.register(object, this.#releaserOf(object), object)
    }
  }
}
