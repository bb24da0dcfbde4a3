// What a block of the narrow decode kernel holds in shared memory, and the threads that fetch it: one the
// keys, box by box into a ring, and one the queries.
#pragma once

#include "cuda/mla_decode_hopper.cuh"

namespace warpgraph {
namespace decode {

// Two computing warpgroups; of a third one, a warp that fetches keys and one that fetches queries.
constexpr int kNarrowThreads = 384;

template <int kRows>
struct NarrowShared {
  static constexpr int kRing = kRows == 16 ? 24 : 20;
  char keys[kRing][kBoxBytes];
  char query[kBoxes][kRows * kBoxColumns * 2];
  char weights[2][kRows * kTile * 2];  // of a warpgroup: (rows, 64 keys)
  float exchange[2][kRows / 2][128];
  uint64_t full[kRing], free[kRing];
  uint64_t queryFull, queryFree;
  float max[2][2][4][kRows];  // of a warpgroup's tile, by turns: of a warp's 16 keys
  float groupMax[2][kRows], sum[2][4][kRows];
  PieceWalk walk[2];
  ShareStart start;
};

static_assert(sizeof(NarrowShared<16>) <= kMostShared - kBytesOfGroups);
static_assert(sizeof(NarrowShared<32>) <= kMostShared - kBytesOfGroups);

// Barriers of groups; of the first there are two, by warpgroup.
enum NarrowBarrier { kOwn = 1, kBoth = 3 };

// A place in the ring.
template <int kRing>
struct RingPlace {
  int slot = 0;
  unsigned phase = 0;

  __device__ void advance() { *this = ahead(1); }
  __device__ RingPlace farAhead(int boxes) const {
    return {(slot + boxes) % kRing, phase ^ (static_cast<unsigned>((slot + boxes) / kRing) & 1)};
  }
  // At most once around.
  __device__ RingPlace ahead(int boxes) const {
    const bool wraps = slot + boxes >= kRing;
    return {slot + boxes - (wraps ? kRing : 0), phase ^ (wraps ? 1u : 0u)};
  }
};

// The rope part goes first: it is free first.
template <Cut kCut, int kRows>
__device__ inline void narrowFetchKeys(const CUtensorMap* latentMap, const CUtensorMap* ropeMap,
                                       const DecodeArguments& a, const QueryRows& rows,
                                       NarrowShared<kRows>& shared) {
  RingPlace<NarrowShared<kRows>::kRing> place;
  forEachPiece<kCut>(a, rows, shared.start, [&](const Piece& piece) {
    for (int tile = piece.begin; tile < piece.end; ++tile) {
      const TileSource source = tileSource(a, piece, tile);
#pragma unroll 1
      for (int box = -1; box < kLatentBoxes; ++box) {
        barrierWait(&shared.free[place.slot], place.phase ^ 1);
        fetchBox(shared.keys[place.slot], box < 0 ? ropeMap : latentMap, &shared.full[place.slot], a, source,
                 box < 0 ? a.ropeColumn : box * kBoxColumns, true);
        place.advance();
      }
    }
  });
}

template <Cut kCut, int kRows>
__device__ inline void narrowFetchQueries(const CUtensorMap* queryMap, const CUtensorMap* queryRopeMap,
                                          const DecodeArguments& a, const QueryRows& rows,
                                          NarrowShared<kRows>& shared) {
  unsigned phase = 0;
  forEachPiece<kCut>(a, rows, shared.start, [&](const Piece& piece) {
    waitForPrevious();  // the queries may be in the making
    barrierWait(&shared.queryFree, phase ^ 1);
    phase ^= 1;
    barrierExpect(&shared.queryFull, sizeof(shared.query));
    for (int box = 0; box < kBoxes; ++box) {
      const bool rope = box == kLatentBoxes;
      copyTile(shared.query[box], rope ? queryRopeMap : queryMap, &shared.queryFull,
               rope ? a.ropeColumn : box * kBoxColumns, rows.first, piece.sequence);
    }
  });
}

}  // namespace decode
}  // namespace warpgraph
