import { capture, tensor } from 'warpgraph'
import { collectGarbage } from './garbage'
import { runProgram } from './programs/run'

test('the net holds no released object, and releases each that was dropped once', () => {
  const { stdout, stderr, code } = runProgram('net', [], { nodeArgs: ['--expose-gc'] })
  expect({ stderr, code }).toEqual({ stderr: '', code: 0 })
  const dropped = Array.from({ length: 100 }, (_, i) => [`dropped ${i}`, 1])
  expect(JSON.parse(stdout)).toEqual({ microtasks: 1, held: 1, released: dropped.sort() })
})

test('what was recorded is released with the captured function that nobody can call any more, or by dispose()', async () => {
  using x = tensor([1, 2], { device: 'cpu' })
  let dropped = 0
  const record = jest.spyOn(x.storage.backend, 'record').mockImplementation((body) => {
    body()
    return { replay() {}, drop: () => void dropped++ }
  })
  const double = (y: typeof x) => y.cast('float32')
  const kept = capture(double, [x])
  for (let i = 0; i < 100; i++) capture(double, [x])
  record.mockRestore()
  await collectGarbage(() => dropped > 90) // the last one may still be in a register
  expect(dropped).toBeGreaterThan(90)
  expect(dropped).toBeLessThanOrEqual(100)
  const before = dropped
  kept.dispose()
  kept.dispose()
  expect(dropped).toBe(before + 1)
})
