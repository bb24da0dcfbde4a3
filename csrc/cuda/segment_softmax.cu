// Segment softmax: out[e, h] = exp(x[e, h] − m) / Σ exp(x − m) over the edges of e's row, m their maximum.
//
// What makes it fast: scores of a row lie together, so a worker reads them as one stream, up to 16 bytes a
// lane, and keeps up to kSteps·slots edges in registers: read once, exponentiated once, written once. Longer
// rows are read again, from cache. Rows of one length lie side by side in the schedule (schedule.h), so the
// workers of a warp go the same way; short rows have 8 lanes, long ones a warp. The pieces of a hub row leave
// their maximum and sum in the workspace, and a second launch writes them out (the online softmax of Milakov
// and Gimelshein, arXiv:1805.02867). Many heads are done in tiles, the grid's slow axis.
//
// Lanes: `perEdge` lanes hold the heads of one edge, kVec each; `slots` edges are held at a time. The maximum
// ignores NaN, which then reaches the sum and so the whole segment-head. A segment of −∞ alone keeps the sum
// at 0: zeros.
#include "cuda/common.cuh"
#include "cuda/segment_softmax.h"
#include "cuda/vector.cuh"

namespace warpgraph {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 4;  // per multiprocessor
constexpr int kShortLanes = 8;
constexpr int kSteps = 4;

// What is known of the scores seen so far: their maximum (−∞ before any) and Σ exp(x − base(max)).
struct Stats {
  float max, sum;
};
static_assert(sizeof(Stats) == kSoftmaxPartialBytes, "what the workspace is made for");

// e^x in two instructions: its relative error, some 2^-22 plus |x|·2^-24, is far below what a weight e^x / Σ
// shows.
__device__ float exponential(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 1.4426950408889634f));
  return result;
}

// −∞ − −∞ would be NaN: while nothing but −∞ was seen, any finite base leaves exp at 0.
__device__ float baseOf(float max) {
  return max == -INFINITY ? 0.0f : max;
}

__device__ Stats merge(const Stats& a, const Stats& b) {
  const float max = fmaxf(a.max, b.max);
  const float base = baseOf(max);
  // A side that saw nothing has the sum 0 and the maximum −∞: exp(−∞ − base) = 0.
  return {max, a.sum * exponential(a.max - base) + b.sum * exponential(b.max - base)};
}

template <typename T>
struct SoftmaxArguments {
  const T* scores;
  T* out;
  Stats* partials;  // (numPieces, heads)
  int64_t heads;
  int perEdge;
  Schedule schedule;
  unsigned longBlocks;
};

// Lanes that hold the same heads of different edges, combined by `op` in all of them.
template <int kLanes, typename Op>
__device__ float overSlots(float value, int lane, int perEdge, int slots, unsigned mask, Op op) {
  if ((perEdge & (perEdge - 1)) == 0) {
    for (int offset = perEdge; offset < kLanes; offset *= 2)
      value = op(value, __shfl_xor_sync(mask, value, offset));
    return value;
  }
  float result = __shfl_sync(mask, value, lane % perEdge, kLanes);
  for (int slot = 1; slot < slots; ++slot) {
    result = op(result, __shfl_sync(mask, value, lane % perEdge + slot * perEdge, kLanes));
  }
  return result;
}

