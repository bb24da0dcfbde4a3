#pragma once

#include <cuda_runtime_api.h>

namespace warpgraph {

// A kernel that does nothing, launched the plain way: what any launch costs at least. It starts when all work
// before it is done, and no kernel after it starts before that either.
cudaError_t launchEmpty(cudaStream_t stream);

}  // namespace warpgraph
