// The softmax of the wide decode kernel: a warpgroup's logits of a tile, 64 rows by 64 keys, to weights.
//
// The maximum that weights refer to follows the true one only when weights would exceed 256 (as in
// FlashAttention-4, 2025), so that the result is hardly ever scaled. The sum refers to the same maximum,
// which makes this exact, and a weight of 256 has as many digits as one of 1.
#pragma once

#include "cuda/mla_decode_wide_load.cuh"

namespace warpgraph {
namespace decode {

#if WARPGRAPH_HOPPER

// A thread's two rows of the tile.
struct WideRowPair {
  int row[2];   // within the tile
  int seen[2];  // keys that they see
};

// Masks logits and finds the greatest of a thread's rows, in base 2. Returns what the logits themselves are
// still to be multiplied by.
template <typename T, int kGroup>
__device__ inline float wideMask(float (&logits)[32], float (&greatest)[2], const DecodeArguments& a,
                                 const Piece& piece, const WideRowPair& rows, int tile, WideShared& shared,
                                 int thread) {
  const int firstKey = tile * kTile;
  const bool masked = firstKey + kTile > piece.everyoneSees;
  float factor = a.scaleLog2;
  if (masked || factor < 0.0f) {
#pragma unroll
    for (float& logit : logits) logit *= factor;
    factor = 1.0f;
  }
  if (masked) {
    const int firstRow = ::max(piece.everyoneSees - firstKey, 0);
    // All warps' products with these latents have to be done before they change.
    groupSync(kWarpgroup + kGroup, 128);
    bool found = false;
#pragma unroll 1
    for (int box = 0; box < kLatentBoxes; ++box) {
      found |= discardNonFinite<T>(shared.keys[kGroup][box], firstRow, thread);
    }
    proxyFence();
    const bool discarded = groupOr(kWarpgroup + kGroup, 128, found);
    // One reason after the other: both at once take the registers that queries are kept in.
    if (discarded) {
#pragma unroll
      for (float& logit : logits) logit = discardedLogit(logit);
    }
    const int firstColumn = firstKey + thread % 4 * 2;
    const int seen[2] = {rows.seen[0] - firstColumn, rows.seen[1] - firstColumn};
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (i / 4 * 8 + i % 2 >= seen[i / 2 % 2]) logits[i] = -INFINITY;
    }
  }
  greatest[0] = greatest[1] = -FLT_MAX;
#pragma unroll
  for (int i = 0; i < 32; ++i) greatest[i / 2 % 2] = fmaxf(greatest[i / 2 % 2], logits[i]);
#pragma unroll
  for (float& value : greatest) {
    value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, 1));
    value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, 2));
    value = fmaxf(value * factor, -FLT_MAX);
  }
  return factor;
}

// What a thread knows of its rows' softmax: the maximum that weights refer to, and the sum of its columns.
struct WideSoftmax {
  float max[2] = {-FLT_MAX, -FLT_MAX};
  float sum[2] = {0.0f, 0.0f};
  float scale[2];  // by which the maximum's last move scales what was there

  // Moves the maximum where a tile's greatest logits want it, and tells the other warpgroup.
  template <int kGroup>
  __device__ void move(const float (&greatest)[2], WideShared& shared, const WideRowPair& rows, int lane) {
    constexpr float kSlack = 8.0f;  // log2 256
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float before = max[half];
      max[half] = greatest[half] > before + kSlack ? greatest[half] : before;
      scale[half] = exp2Approx(before - max[half]);
      sum[half] *= scale[half];
      if (lane % 4 == 0) {
        shared.max[kGroup][rows.row[half]] = max[half];
        shared.scale[kGroup][rows.row[half]] = scale[half];
      }
    }
  }
  // Does what warpgroup kGroup told.
  template <int kGroup>
  __device__ void follow(const WideShared& shared, const WideRowPair& rows) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      max[half] = shared.max[kGroup][rows.row[half]];
      scale[half] = shared.scale[kGroup][rows.row[half]];
      sum[half] *= scale[half];
    }
  }
  // Logits of the keys 16·kFirst to 16·kLast - 1, still to be multiplied by factor, to weights: in registers
  // as a product wants them, and of the warp's 16 rows in a swizzled (64, 64) tile.
  template <typename T, int kFirst, int kLast>
  __device__ void weigh(uint32_t (&weights)[4][4], char* tile, float (&p)[32], float factor, int warp,
                        int lane) {
#pragma unroll
    for (int i = 8 * kFirst; i < 8 * kLast; ++i) {
      p[i] = exp2Approx(fmaf(p[i], factor, -max[i / 2 % 2]));
      sum[i / 2 % 2] += p[i];
    }
#pragma unroll
    for (int i = 4 * kFirst; i < 4 * kLast; ++i) weights[i / 4][i % 4] = packPair<T>(p[2 * i], p[2 * i + 1]);
    const int row = warp * 16 + lane % 16;
#pragma unroll
    for (int k = kFirst; k < kLast; ++k) storeMatrices(swizzled(tile, row, 2 * k + lane / 16), weights[k]);
  }
};

#endif  // WARPGRAPH_HOPPER

}  // namespace decode
}  // namespace warpgraph
