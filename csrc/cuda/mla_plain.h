#pragma once

#include "cuda/mla_attention.h"

namespace warpgraph {

// Attention in the latents' space by plain loops, for every shape and option.
struct MlaPlainAttention {
  bool absorbed;    // q is in the latents' space already, and out stays there: no up-projections
  const void* q;    // (batch, numQueries, heads, headDim); absorbed: (…, rank)
  int64_t qStride;  // elements from one (b, t, h) row to the next
  const void* qRope;
  int64_t qRopeStride;
  const void* wUpK;  // (rank, heads, headDim)
  const void* wUpV;  // (rank, heads, valueDim)
  MlaKeys keys;
  void* out;          // (batch, numQueries, heads, valueDim); absorbed: (…, rank)
  float* lse;         // or null
  const int* onlyIf;  // device flag, or null: do nothing when it is 0
};

MlaPlainAttention plainOf(const MlaAttention& attention, const MlaSizes& sizes);
MlaPlainAttention plainOf(const MlaLatentAttention& attention);

size_t mlaPlainWorkspaceBytes(const MlaSizes& sizes);

cudaError_t launchMlaPlain(DType dtype, const MlaPlainAttention& attention, const MlaSizes& sizes,
                           void* workspace, const LaunchTarget& target);

}  // namespace warpgraph
