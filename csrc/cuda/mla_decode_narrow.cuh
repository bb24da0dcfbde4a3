// Few queries: up to 16 or 32 rows (t, h), where the time is that of reading the latents.
//
// Padding the rows to 64 would spend three quarters of the matrix products on nothing, so the products are
// transposed: logits^T (64 keys, rows) = keys · query^T and result^T (512 columns, rows) = values^T ·
// weights^T, with the latents as the operand that is 64 tall. The query then takes 2 KB of shared memory a
// box, and the rest is a ring of boxes of 64 keys × 64 columns, freed one by one, so that some 130 KB are on
// their way at any time. One warpgroup computes a tile in less than half the time that it takes to arrive.
#pragma once

#include "cuda/mla_decode_hopper.cuh"

namespace warpgraph {
namespace decode {

constexpr int kNarrowThreads = 192;  // four computing warps, one that fetches keys, one that fetches queries

template <int kRows>
struct NarrowShared {
  static constexpr int kRing = kRows == 16 ? 25 : 22;
  char keys[kRing][kBoxBytes];
  char query[kBoxes][kRows * kBoxColumns * 2];
  char weights[kRows * kTile * 2];  // (rows, 64 keys)
  uint64_t full[kRing], free[kRing];
  uint64_t queryFull, queryFree;
  float max[2][4][kRows];  // of a warp's 16 keys, by parity of the tile
  float sum[4][kRows];
  PieceWalk walk;
  ShareStart start;
};

// A place in the ring.
template <int kRing>
struct RingPlace {
  int slot = 0;
  unsigned phase = 0;

