// Asks a GPU for more memory than it has, in the ways a program does, and goes on working each time.
const { csr, csrMax, memory, tensor } = require('../..')

const device = process.argv[2]
const features = 1 << 16
const x = tensor(new Float32Array(features).fill(2), { shape: [1, features], device })

/** A tensor of about so many bytes, computed from a small one. */
function take(bytes) {
  const rows = Math.ceil(bytes / (features * 4))
  const graph = csr(
    Int32Array.from({ length: rows + 1 }, (_, i) => i),
    new Int32Array(rows),
    { numSrc: 1 },
  )
  try {
    return csrMax(graph, x)
  } finally {
    graph.dispose()
  }
}

/** The error's facts, and what a small op gives right afterwards. */
function failure(bytes) {
  try {
    take(bytes).dispose()
    return { error: null }
  } catch ({ name, code, cudaName, message }) {
    const small = csrMax(csr([0, 1], [0]), x)
    return { error: { name, code, cudaName, message }, next: small.dataSync()[features - 1] }
  }
}

const { totalBytes, freeBytes, tensors } = memory(device)
const beyond = failure(totalBytes * 1.1)
const afterwards = memory(device).tensors - tensors

// Half of what is free, given back to the cache, must not stand in the way of more than half.
const half = take(freeBytes * 0.5)
half.dispose()
const cached = memory(device).cachedBytes
const more = take(freeBytes * 0.6)
const moreDevice = more.device
// With that one held, as much again does not fit; without it, it does.
const held = failure(freeBytes * 0.6)
more.dispose()
const released = failure(freeBytes * 0.6)
console.log(JSON.stringify({ beyond, afterwards, cached, half: freeBytes * 0.5, moreDevice, held, released }))
