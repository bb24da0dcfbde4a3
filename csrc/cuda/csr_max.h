#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/dtype.h"
#include "cuda/launch_target.h"
#include "cuda/schedule.h"

namespace warpgraph {

// out[i] = feature-wise maximum of x[src] over row i's edges, `empty` for a row without edges. colIdx (E);
// x (numSrc, features) and out (N, features) in dtype; features < 2^32. indices (N, features), null or the
// winning edges: the lowest on ties, −1 for a row without edges. workspace holds (numPieces, features)
// float32, and with indices as many int32.
cudaError_t launchCsrMax(DType dtype, const int32_t* colIdx, const void* x, float empty, void* out,
                         int32_t* indices, int64_t numSrc, int64_t features, const Schedule& schedule,
                         void* workspace, const LaunchTarget& target);

}  // namespace warpgraph
