/** Random numbers from a fixed seed, so that every run measures the same inputs. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** 32 random bits (mulberry32, by Tommy Ettinger, public domain). */
  bits(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return (mixed ^ (mixed >>> 14)) >>> 0
  }

  /** In [0, 1). */
  uniform(): number {
    return this.bits() / 2 ** 32
  }

  /** Normally distributed, mean 0, variance 1 (Box and Muller). */
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.uniform())) * Math.cos(2 * Math.PI * this.uniform())
  }

  /** Poisson distributed; large means by the normal distribution. */
  poisson(mean: number): number {
    if (mean > 60) return Math.max(0, Math.round(mean + Math.sqrt(mean) * this.normal()))
    const limit = Math.exp(-mean)
    let count = 0
    for (let product = this.uniform(); product > limit; product *= this.uniform()) count++
    return count
  }

  normals(length: number): Float32Array {
    const out = new Float32Array(length)
    for (let i = 0; i < length; i++) out[i] = this.normal()
    return out
  }

  shuffle(values: Int32Array): Int32Array {
    for (let i = values.length - 1; i > 0; i--) {
      const j = Math.floor(this.uniform() * (i + 1))
      const kept = values[i]!
      values[i] = values[j]!
      values[j] = kept
    }
    return values
  }
}
