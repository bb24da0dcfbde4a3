// Runs the ops in worker threads: `workers.cjs DEVICE sequential|parallel|with-main`. Prints each thread's results.
const { once } = require('node:events')
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads')
const { runOps } = require('./ops.cjs')

async function repeat(device) {
  let results
  for (let i = 0; i < 20; i++) results = await runOps(device)
  return results
}

async function inWorker(device) {
  const worker = new Worker(__filename, { workerData: device })
  const [[results], [code]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')])
  return { code, results }
}

async function main(device, order) {
  const all = []
  if (order === 'sequential') for (let i = 0; i < 3; i++) all.push(await inWorker(device))
  else if (order === 'parallel')
    all.push(...(await Promise.all(Array.from({ length: 4 }, () => inWorker(device)))))
  else {
    const [worker, own] = await Promise.all([inWorker(device), repeat(device)])
    all.push(worker, { code: 0, results: own })
  }
  console.log(JSON.stringify(all))
}

if (isMainThread) main(...process.argv.slice(2))
else repeat(workerData).then((results) => parentPort.postMessage(results))
