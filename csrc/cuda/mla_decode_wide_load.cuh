// What a block of the wide decode kernel holds in shared memory, and the warps that fetch it.
//
// Each warp of the fetching warpgroup waits for one half of one of the two key tiles to be free and fetches
// it in boxes of 64 × 64, each with its own barrier, so that the logits can start with the first.
#pragma once

#include <cstddef>

#include "cuda/mla_decode_hopper.cuh"

namespace warpgraph {
namespace decode {

constexpr int kWideRows = 64;
constexpr int kWideThreads = 384;

struct WideShared {
  char query[kBoxes][kBoxBytes];
  char keys[2][kBoxes][kBoxBytes];
  char weights[kBoxBytes];  // of the first tile, (64, 64)
  uint64_t full[2][kBoxes];
  uint64_t free[2][2];  // [tile][boxes that its own warpgroup frees, that the other frees]
  uint64_t queryFull, queryFree;
  float max[2][kWideRows], scale[2][kWideRows];
  float sum[2][2][kWideRows];                       // of pieces in turn, by warpgroup
  uint64_t peerLseFull, peerHalfFull, halfArrived;  // where clusters merge, once
  float arrived[4];                                 // by warps of the peer
  float peerLse[kWideRows];                         // of the peer's keys, in base 2
  PieceWalk walk[2];
  ShareStart start;
};

static_assert(sizeof(WideShared) <= kMostShared - kBytesOfGroups);

// Barriers of groups; of the last one there are two, by warpgroup.
enum WideBarrier { kFirstLogits = 1, kFirstSoftmax, kSecondSoftmax, kSums, kWarpgroup };

// The box that a lane of a fetching warp fetches, of tile warp / 2: the tile's own warpgroup frees its half
// of the columns (warp % 2 = 0), the other one the rest; with them goes the rope part, of the second tile
// late, since its place holds the weights.
__device__ inline int wideBox(int warp, int lane) {
  const bool left = warp == 0 || warp == 3;
  return left ? (lane < 4 ? lane : kLatentBoxes) : 4 + lane;
}
__device__ inline int wideBoxes(int warp) {
  return warp == 0 || warp == 3 ? 5 : 4;
}

template <Cut kCut>
__device__ inline void wideFetch(const CUtensorMap* queryMap, const CUtensorMap* queryRopeMap,
                                 const CUtensorMap* latentMap, const CUtensorMap* ropeMap,
                                 const DecodeArguments& a, const QueryRows& rows, WideShared& shared,
                                 int warp, int lane) {
  if (lane >= wideBoxes(warp)) return;
  const int tileOfPair = warp / 2, box = wideBox(warp, lane);
  const bool isRope = box == kLatentBoxes;
  const CUtensorMap* map = isRope ? ropeMap : latentMap;
  const int column = isRope ? a.ropeColumn : box * kBoxColumns;
  // Where clusters merge, it costs time once power is the limit: bench/NOTES.md, decode 17.
  constexpr bool kEvictFirst = kCut != Cut::kMerges;
  unsigned phase = 0, queryPhase = 0;
  forEachPiece<kCut>(a, rows, shared.start, [&](const Piece& piece) {
    if (warp == 0) {
      waitForPrevious();  // the queries may be in the making
      barrierWait(&shared.queryFree, queryPhase ^ 1);
      queryPhase ^= 1;
      if (lane == 0) barrierExpect(&shared.queryFull, kBoxes * kBoxBytes);
      for (int b = lane; b < kBoxes; b += wideBoxes(0)) {
        const bool rope = b == kLatentBoxes;
        copyTile(shared.query[b], rope ? queryRopeMap : queryMap, &shared.queryFull,
                 rope ? a.ropeColumn : b * kBoxColumns, rows.first, piece.sequence);
      }
    }
    for (int tile = piece.begin + tileOfPair; tile < piece.end; tile += 2) {
      const TileSource source = tileSource(a, piece, tile);
      barrierWait(&shared.free[tileOfPair][warp % 2], phase ^ 1);
      phase ^= 1;
      fetchBox(shared.keys[tileOfPair][box], map, &shared.full[tileOfPair][box], a, source, column,
               kEvictFirst);
    }
  });
}

}  // namespace decode
}  // namespace warpgraph
