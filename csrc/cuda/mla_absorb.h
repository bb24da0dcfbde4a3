// The absorbed core of multi-head latent attention on warp-level tensor cores, for shapes and cards that have
// no kernel of their own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/dtype.h"
#include "cuda/mla_attention.h"

namespace warpgraph {

// Whether launchMlaAbsorb can run these sizes on the current device: compute capability 8.0 and later, rank
// up to 1024 and rope dimension up to 256 that fit its shared memory.
bool mlaAbsorbTakes(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int computeCapability);

// Into how many parts to split every sequence's keys so that the launch fills the device.
int64_t mlaAbsorbSplits(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int numMultiprocessors);

// The partial results of the splits; 0 for one split.
int64_t mlaAbsorbWorkspaceBytes(const MlaSizes& sizes, int64_t numSplits);

cudaError_t launchMlaAbsorb(DType dtype, const MlaLatentAttention& attention, const MlaSizes& sizes,
                            int64_t numSplits, void* workspace, const LaunchTarget& target);

}  // namespace warpgraph
