// Makes a kernel write outside every allocation, past lib/ and its checks, as a fault in a kernel would; then goes on.
const { tensor, csr, csrMax, memory } = require('../..')
const { loadAddon } = require('../../dist/backends/cuda/addon')
const { lengths } = require('../../dist/backends/cuda/schedule')

const { addon } = loadAddon()
const attempts = []

function attempt(call) {
  try {
    attempts.push({ value: call() })
  } catch ({ name, code, cudaName, message }) {
    attempts.push({ name, code, cudaName, message })
  }
}

const x = tensor([1, 2], { shape: [2, 1], device: 'cuda' })
const values = addon.upload(0, Float32Array.of(1))
const out = addon.allocate(0, 4)
// One item whose edges lie a terabyte beyond the scores.
const items = addon.upload(0, Int32Array.of(0, 2 ** 30, 2 ** 30 + 1, -1))
const hubs = addon.upload(0, new Int32Array(0))
const counts = Int32Array.of(1, ...new Int32Array(3 + lengths.length))
const structure = addon.createStructure(1, 1, 0, null, items, hubs, counts)
attempt(() => {
  addon.segmentSoftmax(structure, values, out, 0, 1)
  addon.synchronize(0)
})
attempt(() => x.dataSync()[0])
attempt(() => tensor([1], { device: 'cuda' }).size)
attempt(() => memory('cuda').bytes)
// The CPU is none the worse.
attempt(() => csrMax(csr([0, 1], [0]), tensor([[3]], { device: 'cpu' })).dataSync()[0])
console.log(JSON.stringify(attempts))
