// Few queries: up to 16 or 32 rows (t, h), where the time is that of reading the latents.
//
// Padding the rows to 64 would spend three quarters of the matrix products on nothing, so the products are
// transposed: logits^T (64 keys, rows) = keys · query^T and result^T (512 columns, rows) = values^T ·
// weights^T, with the latents as the operand that is 64 tall. The query then takes 2 KB of shared memory a
// box, and the rest is a ring of boxes of 64 keys × 64 columns, freed one by one, so that some 130 KB are on
// their way at any time. One warpgroup computes a tile in less than half the time that it takes to arrive.
#pragma once

#include "cuda/mla_decode_narrow_load.cuh"

namespace warpgraph {
namespace decode {

#if WARPGRAPH_HOPPER

template <typename Out, int kRows>
__device__ inline void narrowWrite(const float (&result)[kLatentBoxes][kRows / 2], const DecodeArguments& a,
                                   const Piece& piece, const QueryRows& tileRows, int group, int warp,
                                   int lane) {
  const int boxes = a.sizes.rank / kBoxColumns;
#pragma unroll
  for (int i = 0; i < kRows / 4; ++i) {
    const int query = i / 2 * 8 + lane % 4 * 2 + i % 2;
    if (query >= tileRows.count) continue;
    Out* out = resultRow<Out>(a, piece, query) + group * 4 * kBoxColumns + warp * 16 + lane / 4;
#pragma unroll
    for (int box = 0; box < 4; ++box) {
      if (group * 4 + box >= boxes) break;
      const int j = i / 2 * 4 + i % 2;
      out[box * kBoxColumns] = fromFloat<Out>(result[box][j]);
      out[box * kBoxColumns + 8] = fromFloat<Out>(result[box][j + 2]);
    }
  }
}

// Two warpgroups take the tiles in turns and merge their results at the piece's end. Thread i of one has of
// the transposed tiles the rows (keys or columns) 16·(i / 32) + i % 32 / 4 and the one 8 on, and of the
// queries the ones 2·(i % 4), the next, and those 8 on.
template <typename T, Cut kCut, int kRows>
__device__ inline void narrowConsume(const DecodeArguments& a, const QueryRows& tileRows,
                                     NarrowShared<kRows>& shared, int group) {
  constexpr int kRing = NarrowShared<kRows>::kRing;
  constexpr int kMine = kRows / 4;    // queries of a thread
  constexpr int kValues = kRows / 2;  // of a thread's fragment
  const int own = kOwn + group;
  const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
  const auto queryOf = [&](int i) { return i / 2 * 8 + lane % 4 * 2 + i % 2; };  // the thread's i-th
  const auto mineOf = [](int j) { return j / 4 * 2 + j % 2; };  // of fragment element j, its index among them
  RingPlace<kRing> start;                                       // of the piece
  unsigned queryPhase = 0;
  int parity = 0;
  for (int n = 0;; ++n) {
    const Piece* next =
        nextPiece<kCut>(shared.walk[group], n, a, tileRows, shared.start, thread, own, group == 0);
    if (next == nullptr) break;
    const Piece& piece = *next;
    if (piece.end <= piece.begin) {
      waitForPrevious();
      if (group == 0) writeEmpty<T, 128>(a, piece, tileRows, thread);
      continue;
    }
    float result[kLatentBoxes][kValues];
#pragma unroll
    for (auto& box : result) {
#pragma unroll
      for (float& value : box) value = 0.0f;
    }
    float max[kMine], sum[kMine];
    int seen[kMine];
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      max[i] = -FLT_MAX;
      sum[i] = 0.0f;
      const int row = min(queryOf(i), tileRows.count - 1);
      seen[i] = a.sizes.seen(piece.length, queryOfRow(a, row));
    }
    waitForPrevious();  // before anything is written
    barrierWait(&shared.queryFull, queryPhase);
    queryPhase ^= 1;
    RingPlace<kRing> place = start.ahead(group * kBoxes);
    start = start.farAhead((piece.end - piece.begin) * kBoxes);
    for (int tile = piece.begin + group; tile < piece.end; tile += 2) {
      // The rope part's box, then the latents'. Rolled: the code of a block's first pass comes from far away.
      const auto slotOf = [&](int box) { return place.ahead(box + 1).slot; };
      float p[kValues];
#pragma unroll
      for (float& logit : p) logit = 0.0f;
#pragma unroll 3
      for (int box = -1; box < kLatentBoxes; ++box) {
        const auto at = place.ahead(box + 1);
        barrierWait(&shared.full[at.slot], at.phase);
        wgmmaFence();
        const char* query = shared.query[box < 0 ? kLatentBoxes : box];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          wgmma<T, 0, 0>(p, swizzledMatrix(shared.keys[at.slot] + k * 32, 0, 1024),
                         swizzledMatrix(query + k * 32, 0, 1024), 1);
        }
        wgmmaCommit();
      }
      wgmmaWait<0>();
      warpArrive(&shared.free[slotOf(-1)], lane);

#pragma unroll
      for (float& logit : p) logit *= a.scaleLog2;
      const int firstKey = tile * kTile;
      if (firstKey + kTile > piece.everyoneSees) {
        // All warps' products with these latents have to be done before they change.
        groupSync(own, 128);
        bool found = false;
#pragma unroll 1
        for (int box = 0; box < kLatentBoxes; ++box) {
          found |=
              discardNonFinite<T>(shared.keys[slotOf(box)], ::max(piece.everyoneSees - firstKey, 0), thread);
        }
        proxyFence();
        const bool discarded = groupOr(own, 128, found);
#pragma unroll
        for (int j = 0; j < kValues; ++j) {
          const int key = firstKey + warp * 16 + lane / 4 + j / 2 % 2 * 8;
          if (discarded) p[j] = discardedLogit(p[j]);
          if (key >= seen[mineOf(j)]) p[j] = -INFINITY;
        }
      }
      float tileMax[kMine];
#pragma unroll
      for (int i = 0; i < kMine; ++i) tileMax[i] = fmaxf(p[i / 2 * 4 + i % 2], p[i / 2 * 4 + i % 2 + 2]);
#pragma unroll
      for (float& value : tileMax) {
        for (int offset = 4; offset < kWarpSize; offset *= 2) {
          value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, offset));
        }
      }
      if (lane < 4) {
#pragma unroll
        for (int i = 0; i < kMine; ++i) shared.max[group][parity][warp][queryOf(i)] = tileMax[i];
      }
      groupSync(own, 128);
      float scale[kMine] = {};
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        const float before = max[i];
#pragma unroll
        for (int w = 0; w < 4; ++w) max[i] = fmaxf(max[i], shared.max[group][parity][w][queryOf(i)]);
        scale[i] = exp2Approx(before - max[i]);
        sum[i] *= scale[i];
      }
      parity ^= 1;
