import { runProgram } from './programs/run'

test('the net holds no released object, and releases each that was dropped once', () => {
  const { stdout, stderr, code } = runProgram('net', [], { nodeArgs: ['--expose-gc'] })
  expect({ stderr, code }).toEqual({ stderr: '', code: 0 })
  const dropped = Array.from({ length: 100 }, (_, i) => [`dropped ${i}`, 1])
  expect(JSON.parse(stdout)).toEqual({ microtasks: 1, held: 1, released: dropped.sort() })
})
