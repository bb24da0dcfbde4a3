// One call of each op on a device, small enough to know the results by hand.
const {
  csr,
  csrMax,
  gcnAggregate,
  mlaAttention,
  mlaDecode,
  segmentSoftmax,
  segments,
  tensor,
} = require('../..')

/** The results, as plain numbers, all read at the same time. */
exports.runOps = async (device) => {
  const make = (data, shape) => tensor(data, { shape, device })
  const graph = csr([0, 0, 5], [0, 0, 0, 0, 0])
  const x = make([1, -2, 8, 9], [2, 2])
  const ones = make([1, 1], [2])
  const results = {
    softmax: segmentSoftmax(segments([0, 2, 4]), make([1, -1, -Infinity, 50], [4])),
    gcn: gcnAggregate(graph, x, { degrees: ones }),
    max: csrMax(graph, x, { empty: 0 }),
    // Equal keys weigh equally, so the result is the mean of the values 1 and 3.
    mla: mlaAttention(
      make([1], [1, 1, 1, 1]),
      make([0, 1, 0, 3], [1, 2, 2]),
      make([1, 0], [2, 1, 1]),
      make([0, 1], [2, 1, 1]),
    ),
    // The same keys in the latents' space.
    mlaDecode: mlaDecode(
      make([1, 0], [1, 1, 1, 2]),
      { kvLatent: make([0, 1, 0, 3], [1, 2, 2]) },
      { scale: 1 },
    ),
  }
  const read = Object.entries(results).map(async ([name, t]) => [name, Array.from(await t.data())])
  return Object.fromEntries(await Promise.all(read))
}

/** Tensors and a graph on a device, alive for as long as the result is held, and work under way. */
exports.holdWork = (device) => {
  const graph = csr([0, 1, 2], [1, 0])
  let x = tensor(new Float32Array(2 * 4096).fill(1), { shape: [2, 4096], device })
  const held = [graph, x]
  for (let i = 0; i < 200; i++) {
    x = gcnAggregate(graph, x)
    held.push(x)
  }
  return { held, last: x }
}
