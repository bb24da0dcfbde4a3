// Segment softmax: out[e, h] = exp(x[e, h] − m) / Σ exp(x − m) over the edges of e's row, m their maximum.
//
// What makes it fast: scores of a row lie together, so a worker reads them as one stream, up to 16 bytes a
// lane, and keeps up to kSteps·slots edges in registers: read once, exponentiated once, written once. Rows
// lie in the schedule in order of length (schedule.h), so each gets a worker that just holds it, of 4, 8, 16
// or 32 lanes or a whole block, and the workers of a warp go the same way. What a block's registers do not
// hold is read again, from cache. Only a row that would keep one block long after the others is done in
// pieces, which leave their maximum and sum in the workspace for a second launch to write out (the online
// softmax of Milakov and Gimelshein, arXiv:1805.02867). Many heads are done in tiles, the grid's slow axis.
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
constexpr int kSteps = 4;
constexpr int kMostPerEdge = 8;

// A hub of more pieces is done piece by piece; one of fewer as a single row.
constexpr int kMostPiecesPerBlock = 32;

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

// 1/sum, to 1 unit in the last place; 0 for the sum of no weights. A sum that is not 0 is at least 1.
__device__ float factorOf(float sum) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(sum));
  return sum == 0.0f ? 0.0f : result;
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

// Which blocks take which items: a class per size of worker, after the hubs.
constexpr int kClasses = 5;
constexpr int kLanesOf[kClasses] = {kThreads, 32, 16, 8, 4};

template <typename T>
struct SoftmaxArguments {
  const T* scores;
  T* out;
  Stats* partials;  // (numPieces, heads)
  int64_t heads;
  int perEdge;
  const Item* items;
  const Hub* hubs;
  int64_t numHubs, numPieces;
  unsigned firstBlock[kClasses + 1];  // of each class; the hubs' blocks come before
  int64_t firstItem[kClasses + 1];
};

// A run of edges that one worker takes.
struct Run {
  int64_t begin;
  int length;
};

// Combines one value of each slot with `op`, in all lanes of the worker that hold the same heads. The slots
// of one warp meet in shuffles, the warps of a block in shared memory.
template <int kLanes, typename Op>
__device__ float overSlots(float value, int perEdge, float* shared, Op op) {
  constexpr int kInWarp = kLanes < kWarpSize ? kLanes : kWarpSize;
  const unsigned mask = workerMask<kInWarp>();
  const int lane = threadIdx.x % kInWarp;
  if ((perEdge & (perEdge - 1)) == 0) {
    for (int offset = perEdge; offset < kInWarp; offset *= 2)
      value = op(value, __shfl_xor_sync(mask, value, offset));
  } else {
    const float own = value;
    value = __shfl_sync(mask, own, lane % perEdge, kInWarp);
    for (int slot = 1; slot < kInWarp / perEdge; ++slot)
      value = op(value, __shfl_sync(mask, own, lane % perEdge + slot * perEdge, kInWarp));
  }
  if constexpr (kLanes > kWarpSize) {
    constexpr int kWarps = kLanes / kWarpSize;
    __syncthreads();  // the values before these were read
    if (lane < perEdge) shared[threadIdx.x / kWarpSize * kMostPerEdge + lane] = value;
    __syncthreads();
    value = shared[lane % perEdge];
    for (int warp = 1; warp < kWarps; ++warp) value = op(value, shared[warp * kMostPerEdge + lane % perEdge]);
  }
  return value;
}

