// Errors that end the process's use of a device are latched here, so that every later call can say so at
// once.
#pragma once

#include <cuda_runtime_api.h>

namespace warpgraph {

// The error that a device was lost to; cudaSuccess while it is well.
cudaError_t lostTo(int device);

// Latches the error when it is of the kind that corrupts the device's context: an illegal access, a failed
// kernel, a hardware fault. Everything else leaves the device as it was.
void noteError(int device, cudaError_t error);

}  // namespace warpgraph
