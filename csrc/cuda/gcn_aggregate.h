#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/dtype.h"

namespace warpgraph {

// out[i] = Σ x[src] / √(dstDegrees[i]·srcDegrees[src]) over row i's edges. rowPtr (numRows + 1), colIdx (E);
// x (S, features) and out (numRows, features) in dtype; dstDegrees (numRows), srcDegrees (S).
cudaError_t launchGcnAggregate(DType dtype, const int32_t* rowPtr, const int32_t* colIdx, const void* x,
                               const float* dstDegrees, const float* srcDegrees, void* out, int64_t numRows,
                               int64_t features, cudaStream_t stream);

}  // namespace warpgraph
