// The reduction over neighbours that gcnAggregate and csrMax share: out[i] = reduce of x[colIdx[e]] over row
// i's edges, feature by feature.
//
// What makes it fast:
// - Work is cut into items of about equally many edges: runs of whole rows, or pieces of a long row
// (schedule.h).
//   A hub no longer keeps one worker busy while the others wait, and every worker walks a contiguous run of
//   edges.
// - A worker is 8, 16 or 32 lanes, each holding 16 bytes of the feature row. It takes column indices a chunk
// at a
//   time, one per lane, hands them around by shuffles, and has kUnroll row loads in flight before the first
//   is used (GE-SpMM, arXiv:2007.03179, calls this coalesced row caching).
// - When the feature matrix outgrows L2, columns are done in tiles narrow enough that a tile of it fits: the
// grid's
//   slow axis is the tile, so that all workers gather from the same columns at a time.
// - Pieces of one row meet in a second, small launch, in the order of their edges: no atomics, the same bits
// always.
#pragma once

#include "cuda/common.cuh"
#include "cuda/schedule.h"
#include "cuda/vector.cuh"

namespace warpgraph {

constexpr int kReduceThreads = 256;
constexpr int kUnroll = 8;

// The tensors of one reduction. Partial results of pieces: (numPieces, features), edges only where they are
// tracked.
template <typename T>
struct ReduceArguments {
  const int32_t* rowPtr;
  const int32_t* colIdx;
  const T* x;
  T* out;
  float* partialValues;
  int32_t* partialEdges;
  int64_t features;
  Schedule schedule;
};

// The rows' ends, kept a few rows ahead of the walk: lane k holds the end of row base + k.
template <int kLanes>
class RowEnds {
 public:
  __device__ RowEnds(const int32_t* rowPtr, int row, int rowsEnd, int lane, unsigned mask)
      : rowPtr_(rowPtr), base_(row), rowsEnd_(rowsEnd), lane_(lane), mask_(mask) {
    load();
  }
  __device__ int of(int row) {
    if (row - base_ == kLanes) {
      base_ = row;
      load();
    }
    return __shfl_sync(mask_, ends_, row - base_, kLanes);
  }

 private:
  __device__ void load() { ends_ = base_ + lane_ < rowsEnd_ ? rowPtr_[base_ + lane_ + 1] : 0; }

