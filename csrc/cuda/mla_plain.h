#pragma once

#include "cuda/mla_attention.h"

namespace warpgraph {

// Attention in the latents' space by plain loops, for every shape and option.
struct MlaPlainAttention {
  const void* q;  // (batch, numQueries, heads, headDim), or in the latents' space (…, rank) when wUpK is null
  int64_t qStride;  // elements from one (b, t, h) row to the next
  const void* qRope;
  int64_t qRopeStride;
  const void* wUpK;  // (rank, heads, headDim), or null
  const void* wUpV;  // (rank, heads, valueDim), or null: out (batch, numQueries, heads, rank) is in the
                     // latents' space
  MlaKeys keys;
  void* out;
  float* lse;         // or null
  const int* onlyIf;  // device flag, or null: do nothing when it is 0
};

MlaPlainAttention plainOf(const MlaAttention& attention, const MlaSizes& sizes);
MlaPlainAttention plainOf(const MlaLatentAttention& attention);

size_t mlaPlainWorkspaceBytes(const MlaSizes& sizes);

cudaError_t launchMlaPlain(DType dtype, const MlaPlainAttention& attention, const MlaSizes& sizes,
                           void* workspace, cudaStream_t stream);

}  // namespace warpgraph