// One run by one worker. With partials the run is a piece, whose maxima and sums (heads) go there.
template <int kLanes, int kVec, typename T>
__device__ void softmaxRun(const SoftmaxArguments<T>& arguments, const Run& run, Stats* partials) {
  constexpr int kInWarp = kLanes < kWarpSize ? kLanes : kWarpSize;
  __shared__ float shared[kLanes > kWarpSize ? kLanes / kWarpSize * kMostPerEdge : 1];
  const int lane = threadIdx.x % kInWarp;
  const int warp = threadIdx.x % kLanes / kInWarp;
  const int64_t heads = arguments.heads;
  const int perEdge = arguments.perEdge;
  const int slotsInWarp = kInWarp / perEdge;
  const int slots = slotsInWarp * (kLanes / kInWarp);
  const int slot = lane / perEdge < slotsInWarp ? warp * slotsInWarp + lane / perEdge : slots;
  const auto maxOf = [](float a, float b) { return fmaxf(a, b); };
  const auto sumOf = [](float a, float b) { return a + b; };
  const int64_t stride = slots * heads;  // from one of a lane's edges to its next

  for (int64_t tile = int64_t{blockIdx.y} * perEdge * kVec; tile < heads;
       tile += int64_t{gridDim.y} * perEdge * kVec) {
    const int64_t head = tile + lane % perEdge * kVec;
    const bool active = slot < slots && head < heads;
    const int64_t first = (run.begin + slot) * heads + head;
    const T* scores = arguments.scores + first;
    T* out = arguments.out + first;
    const int mine = active ? (run.length - slot + slots - 1) / slots : 0;  // this lane's edges
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
    if constexpr (kLanes == kThreads) {
#pragma unroll 4
      for (int step = kSteps; step < mine; ++step) {
        widen(loadVector<kVec>(scores + step * stride), values);
        for (int k = 0; k < kVec; ++k) max[k] = fmaxf(max[k], values[k]);
      }
    }
    float base[kVec];
    for (int k = 0; k < kVec; ++k) {
      max[k] = overSlots<kLanes>(max[k], perEdge, shared, maxOf);
      base[k] = baseOf(max[k]);
    }

#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step >= mine) break;
      for (int k = 0; k < kVec; ++k) kept[step][k] = exponential(kept[step][k] - base[k]);
      for (int k = 0; k < kVec; ++k) sum[k] += kept[step][k];
    }
    if constexpr (kLanes == kThreads) {
#pragma unroll 4
      for (int step = kSteps; step < mine; ++step) {
        widen(loadVector<kVec>(scores + step * stride), values);
        for (int k = 0; k < kVec; ++k) sum[k] += exponential(values[k] - base[k]);
      }
    }
    for (int k = 0; k < kVec; ++k) sum[k] = overSlots<kLanes>(sum[k], perEdge, shared, sumOf);

    if (kLanes == kThreads && partials != nullptr) {
      if (active && slot == 0) {
        for (int k = 0; k < kVec; ++k) partials[head + k] = {max[k], sum[k]};
      }
      continue;
    }
    float factor[kVec];
    for (int k = 0; k < kVec; ++k) factor[k] = factorOf(sum[k]);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step >= mine) break;
      for (int k = 0; k < kVec; ++k) kept[step][k] *= factor[k];
      storeVectorOnce(out + step * stride, kept[step]);
    }
    if constexpr (kLanes == kThreads) {
#pragma unroll 4
      for (int step = kSteps; step < mine; ++step) {
        widen(loadVector<kVec>(scores + step * stride), values);
        for (int k = 0; k < kVec; ++k) values[k] = exponential(values[k] - base[k]) * factor[k];
        storeVectorOnce(out + step * stride, values);
      }
    }
  }
}

// A hub's block: all of the row when it has few pieces, and nothing otherwise.
template <int kVec, typename T>
__device__ void softmaxHub(const SoftmaxArguments<T>& arguments, const Hub& hub) {
  if (hub.numPieces > kMostPiecesPerBlock) return;
  const int begin = arguments.items[hub.firstPiece].begin;
  const int end = arguments.items[hub.firstPiece + hub.numPieces - 1].end;
  softmaxRun<kThreads, kVec>(arguments, {begin, end - begin}, nullptr);
}

template <int kClass, int kVec, typename T>
__device__ void softmaxClass(const SoftmaxArguments<T>& arguments) {
  constexpr int kLanes = kLanesOf[kClass];
  if (kClass + 1 < kClasses && blockIdx.x >= arguments.firstBlock[kClass + 1]) {
    softmaxClass<kClass + 1 < kClasses ? kClass + 1 : kClass, kVec>(arguments);
    return;
  }
  const int64_t index = arguments.firstItem[kClass] +
                        int64_t{blockIdx.x - arguments.firstBlock[kClass]} * (kThreads / kLanes) +
                        threadIdx.x / kLanes;
  if (index >= arguments.firstItem[kClass + 1]) return;
  const Item item = arguments.items[index];
  waitForInputs();
  softmaxRun<kLanes, kVec>(arguments, {item.begin, item.length()}, nullptr);
}

template <typename T, int kVec>
__global__ void __launch_bounds__(kThreads, kBlocks)
    segmentSoftmaxKernel(const SoftmaxArguments<T> arguments) {
  if (blockIdx.x < arguments.firstBlock[0]) {
    waitForInputs();
    softmaxHub<kVec>(arguments, arguments.hubs[blockIdx.x]);
  } else {
    softmaxClass<0, kVec>(arguments);
  }
}

// Maximum and sum of each piece of the hubs that are done in pieces.
template <typename T, int kVec>
__global__ void __launch_bounds__(kThreads) pieceSoftmaxKernel(const SoftmaxArguments<T> arguments) {
  waitForInputs();
  for (int64_t piece = blockIdx.x; piece < arguments.numPieces; piece += gridDim.x) {
    const Item item = arguments.items[piece];
    if (arguments.hubs[item.hub].numPieces <= kMostPiecesPerBlock) continue;
    softmaxRun<kThreads, kVec>(arguments, {item.begin, item.length()},
                               arguments.partials + piece * arguments.heads);
  }
}

