// The last step of the absorbed way where the keys of all sequences are in a few splits, not merged yet:
// merges and projects up in one kernel.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/dtype.h"
#include "cuda/mla_combine.h"

namespace warpgraph {

// On compute capability 9.0, half types, as many heads and rows as fill the card just once. The choice may
// depend on the batch, since the bits are the same: mma.sync, of which this kernel is made, and wgmma, of
// which launchMatmul() is, gave the same in all that was tried, which nothing promises.
bool mlaUpTakes(DType dtype, const MlaPartials& partials, const MlaAttention& attention,
                const MlaSizes& sizes, const DeviceLimits& limits);

// attention.out and attention.lse, with the bits that launchMlaCombine() and launchMatmul() would give.
// attention.wUpV is read at once, like Matmul::b with bIsThere.
cudaError_t launchMlaUp(DType dtype, const MlaPartials& partials, const MlaAttention& attention,
                        const MlaSizes& sizes, const LaunchTarget& target);

}  // namespace warpgraph
