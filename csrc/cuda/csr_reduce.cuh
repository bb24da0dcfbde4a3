// The reduction over neighbours that gcnAggregate and csrMax share: out[i] = reduce of x[colIdx[e]]
// over row i's edges, feature by feature.
//
// What makes it fast:
// - A worker, kLanes lanes, takes a row, 16 bytes of it a lane. Its lanes read kLanes edges at a time, one
//   each, and share them through shared memory (GE-SpMM, arXiv:2007.03179, calls this coalesced row
//   caching), where four come in one read.
// - kUnroll rows of x are on their way before the first is used: what limits the kernel is how many bytes
//   are. Nothing else is kept in registers meanwhile, weights neither, so that a lane has room for 8 rows
//   with four blocks on a multiprocessor. A group that ends a row reads no others in place of the missing.
// - Workers take rows in order of length (schedule.h), to within the 8 edges of a step, so those of one warp
//   have equally many steps and go the same way. Long rows start first, and the longest are cut into pieces,
//   which meet in a second, small launch, in the order of their edges: no atomics, the same bits always.
// - A worker takes short rows in turn, the more the shorter they are, and asks for the next row's edges
//   while it sums this one. All items of a block are read at once when it starts.
// - When the feature matrix outgrows L2, columns are done in tiles narrow enough that a tile of it
//   stays there: the grid's slow axis is the tile, so that all warps gather from the same columns at
//   a time.
#pragma once

#include "cuda/common.cuh"
#include "cuda/csr_reduce_load.cuh"
#include "cuda/schedule.h"
#include "cuda/vector.cuh"

namespace warpgraph {

constexpr int kReduceThreads = 256;

// Of rows of at most kEdgesInTurn >> c edges a worker takes 1 << c in turn: class c. Longer turns hide what
// the start of a block costs, and make the tiles of a feature matrix overlap more where one ends and the
// next begins.
constexpr int kClasses = 4;
constexpr int kEdgesInTurn = 256;

// What a kernel reads of a schedule.
struct Items {
  const Item* items;
  const Hub* hubs;
  int numItems, numLong, numHubs;
  int firstOfClass[kClasses + 1];
  explicit Items(const Schedule& schedule)
      : items(schedule.items),
        hubs(schedule.hubs),
        numItems(static_cast<int>(schedule.numItems)),
        numLong(static_cast<int>(schedule.longerThan(kShortRow))),
        numHubs(static_cast<int>(schedule.numHubs)),
        firstOfClass{} {
    for (int c = 1; c < kClasses; ++c) {
      firstOfClass[c] = static_cast<int>(schedule.longerThan(kEdgesInTurn >> c));
    }
    firstOfClass[kClasses] = numItems;
  }
};

// The tensors of one reduction. Partial results of pieces: (numPieces, features), edges only where they are
// tracked.
template <typename T>
struct ReduceArguments {
  const T* x;
  T* out;
  float* partialValues;
  int32_t* partialEdges;
  uint32_t features;
  Items schedule;
  unsigned longBlocks = 0;             // of narrow rows
  unsigned firstBlock[kClasses] = {};  // of each class of wide ones
};

// Four values that lie together in shared memory, in one read.
template <typename V>
struct alignas(16) Four {
  V values[4];
};
template <typename V>
__device__ Four<V> readFour(const V* from) {
  return *reinterpret_cast<const Four<V>*>(from);
}

// kCount rows of x, read together and then added. An edge that does not exist has a negative source and
// changes nothing.
template <int kCount, typename T, int kVec, typename Reduce>
__device__ void addRows(typename Reduce::template Accumulator<kVec>& sum, const Reduce& reduce, const T* x,
                        uint32_t rowBytes, const int* sources, const float* weights, int firstEdge) {
  Vector<T, kVec> rows[kCount];
#pragma unroll
  for (int first = 0; first < kCount; first += 4) {
    const Four<int> four = readFour(sources + first);
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      rows[first + u] = loadRowOr<kVec>(Reduce::kNeutral, x, four.values[u], rowBytes);
    }
  }
#pragma unroll
  for (int first = 0; first < kCount; first += 4) {
    Four<float> four{};
    if constexpr (Reduce::kWeighted) four = readFour(weights + first);
#pragma unroll
    for (int u = 0; u < 4; ++u) reduce.add(sum, rows[first + u], four.values[u], firstEdge + first + u);
  }
}

