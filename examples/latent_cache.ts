import { type DeviceName, mlaDecode, scope, type Tensor, tensor } from 'warpgraph'

export interface CacheShape {
  readonly batch: number
  readonly heads: number
  readonly rank: number
  readonly ropeDim: number
  readonly pageSize: number
}

/** What one step of attention gives: (B, H, R) means of the latents. */
export interface Attended {
  readonly out: Float32Array
  /** From the call until the results were read. */
  readonly milliseconds: number
}

/**
 * The latents of all tokens so far, in pages, growing by a token per sequence and step.
 *
 * Tensors are immutable, so the cache has two parts. Full pages lie on the device and are sent again only when one more is
 * full; the page that is being written goes along with each step. A query attends to both, and the two results are one
 * mean, weighted by exp(lse).
 */
export class LatentCache {
  readonly shape: CacheShape
  readonly #device: DeviceName
  /** Tokens of each sequence. */
  length = 0
  /** Full pages, in the order of time: the pages of all sequences, then the next ones. */
  readonly #latentPages: Float32Array[] = []
  readonly #ropePages: Float32Array[] = []
  #sealed: {
    kvLatent: Tensor<'float32', 3>
    kRope: Tensor<'float32', 3>
    blockTable: Tensor<'int32', 2>
  } | null = null
  #openLatents: Float32Array
  #openRopes: Float32Array

  constructor(shape: CacheShape, device: DeviceName) {
    this.shape = shape
    this.#device = device
    this.#openLatents = new Float32Array(shape.batch * shape.pageSize * shape.rank)
    this.#openRopes = new Float32Array(shape.batch * shape.pageSize * shape.ropeDim)
  }

  /**
   * One more token of each sequence: latents (B, R) and the rotated parts of their keys (B, Dr). Gives the milliseconds it
   * took: once a page, the full pages are sent to the device.
   */
  append(latents: Float32Array, ropes: Float32Array): number {
    const start = performance.now()
    const { batch, rank, ropeDim, pageSize } = this.shape
    const row = this.length % pageSize
    for (let b = 0; b < batch; b++) {
      const at = b * pageSize + row
      this.#openLatents.set(latents.subarray(b * rank, (b + 1) * rank), at * rank)
      this.#openRopes.set(ropes.subarray(b * ropeDim, (b + 1) * ropeDim), at * ropeDim)
    }
    this.length++
    if (this.length % pageSize === 0) this.#seal()
    return performance.now() - start
  }

  /** qLatent (B, 1, H, R + Dr): softmax(scale·q·key)·latent over all tokens so far. */
  attend(qLatent: Tensor<'float32', 4>, scale: number): Attended {
    return scope(() => {
      const start = performance.now()
      const parts: { out: Tensor<'float32', 4>; lse: Tensor<'float32', 3> }[] = []
      if (this.#sealed) parts.push(mlaDecode(qLatent, this.#sealed, { scale, returnLse: true }))
      const open = this.#openPage()
      if (open) parts.push(mlaDecode(qLatent, open, { scale, returnLse: true }))
      const read = parts.map(({ out, lse }) => ({ out: out.dataSync(), lse: lse.dataSync() }))
      const milliseconds = performance.now() - start
      return { out: read.length === 1 ? read[0]!.out : merge(read, this.shape.rank), milliseconds }
    })
  }

  /** All tokens so far without pages: latents (B, length, R) and rotated parts (B, length, Dr). */
  contiguous(): { latents: Float32Array; ropes: Float32Array } {
    const { batch, rank, ropeDim, pageSize } = this.shape
    const collect = (pages: readonly Float32Array[], open: Float32Array, width: number) => {
      const all = new Float32Array(batch * this.length * width)
      for (let b = 0; b < batch; b++) {
        for (let s = 0; s < this.length; s++) {
          const page = Math.floor(s / pageSize) * batch + b
          const row = s % pageSize
          const [from, at] = page < pages.length ? [pages[page]!, row] : [open, b * pageSize + row]
          all.set(from.subarray(at * width, (at + 1) * width), (b * this.length + s) * width)
        }
      }
      return all
    }
    return {
      latents: collect(this.#latentPages, this.#openLatents, rank),
      ropes: collect(this.#ropePages, this.#openRopes, ropeDim),
    }
  }

  dispose(): void {
    if (this.#sealed === null) return
    for (const part of Object.values(this.#sealed)) part.dispose()
    this.#sealed = null
  }

  /** Moves the page that is full now to those on the device. */
  #seal(): void {
    const { batch, rank, ropeDim, pageSize } = this.shape
    for (let b = 0; b < batch; b++) {
      const [from, end] = [b * pageSize, (b + 1) * pageSize]
      this.#latentPages.push(this.#openLatents.slice(from * rank, end * rank))
      this.#ropePages.push(this.#openRopes.slice(from * ropeDim, end * ropeDim))
    }
    this.dispose()
    const numPages = this.#latentPages.length
    const perSequence = numPages / batch
    const device = this.#device
    // Entry j of sequence b is the page that was filled j-th.
    const table = Int32Array.from({ length: numPages }, (_, i) => {
      return (i % perSequence) * batch + Math.floor(i / perSequence)
    })
    this.#sealed = {
      kvLatent: tensor(joined(this.#latentPages), { shape: [numPages, pageSize, rank], device }),
      kRope: tensor(joined(this.#ropePages), { shape: [numPages, pageSize, ropeDim], device }),
      blockTable: tensor(table, { shape: [batch, perSequence], device }),
    }
  }

  /** The page that is being written, as a cache of its own; null when nothing is in it. */
  #openPage() {
    const { batch, rank, ropeDim, pageSize } = this.shape
    const filled = this.length % pageSize
    if (filled === 0) return null
    const device = this.#device
    return {
      kvLatent: tensor(this.#openLatents, { shape: [batch, pageSize, rank], device }),
      kRope: tensor(this.#openRopes, { shape: [batch, pageSize, ropeDim], device }),
      kvLengths: tensor(new Int32Array(batch).fill(filled), { shape: [batch], device }),
    }
  }
}

function joined(pages: readonly Float32Array[]): Float32Array {
  const all = new Float32Array(pages.length * pages[0]!.length)
  for (const [i, page] of pages.entries()) all.set(page, i * page.length)
  return all
}

/** Results over disjoint keys as one. With one query per sequence out (B, 1, H, R) and lse (B, H, 1) have equal rows. */
function merge(parts: readonly { out: Float32Array; lse: Float32Array }[], rank: number): Float32Array {
  const out = new Float32Array(parts[0]!.out.length)
  for (let row = 0; row * rank < out.length; row++) {
    const max = Math.max(...parts.map(({ lse }) => lse[row]!))
    const weights = parts.map(({ lse }) => Math.exp(lse[row]! - max))
    const total = weights.reduce((a, b) => a + b, 0)
    for (const [i, part] of parts.entries()) {
      const share = weights[i]! / total
      for (let r = row * rank; r < (row + 1) * rank; r++) out[r] = out[r]! + share * part.out[r]!
    }
  }
  return out
}
