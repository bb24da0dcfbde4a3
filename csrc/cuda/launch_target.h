#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <unordered_map>

namespace warpgraph {

// What launchers want to know of a card.
struct DeviceLimits {
  int computeCapability;  // 10·major + minor, of the card or of the code that runs on it if that is less
  int multiprocessors;
  int64_t l2Bytes;
  int sharedBytesPerBlock;  // with cudaFuncSetAttribute
};

// The kernels that were launched on a device before, by their address on the host.
using LoadedKernels = std::unordered_map<const void*, CUfunction>;

// Where a launcher queues its work.
struct LaunchTarget {
  cudaStream_t stream;
  DeviceLimits limits;
  LoadedKernels* loaded;  // used by the stream's thread alone
};

}  // namespace warpgraph
