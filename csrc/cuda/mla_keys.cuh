// Which keys a query sees, and where they lie: what kernels of multi-head latent attention share.
#pragma once

#include "cuda/mla_attention.h"

namespace warpgraph {

// Keys of a sequence. Lengths may have been computed on the GPU, where nobody checked them.
__device__ inline int64_t mlaLength(const MlaKeys& keys, int64_t sequence) {
  if (keys.lengths == nullptr) return keys.numKeys;
  return min(max(int64_t{keys.lengths[sequence]}, int64_t{0}), keys.numKeys);
}

// How many keys query t sees: the first ones.
__host__ __device__ inline int64_t mlaSeen(const MlaSizes& sizes, int64_t length, int64_t t) {
  if (!sizes.causal) return length;
  const int64_t offset = sizes.hasQueryOffset ? sizes.queryOffset : length - sizes.numQueries;
  return min(max(t + offset + 1, int64_t{0}), length);
}

// The row of the latents (and of their rope part) that holds key s. Page numbers are clamped, as lengths are.
__device__ inline int64_t mlaRow(const MlaKeys& keys, int64_t sequence, int64_t s) {
  if (keys.blockTable == nullptr) return sequence * keys.numKeys + s;
  const int shift = __ffsll(keys.pageSize) - 1;  // pages are powers of two
  const int64_t entry = keys.blockTable[sequence * keys.pagesPerSequence + (s >> shift)];
  const int64_t page = min(max(entry, int64_t{0}), keys.numPages - 1);
  return (page << shift) + (s & (keys.pageSize - 1));
}

}  // namespace warpgraph
