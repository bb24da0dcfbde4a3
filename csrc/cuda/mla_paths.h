// The ways to compute multi-head latent attention by several kernels, one launcher and one workspace each.
#pragma once

#include "cuda/mla_attention.h"

namespace warpgraph {

// The absorbed core by the fastest kernel that takes it, the plain one at last. `early` when it is queued
// right behind the launchMatmul that makes its queries.
size_t mlaLatentWorkspaceBytes(DType dtype, const MlaLatentAttention& attention, const MlaSizes& sizes,
                               int64_t numSplits, const DeviceLimits& limits);
cudaError_t launchMlaLatent(DType dtype, const MlaLatentAttention& attention, const MlaSizes& sizes,
                            int64_t numSplits, bool early, void* workspace, const LaunchTarget& target);
// Whether that is a kernel on tensor cores.
bool mlaLatentIsFast(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, const DeviceLimits& limits);

// Absorb: queries are projected down to the latents' space, which serves as keys and values, and results up.
size_t mlaAbsorbedWorkspaceBytes(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                                 int64_t numSplits, const DeviceLimits& limits);
cudaError_t launchMlaAbsorbed(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                              int64_t numSplits, void* workspace, const LaunchTarget& target);

// Expand: keys and values are projected up, chunk by chunk, and attention runs over them.
bool mlaExpandedTakes(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, const DeviceLimits& limits);
size_t mlaExpandedWorkspaceBytes(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                                 const DeviceLimits& limits);
cudaError_t launchMlaExpanded(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                              void* workspace, const LaunchTarget& target);

}  // namespace warpgraph
