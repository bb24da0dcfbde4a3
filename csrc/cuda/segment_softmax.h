#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/dtype.h"
#include "cuda/schedule.h"

namespace warpgraph {

// A piece's maximum and sum, of one head. The workspace holds (numPieces, heads) of them.
constexpr size_t kSoftmaxPartialBytes = 2 * sizeof(float);

// Softmax over each row's edges, per head. scores and out (E, heads) in dtype.
cudaError_t launchSegmentSoftmax(DType dtype, const void* scores, void* out, int64_t heads,
                                 const Schedule& schedule, void* workspace, cudaStream_t stream);

}  // namespace warpgraph
