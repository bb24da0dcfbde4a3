import './devices' // where WARPGRAPH_DEVICE asks for a GPU, its absence is a failure
import { loadAddon } from '../lib/backends/cuda/addon'
import type { BufferHandle, ScheduleArguments } from '../typings/addon'
import { notTested } from './absent'

// Every buffer, size and dtype of every op, replaced by a wrong one: the addon must refuse each before a kernel runs.

const { addon } = loadAddon()
const isUsable = addon !== null && addon.driverStatus().deviceCount > 0
if (!isUsable) notTested('the guards of the ops of the addon', 'no GPU')

const ops = [
  'cast',
  'segmentSoftmax',
  'gcnWeights',
  'gcnAggregate',
  'csrMax',
  'mlaAttention',
  'mlaDecode',
] as const
type Op = (typeof ops)[number]

/** The op as messages name it. */
const nameOf = (op: Op) => (op === 'gcnWeights' ? 'gcnAggregate' : op)

/** A right call: its arguments, and which of them are buffers, sizes and the dtype. */
interface Call {
  readonly args: unknown[]
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

  function hold(elements: Float32Array | Int32Array): BufferHandle {
    const handle = loaded.upload(0, elements)
    held.push(handle)
    return handle
  }

  const floats = (...values: number[]) => hold(Float32Array.from(values))
  const ints = (...values: number[]) => hold(Int32Array.from(values))

  afterEach(() => {
    for (const handle of held.splice(0)) loaded.release(handle)
  })

  /** The graph's row 0 whole, its row 1 as a hub of two pieces; the layout is that of csrc/cuda/schedule.h. */
  function schedule(): ScheduleArguments {
    const items = ints(1, 1, 2, 0, 1, 2, 3, 0, 0, 0, 1, -1)
    return [items, 3, ints(1, 0, 2, 0), 1, 2, 2]
  }

  function rightCall(op: Op): Call {
    const colIdx = ints(1, 0, 1)
    const [x, out] = [floats(1, 2, 3, 4), floats(0, 0, 0, 0)]
    const two = () => floats(1, 1)
    // One sequence of two keys; or two sequences of a page each, one of them of length 0, all dimensions 1.
    const mlaKeys = [two(), two(), null, null, 2, 0, 0, 0]
    const many = () => hold(new Float32Array(32))
    const mlaPages = [many(), many(), ints(16, 0), ints(1, -1), 16, 16, 2, 1]
    const mlaSettings = [1, true, null, false, 0]
    const all: Record<Op, Call> = {
      cast: { args: [x, f32, out, f32, 4], buffers: [0, 2], sizes: [4], dtype: 1 },
      segmentSoftmax: {
        args: [floats(1, 2, 3), floats(0, 0, 0), f32, 3, 1, ...schedule()],
        buffers: [0, 1, 5, 7],
        sizes: [3, 4, 6, 8, 9, 10],
        dtype: 2,
      },
      gcnWeights: {
        args: [colIdx, two(), two(), floats(0, 0, 0), 2, 3, 2, ...schedule()],
        buffers: [0, 1, 2, 3, 7, 9],
        sizes: [4, 5, 6, 8, 10, 11, 12],
        dtype: null,
      },
      gcnAggregate: {
        args: [colIdx, floats(1, 1, 1), x, out, f32, 2, 3, 2, 2, ...schedule()],
        buffers: [0, 1, 2, 3, 9, 11],
        sizes: [5, 6, 7, 8, 10, 12, 13, 14],
        dtype: 4,
      },
      csrMax: {
        args: [colIdx, x, -Infinity, out, ints(0, 0, 0, 0), f32, 2, 3, 2, 2, ...schedule()],
        buffers: [0, 1, 3, 4, 10, 12],
        sizes: [6, 7, 8, 9, 11, 13, 14, 15],
        dtype: 5,
      },
      mlaAttention: {
        args: [
          two(),
          two(),
          floats(1),
          floats(1),
          ...mlaKeys,
          two(),
          two(),
          f32,
          1,
          2,
          1,
          1,
          1,
          1,
          1,
          ...mlaSettings,
          0,
        ],
        buffers: [0, 1, 2, 3, 4, 5, 12, 13],
        sizes: [8, 9, 10, 11, 15, 16, 17, 18, 19, 20, 21],
        dtype: 14,
      },
      mlaDecode: {
        args: [floats(1, 1, 1, 1), ...mlaPages, two(), two(), f32, 2, 1, 1, 1, 1, ...mlaSettings],
        buffers: [0, 1, 2, 3, 4, 9, 10],
        sizes: [5, 6, 7, 8, 12, 13, 14, 15, 16],
        dtype: 11,
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
      untyped[op](...args)
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
    for (const position of buffers) {
      for (const wrong of [tiny, released(), 987654321, -1, NaN, '1', undefined]) {
        expect(`${position} ${String(wrong)}: ${answer(op, args.with(position, wrong))}`).toContain(
          `: ${nameOf(op)}: `,
        )
      }
    }
    expect(answer(op, args)).toBeUndefined()
  })

  test.each(ops)('%s refuses sizes that its buffers do not have, or that are no sizes', (op) => {
    const { args, sizes } = rightCall(op)
    for (const position of sizes) {
      for (const wrong of [5, 2 ** 32 + 1, 2 ** 52, 2 ** 62, -1, 1.5, NaN, '2', undefined]) {
        expect(`${position} ${String(wrong)}: ${answer(op, args.with(position, wrong))}`).toContain(
          `: ${nameOf(op)}: `,
        )
      }
    }
    // A product of sizes beyond 64 bits must not come out small.
    const huge = args.map((value, position) => (sizes.includes(position) ? 2 ** 52 : value))
    expect(answer(op, huge)).toContain(`${nameOf(op)}: `)
    expect(answer(op, args)).toBeUndefined()
  })

  test.each(ops.filter((op) => op !== 'gcnWeights'))('%s refuses what is no dtype it computes on', (op) => {
    const { args, dtype } = rightCall(op)
    const int32 = 3
    for (const wrong of [4, -1, NaN, 'float32', undefined, ...(op === 'cast' ? [] : [int32])]) {
      expect(`${String(wrong)}: ${answer(op, args.with(dtype!, wrong))}`).toContain(`: ${nameOf(op)}: `)
    }
  })

  test('mlaAttention refuses settings that mean nothing', () => {
    const { args } = rightCall('mlaAttention')
    const wrongs: [number, unknown][] = [
      [22, '1'],
      [23, 1],
      [24, 0.5],
      [24, 2 ** 60],
      [24, undefined],
      [25, null],
      [26, -1],
      [27, 3],
      [27, 'auto'],
    ]
    for (const [position, wrong] of wrongs) {
      expect(`${position}: ${answer('mlaAttention', args.with(position, wrong))}`).toContain(
        ': mlaAttention: ',
      )
    }
    expect(answer('mlaAttention', args.with(24, -5))).toBeUndefined()
  })

  test('after all those errors the device still computes', () => {
    const out = floats(9, 9, 9)
    loaded.segmentSoftmax(floats(5, 0, Math.log(3)), out, f32, 3, 1, ...schedule())
    const into = new Float32Array(3)
    loaded.download(out, into)
    expect(Array.from(into)).toEqual([1, expect.closeTo(0.25, 6), expect.closeTo(0.75, 6)])
  })
})
