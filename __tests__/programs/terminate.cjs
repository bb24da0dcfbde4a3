// Terminates a worker from outside while its reads are in flight, then uses the device in the main thread.
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads')
const { memory } = require('../..')
const { holdWork, runOps } = require('./ops.cjs')

async function readForEver() {
  const { last } = holdWork(workerData)
  parentPort.postMessage('reading')
  for (;;) await Promise.all(Array.from({ length: 20 }, () => last.data()))
}

if (!isMainThread) {
  readForEver()
} else {
  const device = process.argv[2]
  const before = memory(device).tensors
  const worker = new Worker(__filename, { workerData: device })
  worker.once('message', async () => {
    await worker.terminate()
    const left = memory(device).tensors - before
    console.log(JSON.stringify({ left, values: await runOps(device) }))
  })
}
