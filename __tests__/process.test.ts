import { notTested } from './absent'
import { onEachDevice, testDevices } from './devices'
import { runProgram } from './programs/run'

const opResults = {
  softmax: [expect.closeTo(1 / (1 + Math.exp(-2)), 6), expect.closeTo(1 / (1 + Math.exp(2)), 6), 0, 1],
  gcn: [0, 0, 5, -10],
  max: [0, 0, 1, -2],
  mla: [2],
  mlaDecode: [0, 2],
}

onEachDevice('onnxruntime#24579: exit', (device) => {
  test.each([
    ['natural end', 0, ''],
    ['process.exit()', 0, ''],
    ['process.exit() with a read in flight', 0, ''],
    ['process.exit() after a read', 0, ''],
    ['process.exit() in an exit handler', 0, ''],
    ['natural end with a read in flight', 0, '1 8192\n'],
    ['natural end with a read in flight of a disposed tensor', 0, '1 8192\n'],
    ['exit code set', 3, ''],
  ])('%s: exit code %i, no abort, no noise', (way, code, stdout) => {
    expect(runProgram('exit', [way, device])).toEqual({ code, signal: null, stdout, stderr: '' })
  })

  test.each(['uncaught throw', 'unhandled rejection'])('%s: exit code 1 and the error alone', (way) => {
    const { code, signal, stdout, stderr } = runProgram('exit', [way, device])
    expect({ code, signal, stdout }).toEqual({ code: 1, signal: null, stdout: '' })
    expect(stderr).toContain('Error: on purpose')
    expect(stderr).not.toMatch(/cuda|terminate called|Segmentation|FATAL/i)
    expect(stderr.trimEnd()).toMatch(/\n\nNode\.js v\S+$/)
  })

  test.each([
    ['natural end', 'worker exit: 0\n'],
    ['process.exit()', 'worker exit: 0\n'],
    ['process.exit() with a read in flight', 'worker exit: 0\n'],
    ['natural end with a read in flight', '1 8192\nworker exit: 0\n'],
    ['exit code set', 'worker exit: 3\n'],
    ['uncaught throw', 'worker error: on purpose\nworker exit: 1\n'],
  ])('inside a worker, %s: the process goes on and ends well', (way, stdout) => {
    expect(runProgram('exit', [way, device, 'worker'])).toEqual({ code: 0, signal: null, stdout, stderr: '' })
  })

  test('a worker terminated in the middle of its reads: the main thread computes on', () => {
    const { stdout, ...ended } = runProgram('terminate', [device])
    expect(ended).toEqual({ code: 0, signal: null, stderr: '' })
    // What the worker held on the device went with it.
    expect(JSON.parse(stdout)).toEqual({ left: 0, values: opResults })
  })
})

onEachDevice('tfjs#8388: worker threads', (device) => {
  test.each([
    ['sequential', 3],
    ['parallel', 4],
    ['with-main', 2],
  ])('%s: every thread computes every op', (order, threads) => {
    const { stdout, ...ended } = runProgram('workers', [device, order])
    expect(ended).toEqual({ code: 0, signal: null, stderr: '' })
    expect(JSON.parse(stdout)).toEqual(Array(threads).fill({ code: 0, results: opResults }))
  })
})

describe('on a GPU', () => {
  const gpu = testDevices.find((device) => device !== 'cpu')
  if (gpu === undefined) {
    notTested('the event loop while reading, out of memory and a lost device', 'no GPU')
    return
  }

  test('tfjs#600, onnxruntime#26968: the event loop turns while data() waits for queued work', () => {
    const { stdout, ...ended } = runProgram('event_loop', [gpu])
    expect(ended).toEqual({ code: 0, signal: null, stderr: '' })
    const { callMs, totalMs, timers, turns, right } = JSON.parse(stdout)
    expect(right).toBe(true)
    // There was work to wait for, the call did not wait for it, and timers ran all along.
    expect(totalMs).toBeGreaterThan(50)
    expect(callMs).toBeLessThan(totalMs / 4)
    expect(timers).toBeGreaterThan(totalMs / 20)
    expect(turns).toBeGreaterThan(timers)
  })

  test('node-llama-cpp#551: past device memory is a catchable error with figures, and work goes on', () => {
    const { stdout, ...ended } = runProgram('out_of_memory', [gpu])
    expect(ended).toEqual({ code: 0, signal: null, stderr: '' })
    const { beyond, afterwards, cached, half, moreDevice, held, released } = JSON.parse(stdout)
    const outOfMemory = {
      error: {
        name: 'DeviceError',
        code: 'ERR_DEVICE_OUT_OF_MEMORY',
        cudaName: 'cudaErrorMemoryAllocation',
        // The bytes asked for, those live, cached, free and total.
        message: expect.stringMatching(/csrMax|alloc/i),
      },
      next: 2,
    }
    expect(beyond).toEqual(outOfMemory)
    expect(beyond.error.message.match(/\d+(\.\d+)?/g).length).toBeGreaterThanOrEqual(4)
    // Only the small graph (its two arrays and its schedule's two) and the result that came after it are there.
    expect(afterwards).toBeLessThanOrEqual(5)
    expect(cached).toBeGreaterThanOrEqual(half)
    expect(moreDevice).toBe(gpu)
    expect(held).toEqual(outOfMemory)
    expect(released).toEqual({ error: null })
  })

  // A checker of memory accesses reports the fault that this program makes on purpose.
  if (process.env.CUDA_INJECTION64_PATH) notTested('a lost device', 'a checker of memory accesses is running')
  else {
    test('after a fault in a kernel every call says at once that the device is lost', () => {
      const { stdout, ...ended } = runProgram('device_lost', [])
      expect(ended).toEqual({ code: 0, signal: null, stderr: '' })
      const [fault, ...later] = JSON.parse(stdout)
      const cpu = later.pop()
      // Which of CUDA's names it gets depends on where the address lies.
      expect(fault.cudaName).toMatch(/^cudaError(IllegalAddress|InvalidAddressSpace|MisalignedAddress)$/)
      const lost = { name: 'DeviceError', code: 'ERR_DEVICE_LOST', cudaName: fault.cudaName }
      expect(fault).toMatchObject(lost)
      expect(later).toHaveLength(3)
      for (const call of later) {
        expect(call).toMatchObject({ ...lost, message: expect.stringContaining('lost to an earlier error') })
      }
      expect(cpu).toEqual({ value: 3 })
    })
  }
})
