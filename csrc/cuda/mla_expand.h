// The expanded core of multi-head latent attention on warp-level tensor cores, for shapes and cards that have
// no kernel of their own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/dtype.h"
#include "cuda/mla_attention.h"

namespace warpgraph {

// Whether launchMlaExpand can run these sizes on the current device: compute capability 8.0 and later, head,
// value and rope dimensions up to 256 that fit its shared memory.
bool mlaExpandTakes(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int computeCapability);

// Attention over one chunk of keys; needs no workspace.
cudaError_t launchMlaExpand(DType dtype, const MlaExpandedAttention& attention, const MlaSizes& sizes,
                            const LaunchTarget& target);

}  // namespace warpgraph
