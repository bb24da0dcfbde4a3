#pragma once

#include <cuda_runtime_api.h>

namespace warpgraph {

// A kernel that does nothing: what any launch costs at least.
cudaError_t launchEmpty(cudaStream_t stream);

}  // namespace warpgraph
