// Many queries: tiles of 64 rows (t, h) against tiles of 64 keys.
//
// The result of a tile, 64 × 512 float32, takes half a multiprocessor's registers: warpgroup 0 holds its left
// 256 columns, warpgroup 1 the right ones. Key tiles go in pairs. Each warpgroup computes the logits and the
// softmax of one tile of the pair and multiplies the weights of both with its half of the values (FlashMLA's
// "seesaw", April 2025; unlike there, the first tile's weights go to both before the second tile's maximum is
// known, which frees the first tile early). A tile of latents is fetched once and is both K (K-major) and V
// (the same bytes through a transposed descriptor). The weights go through shared memory, the second tile's
// in the place of its rope part, which nobody needs after the logits.
//
// What a softmax takes is hidden only if the tensor cores have other work queued meanwhile. Their order is
//
//   logits 0, logits 1 (meanwhile softmax 0), weights 0 · values (softmax 1), weights 1 · values
//
// and the next pair's logits 0: warpgroup 1 begins its logits when all of warpgroup 0's are issued, and
// issues its first product with values behind them; warpgroup 0 issues the next pair's logits behind its last
// product. A softmax takes longer than what is queued: each warpgroup multiplies the weights of its tile's
// first 16 keys while it computes the others.
//
// Of the queries each warpgroup keeps in registers what there is room for, the rest is read from shared
// memory for every tile. The kernel is compiled for each Cut.
#pragma once

#include "cuda/mla_decode_wide_load.cuh"
#include "cuda/mla_decode_wide_merge.cuh"
#include "cuda/mla_decode_wide_products.cuh"
#include "cuda/mla_decode_wide_softmax.cuh"

