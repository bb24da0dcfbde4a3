#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace warpgraph {

// What launchers want to know of a card.
struct DeviceLimits {
  int computeCapability;  // 10·major + minor, of the card or of the code that runs on it if that is less
  int multiprocessors;
  int64_t l2Bytes;
  int sharedBytesPerBlock;  // with cudaFuncSetAttribute
};

// Where a launcher queues its work.
struct LaunchTarget {
  cudaStream_t stream;
  DeviceLimits limits;
};

}  // namespace warpgraph