  const int32_t* rowPtr_;
  int base_, rowsEnd_, lane_, ends_;
  unsigned mask_;
};

template <typename T, int kVec, int kLanes, typename Reduce>
__global__ void __launch_bounds__(kReduceThreads)
    csrReduceKernel(const ReduceArguments<T> arguments, const Reduce reduce) {
  using Accumulator = typename Reduce::template Accumulator<kVec>;
  constexpr int kWorkers = kReduceThreads / kLanes;
  const int lane = threadIdx.x % kLanes;
  const unsigned mask = workerMask<kLanes>();
  const int64_t itemIndex = int64_t{blockIdx.x} * kWorkers + threadIdx.x / kLanes;
  if (itemIndex >= arguments.schedule.numItems) return;
  const Item item = arguments.schedule.items[itemIndex];
  const bool isPiece = item.isPiece();
  const int64_t features = arguments.features;

  for (int64_t first = int64_t{blockIdx.y} * kLanes * kVec; first < features;
       first += int64_t{gridDim.y} * kLanes * kVec) {
    const int64_t feature = first + lane * kVec;
    const bool active = feature < features;
    const T* x = arguments.x + feature;
    T* out = arguments.out + feature;

    int row = item.rowBegin;
    const int rowsEnd = isPiece ? row : item.rowEnd;
    RowEnds<kLanes> ends(arguments.rowPtr, row, rowsEnd, lane, mask);
    int rowBegin = item.edgeBegin;
    int rowEnd = row < rowsEnd ? ends.of(row) : INT32_MAX;
    Accumulator sum;
    reduce.start(sum, rowBegin);
    const auto finishRow = [&] {
      if (active) reduce.write(sum, rowBegin == rowEnd, out + row * features, row * features + feature);
      ++row;
      rowBegin = rowEnd;
      rowEnd = row < rowsEnd ? ends.of(row) : INT32_MAX;
      reduce.start(sum, rowBegin);
    };

    // Positions count from the item's first edge, so that none overflows near 2^31 edges.
    const int length = item.length();
    typename Reduce::Edge next = reduce.load(arguments.colIdx, item.edgeBegin, lane, length);
    for (int chunk = 0; chunk < length; chunk += kLanes) {
      const typename Reduce::Edge edge = next;
      const int count = min(kLanes, length - chunk);
      if (count == kLanes)
        next = reduce.load(arguments.colIdx, item.edgeBegin, chunk + kLanes + lane, length);
      for (int j = 0; j < count; j += kUnroll) {
        Vector<T, kVec> rows[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
          const int64_t source = __shfl_sync(mask, edge.source, (j + u) % kLanes, kLanes);
          if (active && j + u < count) rows[u] = loadVector<kVec>(x + source * features);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
          const float weight = reduce.shuffleWeight(mask, edge, (j + u) % kLanes, kLanes);
          if (j + u >= count) break;
          const int e = item.edgeBegin + chunk + j + u;
          while (e == rowEnd) finishRow();
          if (active) reduce.add(sum, rows[u], weight, e);
        }
      }
    }
    while (row < rowsEnd) finishRow();
    if (isPiece && active) {
      const int64_t at = itemIndex * features + feature;  // item p is piece p
      reduce.writePartial(sum, arguments.partialValues, arguments.partialEdges, at);
    }
  }
}

// Narrow rows, at most kNarrow features: a lane holds whole rows, and 8 lanes share the edges of a row.
constexpr int kNarrow = 16;

template <typename T, int kVec, typename Reduce>
__global__ void __launch_bounds__(kReduceThreads)
    csrReduceNarrowKernel(const ReduceArguments<T> arguments, const Reduce reduce) {
  using Accumulator = typename Reduce::template Accumulator<kVec>;
  constexpr int kLanes = 8;
  constexpr int kVectors = kNarrow / kVec;
  const int lane = threadIdx.x % kLanes;
  const unsigned mask = workerMask<kLanes>();
  const int64_t itemIndex = int64_t{blockIdx.x} * (kReduceThreads / kLanes) + threadIdx.x / kLanes;
  if (itemIndex >= arguments.schedule.numItems) return;
  const Item item = arguments.schedule.items[itemIndex];
  const int features = static_cast<int>(arguments.features);
  const int rowsEnd = item.isPiece() ? item.rowBegin + 1 : item.rowEnd;
  int begin = item.edgeBegin;
  for (int64_t row = item.rowBegin; row < rowsEnd; ++row) {
    const int end = item.isPiece() ? item.edgeEnd : arguments.rowPtr[row + 1];
    Accumulator sums[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) reduce.start(sums[v], begin);
    for (int at = lane; at < end - begin; at += kLanes) {
      const typename Reduce::Edge edge = reduce.load(arguments.colIdx, begin, at, end - begin);
      const T* x = arguments.x + int64_t{edge.source} * features;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        if (v * kVec < features)
          reduce.add(sums[v], loadVector<kVec>(x + v * kVec), reduce.weight(edge), begin + at);
      }
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (v * kVec >= features) break;
      for (int offset = kLanes / 2; offset > 0; offset /= 2) reduce.combineLanes(sums[v], mask, offset);
      if (lane != v % kLanes) continue;
      if (item.isPiece()) {
        const int64_t at = itemIndex * features + v * kVec;
        reduce.writePartial(sums[v], arguments.partialValues, arguments.partialEdges, at);
      } else {
        const int64_t at = row * features + v * kVec;
        reduce.write(sums[v], begin == end, arguments.out + at, at);
      }
    }
    begin = end;
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
        const int64_t at = hub.row * arguments.features + feature;
        reduce.write(sum, false, arguments.out + at, at);
      }
      __syncthreads();
    }
  }
}

}  // namespace warpgraph
