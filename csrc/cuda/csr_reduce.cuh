// The reduction over neighbours that gcnAggregate and csrMax share: out[i] = reduce of x[colIdx[e]]
// over row i's edges, feature by feature.
//
// What makes it fast:
// - A worker, kLanes lanes, takes a row, 16 bytes of it a lane. Its lanes read kLanes column indices
//   at a time, one each, hand them around by shuffles (GE-SpMM, arXiv:2007.03179, calls this
//   coalesced row caching), and have kUnroll rows of x on their way before the first is used.
// - Workers take rows in order of length (schedule.h), so those of one warp have equally many edges
//   and go the same way; the inner loop is little more than loads and multiply-adds. Long rows start
//   first, and the longest are cut into pieces, which meet in a second, small launch, in the order
//   of their edges: no atomics, the same bits always.
// - A worker takes several short rows in turn, and asks for the next row's indices while it sums this
//   one.
// - When the feature matrix outgrows L2, columns are done in tiles narrow enough that a tile of it
//   stays there: the grid's slow axis is the tile, so that all warps gather from the same columns at
//   a time.
#pragma once

#include "cuda/common.cuh"
#include "cuda/schedule.h"
#include "cuda/vector.cuh"

namespace warpgraph {

constexpr int kReduceThreads = 256;

// What a kernel reads of a schedule.
struct Items {
  const Item* items;
  const Hub* hubs;
  int64_t numItems, numLong, numHubs;
  explicit Items(const Schedule& schedule)
      : items(schedule.items),
        hubs(schedule.hubs),
        numItems(schedule.numItems),
        numLong(schedule.longerThan(kShortRow)),
        numHubs(schedule.numHubs) {}
};

// The tensors of one reduction. Partial results of pieces: (numPieces, features), edges only where they are
// tracked.
template <typename T>
struct ReduceArguments {
  const int32_t* colIdx;
  const T* x;
  T* out;
  float* partialValues;
  int32_t* partialEdges;
  uint32_t features;
  Items schedule;
  unsigned longBlocks = 0;
  int rounds = 1;  // short rows that a worker takes in turn
};

// kCount rows of x, read together and then added. Checked: only those of the worker's `left` edges.
template <int kCount, bool kChecked, int kLanes, typename T, int kVec, typename Reduce>
__device__ void addRows(typename Reduce::template Accumulator<kVec>& sum, const Reduce& reduce, const T* x,
                        uint32_t features, const typename Reduce::Edge& edge, int j, int left,
                        uint32_t firstEdge) {
  Vector<T, kVec> rows[kCount];
#pragma unroll
  for (int u = 0; u < kCount; ++u) {
    const uint32_t source = __shfl_sync(kFullWarp, edge.source, j + u, kLanes);
    if (!kChecked || u < left) rows[u] = loadVector<kVec>(x + uint64_t{source} * features);
  }
#pragma unroll
  for (int u = 0; u < kCount; ++u) {
    const float weight = reduce.shuffleWeight(edge, j + u, kLanes);
    if (!kChecked || u < left) reduce.add(sum, rows[u], weight, static_cast<int>(firstEdge + u));
  }
}

// kUnroll rows of x in flight per lane. A large graph fills the card with warps, and registers for more rows
// would leave room for fewer of them; a small one has too few rows to fill it, and each takes as long as its
// reads wait for one another.
template <typename T, int kVec, int kLanes, int kUnroll, typename Reduce>
__global__ void __launch_bounds__(kReduceThreads, kUnroll == 4 ? 4 : 2)
    csrReduceKernel(const ReduceArguments<T> arguments, const Reduce reduce) {
  const int workers = blockDim.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  const Items& schedule = arguments.schedule;
  const bool isLong = blockIdx.x < arguments.longBlocks;
  const int rounds = isLong ? 1 : arguments.rounds;
  const int64_t end = isLong ? schedule.numLong : schedule.numItems;
  const int64_t firstItem =
      threadIdx.x / kLanes +
      (isLong ? int64_t{blockIdx.x} * workers
              : schedule.numLong + int64_t{blockIdx.x - arguments.longBlocks} * workers * rounds);
  const auto itemAt = [&](int64_t index) { return index < end ? schedule.items[index] : Item{0, 0, 0, -1}; };
  const uint32_t features = arguments.features;

  for (int64_t tile = int64_t{blockIdx.y} * kLanes * kVec; tile < features;
       tile += int64_t{gridDim.y} * kLanes * kVec) {
    const int64_t feature = tile + lane * kVec;
    const bool active = feature < features;
    const T* x = arguments.x + (active ? feature : 0);  // idle lanes read along, and write nothing
    Item nextItem = itemAt(firstItem);
    waitForInputs();
    typename Reduce::Edge next = reduce.load(arguments.colIdx, nextItem.begin, lane, nextItem.length());
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
      const int64_t itemIndex = firstItem + int64_t{round} * workers;
      const Item item = nextItem;
      nextItem = itemAt(round + 1 < rounds ? itemIndex + workers : end);
      const int length = item.length();
      // All lanes of the warp take as many steps as its longest row, so that every shuffle has the whole
      // warp.
      const int shortest = warpMin<kLanes>(length);
      const int longest = warpMax<kLanes>(length);
      typename Reduce::template Accumulator<kVec> sum;
      reduce.start(sum, item.begin);
      int chunk = 0;
#pragma unroll 1
      do {
        const typename Reduce::Edge edge = next;
        const bool isLast = chunk + kLanes >= longest;
        next = isLast ? reduce.load(arguments.colIdx, nextItem.begin, lane, nextItem.length())
                      : reduce.load(arguments.colIdx, item.begin, chunk + kLanes + lane, length);
#pragma unroll 1
        for (int j = 0; j < kLanes; j += kUnroll) {
          const int at = chunk + j;
          if (at + kUnroll <= shortest) {
            addRows<kUnroll, false, kLanes, T, kVec>(sum, reduce, x, features, edge, j, 0,
                                                     static_cast<uint32_t>(item.begin) + at);
          } else if (at < longest) {
            addRows<kUnroll, true, kLanes, T, kVec>(sum, reduce, x, features, edge, j, length - at,
                                                    static_cast<uint32_t>(item.begin) + at);
          } else {
            break;
          }
        }
        chunk += kLanes;
      } while (chunk < longest);
      if (!active || itemIndex >= end) continue;
      if (item.isPiece()) {
        const int64_t to = itemIndex * features + feature;  // item p is piece p
        reduce.writePartial(sum, arguments.partialValues, arguments.partialEdges, to);
      } else {
        const int64_t to = item.row * int64_t{features} + feature;
        reduce.write(sum, length == 0, arguments.out + to, to);
      }
    }
  }
}

