#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/dtype.h"
#include "cuda/schedule.h"

namespace warpgraph {

// Bytes of device memory that launchCsrMax writes partial maxima to.
size_t csrMaxWorkspaceBytes(const Schedule& schedule, int64_t features, bool withIndices);

// out[i] = feature-wise maximum of x[src] over row i's edges, `empty` for a row without edges. colIdx (E);
// x (numSrc, features) and out (N, features) in dtype; features < 2^32. indices (N, features), null or the
// winning edges: the lowest on ties, −1 for a row without edges.
cudaError_t launchCsrMax(DType dtype, const int32_t* colIdx, const void* x, float empty, void* out,
                         int32_t* indices, int64_t numSrc, int64_t features, const Schedule& schedule,
                         void* workspace, cudaStream_t stream);

}  // namespace warpgraph