namespace warpgraph {
namespace decode {

#if WARPGRAPH_HOPPER

// Registers of a thread, and how many boxes of queries a computing one keeps. Who fetches piece after piece
// needs more than who fetches one.
template <Cut kCut>
struct WideRegisters {
  static constexpr bool kOnePiece = kCut == Cut::kMerges;
  static constexpr int kKeptBoxes = kOnePiece ? 2 : 1;
  static constexpr int kOfComputing = kOnePiece ? 240 : 232, kOfFetching = kOnePiece ? 24 : 40;
};

// Warpgroup 0 takes the first tile of each pair, warpgroup 1 the second, where there is one.
template <typename T, Cut kCut, int kGroup>
__device__ inline void wideConsume(const DecodeArguments& a, const QueryRows& tileRows, WideShared& shared) {
  constexpr bool kMerges = kCut == Cut::kMerges;
  const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
  // Above 18 bits a block's rank in its cluster.
  const unsigned base = __shfl_sync(kFullWarp, (sharedAddress(&shared) & 0x3ffff) >> 4, 0);
  char* secondWeights = shared.keys[1][kLatentBoxes];
  const size_t secondWeightsOffset = offsetof(WideShared, keys) + (kBoxes + kLatentBoxes) * kBoxBytes;
  unsigned phase0 = 0, phase1 = 0, queryPhase = 0, turnOfSums = 0;
  for (int n = 0;; ++n) {
    const Piece* next = nextPiece<kCut>(shared.walk[kGroup], n, a, tileRows, shared.start, thread,
                                        kWarpgroup + kGroup, kGroup == 0 && blockIdx.x == 0);
    if (next == nullptr) break;
    const Piece& piece = *next;
    // Where clusters merge, the peer wants to hear of the piece all the same.
    const bool isEmpty = piece.end <= piece.begin;
    if (!kMerges && isEmpty) {
      waitForPrevious();
      if (kGroup == 0) writeEmpty<T, 128>(a, piece, tileRows, thread);
      continue;
    }
    WideRowPair rows;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows.row[half] = warp * 16 + lane / 4 + half * 8;
      const int row = tileRows.first + min(rows.row[half], tileRows.count - 1);
      rows.seen[half] = a.sizes.seen(piece.length, queryOfRow(a, row));
    }
    float result[128], p[32];
#pragma unroll
    for (float& value : result) value = 0.0f;
    KeptQuery<WideRegisters<kCut>::kKeptBoxes> kept;
    WideSoftmax softmax;
    waitForPrevious();  // before anything is written
    if (!kMerges || !isEmpty) {
      barrierWait(&shared.queryFull, queryPhase);
      queryPhase ^= 1;
      // The first tile's queries all come from shared memory, see wideLogits().
      if (piece.begin + (kGroup == 0 ? 2 : 1) < piece.end) wideKeep<kGroup>(kept, shared, warp, lane);
      if constexpr (kGroup == 0) {
        wideLogits<T, 0, false>(p, kept, shared, base, phase0);
        if (piece.begin + 1 < piece.end) groupArrive(kFirstLogits, 256);
        wgmmaWait<0>();
      }
    }
    for (int first = piece.begin; first < piece.end; first += 2) {
      const bool second = first + 1 < piece.end;
      const bool last = first + 2 >= piece.end;
      float greatest[2];
      uint32_t weights[4][4];
      if constexpr (kGroup == 0) {
        if (last) warpArrive(&shared.queryFree, lane);
        const float factor = wideMask<T, 0>(p, greatest, a, piece, rows, first, shared, thread);
        softmax.move<0>(greatest, shared, rows, lane);
        softmax.weigh<T, 0, 1>(weights, shared.weights, p, factor, warp, lane);
        wideScale(result, softmax.scale);
        wideAdd<T, 0, 0, 1>(result, weights, base, 0);
        softmax.weigh<T, 1, 4>(weights, shared.weights, p, factor, warp, lane);
        proxyFence();
        groupArrive(kFirstSoftmax, 256);
        wideAdd<T, 0, 1, 4>(result, weights, base, 0);
        wgmmaWait<0>();
        if (second) warpArrive(&shared.free[0][0], lane);
        phase0 ^= 1;
        const auto addSecond = [&] {
          groupSync(kSecondSoftmax, 256);
          softmax.follow<1>(shared, rows);
          wideScale(result, softmax.scale);
          for (int box = 0; box < 4; ++box) barrierWait(&shared.full[1][box], phase1);
          wideAdd<T, 0>(result, secondWeightsOffset, base, 1);
          phase1 ^= 1;
        };
        // Products under way must not cross what could be a branch within a warp, or the compiler waits for
        // each of them: hence the two copies.
        if (!last) {
          addSecond();
          wideLogits<T, 0, true, 0, 1>(p, kept, shared, base, phase0);
          wgmmaWait<1>();
          warpArrive(&shared.free[1][1], lane);
          wideLogits<T, 0, true, 1>(p, kept, shared, base, phase0);
          if (first + 3 < piece.end) groupArrive(kFirstLogits, 256);
          wgmmaWait<0>();
        } else if (second) {
          addSecond();
          wgmmaWait<0>();
        }
      } else {
        const auto addFirst = [&] {
          groupSync(kFirstSoftmax, 256);
          softmax.follow<0>(shared, rows);
          wideScale(result, softmax.scale);
          for (int box = 4; box < 8; ++box) barrierWait(&shared.full[0][box], phase0);
          wideAdd<T, 1>(result, offsetof(WideShared, weights), base, 0);
          phase0 ^= 1;
        };
        if (second) {
          groupSync(kFirstLogits, 256);
          wideLogits<T, 1, true>(p, kept, shared, base, phase1);
          addFirst();
          wgmmaWait<1>();
          if (last) warpArrive(&shared.queryFree, lane);
          const float factor = wideMask<T, 1>(p, greatest, a, piece, rows, first + 1, shared, thread);
          softmax.move<1>(greatest, shared, rows, lane);
          // A warp waits for its own products only; others may still read the rope part.
          groupSync(kWarpgroup + kGroup, 128);
          softmax.weigh<T, 0, 1>(weights, secondWeights, p, factor, warp, lane);
          wgmmaWait<0>();
          warpArrive(&shared.free[0][1], lane);
          wideScale(result, softmax.scale);
          wideAdd<T, 1, 0, 1>(result, weights, base, 1);
          softmax.weigh<T, 1, 4>(weights, secondWeights, p, factor, warp, lane);
          proxyFence();
          groupArrive(kSecondSoftmax, 256);
          wideAdd<T, 1, 1, 4>(result, weights, base, 1);
          wgmmaWait<0>();
          if (!last) warpArrive(&shared.free[1][0], lane);
          phase1 ^= 1;
        } else {
          warpArrive(&shared.queryFree, lane);
          addFirst();
          wgmmaWait<0>();
        }
      }
    }
    float (&sum)[2] = softmax.sum;
#pragma unroll
    for (float& value : sum) {
      value += __shfl_xor_sync(kFullWarp, value, 1);
      value += __shfl_xor_sync(kFullWarp, value, 2);
    }
    // Two places in turn: the other warpgroup may still read the last piece's.
    turnOfSums ^= 1;
    float (&sums)[2][kWideRows] = shared.sum[turnOfSums];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (lane % 4 == 0) sums[kGroup][rows.row[half]] = sum[half];
    }
    groupSync(kSums, 256);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum[half] = sums[0][rows.row[half]] + sums[1][rows.row[half]];
      if (!kMerges && kGroup == 0 && lane % 4 == 0 && rows.row[half] < tileRows.count) {
        storeLse(a, piece, tileRows.first + rows.row[half], naturalLse(softmax.max[half], sum[half]));
      }
    }
    if constexpr (kMerges) {
      wideMerge<T, kGroup>(result, softmax, a, piece, tileRows, shared, rows, warp, lane);
      return;
    } else {
      const float inverse[2] = {sum[0] == 0.0f ? 0.0f : 1.0f / sum[0], sum[1] == 0.0f ? 0.0f : 1.0f / sum[1]};
      // In the place of the last tile, which is therefore free only now.
      const int tile = (piece.end - piece.begin + 1) % 2;
      char* stage = shared.keys[tile][kGroup * 4 + warp];
      if (piece.slot >= 0) {
        wideWrite<float, kGroup>(result, inverse, stage, a, piece, tileRows, warp, lane);
      } else {
        wideWrite<T, kGroup>(result, inverse, stage, a, piece, tileRows, warp, lane);
      }
      proxyFence();
      __syncwarp();
      warpArrive(&shared.free[tile][tile == kGroup ? 0 : 1], lane);
    }
  }
}

