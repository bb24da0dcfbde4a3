import './devices' // where WARPGRAPH_DEVICE asks for a GPU, its absence is a failure
import { loadAddon } from '../lib/backends/cuda/addon'
import { lengths } from '../lib/backends/cuda/schedule'
import type { BufferHandle, StructureHandle } from '../typings/addon'
import { notTested } from './absent'

// Every buffer, size and dtype of every op, replaced by a wrong one: the addon must refuse each before a kernel runs.

const { addon } = loadAddon()
const isUsable = addon !== null && addon.driverStatus().deviceCount > 0
if (!isUsable) notTested('the guards of the ops of the addon', 'no GPU')

const ops = [
  'cast',
  'dealRows',
  'segmentSoftmax',
  'gcnWeights',
  'gcnAggregate',
  'csrMax',
  'mlaAttention',
  'mlaDecode',
] as const
type Op = (typeof ops)[number]

/** The op as messages name it. */
const names: Partial<Record<Op, string>> = { dealRows: 'csr', gcnWeights: 'gcnAggregate' }
const nameOf = (op: Op) => names[op] ?? op

/** These take their arguments as the doubles of one ArrayBuffer. */
const inOneArray: readonly Op[] = ['mlaAttention', 'mlaDecode']

/** A right call: its arguments, and which of them are structures, buffers, sizes and the dtype. */
interface Call {
  readonly args: unknown[]
  readonly structures: readonly number[]
  readonly buffers: readonly number[]
  readonly sizes: readonly number[]
  /** Null when the op takes none. */
  readonly dtype: number | null
}

