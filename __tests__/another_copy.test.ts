import * as ours from 'warpgraph'
import { compareDevices } from 'warpgraph/testing'
import 'warpgraph/testing/jest'
import { argumentErrorWith } from './refused'

/** Of another installed copy of the package, as a test after `jest.resetModules()` has it too. */
let theirs = ours
jest.isolateModules(() => {
  theirs = require('warpgraph')
})

const make = ({ csr, tensor }: typeof ours) => ({
  graph: csr([0, 1], [0]),
  x: tensor([[1]], { shape: [1, 1], device: 'cpu' }),
  degrees: tensor([1], { shape: [1], device: 'cpu' }),
})
const [own, foreign] = [make(ours), make(theirs)]
const from = 'made by another copy of warpgraph'
const [aTensor, aGraph] = [`Tensor<float32> [1, 1], ${from}`, `Csr of 1 rows, 1 edges, ${from}`]
const { capture, csrMax, gcnAggregate, segmentSoftmax } = ours

test.each<[string, () => unknown]>([
  [`csrMax: x must be a Tensor, got ${aTensor}`, () => csrMax(own.graph, foreign.x)],
  [`csrMax: graph must be made by csr(), got ${aGraph}`, () => csrMax(foreign.graph, own.x)],
  [
    `segmentSoftmax: segments must be made by segments() or csr(), got ${aGraph}`,
    () => segmentSoftmax(foreign.graph, own.x),
  ],
  [
    `gcnAggregate: degrees must be a Tensor or { dst, src }, got Tensor<float32> [1], ${from}`,
    () => gcnAggregate(own.graph, own.x, { degrees: foreign.degrees }),
  ],
  [
    `capture: fn must return a tensor, or arrays or records of them, got ${aTensor}`,
    () => capture((_x) => foreign.x, [own.x]),
  ],
])('%s', (message, call) => {
  expect(call).toThrow(argumentErrorWith('ERR_ARG_TYPE', message))
})

test('compareDevices names it in what goes in and what comes out', async () => {
  await expect(compareDevices((y) => y, [foreign.x])).rejects.toThrow(`got ${aTensor} at "0"`)
  await expect(compareDevices(() => foreign.x, [own.x])).rejects.toThrow(`got ${aTensor}`)
})

test('the matchers name it, and toEqual takes it for equal to nothing of ours', () => {
  expect(() => expect(foreign.x).toBeCloseToTensor([[1]])).toThrow(
    `received must be a Tensor, got ${aTensor}`,
  )
  expect(() => expect(own.x).toBeCloseToTensor(foreign.x)).toThrow(`got ${aTensor}`)
  expect(own.x).not.toEqual(foreign.x)
  expect(own.graph).not.toEqual(foreign.graph)
  expect(foreign.graph).not.toEqual(own.graph)
})
