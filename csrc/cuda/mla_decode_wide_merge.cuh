// Where the result of a piece goes in the wide decode kernel: to global memory, or, where a cluster of two
// blocks has the two splits of a sequence, half of it first to the other block.
#pragma once

#include "cuda/mla_decode_wide_load.cuh"
#include "cuda/mla_decode_wide_softmax.cuh"

namespace warpgraph {
namespace decode {

#if WARPGRAPH_HOPPER

// A warp's 16 rows and 256 columns of the result, through `stage`, a box that the warp has for itself, since
// a warp's store takes as long as it touches lines.
template <typename Out, int kGroup>
__device__ inline void wideWrite(const float (&result)[128], const float (&inverse)[2], char* stage,
                                 const DecodeArguments& a, const Piece& piece, const QueryRows& tile,
                                 int warp, int lane) {
  constexpr int kRowBytes = 512, kVector = 16 / sizeof(Out), kPasses = sizeof(Out) / 2;
  constexpr int kColumns = kRowBytes / sizeof(Out);  // of a pass
  const int count = min(tile.count - warp * 16, 16), column = kGroup * 256 + lane * kVector;
  const int64_t rank = a.sizes.rank;
  Out* out = resultRow<Out>(a, piece, tile.first + warp * 16) + column;
  // Chunks of 16 bytes are permuted within a row by an exclusive or, lest eight rows meet in one bank.
  const int pairBytes = lane % 4 * 2 * static_cast<int>(sizeof(Out));
  char* mine = stage + lane / 4 * kRowBytes + pairBytes % 16;
  const int chunk = pairBytes / 16, turned = lane / 4 * kPasses;
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      char* to = mine + ((i % 8 * kPasses + chunk) ^ turned) * 16 + i / 8 * 8 * kPasses * 16;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = (pass * kColumns / 8 + i) * 4 + half * 2;
        const float x = result[at] * inverse[half], y = result[at + 1] * inverse[half];
        if constexpr (std::is_same_v<Out, float>) {
          *reinterpret_cast<float2*>(to + half * 8 * kRowBytes) = {x, y};
        } else {
          *reinterpret_cast<uint32_t*>(to + half * 8 * kRowBytes) = packPair<Out>(x, y);
        }
      }
    }
    __syncwarp();
    if (column + pass * kColumns < rank) {
#pragma unroll 4
      for (int row = 0; row < 16; ++row) {
        if (row < count) {
          *reinterpret_cast<uint4*>(out + row * rank + pass * kColumns) =
              *reinterpret_cast<const uint4*>(stage + row * kRowBytes + (lane ^ (row % 8 * kPasses)) * 16);
        }
      }
    }
    __syncwarp();
  }
}

// Merges the two splits. The block of rank g writes the columns of its warpgroup g, the other block sends it
// what it has of them, out of the place of its second tile of keys into that of the first one: when a block
// tells its lse all its products are done, and it takes no other piece. Merging through global memory would
// write and read float32 of both, and wait for a kernel.
template <typename T, int kGroup>
__device__ inline void wideMerge(float (&result)[128], const WideSoftmax& softmax, const DecodeArguments& a,
                                 const Piece& piece, const QueryRows& tile, WideShared& shared,
                                 const WideRowPair& rows, int warp, int lane) {
  constexpr unsigned kBytesOfWarp = 16 * 256 * sizeof(float);
  const unsigned rank = clusterRank(), peer = rank ^ 1;
  float lse[2], factor[2];  // lse in base 2
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = softmax.sum[half];
    lse[half] = sum == 0.0f ? -INFINITY : softmax.max[half] + log2f(sum);
    factor[half] = sum == 0.0f ? 0.0f : 1.0f / sum;
    if (kGroup == 0 && lane % 4 == 0) {
      storePeer(peerAddress(&shared.peerLse[rows.row[half]], peer), lse[half],
                peerAddress(&shared.peerLseFull, peer));
    }
  }
  const bool sends = kGroup != rank;
  auto* half = reinterpret_cast<float4*>(shared.keys[sends ? 1 : 0][0] + warp * kBytesOfWarp) + lane;
  if (sends) {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      half[i * kWarpSize] = {result[4 * i] * factor[0], result[4 * i + 1] * factor[0],
                             result[4 * i + 2] * factor[1], result[4 * i + 3] * factor[1]};
    }
    proxyFence();
    __syncwarp();
    barrierWaitPeer(&shared.peerLseFull, 0);
    if (lane == 0) {
      char* to = shared.keys[0][0] + warp * kBytesOfWarp;
      copyToPeer(peerAddress(to, peer), half, kBytesOfWarp, peerAddress(&shared.peerHalfFull, peer));
    }
    // The block's memory must last until the peer has it.
    if (warp == 0 && lane == 0) barrierExpect(&shared.halfArrived, sizeof(shared.arrived));
    barrierWaitPeer(&shared.halfArrived, 0);
    return;
  }
  if (warp == 0 && lane == 0) {
    barrierExpect(&shared.peerLseFull, sizeof(shared.peerLse));
    barrierExpect(&shared.peerHalfFull, 4 * kBytesOfWarp);
  }
  barrierWaitPeer(&shared.peerLseFull, 0);
  float otherFactor[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float other = shared.peerLse[rows.row[i]], most = fmaxf(lse[i], other);
    const float base = most == -INFINITY ? 0.0f : most;
    const float weight = exp2Approx(lse[i] - base), otherWeight = exp2Approx(other - base);
    const float total = weight + otherWeight, inverse = total == 0.0f ? 0.0f : 1.0f / total;
    factor[i] *= weight * inverse;
    otherFactor[i] = otherWeight * inverse;
    if (kGroup == 0 && lane % 4 == 0 && rows.row[i] < tile.count) {
      storeLse(a, piece, tile.first + rows.row[i], naturalLse(base, total));
    }
  }
  barrierWaitPeer(&shared.peerHalfFull, 0);
  // A store rather than an arrival: an arrival releases what was stored before, and waits for all of it.
  if (lane == 0) {
    storePeer(peerAddress(&shared.arrived[warp], peer), 0.0f, peerAddress(&shared.halfArrived, peer));
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const float4 other = half[i * kWarpSize];
    result[4 * i] = fmaf(result[4 * i], factor[0], other.x * otherFactor[0]);
    result[4 * i + 1] = fmaf(result[4 * i + 1], factor[0], other.y * otherFactor[0]);
    result[4 * i + 2] = fmaf(result[4 * i + 2], factor[1], other.z * otherFactor[1]);
    result[4 * i + 3] = fmaf(result[4 * i + 3], factor[1], other.w * otherFactor[1]);
  }
  const float ones[2] = {1.0f, 1.0f};
  wideWrite<T, kGroup>(result, ones, shared.query[warp], a, piece, tile, warp, lane);
}

#endif  // WARPGRAPH_HOPPER

}  // namespace decode
}  // namespace warpgraph