// Narrow rows, of at most kVectors vectors: a lane holds whole rows, and kLanes lanes share the edges of a
// row.
template <int kLanes, int kVec, int kVectors, typename T, typename Reduce>
__device__ void reduceNarrowItem(const ReduceArguments<T>& arguments, const Reduce& reduce,
                                 int64_t itemIndex) {
  const int lane = threadIdx.x % kLanes;
  const unsigned mask = workerMask<kLanes>();
  const Item item = arguments.schedule.items[itemIndex];
  waitForInputs();
  const int length = item.length();
  const uint32_t features = arguments.features;
  typename Reduce::template Accumulator<kVec> sums[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) reduce.start(sums[v], item.begin);
#pragma unroll 4
  for (int at = lane; at < length; at += kLanes) {
    const typename Reduce::Edge edge = reduce.load(arguments.colIdx, item.begin, at, length);
    const T* x = arguments.x + uint64_t{static_cast<uint32_t>(edge.source)} * features;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (v * kVec >= features) break;
      reduce.add(sums[v], loadVector<kVec>(x + v * kVec), reduce.weight(edge),
                 static_cast<uint32_t>(item.begin) + at);
    }
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    for (int offset = kLanes / 2; offset > 0; offset /= 2) reduce.combineLanes(sums[v], mask, offset);
    if (lane != v || v * kVec >= features) continue;
    if (item.isPiece()) {
      const int64_t to = itemIndex * features + v * kVec;
      reduce.writePartial(sums[v], arguments.partialValues, arguments.partialEdges, to);
    } else {
      const int64_t to = item.row * int64_t{features} + v * kVec;
      reduce.write(sums[v], length == 0, arguments.out + to, to);
    }
  }
}

constexpr int kNarrowLanes = 8;  // of a short row; a long one has the whole warp

template <typename T, int kVec, int kVectors, typename Reduce>
__global__ void __launch_bounds__(kReduceThreads)
    csrReduceNarrowKernel(const ReduceArguments<T> arguments, const Reduce reduce) {
  const int64_t thread = threadIdx.x;
  if (blockIdx.x < arguments.longBlocks) {
    const int64_t index = (int64_t{blockIdx.x} * kReduceThreads + thread) / kWarpSize;
    if (index < arguments.schedule.numLong)
      reduceNarrowItem<kWarpSize, kVec, kVectors>(arguments, reduce, index);
  } else {
    const int64_t block = blockIdx.x - arguments.longBlocks;
    const int64_t index = arguments.schedule.numLong + (block * kReduceThreads + thread) / kNarrowLanes;
    if (index < arguments.schedule.numItems)
      reduceNarrowItem<kNarrowLanes, kVec, kVectors>(arguments, reduce, index);
  }
}

// Meets the pieces of each hub row: a block per (hub, 32 features), its warps sharing the pieces in
// contiguous runs.
template <typename T, typename Reduce>
__global__ void __launch_bounds__(kReduceThreads)
    csrMergeKernel(const ReduceArguments<T> arguments, const Reduce reduce) {
  using Accumulator = typename Reduce::template Accumulator<1>;
  constexpr int kWarps = kReduceThreads / kWarpSize;
  __shared__ Accumulator parts[kWarps][kWarpSize];
  waitForInputs();
  const int lane = threadIdx.x % kWarpSize;
  const int warp = threadIdx.x / kWarpSize;
  for (int64_t index = blockIdx.x; index < arguments.schedule.numHubs; index += gridDim.x) {
    const Hub hub = arguments.schedule.hubs[index];
    const int perWarp = (hub.numPieces + kWarps - 1) / kWarps;
    const int begin = min(warp * perWarp, hub.numPieces);
    const int end = min(begin + perWarp, hub.numPieces);
    for (int64_t first = int64_t{blockIdx.y} * kWarpSize; first < arguments.features;
         first += int64_t{gridDim.y} * kWarpSize) {
      const int64_t feature = first + lane;
      const bool active = feature < arguments.features;
      Accumulator sum;
      reduce.startEmpty(sum);
      for (int p = begin; active && p < end; ++p) {
        const int64_t at = (int64_t{hub.firstPiece} + p) * arguments.features + feature;
        reduce.addPartial(sum, arguments.partialValues, arguments.partialEdges, at);
      }
      parts[warp][lane] = sum;
      __syncthreads();
      if (warp == 0 && active) {
        for (int w = 1; w < kWarps; ++w) reduce.combine(sum, parts[w][lane]);
        const int64_t at = hub.row * int64_t{arguments.features} + feature;
        reduce.write(sum, false, arguments.out + at, at);
      }
      __syncthreads();
    }
  }
}

}  // namespace warpgraph