#pragma unroll
      for (int j = 0; j < kValues; ++j) {
        p[j] = exp2Approx(p[j] - max[mineOf(j)]);
        sum[mineOf(j)] += p[j];
      }
#pragma unroll
      for (int pair = 0; pair < kRows / 16; ++pair) {
        uint32_t packed[4];
#pragma unroll
        for (int m = 0; m < 4; ++m) packed[m] = packPair<T>(p[pair * 8 + m * 2], p[pair * 8 + m * 2 + 1]);
        const int query = pair * 16 + lane / 16 * 8 + lane % 8;
        storeMatricesTransposed(swizzled(shared.weights[group], query, 2 * warp + lane / 8 % 2), packed);
      }
      proxyFence();
#pragma unroll
      for (auto& box : result) {
#pragma unroll
        for (int j = 0; j < kValues; ++j) box[j] *= scale[mineOf(j)];
      }
      groupSync(own, 128);

      wgmmaFence();
#pragma unroll
      for (int box = 0; box < kLatentBoxes; ++box) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          wgmma<T, 1, 0>(result[box], swizzledMatrix(shared.keys[slotOf(box)] + k * 2048, kBoxBytes, 1024),
                         swizzledMatrix(shared.weights[group] + k * 32, 0, 1024), 1);
        }
        if (box == kLatentBoxes / 2 - 1) wgmmaCommit();
      }
      wgmmaCommit();
      wgmmaWait<1>();
      warpArriveEach<kLatentBoxes / 2>([&](int i) { return &shared.free[slotOf(i)]; }, lane);
      wgmmaWait<0>();
      warpArriveEach<kLatentBoxes / 2>([&](int i) { return &shared.free[slotOf(i + kLatentBoxes / 2)]; },
                                       lane);
      place = place.ahead(2 * kBoxes);
    }

    warpArrive(&shared.queryFree, lane);