// Writes them out: a block per piece, which first merges the maxima and sums of all pieces of its row.
constexpr int kHeadsAtOnce = 128;

template <typename T>
__global__ void __launch_bounds__(kThreads) hubSoftmaxKernel(const SoftmaxArguments<T> arguments) {
  constexpr int kWarps = kThreads / kWarpSize;
  __shared__ Stats stats[kHeadsAtOnce];
  const int lane = threadIdx.x % kWarpSize;
  const int warp = threadIdx.x / kWarpSize;
  const int64_t heads = arguments.heads;
  waitForInputs();
  for (int64_t piece = blockIdx.x; piece < arguments.numPieces; piece += gridDim.x) {
    const Item item = arguments.items[piece];
    const Hub hub = arguments.hubs[item.hub];
    if (hub.numPieces <= kMostPiecesPerBlock) continue;
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
        if (lane == 0) stats[h] = {baseOf(all.max), factorOf(all.sum)};
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
cudaError_t launch(SoftmaxArguments<T> arguments, const Schedule& schedule, const LaunchTarget& target) {
  const int64_t headVectors = arguments.heads / kVec;
  arguments.perEdge = static_cast<int>(std::min(headVectors, int64_t{kMostPerEdge}));
  const int64_t tiles = (headVectors + arguments.perEdge - 1) / arguments.perEdge;
  // A class takes the rows that the next one's registers do not hold.
  unsigned blocks = static_cast<unsigned>(schedule.numHubs);
  int64_t item = schedule.numPieces;
  for (int c = 0; c < kClasses; ++c) {
    const bool isLast = c + 1 == kClasses;
    const int64_t held = isLast ? 0 : int64_t{kLanesOf[c + 1] / arguments.perEdge} * kSteps;
    const int64_t end = isLast ? schedule.numItems : std::max(item, schedule.longerThan(held));
    arguments.firstBlock[c] = blocks;
    arguments.firstItem[c] = item;
    const int64_t perBlock = kThreads / kLanesOf[c];
    blocks += static_cast<unsigned>((end - item + perBlock - 1) / perBlock);
    item = end;
  }
  arguments.firstBlock[kClasses] = blocks;
  arguments.firstItem[kClasses] = item;
  const auto slowAxis = static_cast<unsigned>(std::min(tiles, int64_t{65535}));
  const cudaError_t error =
      launchKernel(segmentSoftmaxKernel<T, kVec>, dim3(blocks, slowAxis), kThreads, target, arguments);
  if (error != cudaSuccess || softmaxPartials(schedule) == 0) return error;
  const auto pieces = static_cast<unsigned>(std::min(schedule.numPieces, kMostBlocks));
  const cudaError_t pieceError =
      launchKernel(pieceSoftmaxKernel<T, kVec>, dim3(pieces, slowAxis), kThreads, target, arguments);
  if (pieceError != cudaSuccess) return pieceError;
  return launchKernel(hubSoftmaxKernel<T>, pieces, kThreads, target, arguments);
}

}  // namespace

int64_t softmaxPartials(const Schedule& schedule) {
  return schedule.largestHub > kMostPiecesPerBlock ? schedule.numPieces : 0;
}

cudaError_t launchSegmentSoftmax(DType dtype, const void* scores, void* out, int64_t heads,
                                 const Schedule& schedule, void* workspace, const LaunchTarget& target) {
  if (schedule.numItems == 0 || heads == 0) return cudaSuccess;
  return dispatchFloat(dtype, [&](auto element) {
    using T = decltype(element);
    constexpr int kWidest = 4;  // of half types too: more would not fit in registers
    SoftmaxArguments<T> arguments{};
    arguments.scores = static_cast<const T*>(scores);
    arguments.out = static_cast<T*>(out);
    arguments.partials = static_cast<Stats*>(workspace);
    arguments.heads = heads;
    arguments.items = schedule.items;
    arguments.hubs = schedule.hubs;
    arguments.numHubs = schedule.numHubs;
    arguments.numPieces = schedule.numPieces;
    // An edge's scores start at a multiple of the heads: only a vector that divides them is aligned
    // everywhere.
    if (heads % kWidest == 0) return launch<T, kWidest>(arguments, schedule, target);
    if (heads % 2 == 0) return launch<T, 2>(arguments, schedule, target);
    return launch<T, 1>(arguments, schedule, target);
  });
}

}  // namespace warpgraph