;(isUsable ? describe : describe.skip)('the ops of the addon', () => {
  const loaded = addon!
  // biome-ignore lint/suspicious/noExplicitAny: wrong arguments are the point
  const untyped = loaded as unknown as Record<Op, (...args: any[]) => void>
  const f32 = 0
  const held: BufferHandle[] = []
  const heldStructures: StructureHandle[] = []

  function hold(elements: Float32Array | Int32Array): BufferHandle {
    const handle = loaded.upload(0, elements)
    held.push(handle)
    return handle
  }

  const floats = (...values: number[]) => hold(Float32Array.from(values))
  const ints = (...values: number[]) => hold(Int32Array.from(values))

  afterEach(() => {
    for (const handle of held.splice(0)) loaded.release(handle)
    for (const handle of heldStructures.splice(0)) loaded.releaseStructure(handle)
  })

  /** Right arguments: a graph with row 0 whole and row 1 a hub of two pieces, as csrc/cuda/schedule.h lays it. */
  function structureArguments(): Parameters<typeof loaded.createStructure> {
    const items = ints(1, 1, 2, 0, 1, 2, 3, 0, 0, 0, 1, -1)
    const counts = Int32Array.of(3, 1, 2, 2, ...lengths.map(() => 2))
    return [2, 3, 2, ints(1, 0, 1), items, ints(1, 0, 2, 0), counts]
  }

  function structure(args = structureArguments()): StructureHandle {
    const handle = loaded.createStructure(...args)
    heldStructures.push(handle)
    return handle
  }

  function rightCall(op: Op): Call {
    const [x, out] = [floats(1, 2, 3, 4), floats(0, 0, 0, 0)]
    const two = () => floats(1, 1)
    // One sequence of two keys; or two sequences of a page each, one of them of length 0, all dimensions 1.
    const mlaKeys = [two(), two(), NaN, NaN, 2, 0, 0, 0]
    const many = () => hold(new Float32Array(32))
    const mlaPages = [many(), many(), ints(16, 0), ints(1, -1), 16, 16, 2, 1]
    const mlaSettings = [1, 1, NaN, 0, 0]
    const all: Record<Op, Call> = {
      cast: { args: [x, f32, out, f32, 4], structures: [], buffers: [0, 2], sizes: [4], dtype: 1 },
      dealRows: {
        // As in structureArguments; hubs may not be more than rows or pieces.
        args: [ints(0, 0, 3), ints(1, 0, 2, 0, 1, 0, 2, 0, 1, 2, 3, 0), hold(new Int32Array(12)), 2, 1, 2, 2],
        structures: [],
        buffers: [0, 1, 2],
        sizes: [3, 4, 5],
        dtype: null,
      },
      segmentSoftmax: {
        args: [structure(), floats(1, 2, 3), floats(0, 0, 0), f32, 1],
        structures: [0],
        buffers: [1, 2],
        sizes: [4],
        dtype: 3,
      },
      gcnWeights: {
        args: [structure(), two(), two(), ints(0, 0, 0, 0, 0, 0)],
        structures: [0],
        buffers: [1, 2, 3],
        sizes: [],
        dtype: null,
      },
      gcnAggregate: {
        args: [structure(), ints(0, 0, 1, 0, 0, 0), x, out, f32, 2],
        structures: [0],
        buffers: [1, 2, 3],
        sizes: [5],
        dtype: 4,
      },
      csrMax: {
        args: [structure(), x, out, ints(0, 0, 0, 0), f32, 2, -Infinity],
        structures: [0],
        buffers: [1, 2, 3],
        sizes: [5],
        dtype: 4,
      },
      mlaAttention: {
        args: [
          f32,
          two(),
          two(),
          ...mlaKeys,
          1,
          2,
          1,
          1,
          1,
          ...mlaSettings,
          two(),
          two(),
          floats(1),
          floats(1),
          1,
          1,
          0,
        ],
        structures: [],
        buffers: [1, 2, 3, 4, 21, 22, 23, 24],
        sizes: [7, 8, 9, 10, 11, 12, 13, 14, 15, 25, 26],
        dtype: 0,
      },
      mlaDecode: {
        args: [f32, two(), two(), ...mlaPages, 2, 1, 1, 1, 1, ...mlaSettings, floats(1, 1, 1, 1)],
        structures: [],
        buffers: [1, 2, 3, 4, 5, 6, 21],
        sizes: [7, 8, 9, 10, 11, 12, 13, 14, 15],
        dtype: 0,
      },
    }
    return all[op]
  }

  function released(): BufferHandle {
    const handle = loaded.allocate(0, 64)
    loaded.release(handle)
    return handle
  }

  /** What the op says to these arguments; undefined when it took them. */
  function answer(op: Op, args: readonly unknown[]): string | undefined {
    try {
      if (inOneArray.includes(op)) untyped[op](Float64Array.from(args as number[]).buffer)
      else untyped[op](...args)
      return undefined
    } catch (error) {
      return (error as Error).message
    }
  }

  test.each(ops)('%s takes the right call', (op) => {
    expect(answer(op, rightCall(op).args)).toBeUndefined()
    loaded.synchronize(0)
  })

  test.each(ops)('%s refuses a buffer that is dead, unknown or too small, wherever it stands', (op) => {
    const { args, buffers } = rightCall(op)
    const tiny = loaded.allocate(0, 1)
    held.push(tiny)
    // In an array everything is a number, and NaN may be the null of a buffer that need not be there.
    const others = inOneArray.includes(op) ? [] : [NaN, '1', undefined]
    for (const position of buffers) {
      for (const wrong of [tiny, released(), 987654321, -1, 0.5, ...others]) {
        expect(`${position} ${String(wrong)}: ${answer(op, args.with(position, wrong))}`).toContain(
          `: ${nameOf(op)}: `,
        )
      }
    }
    expect(answer(op, args)).toBeUndefined()
  })

  test.each(ops)('%s refuses a structure that is dead or unknown, or lacks what it needs', (op) => {
    const { args, structures } = rightCall(op)
    const dead = loaded.createStructure(...structureArguments())
    loaded.releaseStructure(dead)
    const withoutSources = structure(structureArguments().with(3, null) as never)
    for (const position of structures) {
      const lacking = op === 'segmentSoftmax' ? [] : [withoutSources]
      for (const wrong of [dead, 987654321, -1, NaN, '1', undefined, ...lacking]) {
        expect(`${String(wrong)}: ${answer(op, args.with(position, wrong))}`).toContain(`: ${nameOf(op)}: `)
      }
    }
    expect(answer(op, args)).toBeUndefined()
  })

  test('createStructure refuses buffers that are too small and counts that do not fit each other', () => {
    const right = structureArguments()
    const counts = right[6]
    const tiny = ints(1)
    const wrong = [
      right.with(0, -1),
      right.with(1, 4), // more edges than column indices
      right.with(3, tiny),
      right.with(4, tiny),
      right.with(5, tiny),
      right.with(4, released()),
      right.with(6, new Int32Array(3)),
      right.with(6, Float32Array.from(counts) as never),
      right.with(6, counts.with(0, 4)), // more items than there are
      right.with(6, counts.with(0, -1)),
      right.with(6, counts.with(1, 3)), // more hubs than pieces
      right.with(6, counts.with(2, 3)), // more pieces than long items
      right.with(6, counts.with(3, 3)), // a hub of more pieces than there are
      right.with(6, counts.with(4, 4)), // more long items than items
      right.with(6, counts.with(counts.length - 1, 3)), // more of the longest than of the long
    ]
    for (const args of wrong) expect(() => structure(args as never)).toThrow(/^csr: /)
    expect(() => structure(right)).not.toThrow()
  })

  test.each(ops)('%s refuses sizes that its buffers do not have, or that are no sizes', (op) => {
    const { args, sizes } = rightCall(op)
    for (const position of sizes) {
      const others = inOneArray.includes(op) ? [Infinity] : ['2', undefined]
      for (const wrong of [5, 2 ** 32 + 1, 2 ** 52, 2 ** 62, -1, 1.5, NaN, ...others]) {
        expect(`${position} ${String(wrong)}: ${answer(op, args.with(position, wrong))}`).toContain(
          `: ${nameOf(op)}: `,
        )
      }
    }
    // A product of sizes beyond 64 bits must not come out small.
    const huge = args.map((value, position) => (sizes.includes(position) ? 2 ** 52 : value))
    if (sizes.length > 0) expect(answer(op, huge)).toContain(`${nameOf(op)}: `)
    expect(answer(op, args)).toBeUndefined()
  })

  const withoutDType: readonly Op[] = ['dealRows', 'gcnWeights']

  test.each(ops.filter((op) => !withoutDType.includes(op)))('%s refuses what is no dtype', (op) => {
    const { args, dtype } = rightCall(op)
    const int32 = 3
    for (const wrong of [4, -1, NaN, 'float32', undefined, ...(op === 'cast' ? [] : [int32])]) {
      expect(`${String(wrong)}: ${answer(op, args.with(dtype!, wrong))}`).toContain(`: ${nameOf(op)}: `)
    }
  })

  test('the others take none', () => {
    expect(ops.filter((op) => rightCall(op).dtype === null)).toEqual(withoutDType)
  })

  test('dealRows refuses lengths that do not fit the keys that it sorts by', () => {
    const { args } = rightCall('dealRows')
    for (const wrong of [4095, 2 ** 32, -1, 1.5, NaN, '2', undefined]) {
      expect(answer('dealRows', args.with(6, wrong))).toContain('csr: ')
    }
    expect(answer('dealRows', args.with(6, 4094))).toBeUndefined()
  })

  test.each(inOneArray)('%s refuses settings that mean nothing', (op) => {
    const { args } = rightCall(op)
    const [causal, queryOffset, tf32, numSplits] = [17, 18, 19, 20]
    const wrongs: [number, unknown][] = [
      [causal, 2],
      [causal, NaN],
      [queryOffset, 0.5],
      [queryOffset, 2 ** 60],
      [tf32, -1],
      [tf32, NaN],
      [numSplits, -1],
      [numSplits, 1.5],
      [numSplits, NaN],
    ]
    for (const [position, wrong] of wrongs) {
      expect(`${position}: ${answer(op, args.with(position, wrong))}`).toContain(`: ${op}: `)
    }
    for (const many of [1025, 2 ** 31, 2 ** 32 + 1, 2 ** 52]) {
      const said = answer(op, args.with(numSplits, many))
      expect(said).toContain(`${op}: `)
      expect(said).toContain('at most 1024 splits')
    }
    for (const right of [args.with(queryOffset, -5), args.with(numSplits, 1024)]) {
      expect(answer(op, right)).toBeUndefined()
    }
    loaded.synchronize(0)
  })

  test.each(inOneArray)('%s refuses what is no ArrayBuffer of its doubles', (op) => {
    const right = Float64Array.from(rightCall(op).args as number[])
    const moved = right.slice().buffer
    structuredClone(moved, { transfer: [moved] })
    const wrongs = [right, right.slice(1).buffer, new ArrayBuffer(0), moved, null, 1, {}]
    for (const wrong of wrongs) expect(() => untyped[op](wrong)).toThrow(`${op}: argument 0 must be `)
    for (const count of [0, 2])
      expect(() => untyped[op](...Array(count).fill(right.buffer))).toThrow(`${op}: takes`)
  })

  test('mlaAttention refuses algorithms that it does not know', () => {
    const { args } = rightCall('mlaAttention')
    for (const wrong of [3, -1, 0.5, NaN]) {
      expect(answer('mlaAttention', args.with(27, wrong))).toContain('mlaAttention: ')
    }
  })

  test('after all those errors the device still computes', () => {
    const out = floats(9, 9, 9)
    loaded.segmentSoftmax(structure(), floats(5, 0, Math.log(3)), out, f32, 1)
    const into = new Float32Array(3)
    loaded.download(out, into)
    expect(Array.from(into)).toEqual([1, expect.closeTo(0.25, 6), expect.closeTo(0.75, 6)])
  })
})
