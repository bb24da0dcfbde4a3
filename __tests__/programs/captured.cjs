// Captures functions and forgets all but one; prints how often each recording was given back, by the collector and by
// dispose(). On the CPU, which records nothing, the recordings are stand-ins.
const { setTimeout } = require('node:timers/promises')
const { capture, tensor } = require('../..')

const forgotten = 100
const x = tensor([1, 2], { device: process.argv[2] })
/** By the order of their making. */
const drops = []

const { backend } = x.storage
const record = backend.record.bind(backend)
backend.record = (body) => {
  const recorded = record(body) ?? standIn(body)
  const number = drops.push(0) - 1
  return {
    replay: () => recorded.replay(),
    drop: () => {
      drops[number]++
      recorded.drop()
    },
  }
}

function standIn(body) {
  body()
  return { replay() {}, drop() {} }
}

/** In a function of its own, so that no register keeps the last one. */
function litter() {
  for (let i = 0; i < forgotten; i++) capture((y) => y.cast('float16'), [x])
}

async function main() {
  const kept = capture((y) => y.cast('float16'), [x])
  litter()
  // Finalizers run some time after a collection.
  for (let i = 0; i < 50 && drops.slice(1).includes(0); i++) {
    global.gc()
    await setTimeout(10)
  }
  const collected = [...drops]
  kept.dispose()
  kept.dispose()
  console.log(JSON.stringify({ collected, disposed: drops }))
}

main()
