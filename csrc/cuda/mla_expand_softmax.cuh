// The softmax and the output of the expanded way's generic kernel (mla_expand_kernel.cuh), in the registers
// of mma.sync's results: of each 16 rows a thread holds parts of two, and four lanes share a row.
#pragma once

#include "cuda/mla_attention.h"
#include "cuda/mla_fragments.cuh"

namespace warpgraph {

#if __CUDA_ARCH__ >= 800

// One tile's step of the online softmax, for a thread's two rows of 16: the logits (in base 2) become the
// weights of row tile r, `most` and `sum` go on, and `decay` is what earlier sums are to be multiplied by;
// says whether one of those is not 1. For split values the maximum is that of weight × value, since the
// weights that the product sees are those of rows that were divided by their scale.
template <typename T, int kTerms, int kKeyTiles, int kRowTiles>
__device__ inline bool softmaxStep(const float (&logits)[kKeyTiles][4], const float* valueExponent, int r,
                                   float (&most)[2], float (&sum)[2], float (&decay)[2],
                                   Fragment<kTerms> (&weights)[kKeyTiles / 2][kRowTiles]) {
  constexpr bool kSplit = std::is_same_v<T, float>;
  float2 exponent[kSplit ? kKeyTiles : 1];
  float tileMost[2] = {most[0], most[1]};
#pragma unroll
  for (int n = 0; n < kKeyTiles; ++n) {
    if constexpr (kSplit) {
      exponent[n] = *reinterpret_cast<const float2*>(valueExponent + n * 8 + threadIdx.x % 4 * 2);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float value = logits[n][i];
      if constexpr (kSplit) value += i % 2 == 0 ? exponent[n].x : exponent[n].y;
      tileMost[i / 2] = fmaxf(tileMost[i / 2], value);
    }
  }
  float base[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    tileMost[i] = fmaxf(tileMost[i], __shfl_xor_sync(kFullWarp, tileMost[i], 1));
    tileMost[i] = fmaxf(tileMost[i], __shfl_xor_sync(kFullWarp, tileMost[i], 2));
    // While nothing but −∞ was seen any finite base leaves exp at 0; −∞ − −∞ would be NaN.
    base[i] = tileMost[i] == -INFINITY ? 0.0f : tileMost[i];
    decay[i] = exp2Fast(most[i] - base[i]);
    most[i] = tileMost[i];
    sum[i] *= decay[i];
  }
#pragma unroll
  for (int n = 0; n < kKeyTiles; ++n) {
    float weight[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float shifted = logits[n][i] - base[i / 2];
      weight[i] = exp2Fast(shifted);
      sum[i / 2] += weight[i];
      if constexpr (kSplit) {
        weight[i] = exp2Fast(shifted + (i % 2 == 0 ? exponent[n].x : exponent[n].y)) * (1 << kSplitBits);
      }
    }
    Fragment<kTerms>& fragment = weights[n / 2][r];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = n % 2 * 2 + i;
      splitPair<T, kTerms>(weight[2 * i], weight[2 * i + 1], fragment[0][at], fragment[kTerms - 1][at]);
    }
  }
  return decay[0] != 1.0f || decay[1] != 1.0f;
}

// Writes a query's result, merged with what earlier chunks of keys left; the row's four lanes call it
// together. `out` holds the row as its elements 2·half and 2·half + 1.
template <typename T, int kValueTiles>
__device__ inline void writeRow(const MlaExpandedAttention& attention, const MlaSizes& sizes, int64_t b,
                                int64_t t, int64_t h, const float (&out)[kValueTiles][4], int half,
                                float most, float sum) {
  const int quadLane = threadIdx.x % 4;
  sum += __shfl_xor_sync(kFullWarp, sum, 1);
  sum += __shfl_xor_sync(kFullWarp, sum, 2);
  const bool valid = t < sizes.numQueries;
  float lse = sum == 0.0f ? -INFINITY : (most + log2f(sum)) * kLn2;
  float weight = sum == 0.0f ? 0.0f : 1.0f / sum, oldWeight = 0.0f;
  if constexpr (std::is_same_v<T, float>) weight *= 1.0f / (int64_t{1} << 2 * kSplitBits);
  const int64_t lseAt = (b * sizes.heads + h) * sizes.numQueries + t;
  if (!attention.first && valid) {
    const float old = attention.lse[lseAt];
    const float greater = maxKeepingNaN(old, lse);
    if (greater != -INFINITY) {
      const float now = expf(lse - greater), before = expf(old - greater);
      weight *= now / (now + before);
      oldWeight = before / (now + before);
      lse = greater + logf(now + before);
    }
  }
  __syncwarp();  // all lanes have read the old sum
  if (!valid) return;
  if (attention.lse != nullptr && quadLane == 0) attention.lse[lseAt] = lse;
  const int64_t outAt = ((b * sizes.numQueries + t) * sizes.heads + h) * sizes.valueDim;
#pragma unroll
  for (int n = 0; n < kValueTiles; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int column = n * 8 + quadLane * 2 + j;
      if (column >= sizes.valueDim) continue;
      float value = out[n][2 * half + j] * weight;
      if (!attention.first) value += oldWeight * attention.running[outAt + column];
      if (attention.last) {
        static_cast<T*>(attention.out)[outAt + column] = fromFloat<T>(value);
      } else {
        attention.running[outAt + column] = value;
      }
    }
  }
}

#endif  // __CUDA_ARCH__ >= 800

}  // namespace warpgraph
