// Gives objects to a net, releases some and drops the others; prints what the net did and what it held.
const { setTimeout } = require('node:timers/promises')
const { Net } = require('../../dist/net')

const bytes = 1 << 20
const count = 20
const released = new Map()
const net = new Net(
  ({ name }) =>
    () =>
      released.set(name, (released.get(name) ?? 0) + 1),
)

class Held {
  elements = new Uint8Array(bytes)

  constructor(name) {
    this.name = name
    net.add(this)
  }

  release() {
    net.remove(this)
  }
}

/** Megabytes that live arrays hold. */
function megabytes() {
  // Arrays that a first collection found dead are given back by a second one.
  for (let i = 0; i < 2; i++) global.gc()
  return Math.round(process.memoryUsage().arrayBuffers / bytes)
}

/** How many microtasks a loop queues that makes and releases within one task. */
function microtasksOfLoop() {
  const { queueMicrotask } = globalThis
  let count = 0
  globalThis.queueMicrotask = (task) => {
    count++
    queueMicrotask(task)
  }
  for (let i = 0; i < 1000; i++) new Held(`loop ${i}`).release()
  globalThis.queueMicrotask = queueMicrotask
  return count
}

/** Makes objects and releases them, the first first or the last first. */
function releaseAll(order) {
  const all = Array.from({ length: count }, (_, i) => new Held(`${order} ${i}`))
  for (const held of order === 'first' ? all : all.reverse()) held.release()
}

function litter() {
  for (let i = 0; i < 100; i++) new Held(`dropped ${i}`)
}

/** What is released after it was watched. */
async function late() {
  const all = Array.from({ length: 100 }, (_, i) => new Held(`late ${i}`))
  await setTimeout(1)
  for (const held of all) held.release()
}

async function main() {
  const microtasks = microtasksOfLoop()
  const before = megabytes()
  const young = new Held('young')
  releaseAll('first')
  releaseAll('last')
  // Within the task that released them: only the one that is alive is held.
  const held = megabytes() - before
  young.release()
  litter()
  await late()
  // Finalizers run some time after a collection.
  for (let i = 0; i < 50 && released.size < 100; i++) {
    global.gc()
    await setTimeout(10)
  }
  for (let i = 0; i < 3; i++) {
    global.gc()
    await setTimeout(10)
  }
  console.log(JSON.stringify({ microtasks, held, released: [...released].sort() }))
}

main()
