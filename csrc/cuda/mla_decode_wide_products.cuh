// The products of the wide decode kernel: queries with keys, weights with values.
#pragma once

#include "cuda/mla_decode_wide_load.cuh"
#include "cuda/mma.cuh"
#include "cuda/wgmma.cuh"

namespace warpgraph {
namespace decode {

#if WARPGRAPH_HOPPER

// A descriptor, see swizzledMatrix(), of what lies `offset` bytes into the shared memory at base·16.
__device__ inline uint64_t wideMatrix(unsigned base, size_t offset, unsigned leading) {
  return uint64_t{0x40000040} << 32 | (base + static_cast<unsigned>(offset >> 4) + (leading >> 4 << 16));
}

// The i-th box of a tile to be taken: its own warpgroup's half first, see wideBox().
__device__ constexpr int wideOrder(int group, int i) {
  if (group == 1) return i < kLatentBoxes ? i ^ 4 : i;
  return i < 4 ? i : i == 4 ? kLatentBoxes : i - 1;
}

// The last boxes of a warpgroup's queries, in registers: by box, 16 columns, words of a fragment. Shared
// memory gives 128 bytes a cycle, and products with 64 keys want as many, half of them queries, while copies
// of keys want some too.
template <int kKeptBoxes>
using KeptQuery = uint32_t[kKeptBoxes][4][4];

template <int kGroup, int kKeptBoxes>
__device__ inline void wideKeep(KeptQuery<kKeptBoxes>& kept, WideShared& shared, int warp, int lane) {
#pragma unroll
  for (int i = 0; i < kKeptBoxes; ++i) {
    char* box = shared.query[wideOrder(kGroup, kBoxes - kKeptBoxes + i)];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      loadMatrices(kept[i][k], swizzled(box, warp * 16 + lane % 16, 2 * k + lane / 16));
    }
  }
}

// logits (64 rows, 64 keys) = query · keys^T, boxes kFirst to kLast - 1 in the order in which they arrive.
// Products so narrow take no longer than their issue: with the loop unrolled and the base known to be the
// same in all lanes, descriptors are uniform registers and constants. Rolled for what runs once, without
// kept queries, since registers have no index: code that is not in the cache is fetched more slowly than the
// products run.
template <typename T, int kGroup, bool kUnroll, int kFirst = 0, int kLast = kBoxes, int kKeptBoxes>
__device__ inline void wideLogits(float (&logits)[32], const KeptQuery<kKeptBoxes>& kept, WideShared& shared,
                                  unsigned base, unsigned phase) {
  base = __shfl_sync(kFullWarp, base, 0);  // or all descriptors are computed, and spilled, ahead of all loops
#pragma unroll(kUnroll ? kLast - kFirst : 1)
  for (int i = kFirst; i < kLast; ++i) {
    const int box = wideOrder(kGroup, i);
    barrierWait(&shared.full[kGroup][box], phase);
    wgmmaFence();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const size_t offset = box * kBoxBytes + k * 32;
      const uint64_t keys =
          wideMatrix(base, offsetof(WideShared, keys) + kGroup * kBoxes * kBoxBytes + offset, 0);
      if (kUnroll && i >= kBoxes - kKeptBoxes) {
        wgmma<T, 0>(logits, kept[i - (kBoxes - kKeptBoxes)][k], keys, i + k > 0);
      } else {
        wgmma<T, 0>(logits, wideMatrix(base, offsetof(WideShared, query) + offset, 0), keys, i + k > 0);
      }
    }
    wgmmaCommit();
  }
}

// A warpgroup's half of 16 keys' values: four boxes, (16, 256) with the columns contiguous.
template <int kGroup>
__device__ inline uint64_t wideValues(unsigned base, int tile, int k) {
  return wideMatrix(base, offsetof(WideShared, keys) + (tile * kBoxes + kGroup * 4) * kBoxBytes + k * 2048,
                    kBoxBytes);
}

// result += weights · values, the weights in registers, of the keys 16·kFirst to 16·kLast - 1, or all at an
// offset in shared memory.
template <typename T, int kGroup, int kFirst, int kLast>
__device__ inline void wideAdd(float (&result)[128], const uint32_t (&weights)[4][4], unsigned base,
                               int tile) {
  wgmmaFence();
#pragma unroll
  for (int k = kFirst; k < kLast; ++k) wgmma<T, 1>(result, weights[k], wideValues<kGroup>(base, tile, k), 1);
  wgmmaCommit();
}
template <typename T, int kGroup>
__device__ inline void wideAdd(float (&result)[128], size_t weights, unsigned base, int tile) {
  wgmmaFence();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    wgmma<T, 1>(result, wideMatrix(base, weights + k * 32, 0), wideValues<kGroup>(base, tile, k), 1);
  }
  wgmmaCommit();
}

__device__ inline void wideScale(float (&result)[128], const float (&scale)[2]) {
  if (!__any_sync(kFullWarp, scale[0] != 1.0f || scale[1] != 1.0f)) return;
#pragma unroll
  for (int i = 0; i < 128; ++i) result[i] *= scale[i / 2 % 2];
}

#endif  // WARPGRAPH_HOPPER

}  // namespace decode
}  // namespace warpgraph
