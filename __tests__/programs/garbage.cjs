// Drops tensors, views and graphs without disposing them; prints what is live before, with them, and afterwards.
const { setTimeout } = require('node:timers/promises')
const { csr, gcnAggregate, memory, tensor } = require('../..')

const device = process.argv[2]

function live() {
  const { tensors, bytes } = memory(device)
  return { tensors, bytes }
}

function litter() {
  for (let i = 0; i < 100; i++) {
    const graph = csr([0, 1, 2], [1, 0])
    const x = tensor([[1], [2]], { device })
    gcnAggregate(graph, x).reshape([2])
  }
}

async function main() {
  const before = live()
  litter()
  const made = live()
  let after = made
  // Finalizers run some time after a collection.
  for (let i = 0; i < 50 && after.tensors > before.tensors; i++) {
    global.gc()
    await setTimeout(10)
    after = live()
  }
  console.log(JSON.stringify({ before, made, after }))
}

main()
