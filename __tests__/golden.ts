import { join } from 'node:path'
import { type NpzArray, readNpz } from '../examples/npz'

/** One golden case: inputs in float32 or int32, the output in float64. */
export interface GoldenCase {
  readonly name: string
  readonly inputs: Readonly<Record<string, NpzArray>>
  readonly out: NpzArray
}

/**
 * The golden cases of an op from `fixtures/`: computed by PyTorch in float64 from the plain definitions of the ops.
 */
export async function goldenCases(op: string, file = 'golden_ops.npz'): Promise<GoldenCase[]> {
  const arrays = await readNpz(join(__dirname, 'fixtures', file))
  const cases = new Map<string, { inputs: Record<string, NpzArray>; out?: NpzArray }>()
  for (const [key, array] of Object.entries(arrays)) {
    const [keyOp, name, role, input] = key.split('/')
    if (keyOp !== op) continue
    const entry = cases.get(name!) ?? { inputs: {} }
    if (role === 'in') entry.inputs[input!] = array
    else entry.out = array
    cases.set(name!, entry)
  }
  return [...cases].map(([name, { inputs, out }]) => ({ name, inputs, out: out! }))
}

/** The elements of an int32 array. */
export function int32(array: NpzArray | undefined): Int32Array {
  return Int32Array.from(array!.data)
}

/** The elements of a float array, in single precision as they were given to the golden computation. */
export function float32(array: NpzArray | undefined): Float32Array {
  return Float32Array.from(array!.data)
}
