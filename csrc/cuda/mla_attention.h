// Multi-head latent attention: the types that its kernels share, and the launchers that choose among them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/dtype.h"
#include "cuda/launch_target.h"

namespace warpgraph {

// Which keys there are and which a query sees.
struct MlaKeys {
  const void* latent;  // (batch, numKeys, rank), or (numPages, pageSize, rank)
  const void* rope;    // (batch, numKeys, ropeDim), or (numPages, pageSize, ropeDim); null when ropeDim is 0
  const int32_t* lengths;     // (batch), or null: all numKeys
  const int32_t* blockTable;  // (batch, pagesPerSequence), or null: not paged
  int64_t numKeys;            // capacity of a sequence; pagesPerSequence · pageSize when paged
  int64_t pageSize, numPages, pagesPerSequence;  // 0 when not paged
};

// Query t sees key s when s is below the sequence's length and, if causal, s ≤ t + offset, where the offset
// is queryOffset, or without one length − numQueries (aligned bottom-right).
struct MlaSizes {
  int64_t batch, numQueries, heads, headDim, valueDim, rank, ropeDim;
  float scale;
  bool causal;
  bool hasQueryOffset;  // else bottom-right
  int64_t queryOffset;
  bool tf32;  // float32 inputs: one TF32 product is enough
};

// The absorbed core: softmax(scale·(qLatent·latent + qRope·rope))·latent.
struct MlaLatentAttention {
  const void* qLatent;    // (batch, numQueries, heads, rank)
  int64_t qLatentStride;  // elements from one (b, t, h) row to the next
  const void* qRope;      // (batch, numQueries, heads, ropeDim)
  int64_t qRopeStride;
  MlaKeys keys;
  void* out;   // (batch, numQueries, heads, rank), contiguous, in the inputs' dtype
  float* lse;  // (batch, heads, numQueries), or null
};

// The expanded core on one chunk [firstKey, firstKey + chunkKeys) of every sequence's keys.
struct MlaExpandedAttention {
  const void* q;      // (batch, numQueries, heads, headDim)
  const void* qRope;  // (batch, numQueries, heads, ropeDim)
  const void* k;  // (batch, chunk keys, heads, headDim), float32: split as mla_expand_split.h says; rows past
                  // a length are zeros
  const void* v;  // (batch, chunk keys, heads, valueDim), the same
  MlaKeys keys;   // latent unused; rope, lengths, blockTable as above
  int64_t firstKey, chunkKeys;
  bool first, last;  // of the chunks: not first: merge with (running, lse); not last: leave the float32 mean
                     // in running
  float* running;    // (batch, numQueries, heads, valueDim) float32; unused when first && last
  void* out;         // (batch, numQueries, heads, valueDim), written when last
  float* lse;        // (batch, heads, numQueries); null is allowed only when first && last
  const int* nonFinite;         // device flag: not 0: do nothing
  const float* keyScales;       // (batch, heads, padded chunk keys), of split keys; unused for halves
  const float* valueExponents;  // the same of split values
};

// The whole op, with k = latent·wUpK and v = latent·wUpV.
struct MlaAttention {
  const void* q;      // (batch, numQueries, heads, headDim)
  const void* qRope;  // (batch, numQueries, heads, ropeDim); null when ropeDim is 0
  const void* wUpK;   // (rank, heads, headDim)
  const void* wUpV;   // (rank, heads, valueDim)
  MlaKeys keys;
  void* out;   // (batch, numQueries, heads, valueDim)
  float* lse;  // (batch, heads, numQueries): natural log of Σ exp(logit), −∞ where no key is seen; or null
};

// The numbers are those of typings/addon.d.ts.
enum class MlaAlgorithm : int { kAuto = 0, kAbsorb = 1, kExpand = 2 };

constexpr int kMlaAlgorithmCount = 3;

// Bounds the workspace, which holds a partial result per split.
constexpr int64_t kMostMlaSplits = 1024;

// How the caller asked for it to be computed.
struct MlaPlan {
  MlaAlgorithm algorithm;
  int64_t numSplits;  // pieces that a sequence's keys are cut into; 0: as many as seem best
};

// softmax(scale·(q·k + qRope·kRope))·v; a query that sees no key gives zeros. No key is read that no query
// sees.
size_t mlaAttentionWorkspaceBytes(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                                  const MlaPlan& plan, const DeviceLimits& limits);
cudaError_t launchMlaAttention(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                               const MlaPlan& plan, void* workspace, const LaunchTarget& target);

// The absorbed core alone, for callers who absorbed the up-projections themselves; headDim and valueDim are
// unused.
size_t mlaDecodeWorkspaceBytes(DType dtype, const MlaLatentAttention& attention, const MlaSizes& sizes,
                               const MlaPlan& plan, const DeviceLimits& limits);
cudaError_t launchMlaDecode(DType dtype, const MlaLatentAttention& attention, const MlaSizes& sizes,
                            const MlaPlan& plan, void* workspace, const LaunchTarget& target);

}  // namespace warpgraph
