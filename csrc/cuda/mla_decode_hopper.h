// Attention of absorbed queries over latents on Hopper, in float16 and bfloat16 (FlashMLA's way).
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/mla_attention.h"

namespace warpgraph {

// Whether this path computes it: compute capability 9.0, half dtype, rank a multiple of 64 up to 512, ropeDim
// 0 or 64, latents and rope part aligned to 16 bytes.
bool mlaDecodeHopperTakes(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int computeCapability);

int64_t mlaDecodeHopperWorkspaceBytes(const MlaSizes& sizes, int64_t numSplits, int numMultiprocessors);

// qLatent and qRope are aligned to 16 bytes and their strides are multiples of 8 elements; out and the
// workspace are aligned to 16 bytes. numSplits 0: as it suits the card and the lengths, see Cut.
// `early` when the kernel before it in the stream makes nothing but the queries and lets this one come only
// after all before itself is done: the latents are then read while the queries are made.
cudaError_t launchMlaDecodeHopper(DType dtype, const MlaLatentAttention& attention, const MlaSizes& sizes,
                                  int64_t numSplits, bool early, void* workspace, const LaunchTarget& target);

}  // namespace warpgraph
