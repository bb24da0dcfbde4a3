import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { InputArray, Inputs } from './inputs'
import type { Workload } from './workloads'

/** Our times, as peers.py repeats them. */
export interface OurTimes {
  readonly wall_us: number
  readonly graph_us?: number
}

/**
 * Writes one workload in the form that peers.py reads: a folder with a manifest and raw little-endian arrays, ours
 * (`out`) among them.
 *
 * @returns the folder
 */
export function dumpWorkload(
  directory: string,
  workload: Workload,
  inputs: Inputs,
  out: Pick<InputArray, 'shape' | 'elements'>,
  ours: OurTimes,
): string {
  const folder = join(directory, workload.name.replaceAll('/', '_'))
  mkdirSync(folder, { recursive: true })
  const arrays: Record<string, InputArray> = { ...inputs.arrays, out: { ...out, dtype: workload.dtype } }
  const specs = Object.entries(arrays).map(([name, { dtype, shape, elements }]) => {
    const file = `${name}.bin`
    const { buffer, byteOffset, byteLength } = elements
    writeFileSync(join(folder, file), new Uint8Array(buffer, byteOffset, byteLength))
    return [name, { dtype, shape, file }]
  })
  const { name, op } = workload
  const manifest = { name, op, arrays: Object.fromEntries(specs), options: {}, ours }
  writeFileSync(join(folder, 'manifest.json'), JSON.stringify(manifest, null, 2))
  return folder
}
