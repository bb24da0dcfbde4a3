// The first step of the absorbed way for many sequences: queries are projected down to the latents' space.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/dtype.h"
#include "cuda/mla_attention.h"

namespace warpgraph {

// Half types of so many rows that launchMatmul's tiles would not fit on the card at once. The choice may
// depend on the batch, since the bits are the same.
bool mlaDownTakes(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                  const DeviceLimits& limits);

// qLatent (batch, numQueries, heads, rank) = q·wUpKᵀ per head, with the bits of launchMatmul(). As there, a
// kernel that comes early after this one may take all that was written before for done.
cudaError_t launchMlaDown(DType dtype, const MlaAttention& attention, const MlaSizes& sizes, void* qLatent,
                          const LaunchTarget& target);

}  // namespace warpgraph
