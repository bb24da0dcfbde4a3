// Chooses vector width and tile for a reduction over neighbours, and launches it.
#pragma once

#include "cuda/csr_reduce.cuh"

namespace warpgraph {

// Bytes of the feature matrix that stay in L2 while warps gather from it: the part of L2 that streams of
// indices and results leave alone.
inline int64_t residentBytes(const DeviceLimits& limits) {
  return limits.l2Bytes * 4 / 5;
}

constexpr int64_t kMostTiles = 65535;  // of a grid's slow axis; kernels loop over the rest
constexpr unsigned kSmallBlock = 64;
constexpr int64_t kFewLanes = kReduceThreads * 8;  // of a multiprocessor

template <typename T, int kVec, int kLanes, typename Reduce>
cudaError_t launchReduceWith(ReduceArguments<T> arguments, const Reduce& reduce, const LaunchTarget& target) {
  Items& schedule = arguments.schedule;
  const int64_t tiles = (int64_t{arguments.features} + kLanes * kVec - 1) / (kLanes * kVec);
  const auto launch = [&](auto* kernel, unsigned threads) {
    const int64_t workers = threads / kLanes;
    int64_t blocks = 0;
    for (int c = 0; c < kClasses; ++c) {
      arguments.firstBlock[c] = static_cast<unsigned>(blocks);
      const int64_t items = schedule.firstOfClass[c + 1] - schedule.firstOfClass[c];
      blocks += (items + (workers << c) - 1) / (workers << c);
    }
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(std::min(tiles, kMostTiles)));
    return launchKernel(kernel, grid, threads, target, arguments, reduce);
  };
  // Too few rows to give every multiprocessor several blocks' worth: a row a worker, in small blocks, so that
  // all multiprocessors take part.
  const int64_t lanes = schedule.numItems * tiles * kLanes;
  if (lanes <= target.limits.multiprocessors * kFewLanes) {
    std::fill(schedule.firstOfClass + 1, schedule.firstOfClass + kClasses, schedule.numItems);
    return launch(csrReduceKernel<T, kVec, kLanes, std::min(kLanes, 16), 2, Reduce>, kSmallBlock);
  }
  // With four blocks of workers of 8 lanes, the compiler does not find registers for 8 reads at once.
  constexpr int kBlocks = kLanes == 8 ? 3 : 4;
  return launch(csrReduceKernel<T, kVec, kLanes, 8, kBlocks, Reduce>, kReduceThreads);
}

template <typename T, int kVec, int kVectors, typename Reduce>
cudaError_t launchReduceNarrow(ReduceArguments<T> arguments, const Reduce& reduce,
                               const LaunchTarget& target) {
  const Items& schedule = arguments.schedule;
  const BlockPlan plan = planBlocks(schedule.numItems, schedule.numLong, kReduceThreads / kWarpSize,
                                    kReduceThreads / kNarrowLanes);
  arguments.longBlocks = plan.longBlocks;
  return launchKernel(csrReduceNarrowKernel<T, kVec, kVectors, Reduce>, plan.blocks, kReduceThreads, target,
                      arguments, reduce);
}

// A worker as wide as the row, up to the tile: at 16 bytes a lane the widest tile whose columns of x stay in
// L2, and whole warps when no tile does, since then only wide reads help.
template <typename T, int kVec, typename Reduce>
cudaError_t launchReduceVectors(const ReduceArguments<T>& arguments, int64_t numSrc, const Reduce& reduce,
                                const LaunchTarget& target) {
  const int64_t vectors = arguments.features / kVec;
  if (vectors == 1) return launchReduceNarrow<T, kVec, 1>(arguments, reduce, target);
  if (vectors == 2) return launchReduceNarrow<T, kVec, 2>(arguments, reduce, target);
  if (vectors <= 4) return launchReduceNarrow<T, kVec, 4>(arguments, reduce, target);
  if (vectors <= 8) return launchReduceWith<T, kVec, 8>(arguments, reduce, target);
  if constexpr (kVec * sizeof(T) == 16) {
    const auto stays = [&](int64_t lanes) { return numSrc * lanes * 16 <= residentBytes(target.limits); };
    if (vectors <= 16) return launchReduceWith<T, kVec, 16>(arguments, reduce, target);
    if (!stays(vectors)) {
      if (stays(16)) return launchReduceWith<T, kVec, 16>(arguments, reduce, target);
      if (stays(8)) return launchReduceWith<T, kVec, 8>(arguments, reduce, target);
    }
  }
  return launchReduceWith<T, kVec, 32>(arguments, reduce, target);
}

template <typename T, typename Reduce>
cudaError_t launchReduce(const ReduceArguments<T>& arguments, int64_t numSrc, const Reduce& reduce,
                         const LaunchTarget& target) {
  const int64_t features = arguments.features;
  const int64_t numHubs = arguments.schedule.numHubs;
  if (features == 0 || arguments.schedule.numItems == 0) return cudaSuccess;
  // Rows start at multiples of their width: only a vector that divides it is aligned in all of them.
  constexpr int kWidest = 16 / sizeof(T);
  const auto launch = [&] {
    if (features % kWidest == 0) return launchReduceVectors<T, kWidest>(arguments, numSrc, reduce, target);
    if (features % (kWidest / 2) == 0)
      return launchReduceVectors<T, kWidest / 2>(arguments, numSrc, reduce, target);
    if (features % 2 == 0) return launchReduceVectors<T, 2>(arguments, numSrc, reduce, target);
    return launchReduceVectors<T, 1>(arguments, numSrc, reduce, target);
  };
  const cudaError_t error = launch();
  if (error != cudaSuccess || numHubs == 0) return error;
  const dim3 grid(static_cast<unsigned>(std::min(numHubs, kMostBlocks)),
                  static_cast<unsigned>(std::min((features + kWarpSize - 1) / kWarpSize, kMostTiles)));
  return launchKernel(csrMergeKernel<T, Reduce>, grid, kReduceThreads, target, arguments, reduce);
}

}  // namespace warpgraph
