/** Something that holds memory until it is released. */
interface Releasable {
  readonly isReleased: boolean
}

/** Objects that are watched together, and so the most that wait to be. */
const mostYoung = 64

/**
 * The net below `dispose()`: what is unreachable and was not released is released by the garbage collector.
 *
 * Most results are disposed soon after they were made, and to have the collector watch an object costs more than all
 * else about it. So new objects are held for a moment, to the end of the running task or until many have come, and only
 * those that live on are watched.
 */
export class Net<T extends Releasable> {
  readonly #young: T[] = []
  readonly #watched = new FinalizationRegistry<() => void>((release) => release())
  readonly #releaserOf: (object: T) => () => void

  /** @param releaserOf what releases the object; it must not refer to it, or the collector could never see it die */
  constructor(releaserOf: (object: T) => () => void) {
    this.#releaserOf = releaserOf
  }

  add(object: T): void {
    if (this.#young.length === 0) queueMicrotask(() => this.#watchYoung())
    if (this.#young.push(object) >= mostYoung) this.#watchYoung()
  }

  /** The object was released. */
  remove(object: T): void {
    // Nearly always it is the one that came last.
    if (this.#young.at(-1) === object) this.#young.pop()
    else this.#watched.unregister(object)
  }

  #watchYoung(): void {
    for (const object of this.#young.splice(0)) {
      if (!object.isReleased) this.#watched.register(object, this.#releaserOf(object), object)
    }
  }
}
