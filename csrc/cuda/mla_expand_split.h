// Keys and values of the expanded way in float32, split into pairs of float16 (mla_fragments.cuh) once, ahead
// of the attention that multiplies them for every tile of queries.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/launch_target.h"
#include "cuda/mla_attention.h"

namespace warpgraph {

// Bytes for the split rows of a chunk of numKeys keys of sizes.batch sequences.
struct MlaSplitBytes {
  int64_t keys, values, scales;  // scales for either
};
MlaSplitBytes mlaSplitBytes(const MlaSizes& sizes, int64_t numKeys);

// Where split rows go: (batch, heads, keys padded to a tile, columns), 4 bytes a column, as the attention's
// tiles hold them, and what each row was divided by: of keys the factor, of values its exponent.
struct MlaSplitRows {
  void* rows;
  float* scales;
};

// Split a chunk's keys (batch, chunkKeys, heads, headDim), with their rotary parts behind them, and its
// values (batch, chunkKeys, heads, valueDim). Of what lies past a length nothing is read; it becomes zeros.
cudaError_t launchMlaSplitKeys(const void* k, const MlaKeys& keys, int64_t firstKey, int64_t chunkKeys,
                               const MlaSizes& sizes, const MlaSplitRows& to, const LaunchTarget& target);
cudaError_t launchMlaSplitValues(const void* v, const MlaKeys& keys, int64_t firstKey, int64_t chunkKeys,
                                 const MlaSizes& sizes, const MlaSplitRows& to, const LaunchTarget& target);

}  // namespace warpgraph
