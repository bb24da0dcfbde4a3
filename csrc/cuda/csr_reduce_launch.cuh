// Chooses vector width and tile for a reduction over neighbours, and launches it.
#pragma once

#include "cuda/csr_reduce.cuh"

namespace warpgraph {

// Bytes of the feature matrix that stay in L2 while workers gather from it: the part of L2 that streams of
// indices and results leave alone.
inline int64_t residentBytes() {
  int device = 0;
  int l2Bytes = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&l2Bytes, cudaDevAttrL2CacheSize, device);
  return int64_t{l2Bytes} * 4 / 5;
}

template <typename T, int kVec, int kLanes, typename Reduce>
cudaError_t launchReduceWith(const ReduceArguments<T>& arguments, const Reduce& reduce, cudaStream_t stream) {
  constexpr int kWorkers = kReduceThreads / kLanes;
  constexpr int64_t kMostTiles = 65535;  // of the grid; the kernel loops over the rest
  const int64_t tiles = (arguments.features + kLanes * kVec - 1) / (kLanes * kVec);
  const dim3 grid(static_cast<unsigned>((arguments.schedule.numItems + kWorkers - 1) / kWorkers),
                  static_cast<unsigned>(std::min(tiles, kMostTiles)));
  csrReduceKernel<T, kVec, kLanes, Reduce><<<grid, kReduceThreads, 0, stream>>>(arguments, reduce);
  return cudaGetLastError();
}

// Lanes of a worker at 16 bytes a lane: the widest tile whose columns of x stay in L2; a row at a time when
// no tile does, since then only wide reads help. Never wider than the row needs.
template <typename T, int kVec, typename Reduce>
cudaError_t launchReduceTiled(const ReduceArguments<T>& arguments, int64_t numSrc, const Reduce& reduce,
                              cudaStream_t stream) {
  const int64_t rowVectors = (arguments.features + kVec - 1) / kVec;
  const auto fits = [&](int64_t lanes) { return numSrc * lanes * 16 <= residentBytes(); };
  int lanes = 32;
  if (numSrc * rowVectors * 16 > residentBytes()) {
    lanes = fits(16) ? 16 : fits(8) ? 8 : 32;
  } else {
    lanes = 16;
  }
  while (lanes > 8 && lanes / 2 >= rowVectors) lanes /= 2;
  if (lanes == 32) return launchReduceWith<T, kVec, 32>(arguments, reduce, stream);
  if (lanes == 16) return launchReduceWith<T, kVec, 16>(arguments, reduce, stream);
  return launchReduceWith<T, kVec, 8>(arguments, reduce, stream);
}

template <typename T, int kVec, typename Reduce>
cudaError_t launchReduceNarrow(const ReduceArguments<T>& arguments, const Reduce& reduce,
                               cudaStream_t stream) {
  constexpr int kWorkers = kReduceThreads / 8;
  const unsigned blocks = static_cast<unsigned>((arguments.schedule.numItems + kWorkers - 1) / kWorkers);
  csrReduceNarrowKernel<T, kVec, Reduce><<<blocks, kReduceThreads, 0, stream>>>(arguments, reduce);
  return cudaGetLastError();
}

template <typename T, typename Reduce>
cudaError_t launchReduce(const ReduceArguments<T>& arguments, int64_t numSrc, const Reduce& reduce,
                         cudaStream_t stream) {
  const int64_t features = arguments.features;
  if (features == 0 || arguments.schedule.numItems == 0) return cudaSuccess;
  constexpr int kWidest = 16 / sizeof(T);
  const bool narrow = features <= kNarrow;
  cudaError_t error;
  // Rows start at multiples of their width: only a vector that divides it is aligned in all of them.
  if (features % kWidest == 0) {
    error = narrow ? launchReduceNarrow<T, kWidest>(arguments, reduce, stream)
                   : launchReduceTiled<T, kWidest>(arguments, numSrc, reduce, stream);
  } else if (features % (kWidest / 2) == 0) {
    error = narrow ? launchReduceNarrow<T, kWidest / 2>(arguments, reduce, stream)
                   : launchReduceWith<T, kWidest / 2, 32>(arguments, reduce, stream);
  } else if (features % 2 == 0) {
    error = narrow ? launchReduceNarrow<T, 2>(arguments, reduce, stream)
                   : launchReduceWith<T, 2, 32>(arguments, reduce, stream);
  } else {
    error = narrow ? launchReduceNarrow<T, 1>(arguments, reduce, stream)
                   : launchReduceWith<T, 1, 32>(arguments, reduce, stream);
  }
  if (error != cudaSuccess || arguments.schedule.numHubs == 0) return error;
  const dim3 grid(static_cast<unsigned>(std::min(arguments.schedule.numHubs, kMostBlocks)),
                  static_cast<unsigned>(std::min((features + kWarpSize - 1) / kWarpSize, int64_t{65535})));
  csrMergeKernel<T, Reduce><<<grid, kReduceThreads, 0, stream>>>(arguments, reduce);
  return cudaGetLastError();
}

}  // namespace warpgraph
