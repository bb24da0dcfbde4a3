import { freemem, totalmem } from 'node:os'
import type {
  Backend,
  DeviceCsr,
  DeviceMemory,
  DeviceName,
  DeviceSegments,
  MlaAttention,
  MlaDecode,
  MlaKeys,
} from '../../backend'
import { type DType, dtypes, narrow, type RawArray, widen } from '../../dtype'
import { DeviceError } from '../../errors'
import { poisonNewStorages, Storage } from '../../storage'
import { ArrayCache } from './array_cache'
import { csrMax } from './csr_max'
import { gcnAggregate } from './gcn_aggregate'
import { mlaAttention } from './mla_attention'
import { mlaDecode } from './mla_decode'
import type { KeyArrays } from './mla_keys'
import { segmentSoftmax } from './segment_softmax'

/**
 * The reference: plain loops in double precision over the elements as numbers. Half types are widened when read and
 * rounded once when written. A storage's buffer is the typed array of its dtype.
 */
class CpuBackend implements Backend {
  readonly device: DeviceName = 'cpu'
  readonly #live = { tensors: 0, bytes: 0 }
  readonly #cache = new ArrayCache()

  allocate(dtype: DType, length: number): Storage {
    const array = this.#cache.take(dtype, length) ?? this.#newArray(dtype, length)
    if (poisonNewStorages) new Uint8Array(array.buffer).fill(0xff)
    return this.#adopt(dtype, array)
  }

  free(array: RawArray): void {
    this.#live.tensors--
    this.#live.bytes -= array.byteLength
    this.#cache.keep(array)
  }

  upload(dtype: DType, elements: RawArray): Storage {
    return this.#adopt(dtype, elements.slice())
  }

  download(storage: Storage): RawArray {
    return rawOf(storage).slice()
  }

  async downloadAsync(storage: Storage): Promise<RawArray> {
    return this.download(storage)
  }

  copy(from: Storage, to: Storage): void {
    rawOf(to).set(rawOf(from))
  }

  record(body: () => void): null {
    body()
    return null
  }

  memory(): DeviceMemory {
    return {
      device: this.device,
      ...this.#live,
      cachedBytes: this.#cache.bytes,
      freeBytes: freemem(),
      totalBytes: totalmem(),
    }
  }

  emptyCache(): void {
    this.#cache.clear()
  }

  synchronize(): void {
    // Every method has done its work when it returns.
  }

  cast(input: Storage, out: Storage): void {
    narrow(out.dtype, numbers(input), rawOf(out))
  }

  segmentSoftmax(segments: DeviceSegments, scores: Storage, out: Storage, heads: number): void {
    write(out, (values) => segmentSoftmax(indices(segments.rowPtr), numbers(scores), heads, values))
  }

  gcnAggregate(
    graph: DeviceCsr,
    x: Storage,
    dstDegrees: Storage,
    srcDegrees: Storage,
    out: Storage,
    features: number,
  ): void {
    const { rowPtr, colIdx } = graph
    const [dst, src] = [numbers(dstDegrees), numbers(srcDegrees)]
    write(out, (values) => {
      gcnAggregate(indices(rowPtr), indices(colIdx), numbers(x), dst, src, features, values)
    })
  }

  csrMax(
    graph: DeviceCsr,
    x: Storage,
    empty: number,
    out: Storage,
    winners: Storage | null,
    features: number,
  ): void {
    const { rowPtr, colIdx } = graph
    write(out, (values) => {
      const winning = winners && indices(winners)
      csrMax(indices(rowPtr), indices(colIdx), numbers(x), features, empty, values, winning)
    })
  }

  mlaAttention(call: MlaAttention, out: Storage, lse: Storage | null): void {
    const inputs = {
      q: numbers(call.q),
      qRope: call.qRope && numbers(call.qRope),
      wUpK: numbers(call.wUpK),
      wUpV: numbers(call.wUpV),
    }
    write(out, (values) => {
      mlaAttention(inputs, keyArrays(call.keys), call, values, lse && numbers(lse))
    })
  }

  mlaDecode(call: MlaDecode, out: Storage, lse: Storage | null): void {
    write(out, (values) => {
      mlaDecode(numbers(call.qLatent), keyArrays(call.keys), call, values, lse && numbers(lse))
    })
  }

  #newArray(dtype: DType, length: number): RawArray {
    const make = () => new dtypes[dtype].array(length)
    try {
      return make()
    } catch {
      this.#cache.clear()
    }
    try {
      return make()
    } catch {
      const bytes = length * dtypes[dtype].bytes
      const message = `cpu is out of memory: asked for ${bytes} bytes, ${freemem()} free of ${totalmem()}`
      throw new DeviceError(message, 'ERR_DEVICE_OUT_OF_MEMORY')
    }
  }

  #adopt(dtype: DType, array: RawArray): Storage<RawArray> {
    this.#live.tensors++
    this.#live.bytes += array.byteLength
    return new Storage(this, dtype, array.length, array)
  }
}

export const cpuBackend: Backend = new CpuBackend()

function rawOf(storage: Storage): RawArray {
  return storage.buffer as RawArray
}

function numbers(storage: Storage): Float32Array {
  return widen(storage.dtype, rawOf(storage)) as Float32Array
}

function indices(storage: Storage): Int32Array {
  return storage.buffer as Int32Array
}

function keyArrays(keys: MlaKeys): KeyArrays {
  return {
    kvLatent: numbers(keys.kvLatent),
    kRope: keys.kRope && numbers(keys.kRope),
    kvLengths: keys.kvLengths && indices(keys.kvLengths),
    blockTable: keys.blockTable && indices(keys.blockTable),
    numKeys: keys.numKeys,
    pageSize: keys.pageSize,
    numPages: keys.numPages,
    pagesPerSequence: keys.pagesPerSequence,
  }
}

/** Lets `compute` write numbers in single precision, in place where the dtype is that already. */
function write(out: Storage, compute: (values: Float32Array) => void): void {
  if (out.dtype === 'float32') {
    compute(out.buffer as Float32Array)
    return
  }
  const values = new Float32Array(out.length)
  if (poisonNewStorages) values.fill(NaN)
  compute(values)
  narrow(out.dtype, values, rawOf(out))
}
