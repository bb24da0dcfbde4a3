#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/dtype.h"
#include "cuda/launch_target.h"

namespace warpgraph {

struct MlaSizes {
  int64_t batch, numQueries, numKeys, heads, headDim, valueDim, rank, ropeDim;
  float scale;
  bool causal;
};

// All in one dtype, row-major: q (batch, numQueries, heads, headDim), kvLatent (batch, numKeys, rank),
// wUpK (rank, heads, headDim), wUpV (rank, heads, valueDim), qRope (batch, numQueries, heads, ropeDim) and
// kRope (batch, numKeys, ropeDim), both unused when ropeDim is 0; out (batch, numQueries, heads, valueDim).
struct MlaTensors {
  const void *q, *kvLatent, *wUpK, *wUpV, *qRope, *kRope;
  void* out;
};

// Blocks of a launch. The workspace holds (blocks, 2, rank) float32.
int64_t mlaAttentionBlocks(const MlaSizes& sizes);

// softmax(scale·(q·k + qRope·kRope))·v with k = latent·wUpK, v = latent·wUpV; query t sees key s when not
// causal or s ≤ t + numKeys − numQueries, and a query that sees no key gives zeros.
cudaError_t launchMlaAttention(DType dtype, const MlaTensors& tensors, const MlaSizes& sizes, void* workspace,
                               const LaunchTarget& target);

}  // namespace warpgraph
