// Merges attention over pieces of the keys (split-KV) into attention over all of them.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/mla_attention.h"

namespace warpgraph {

// What numSplits pieces of every sequence's keys gave, row-major in float32:
//   out (numSplits, batch, numQueries, heads, rank): the softmax-weighted mean of the piece's latents,
//   lse (numSplits, batch, heads, numQueries): natural logarithm of Σ exp(logit), −∞ of a piece in which the
//       query sees no key; such a piece's out is not read and may be left unwritten.
//
// With equal shares (numSplits 0) a sequence is cut where a share of all the keys ends: then
// shares (batch) = {first share, number of shares that the sequence lies in}, out (2·shares, numQueries,
// heads, rank), lse (2·shares, heads, numQueries). Share i leaves in slot 2·i what continues a sequence begun
// by an earlier share, in slot 2·i + 1 a sequence's beginning; {0, −n} says that the sequence has n splits,
// as above. A sequence of one share or split is left alone: its result is written already.
struct MlaPartials {
  const float* out;
  const float* lse;
  const int2* shares;  // or null
  int64_t numSplits;
  int64_t expectedPieces;  // of a query on average; only chooses the shape of the launch
};

// out (batch, numQueries, heads, rank) in dtype; lse (batch, heads, numQueries) or null.
cudaError_t launchMlaCombine(DType dtype, const MlaPartials& partials, const MlaSizes& sizes, void* out,
                             float* lse, const LaunchTarget& target);

}  // namespace warpgraph
