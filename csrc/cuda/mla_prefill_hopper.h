#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/dtype.h"
#include "cuda/mla_attention.h"

namespace warpgraph {

// float16 and bfloat16 on compute capability 9.0; headDim = valueDim = 64 or 128, ropeDim 0 or 64, a positive
// scale.
bool mlaPrefillHopperTakes(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int computeCapability);

int64_t mlaPrefillHopperWorkspaceBytes();

// All pointers of `attention` are 16-byte aligned. With paged keys firstKey is a multiple of 128. The
// workspace holds zeros, and is left so: one serves all chunks in turn.
cudaError_t launchMlaPrefillHopper(DType dtype, const MlaExpandedAttention& attention, const MlaSizes& sizes,
                                   void* workspace, const LaunchTarget& target);

}  // namespace warpgraph