  __device__ void advance() { *this = ahead(1); }
  __device__ RingPlace ahead(int boxes) const {
    const bool wraps = slot + boxes >= kRing;
    return {slot + boxes - (wraps ? kRing : 0), phase ^ (wraps ? 1u : 0u)};
  }
};

// The rope part goes first: it is free first.
template <int kRows>
__device__ inline void narrowFetchKeys(const CUtensorMap* latentMap, const CUtensorMap* ropeMap,
                                       const DecodeArguments& a, const QueryRows& rows,
                                       NarrowShared<kRows>& shared) {
  RingPlace<NarrowShared<kRows>::kRing> place;
  Pieces pieces;
  pieces.start(a, shared.start);
  Piece piece;
  while (pieces.next(a, rows, piece)) {
    for (int tile = piece.begin; tile < piece.end; ++tile) {
      const TileSource source = tileSource(a, piece, tile);
#pragma unroll 1
      for (int box = -1; box < kLatentBoxes; ++box) {
        barrierWait(&shared.free[place.slot], place.phase ^ 1);
        fetchBox(shared.keys[place.slot], box < 0 ? ropeMap : latentMap, &shared.full[place.slot], a, source,
                 box < 0 ? a.ropeColumn : box * kBoxColumns);
        place.advance();
      }
    }
  }
}

template <int kRows>
__device__ inline void narrowFetchQueries(const CUtensorMap* queryMap, const CUtensorMap* queryRopeMap,
                                          const DecodeArguments& a, const QueryRows& rows,
                                          NarrowShared<kRows>& shared) {
  unsigned phase = 0;
  Pieces pieces;
  pieces.start(a, shared.start);
  Piece piece;
  while (pieces.next(a, rows, piece)) {
    if (piece.end <= piece.begin) continue;
    barrierWait(&shared.queryFree, phase ^ 1);
    phase ^= 1;
    barrierExpect(&shared.queryFull, sizeof(shared.query));
    for (int box = 0; box < kBoxes; ++box) {
      const bool rope = box == kLatentBoxes;
      copyTile(shared.query[box], rope ? queryRopeMap : queryMap, &shared.queryFull,
               rope ? a.queryRopeColumn : box * kBoxColumns, rows.first, piece.sequence);
    }
  }
}

#if WARPGRAPH_HOPPER

template <typename Out, int kRows>
__device__ inline void narrowWrite(const float (&result)[kLatentBoxes][kRows / 2],
                                   const float (&inverse)[kRows / 4], const DecodeArguments& a,
                                   const Piece& piece, const QueryRows& tileRows, int warp, int lane) {
  const int boxes = static_cast<int>(a.sizes.rank) / kBoxColumns;
#pragma unroll
  for (int i = 0; i < kRows / 4; ++i) {
    const int query = i / 2 * 8 + lane % 4 * 2 + i % 2;
    if (query >= tileRows.count) continue;
    Out* out = resultRow<Out>(a, piece, query) + warp * 16 + lane / 4;
#pragma unroll
    for (int box = 0; box < kLatentBoxes; ++box) {
      if (box >= boxes) break;
      const int j = i / 2 * 4 + i % 2;
      out[box * kBoxColumns] = fromFloat<Out>(result[box][j] * inverse[i]);
      out[box * kBoxColumns + 8] = fromFloat<Out>(result[box][j + 2] * inverse[i]);
    }
  }
}

// The four warps compute: thread i has of the transposed tiles the rows (keys or columns) 16·(i / 32) + i %
// 32 / 4 and the one 8 on, and of the queries the ones 2·(i % 4), the next, and those 8 on.
template <typename T, int kRows>
__device__ inline void narrowConsume(const DecodeArguments& a, const QueryRows& tileRows,
                                     NarrowShared<kRows>& shared) {
  constexpr int kRing = NarrowShared<kRows>::kRing;
  constexpr int kMine = kRows / 4;    // queries of a thread
  constexpr int kValues = kRows / 2;  // of a thread's fragment
  constexpr int kComputing = 1;       // named barrier
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const auto queryOf = [&](int i) { return i / 2 * 8 + lane % 4 * 2 + i % 2; };  // the thread's i-th
  const auto mineOf = [](int j) { return j / 4 * 2 + j % 2; };  // of fragment element j, its index among them
  RingPlace<kRing> place;
  unsigned queryPhase = 0;
  int parity = 0;
  if (thread == 0) shared.walk.pieces.start(a, shared.start);
  for (int turn = 0;; turn ^= 1) {
    const Piece* next = nextPiece(shared.walk, turn, a, tileRows, thread, kComputing, true);
    if (next == nullptr) break;
    const Piece& piece = *next;
    if (piece.end <= piece.begin) {
      writeEmpty<T, 128>(a, piece, tileRows, thread);
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
      seen[i] = static_cast<int>(mlaSeen(a.sizes, piece.length, row / static_cast<int>(a.sizes.heads)));
    }
    barrierWait(&shared.queryFull, queryPhase);
    queryPhase ^= 1;
    for (int tile = piece.begin; tile < piece.end; ++tile) {
      // The rope part's box, then the latents'. Rolled: the code of a block's first pass comes from far away.
      const auto slotOf = [&](int box) { return place.ahead(box + 1).slot; };
      float p[kValues];
#pragma unroll
      for (float& logit : p) logit = 0.0f;
#pragma unroll 1
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
      if (lane == 0) barrierArrive(&shared.free[slotOf(-1)]);
      if (tile + 1 == piece.end && lane == 0) barrierArrive(&shared.queryFree);

#pragma unroll
      for (float& logit : p) logit *= a.scaleLog2;
      const int firstKey = tile * kTile;
      if (firstKey + kTile > piece.everyoneSees) {
        // All warps' products with these latents have to be done before they change.
        namedBarrierSync(kComputing, 128);
        bool found = false;
#pragma unroll 1
        for (int box = 0; box < kLatentBoxes; ++box) {
          found |=
              discardNonFinite<T>(shared.keys[slotOf(box)], ::max(piece.everyoneSees - firstKey, 0), thread);
        }
        proxyFence();
        const bool discarded = namedBarrierOr(kComputing, 128, found);
#pragma unroll
        for (int j = 0; j < kValues; ++j) {
          const int key = firstKey + warp * 16 + lane / 4 + j / 2 % 2 * 8;
          p[j] = seenLogit(p[j], key < seen[mineOf(j)], discarded);
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
        for (int i = 0; i < kMine; ++i) shared.max[parity][warp][queryOf(i)] = tileMax[i];
      }
      namedBarrierSync(kComputing, 128);
      float scale[kMine];
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        const float before = max[i];
#pragma unroll
        for (int w = 0; w < 4; ++w) max[i] = fmaxf(max[i], shared.max[parity][w][queryOf(i)]);
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
        storeMatricesTransposed(swizzled(shared.weights, query, 2 * warp + lane / 8 % 2), packed);
      }
      proxyFence();
#pragma unroll
      for (auto& box : result) {
#pragma unroll
        for (int j = 0; j < kValues; ++j) box[j] *= scale[mineOf(j)];
      }
      namedBarrierSync(kComputing, 128);

      wgmmaFence();
#pragma unroll
      for (int box = 0; box < kLatentBoxes; ++box) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          wgmma<T, 1, 0>(result[box], swizzledMatrix(shared.keys[slotOf(box)] + k * 2048, kBoxBytes, 1024),
                         swizzledMatrix(shared.weights + k * 32, 0, 1024), 1);
        }
        if (box == kLatentBoxes / 2 - 1) wgmmaCommit();
      }
      wgmmaCommit();
      wgmmaWait<1>();
      if (lane < kLatentBoxes / 2) barrierArrive(&shared.free[slotOf(lane)]);
      wgmmaWait<0>();
      if (lane < kLatentBoxes / 2) barrierArrive(&shared.free[slotOf(lane + kLatentBoxes / 2)]);
      place = place.ahead(kBoxes);
    }

#pragma unroll
    for (float& value : sum) {
      for (int offset = 4; offset < kWarpSize; offset *= 2) {
        value += __shfl_xor_sync(kFullWarp, value, offset);
      }
    }
    if (lane < 4) {
#pragma unroll
      for (int i = 0; i < kMine; ++i) shared.sum[warp][queryOf(i)] = sum[i];
    }
    namedBarrierSync(kComputing, 128);
    float inverse[kMine];
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int query = queryOf(i);
      const float total =
          shared.sum[0][query] + shared.sum[1][query] + shared.sum[2][query] + shared.sum[3][query];
      inverse[i] = total == 0.0f ? 0.0f : 1.0f / total;
      if (warp == 0 && lane < 4 && query < tileRows.count) {
        storeLse(a, piece, query, naturalLse(max[i], total));
      }
    }
    if (piece.slot >= 0) {
      narrowWrite<float, kRows>(result, inverse, a, piece, tileRows, warp, lane);
    } else {
      narrowWrite<T, kRows>(result, inverse, a, piece, tileRows, warp, lane);
    }
    namedBarrierSync(kComputing, 128);
  }
}

