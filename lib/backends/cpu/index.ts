import { freemem, totalmem } from 'node:os'
import type {
  Backend,
  DeviceCsr,
  DeviceMemory,
  DeviceName,
  DeviceSegments,
  MlaSizes,
  MlaTensors,
} from '../../backend'
import { type DType, dtypes, narrow, type RawArray, widen } from '../../dtype'
import { DeviceError } from '../../errors'
import { poisonNewStorages, Storage } from '../../storage'
import { csrMax } from './csr_max'
import { gcnAggregate } from './gcn_aggregate'
import { mlaAttention } from './mla_attention'
import { segmentSoftmax } from './segment_softmax'

/**
 * The reference: plain loops in double precision over the elements as numbers. Half types are widened when read and
 * rounded once when written. A storage's buffer is the typed array of its dtype.
 */
class CpuBackend implements Backend {
  readonly device: DeviceName = 'cpu'
  readonly #live = { tensors: 0, bytes: 0 }

  allocate(dtype: DType, length: number): Storage {
    const array = newArray(dtype, length)
    if (poisonNewStorages) new Uint8Array(array.buffer).fill(0xff)
    return this.#adopt(dtype, array)
  }

  free(array: RawArray): void {
    this.#live.tensors--
    this.#live.bytes -= array.byteLength
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
      cachedBytes: 0,
      freeBytes: freemem(),
      totalBytes: totalmem(),
    }
  }

  emptyCache(): void {
    // Nothing is kept: arrays belong to the garbage collector.
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

  mlaAttention(tensors: MlaTensors, out: Storage, sizes: MlaSizes): void {
    const { q, kvLatent, wUpK, wUpV, qRope, kRope } = tensors
    const inputs = {
      q: numbers(q),
      kvLatent: numbers(kvLatent),
      wUpK: numbers(wUpK),
      wUpV: numbers(wUpV),
      qRope: qRope && numbers(qRope),
      kRope: kRope && numbers(kRope),
    }
    write(out, (values) => mlaAttention(inputs, sizes, values))
  }

  #adopt(dtype: DType, array: RawArray): Storage<RawArray> {
    this.#live.tensors++
    this.#live.bytes += array.byteLength
    return new Storage(this, dtype, array.length, array)
  }
}

export const cpuBackend: Backend = new CpuBackend()

function newArray(dtype: DType, length: number): RawArray {
  try {
    return new dtypes[dtype].array(length)
  } catch {
    const bytes = length * dtypes[dtype].bytes
    const message = `cpu is out of memory: asked for ${bytes} bytes, ${freemem()} free of ${totalmem()}`
    throw new DeviceError(message, 'ERR_DEVICE_OUT_OF_MEMORY')
  }
}

function rawOf(storage: Storage): RawArray {
  return storage.buffer as RawArray
}

function numbers(storage: Storage): Float32Array {
  return widen(storage.dtype, rawOf(storage)) as Float32Array
}

function indices(storage: Storage): Int32Array {
  return storage.buffer as Int32Array
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