template <int kLanes, int kVec, typename T>
__device__ void softmaxItem(const SoftmaxArguments<T>& arguments, int64_t index) {
  const int lane = threadIdx.x % kLanes;
  const unsigned mask = workerMask<kLanes>();
  const Item item = arguments.schedule.items[index];
  const int64_t heads = arguments.heads;
  const int perEdge = arguments.perEdge;
  const int slots = kLanes / perEdge;
  const int slot = lane / perEdge;
  const auto maxOf = [](float a, float b) { return fmaxf(a, b); };
  const auto sumOf = [](float a, float b) { return a + b; };

  const int length = item.length();
  const int64_t stride = slots * heads;  // from one of a lane's edges to its next

  for (int64_t tile = int64_t{blockIdx.y} * perEdge * kVec; tile < heads;
       tile += int64_t{gridDim.y} * perEdge * kVec) {
    const int64_t head = tile + lane % perEdge * kVec;
    const bool active = slot < slots && head < heads;
    const int64_t first = (int64_t{item.begin} + slot) * heads + head;
    const T* scores = arguments.scores + first;
    T* out = arguments.out + first;
    const int mine = active ? (length - slot + slots - 1) / slots : 0;  // this lane's edges
    float max[kVec];
    float sum[kVec];
    float values[kVec];
    for (int k = 0; k < kVec; ++k) max[k] = -INFINITY;
    for (int k = 0; k < kVec; ++k) sum[k] = 0.0f;

    // All reads are on their way before the first is used.
    Vector<T, kVec> read[kSteps];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step < mine) read[step] = loadVectorOnce<kVec>(scores + step * stride);
    }
    float kept[kSteps][kVec];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step >= mine) break;
      widen(read[step], kept[step]);
      for (int k = 0; k < kVec; ++k) max[k] = fmaxf(max[k], kept[step][k]);
    }
#pragma unroll 4
    for (int step = kSteps; step < mine; ++step) {
      widen(loadVector<kVec>(scores + step * stride), values);
      for (int k = 0; k < kVec; ++k) max[k] = fmaxf(max[k], values[k]);
    }
    for (int k = 0; k < kVec; ++k) max[k] = overSlots<kLanes>(max[k], lane, perEdge, slots, mask, maxOf);
    float base[kVec];
    for (int k = 0; k < kVec; ++k) base[k] = baseOf(max[k]);

#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step >= mine) break;
      for (int k = 0; k < kVec; ++k) kept[step][k] = exponential(kept[step][k] - base[k]);
      for (int k = 0; k < kVec; ++k) sum[k] += kept[step][k];
    }
#pragma unroll 4
    for (int step = kSteps; step < mine; ++step) {
      widen(loadVector<kVec>(scores + step * stride), values);
      for (int k = 0; k < kVec; ++k) sum[k] += exponential(values[k] - base[k]);
    }
    for (int k = 0; k < kVec; ++k) sum[k] = overSlots<kLanes>(sum[k], lane, perEdge, slots, mask, sumOf);

    if (item.isPiece()) {
      if (active && slot == 0) {
        Stats* partials = arguments.partials + index * heads + head;  // item p is piece p
        for (int k = 0; k < kVec; ++k) partials[k] = {max[k], sum[k]};
      }
      continue;
    }
    float factor[kVec];
    for (int k = 0; k < kVec; ++k) factor[k] = sum[k] == 0.0f ? 0.0f : 1.0f / sum[k];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step >= mine) break;
      for (int k = 0; k < kVec; ++k) kept[step][k] *= factor[k];
      storeVectorOnce(out + step * stride, kept[step]);
    }
#pragma unroll 4
    for (int step = kSteps; step < mine; ++step) {
      widen(loadVector<kVec>(scores + step * stride), values);
      for (int k = 0; k < kVec; ++k) values[k] = exponential(values[k] - base[k]) * factor[k];
      storeVectorOnce(out + step * stride, values);
    }
  }
}

template <typename T, int kVec>
__global__ void __launch_bounds__(kThreads, kBlocks)
    segmentSoftmaxKernel(const SoftmaxArguments<T> arguments) {
  const int64_t thread = threadIdx.x;
  if (blockIdx.x < arguments.longBlocks) {
    const int64_t index = (int64_t{blockIdx.x} * kThreads + thread) / kWarpSize;
    if (index < arguments.schedule.numLong) softmaxItem<kWarpSize, kVec>(arguments, index);
  } else {
    const int64_t block = blockIdx.x - arguments.longBlocks;
    const int64_t index = arguments.schedule.numLong + (block * kThreads + thread) / kShortLanes;
    if (index < arguments.schedule.numItems) softmaxItem<kShortLanes, kVec>(arguments, index);
  }
}

// Writes out the hubs: a block per piece, which first merges the maxima and sums of all pieces of its row.
constexpr int kHeadsAtOnce = 128;