#endif  // WARPGRAPH_HOPPER

template <typename T, int kRows>
__global__ void __launch_bounds__(kNarrowThreads, 1)
    mlaNarrowKernel(const __grid_constant__ CUtensorMap queryMap,
                    const __grid_constant__ CUtensorMap queryRopeMap,
                    const __grid_constant__ CUtensorMap latentMap,
                    const __grid_constant__ CUtensorMap ropeMap, const __grid_constant__ DecodeArguments a) {
#if WARPGRAPH_HOPPER
  extern __shared__ char dynamicShared[];
  auto& shared = *reinterpret_cast<NarrowShared<kRows>*>(dynamicShared +
                                                         (1024 - sharedAddress(dynamicShared) % 1024) % 1024);
  allowDependents();
  if (threadIdx.x == 0) {
    for (uint64_t& barrier : shared.full) barrierInit(&barrier, 1);
    for (uint64_t& barrier : shared.free) barrierInit(&barrier, 4);
    barrierInit(&shared.queryFull, 1);
    barrierInit(&shared.queryFree, 4);
    barrierInitFence();
  }
  if (a.numSplits == 0) findShare<kNarrowThreads>(a, shared.start);
  __syncthreads();
  const QueryRows rows = queryRows(a, kRows);
  if (threadIdx.x < 128) {
    narrowConsume<T, kRows>(a, rows, shared);
  } else if (threadIdx.x == 128) {
    narrowFetchKeys<kRows>(&latentMap, &ropeMap, a, rows, shared);
  } else if (threadIdx.x == 160) {
    narrowFetchQueries<kRows>(&queryMap, &queryRopeMap, a, rows, shared);
  }
#endif
}

}  // namespace decode
}  // namespace warpgraph