#endif  // WARPGRAPH_HOPPER

// Where clusters do not merge they only place blocks.
template <typename T, Cut kCut>
__global__ void __launch_bounds__(kWideThreads, 1)
    mlaWideKernel(const __grid_constant__ CUtensorMap queryMap,
                  const __grid_constant__ CUtensorMap queryRopeMap,
                  const __grid_constant__ CUtensorMap latentMap, const __grid_constant__ CUtensorMap ropeMap,
                  const __grid_constant__ DecodeArguments a) {
#if WARPGRAPH_HOPPER
  extern __shared__ __align__(1024) char dynamicShared[];  // as the swizzle wants it
  auto& shared = *reinterpret_cast<WideShared*>(dynamicShared);
  const int warp = __shfl_sync(kFullWarp, threadIdx.x / kWarpSize, 0), lane = threadIdx.x % kWarpSize;
  allowNext();
  if (threadIdx.x == kWideThreads - 1) prefetchMaps(&queryMap, &queryRopeMap, &latentMap, &ropeMap);
  if (threadIdx.x == 0) {
    for (auto& tile : shared.full) {
      for (uint64_t& barrier : tile) barrierInit(&barrier, 1);
    }
    for (auto& tile : shared.free) {
      for (uint64_t& barrier : tile) warpsInit(&barrier, 4);
    }
    barrierInit(&shared.queryFull, 1);
    warpsInit(&shared.queryFree, 8);
    for (int barrier : {kFirstLogits, kFirstSoftmax, kSecondSoftmax, kSums}) groupInit(barrier, 256);
    for (int group : {0, 1}) groupInit(kWarpgroup + group, 128);
    if constexpr (kCut == Cut::kMerges) {
      barrierInit(&shared.peerLseFull, 1);
      barrierInit(&shared.peerHalfFull, 1);
      barrierInit(&shared.halfArrived, 1);
    }
    barrierInitFence();
  }
  if constexpr (kCut == Cut::kMerges) {
    clusterSync();  // the peer's barriers are there
  } else {
    if constexpr (kCut == Cut::kShares) findShare<kWideThreads>(a, shared.start);
    __syncthreads();
  }
  const QueryRows rows = queryRows(a, kWideRows);
  if (warp < 8) {
    takeRegisters<WideRegisters<kCut>::kOfComputing>();
    if (warp < 4) {
      wideConsume<T, kCut, 0>(a, rows, shared);
    } else {
      wideConsume<T, kCut, 1>(a, rows, shared);
    }
  } else {
    giveRegisters<WideRegisters<kCut>::kOfFetching>();
    wideFetch<kCut>(&queryMap, &queryRopeMap, &latentMap, &ropeMap, a, rows, shared, warp - 8, lane);
  }
#endif
}

}  // namespace decode
}  // namespace warpgraph
