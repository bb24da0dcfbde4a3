#pragma once

#include "cuda/mla_attention.h"

namespace warpgraph {

// Whether a sequence's latents and a head's weights fit in a block's shared memory, and the work in a few
// microseconds.
bool mlaSmallTakes(DType dtype, const MlaSizes& sizes, const MlaKeys& keys);

// The whole op in one launch, with every option; no workspace.
cudaError_t launchMlaSmall(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                           const LaunchTarget& target);

}  // namespace warpgraph
