#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/dtype.h"
#include "cuda/schedule.h"

namespace warpgraph {

// Bytes of device memory that launchSegmentSoftmax writes the maxima and sums of pieces to.
size_t segmentSoftmaxWorkspaceBytes(const Schedule& schedule, int64_t heads);

// Softmax over each row's edges, per head. scores and out (E, heads) in dtype.
cudaError_t launchSegmentSoftmax(DType dtype, const void* scores, void* out, int64_t heads,
                                 const Schedule& schedule, void* workspace, cudaStream_t stream);

}  // namespace warpgraph
