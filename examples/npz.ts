import { readFileSync } from 'node:fs'
import { unzipSync } from 'fflate'
import Npyjs from 'npyjs'

/** One array of a NumPy `.npz` archive. */
export interface NpzArray {
  readonly data: Float32Array | Float64Array | Int32Array
  readonly shape: number[]
}

/** The arrays of a NumPy `.npz` archive, by name. */
export async function readNpz(path: string): Promise<Record<string, NpzArray>> {
  const npy = new Npyjs()
  const arrays: Record<string, NpzArray> = {}
  for (const [file, bytes] of Object.entries(unzipSync(readFileSync(path)))) {
    const { data, shape } = await npy.load(bytes.slice().buffer as ArrayBuffer)
    arrays[file.replace(/\.npy$/, '')] = { data: data as NpzArray['data'], shape }
  }
  return arrays
}
