// Chooses vector width and tile for a reduction over neighbours, and launches it.
#pragma once

#include "cuda/csr_reduce.cuh"

namespace warpgraph {

// Bytes of the feature matrix that stay in L2 while warps gather from it: the part of L2 that streams of
// indices and results leave alone.
inline int64_t residentBytes() {
  int device = 0;
  int l2Bytes = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&l2Bytes, cudaDevAttrL2CacheSize, device);
  return int64_t{l2Bytes} * 4 / 5;
}

constexpr int64_t kMostTiles = 65535;  // of a grid's slow axis; kernels loop over the rest

template <typename T, int kVec, int kLanes, typename Reduce>
cudaError_t launchReduceWith(ReduceArguments<T> arguments, const Reduce& reduce, cudaStream_t stream) {
  constexpr int kWorkers = kReduceThreads / kLanes;
  const int64_t tiles = (int64_t{arguments.features} + kLanes * kVec - 1) / (kLanes * kVec);
  const BlockPlan plan = planBlocks(arguments.schedule, kWorkers, kWorkers * kShortRows);
  arguments.longBlocks = plan.longBlocks;
  const dim3 grid(plan.blocks, static_cast<unsigned>(std::min(tiles, kMostTiles)));
  csrReduceKernel<T, kVec, kLanes, Reduce><<<grid, kReduceThreads, 0, stream>>>(arguments, reduce);
  return cudaGetLastError();
}

template <typename T, int kVec, int kVectors, typename Reduce>
cudaError_t launchReduceNarrow(ReduceArguments<T> arguments, const Reduce& reduce, cudaStream_t stream) {
  const BlockPlan plan =
      planBlocks(arguments.schedule, kReduceThreads / kWarpSize, kReduceThreads / kNarrowLanes);
  arguments.longBlocks = plan.longBlocks;
  csrReduceNarrowKernel<T, kVec, kVectors, Reduce>
      <<<plan.blocks, kReduceThreads, 0, stream>>>(arguments, reduce);
  return cudaGetLastError();
}

// A worker as wide as the row, up to the tile: at 16 bytes a lane the widest tile whose columns of x stay in
// L2, and whole warps when no tile does, since then only wide reads help.
template <typename T, int kVec, typename Reduce>
cudaError_t launchReduceVectors(const ReduceArguments<T>& arguments, int64_t numSrc, const Reduce& reduce,
                                cudaStream_t stream) {
  const int64_t vectors = arguments.features / kVec;
  if (vectors == 1) return launchReduceNarrow<T, kVec, 1>(arguments, reduce, stream);
  if (vectors == 2) return launchReduceNarrow<T, kVec, 2>(arguments, reduce, stream);
  if (vectors <= 4) return launchReduceNarrow<T, kVec, 4>(arguments, reduce, stream);
  if (vectors <= 8) return launchReduceWith<T, kVec, 8>(arguments, reduce, stream);
  if constexpr (kVec * sizeof(T) == 16) {
    const auto stays = [&](int64_t lanes) { return numSrc * lanes * 16 <= residentBytes(); };
    if (vectors <= 16) return launchReduceWith<T, kVec, 16>(arguments, reduce, stream);
    if (!stays(vectors)) {
      if (stays(16)) return launchReduceWith<T, kVec, 16>(arguments, reduce, stream);
      if (stays(8)) return launchReduceWith<T, kVec, 8>(arguments, reduce, stream);
    }
  }
  return launchReduceWith<T, kVec, 32>(arguments, reduce, stream);
}

template <typename T, typename Reduce>
cudaError_t launchReduce(const ReduceArguments<T>& arguments, int64_t numSrc, const Reduce& reduce,
                         cudaStream_t stream) {
  const int64_t features = arguments.features;
  if (features == 0 || arguments.schedule.numItems == 0) return cudaSuccess;
  // Rows start at multiples of their width: only a vector that divides it is aligned in all of them.
  constexpr int kWidest = 16 / sizeof(T);
  const auto launch = [&] {
    if (features % kWidest == 0) return launchReduceVectors<T, kWidest>(arguments, numSrc, reduce, stream);
    if (features % (kWidest / 2) == 0)
      return launchReduceVectors<T, kWidest / 2>(arguments, numSrc, reduce, stream);
    if (features % 2 == 0) return launchReduceVectors<T, 2>(arguments, numSrc, reduce, stream);
    return launchReduceVectors<T, 1>(arguments, numSrc, reduce, stream);
  };
  const cudaError_t error = launch();
  if (error != cudaSuccess || arguments.schedule.numHubs == 0) return error;
  const dim3 grid(static_cast<unsigned>(std::min(arguments.schedule.numHubs, kMostBlocks)),
                  static_cast<unsigned>(std::min((features + kWarpSize - 1) / kWarpSize, kMostTiles)));
  csrMergeKernel<T, Reduce><<<grid, kReduceThreads, 0, stream>>>(arguments, reduce);
  return cudaGetLastError();
}

}  // namespace warpgraph