// kBlocks: how many a multiprocessor holds at a time, which says how many registers a lane has. A large graph
// fills the card with warps, and more than 8 rows in flight would leave room for fewer of them; a small one
// has too few rows to fill it, and each takes as long as its reads wait for one another.
template <typename T, int kVec, int kLanes, int kUnroll, int kBlocks, typename Reduce>
__global__ void __launch_bounds__(kReduceThreads, kBlocks)
    csrReduceKernel(const ReduceArguments<T> arguments, const Reduce reduce) {
  static_assert(kLanes % kUnroll == 0 && kUnroll % 4 == 0,
                "edges are read in fours, and by one worker alone");
  constexpr int kMostItems = (1 << (kClasses - 1)) * (kReduceThreads / kLanes);
  __shared__ Item items[kMostItems + kReduceThreads / kLanes];
  __shared__ alignas(16) int sources[kReduceThreads];
  __shared__ alignas(16) float weights[Reduce::kWeighted ? kReduceThreads : 1];
  const unsigned workers = blockDim.x / kLanes;
  const unsigned worker = threadIdx.x / kLanes;
  const unsigned lane = threadIdx.x % kLanes;
  const Items& schedule = arguments.schedule;

  int rounds = 1;
  unsigned firstBlock = 0, firstItem = 0, end = schedule.firstOfClass[1];
#pragma unroll
  for (int c = 1; c < kClasses; ++c) {
    if (blockIdx.x < arguments.firstBlock[c]) break;
    rounds = 1 << c;
    firstBlock = arguments.firstBlock[c];
    firstItem = schedule.firstOfClass[c];
    end = schedule.firstOfClass[c + 1];
  }
  firstItem += (blockIdx.x - firstBlock) * workers * rounds;
  // A worker's items are a row of workers apart, and one that is none follows the last.
  for (unsigned i = threadIdx.x; i < (rounds + 1) * workers; i += blockDim.x) {
    const bool exists = i < rounds * workers && firstItem + i < end;
    items[i] = exists ? schedule.items[firstItem + i] : Item{-1, 0, 0, -1};
  }
  __syncthreads();

  const uint32_t features = arguments.features;
  const uint32_t rowBytes = features * sizeof(T);
  for (uint32_t tile = blockIdx.y * kLanes * kVec; tile < features; tile += gridDim.y * kLanes * kVec) {
    const uint32_t feature = tile + lane * kVec;
    const bool active = feature < features;
    const T* x = arguments.x + (active ? feature : 0);  // idle lanes read along, and write nothing
    const Item* item = items + worker;
    typename Reduce::Edge next = reduce.load(item->begin + lane, static_cast<int>(lane) < item->length());
    waitForInputs();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round, item += workers) {
      const int begin = item->begin;
      const int length = item->length();
      // All lanes of the warp take as many steps as its longest row, so that every barrier has the whole
      // warp.
      const int longest = warpMax<kLanes>(length);
      typename Reduce::template Accumulator<kVec> sum;
      reduce.start(sum, begin);
      int chunk = 0;
#pragma unroll 1
      do {
        __syncwarp();  // the edges before these were read
        sources[threadIdx.x] = next.source;
        if constexpr (Reduce::kWeighted) weights[threadIdx.x] = next.weight;
        __syncwarp();
        const bool isLast = chunk + kLanes >= longest;
        const int from = isLast ? item[workers].begin : begin + chunk + kLanes;
        const int left = isLast ? item[workers].length() : length - chunk - kLanes;
        next = reduce.load(from + lane, static_cast<int>(lane) < left);
#pragma unroll 1
        for (int j = 0; j < kLanes && chunk + j < longest; j += kUnroll) {
          const unsigned at = worker * kLanes + j;
          addRows<kUnroll, T, kVec>(sum, reduce, x, rowBytes, sources + at, weights + at, begin + chunk + j);
        }
        chunk += kLanes;
      } while (chunk < longest);
      if (!active || item->row < 0) continue;
      reduce.settle(sum, *item, x, features);
      if (item->isPiece()) {
        const uint64_t to = uint64_t{firstItem + worker} * features + feature;  // item p is piece p
        reduce.writePartial(sum, arguments.partialValues, arguments.partialEdges, to);
      } else {
        const uint64_t to = uint64_t{static_cast<uint32_t>(item->row)} * features + feature;
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
    const typename Reduce::Edge edge = reduce.load(item.begin + at, true);
    const auto source = static_cast<uint32_t>(edge.source);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (v * kVec >= features) break;
      const T* row = rowOf(arguments.x + v * kVec, source, features * sizeof(T));
      reduce.add(sums[v], loadVector<kVec>(row), reduce.weight(edge), item.begin + at);
    }
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    for (int offset = kLanes / 2; offset > 0; offset /= 2) reduce.combineLanes(sums[v], mask, offset);
    if (lane != v || v * kVec >= features) continue;
    reduce.settle(sums[v], item, arguments.x + v * kVec, features);
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