template <typename T>
__global__ void __launch_bounds__(kThreads) hubSoftmaxKernel(const SoftmaxArguments<T> arguments) {
  constexpr int kWarps = kThreads / kWarpSize;
  __shared__ Stats stats[kHeadsAtOnce];
  const int lane = threadIdx.x % kWarpSize;
  const int warp = threadIdx.x / kWarpSize;
  const int64_t heads = arguments.heads;
  for (int64_t piece = blockIdx.x; piece < arguments.schedule.numPieces; piece += gridDim.x) {
    const Item item = arguments.schedule.items[piece];
    const Hub hub = arguments.schedule.hubs[item.hub];
    for (int64_t tile = 0; tile < heads; tile += kHeadsAtOnce) {
      const unsigned count = static_cast<unsigned>(min(int64_t{kHeadsAtOnce}, heads - tile));
      for (unsigned h = warp; h < count; h += kWarps) {
        Stats all{-INFINITY, 0.0f};
        for (int p = lane; p < hub.numPieces; p += kWarpSize) {
          all = merge(all, arguments.partials[(int64_t{hub.firstPiece} + p) * heads + tile + h]);
        }
        for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
          const Stats other{__shfl_xor_sync(kFullWarp, all.max, offset),
                            __shfl_xor_sync(kFullWarp, all.sum, offset)};
          all = merge(all, other);
        }
        if (lane == 0) stats[h] = {baseOf(all.max), all.sum == 0.0f ? 0.0f : 1.0f / all.sum};
      }
      __syncthreads();
      const unsigned elements = static_cast<unsigned>(item.length()) * count;  // below 2^21·2^7
      for (unsigned i = threadIdx.x; i < elements; i += kThreads) {
        const unsigned h = i % count;
        const int64_t at = (item.begin + int64_t{i / count}) * heads + tile + h;
        const float weight = exponential(toFloat(arguments.scores[at]) - stats[h].max) * stats[h].sum;
        arguments.out[at] = fromFloat<T>(weight);
      }
      __syncthreads();
    }
  }
}

template <typename T, int kVec>
cudaError_t launch(SoftmaxArguments<T> arguments, cudaStream_t stream) {
  const int64_t headVectors = arguments.heads / kVec;
  arguments.perEdge = static_cast<int>(std::min(headVectors, int64_t{kShortLanes}));
  const int64_t tiles = (headVectors + arguments.perEdge - 1) / arguments.perEdge;
  const BlockPlan plan = planBlocks(arguments.schedule, kThreads / kWarpSize, kThreads / kShortLanes);
  arguments.longBlocks = plan.longBlocks;
  const dim3 grid(plan.blocks, static_cast<unsigned>(std::min(tiles, int64_t{65535})));
  segmentSoftmaxKernel<T, kVec><<<grid, kThreads, 0, stream>>>(arguments);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess || arguments.schedule.numHubs == 0) return error;
  const auto blocks = static_cast<unsigned>(std::min(arguments.schedule.numPieces, kMostBlocks));
  hubSoftmaxKernel<T><<<blocks, kThreads, 0, stream>>>(arguments);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launchSegmentSoftmax(DType dtype, const void* scores, void* out, int64_t heads,
                                 const Schedule& schedule, void* workspace, cudaStream_t stream) {
  if (schedule.numItems == 0 || heads == 0) return cudaSuccess;
  return dispatchFloat(dtype, [&](auto element) {
    using T = decltype(element);
    constexpr int kWidest = 4;  // of half types too: more would not fit in registers
    const SoftmaxArguments<T> arguments{static_cast<const T*>(scores),
                                        static_cast<T*>(out),
                                        static_cast<Stats*>(workspace),
                                        heads,
                                        0,
                                        schedule,
                                        0};
    // An edge's scores start at a multiple of the heads: only a vector that divides them is aligned
    // everywhere.
    if (heads % kWidest == 0) return launch<T, kWidest>(arguments, stream);
    if (heads % 2 == 0) return launch<T, 2>(arguments, stream);
    return launch<T, 1>(arguments, stream);
  });
}

}  // namespace warpgraph
