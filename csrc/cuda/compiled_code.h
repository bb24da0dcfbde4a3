#pragma once

#include <cuda_runtime_api.h>

namespace warpgraph {

// The compute capability that the code which runs on the current device was compiled for: that of its machine
// code, or of the PTX that the driver compiles for a card newer than the machine codes. 90 means that
// Hopper's own instructions are in it, which is not so when it comes from PTX; such code counts as 89.
cudaError_t compiledCapability(int* capability);

}  // namespace warpgraph
