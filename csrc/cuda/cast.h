#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/dtype.h"
#include "cuda/launch_target.h"

namespace warpgraph {

// out[i] = input[i] in another dtype, for i < length. Rounds to nearest even; to int32 truncates and
// saturates.
cudaError_t launchCast(DType inputDType, const void* input, DType outDType, void* out, int64_t length,
                       const LaunchTarget& target);

}  // namespace warpgraph
