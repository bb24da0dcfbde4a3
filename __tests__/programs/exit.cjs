// Ends in the way that the first argument names, with tensors alive and work queued on the device of the second.
const { Worker, isMainThread, workerData } = require('node:worker_threads')
const { holdWork } = require('./ops.cjs')

const ways = {
  'natural end': () => {},
  'process.exit()': () => process.exit(0),
  'process.exit() with a read in flight': ({ last }) => {
    last.data()
    process.exit(0)
  },
  'process.exit() after a read': async ({ last }) => {
    await last.data()
    process.exit(0)
  },
  'natural end with a read in flight': ({ last }) => {
    last.data().then((values) => console.log(values[0], values.length))
  },
  'natural end with a read in flight of a disposed tensor': ({ last }) => {
    last.data().then((values) => console.log(values[0], values.length))
    last.dispose()
  },
  'process.exit() in an exit handler': () => process.on('exit', () => process.exit(0)),
  'exit code set': () => {
    process.exitCode = 3
  },
  'uncaught throw': () => {
    throw new Error('on purpose')
  },
  'unhandled rejection': () => Promise.reject(new Error('on purpose')),
}

function here(way, device) {
  const work = holdWork(device)
  // Out of the collector's reach until the end.
  globalThis.work = work
  return ways[way](work)
}

if (!isMainThread) here(workerData.way, workerData.device)
else {
  const [way, device, where] = process.argv.slice(2)
  if (where !== 'worker') here(way, device)
  else {
    const worker = new Worker(__filename, { workerData: { way, device } })
    worker.on('error', (error) => console.log(`worker error: ${error.message}`))
    worker.on('exit', (code) => console.log(`worker exit: ${code}`))
  }
}
