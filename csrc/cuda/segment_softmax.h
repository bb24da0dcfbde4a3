#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/dtype.h"

namespace warpgraph {

// Softmax over each row's edges, per head. rowPtr (numRows + 1); scores and out (rowPtr[numRows], heads) in
// dtype.
cudaError_t launchSegmentSoftmax(DType dtype, const int32_t* rowPtr, const void* scores, void* out,
                                 int64_t numRows, int64_t heads, cudaStream_t stream);

}  // namespace warpgraph
