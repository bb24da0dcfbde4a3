#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/dtype.h"
#include "cuda/launch_target.h"
#include "cuda/schedule.h"

namespace warpgraph {

// A piece's maximum and sum, of one head.
constexpr size_t kSoftmaxPartialBytes = 2 * sizeof(float);

// How many of them the workspace holds per head: one for each piece, when some row is done in pieces.
int64_t softmaxPartials(const Schedule& schedule);

// Softmax over each row's edges, per head. scores and out (E, heads) in dtype.
cudaError_t launchSegmentSoftmax(DType dtype, const void* scores, void* out, int64_t heads,
                                 const Schedule& schedule, void* workspace, const LaunchTarget& target);

}  // namespace warpgraph