#pragma unroll
    for (float& value : sum) {
      for (int offset = 4; offset < kWarpSize; offset *= 2) {
        value += __shfl_xor_sync(kFullWarp, value, offset);
      }
    }
    if (lane < 4) {
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        shared.sum[group][warp][queryOf(i)] = sum[i];
        if (warp == 0) shared.groupMax[group][queryOf(i)] = max[i];
      }
    }
    groupSync(kBoth, 256);
    // What to multiply this warpgroup's and the other's results with.
    float factor[kMine] = {}, otherFactor[kMine] = {};
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int query = queryOf(i);
      const auto totalOf = [&](int g) {
        return shared.sum[g][0][query] + shared.sum[g][1][query] + shared.sum[g][2][query] +
               shared.sum[g][3][query];
      };
      const float all = fmaxf(shared.groupMax[0][query], shared.groupMax[1][query]);
      const float scale[2] = {exp2Approx(shared.groupMax[0][query] - all),
                              exp2Approx(shared.groupMax[1][query] - all)};
      const float total = scale[0] * totalOf(0) + scale[1] * totalOf(1);
      const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
      factor[i] = inverse * (group == 0 ? scale[0] : scale[1]);
      otherFactor[i] = inverse * (group == 0 ? scale[1] : scale[0]);
      if (group == 0 && warp == 0 && lane < 4 && query < tileRows.count) {
        storeLse(a, piece, query, naturalLse(all, total));
      }
    }
    // Each warpgroup gives half of its columns away and writes the other half, at first in place 0 to 3.
#pragma unroll
    for (int box = 0; box < 4; ++box) {
#pragma unroll
      for (int j = 0; j < kValues; ++j) {
        shared.exchange[group][j][thread] = group == 0 ? result[box + 4][j] : result[box][j];
      }
      groupSync(kBoth, 256);
#pragma unroll
      for (int j = 0; j < kValues; ++j) {
        const float other = shared.exchange[1 - group][j][thread];
        const float mine = group == 0 ? result[box][j] : result[box + 4][j];
        result[box][j] = mine * factor[mineOf(j)] + other * otherFactor[mineOf(j)];
      }
      groupSync(kBoth, 256);
    }
    if (piece.slot >= 0) {
      narrowWrite<float, kRows>(result, a, piece, tileRows, group, warp, lane);
    } else {
      narrowWrite<T, kRows>(result, a, piece, tileRows, group, warp, lane);
    }
  }
}

#endif  // WARPGRAPH_HOPPER

template <typename T, Cut kCut, int kRows>
__global__ void __launch_bounds__(kNarrowThreads, 1)
    mlaNarrowKernel(const __grid_constant__ CUtensorMap queryMap,
                    const __grid_constant__ CUtensorMap queryRopeMap,
                    const __grid_constant__ CUtensorMap latentMap,
                    const __grid_constant__ CUtensorMap ropeMap, const __grid_constant__ DecodeArguments a) {
#if WARPGRAPH_HOPPER
  extern __shared__ __align__(1024) char dynamicShared[];  // as the swizzle wants it
  auto& shared = *reinterpret_cast<NarrowShared<kRows>*>(dynamicShared);
  allowNext();
  if (threadIdx.x == kNarrowThreads - 1) prefetchMaps(&queryMap, &queryRopeMap, &latentMap, &ropeMap);
  if (threadIdx.x == 0) {
    for (uint64_t& barrier : shared.full) barrierInit(&barrier, 1);
    for (uint64_t& barrier : shared.free) warpsInit(&barrier, 4);
    barrierInit(&shared.queryFull, 1);
    warpsInit(&shared.queryFree, 8);
    for (int group : {0, 1}) groupInit(kOwn + group, 128);
    groupInit(kBoth, 256);
    barrierInitFence();
  }
  if constexpr (kCut == Cut::kShares) findShare<kNarrowThreads>(a, shared.start);
  __syncthreads();
  const QueryRows rows = queryRows(a, kRows);
  const int warp = __shfl_sync(kFullWarp, threadIdx.x / kWarpSize, 0);
  if (warp < 8) {
    takeRegisters<232>();
    narrowConsume<T, kCut>(a, rows, shared, warp / 4);
  } else {
    giveRegisters<40>();
    if (threadIdx.x == 256) {
      narrowFetchKeys<kCut>(&latentMap, &ropeMap, a, rows, shared);
    } else if (threadIdx.x == 288) {
      narrowFetchQueries<kCut>(&queryMap, &queryRopeMap, a, rows, shared);
    }
  }
#endif
}

}  // namespace decode
}  // namespace warpgraph
