// The prefill kernel's tiles: which ones a block works on, where they lie in shared memory, and the warp that
// fetches them.
#pragma once

#include "cuda/common.cuh"
#include "cuda/hopper.cuh"
#include "cuda/mla_attention.h"

namespace warpgraph {

constexpr int kWarpgroup = 128;
constexpr int kConsumers = 2;   // warpgroups
constexpr int kGroupRows = 64;  // queries of a warpgroup
constexpr int kTileRows = kConsumers * kGroupRows;
constexpr int kTileKeys = 128;
constexpr int kStages = 2;
constexpr int kColumns = 64;  // of a swizzled matrix: 128 bytes
constexpr int kRowBytes = 128;
constexpr int kPrefillThreads = (kConsumers + 1) * kWarpgroup;

struct PrefillArguments {
  const int32_t *lengths, *blockTable;
  const int* nonFinite;
  unsigned* counters;  // (2): tiles taken, blocks that are done
  float* running;
  void* out;
  float* lse;
  int64_t numKeys, firstKey, queryOffset;
  int chunkKeys, numQueries, heads;
  unsigned batchHeads, rowTiles, sectionHeads, tiles;
  int pageSize, numPages, pagesPerSequence;
  float scale;  // times log2(e)
  bool causal, hasQueryOffset, first, last;
};

struct PrefillMaps {
  CUtensorMap q, qRope, k, kRope, v;
};

// A tile of queries of one head, and the keys of the chunk that they see.
struct PrefillTile {
  int b, h, firstQuery;
  int keyTiles;  // −1: no tile, the block is done
  int length;    // of the sequence, within the chunk
  int diagonal;  // row r of the tile sees the keys before diagonal + r, and before length

  __device__ int visible(int row) const { return min(max(diagonal + row, 0), length); }
};

// Tiles in the order in which blocks take them. Heads come in sections whose keys and values stay in the L2
// cache together; within a section the last queries, which see most, come first.
__device__ inline PrefillTile prefillTile(const PrefillArguments& a, unsigned index) {
  const unsigned section = index / (a.sectionHeads * a.rowTiles);
  const unsigned within = index - section * a.sectionHeads * a.rowTiles;
  const unsigned firstHead = section * a.sectionHeads;
  const unsigned heads = min(a.sectionHeads, a.batchHeads - firstHead);
  const unsigned row = within / heads;
  const unsigned batchHead = firstHead + within - row * heads;
  PrefillTile tile{};
  tile.b = static_cast<int>(batchHead / a.heads);
  tile.h = static_cast<int>(batchHead - static_cast<unsigned>(tile.b) * a.heads);
  tile.firstQuery = static_cast<int>(a.rowTiles - 1 - row) * kTileRows;
  const int64_t length =
      a.lengths == nullptr ? a.numKeys : min(max(int64_t{a.lengths[tile.b]}, int64_t{0}), a.numKeys);
  const int64_t offset = a.hasQueryOffset ? a.queryOffset : length - a.numQueries;
  const auto inChunk = [&](int64_t key, int64_t least) {
    return static_cast<int>(min(max(key - a.firstKey, least), int64_t{a.chunkKeys}));
  };
  tile.length = inChunk(length, 0);
  tile.diagonal = a.causal ? inChunk(tile.firstQuery + offset + 1, -kTileRows) : a.chunkKeys;
  const int rows = min(kTileRows, a.numQueries - tile.firstQuery);
  tile.keyTiles = (tile.visible(rows - 1) + kTileKeys - 1) / kTileKeys;
  return tile;
}

// Matrices of 64 columns, 128 bytes a row, in the 128-byte swizzle.
template <typename T, int kD, int kDr, int kDv>
struct PrefillShared {
  static constexpr int kKeyParts = (kD + kDr) / kColumns;
  static constexpr int kValueParts = kDv / kColumns;

  T q[kConsumers][kKeyParts][kGroupRows * kColumns];
  T k[kStages][kKeyParts][kTileKeys * kColumns];
  T v[kStages][kValueParts][kTileKeys * kColumns];
  uint64_t qFull[kConsumers], qEmpty[kConsumers];
  uint64_t kFull[kStages], kEmpty[kStages];
  uint64_t vFull[kStages], vEmpty[kStages];
  PrefillTile tile[kConsumers];  // comes and goes with q
};

// Where a ring of kStages buffers is.
struct RingPosition {
  int stage = 0;
  unsigned parity = 0;

  __device__ void advance() {
    stage = stage + 1 == kStages ? 0 : stage + 1;
    if (stage == 0) parity ^= 1;
  }
};

#if WARPGRAPH_HOPPER

// The rotary parts of the keys firstKey + [0, kTileKeys) of sequence b; of a paged sequence only the pages
// that hold the first `count` of them.
template <typename T>
__device__ void copyRope(T* shared, const PrefillMaps& maps, const PrefillArguments& a, uint64_t* full, int b,
                         int firstKey, int count, int lane) {
  if (a.blockTable == nullptr) {
    if (lane == 0) {
      barrierExpect(full, kTileKeys * kRowBytes);
      copyTile(shared, &maps.kRope, full, 0, firstKey, b);
    }
    return;
  }
  const int rows = min(a.pageSize, kTileKeys);
  const int pages = (min(count, kTileKeys) + rows - 1) / rows;
  // Announced before any of them may arrive.
  if (lane == 0) barrierExpect(full, pages * rows * kRowBytes);
  __syncwarp();
  if (lane >= pages) return;
  const int key = firstKey + lane * rows;
  const int page = a.blockTable[int64_t{b} * a.pagesPerSequence + key / a.pageSize];
  copyTile(shared + lane * rows * kColumns, &maps.kRope, full, 0, key % a.pageSize,
           min(max(page, 0), a.numPages - 1));
}

template <typename T, int kD, int kDr, int kDv>
__device__ void produce(PrefillShared<T, kD, kDr, kDv>& shared, const PrefillMaps& maps,
                        const PrefillArguments& a, int lane) {
  using Shared = PrefillShared<T, kD, kDr, kDv>;
  constexpr int kParts = kD / kColumns;  // without the rotary part
  RingPosition kAt, vAt;
  unsigned qParity = 0;
  unsigned index = blockIdx.x;
  while (index < a.tiles) {
    unsigned next = 0;
    if (lane == 0) next = gridDim.x + atomicAdd(a.counters, 1u);
    const PrefillTile tile = prefillTile(a, index);

    const auto copyQueries = [&] {
      for (int group = 0; group < kConsumers; ++group) {
        barrierWait(&shared.qEmpty[group], qParity ^ 1);
        if (lane != 0) continue;
        uint64_t* full = &shared.qFull[group];
        shared.tile[group] = tile;
        if (tile.keyTiles == 0) {
          barrierArrive(full);
          continue;
        }
        barrierExpect(full, sizeof(shared.q[group]));
        const int t = tile.firstQuery + group * kGroupRows;
        for (int part = 0; part < Shared::kKeyParts; ++part) {
          const bool rope = part >= kParts;
          copyTile(shared.q[group][part], rope ? &maps.qRope : &maps.q, full, rope ? 0 : part * kColumns,
                   tile.h, t, tile.b);
        }
      }
      qParity ^= 1;
    };
    const auto copyValues = [&](int keyTile) {
      barrierWait(&shared.vEmpty[vAt.stage], vAt.parity ^ 1);
      if (lane == 0) {
        uint64_t* full = &shared.vFull[vAt.stage];
        barrierExpect(full, sizeof(shared.v[0]));
        for (int part = 0; part < Shared::kValueParts; ++part) {
          copyTile(shared.v[vAt.stage][part], &maps.v, full, part * kColumns, tile.h, keyTile * kTileKeys,
                   tile.b);
        }
      }
      vAt.advance();
    };

    for (int keyTile = tile.keyTiles - 1; keyTile >= 0; --keyTile) {
      barrierWait(&shared.kEmpty[kAt.stage], kAt.parity ^ 1);
      uint64_t* full = &shared.kFull[kAt.stage];
      const int key = keyTile * kTileKeys;
      // Two arrivals complete the barrier with a rotary part, one without.
      if (lane == 0) {
        barrierExpect(full, kParts * kTileKeys * kRowBytes);
        for (int part = 0; part < kParts; ++part) {
          copyTile(shared.k[kAt.stage][part], &maps.k, full, part * kColumns, tile.h, key, tile.b);
        }
      }
      if constexpr (kDr > 0) {
        copyRope(shared.k[kAt.stage][kParts], maps, a, full, tile.b, static_cast<int>(a.firstKey) + key,
                 tile.length - key, lane);
      }
      kAt.advance();
      if (keyTile == tile.keyTiles - 1) {
        copyQueries();
      } else {
        copyValues(keyTile + 1);
      }
    }
    if (tile.keyTiles == 0) {
      copyQueries();
    } else {
      copyValues(0);
    }
    index = __shfl_sync(kFullWarp, next, 0);
  }
  for (int group = 0; group < kConsumers; ++group) {
    barrierWait(&shared.qEmpty[group], qParity ^ 1);
    if (lane == 0) {
      shared.tile[group].keyTiles = -1;
      barrierArrive(&shared.qFull[group]);
    }
  }
  // The last block leaves zeros for the next launch.
  if (lane == 0) {
    __threadfence();
    if (atomicAdd(a.counters + 1, 1u) == gridDim.x - 1) {
      a.counters[0] = 0;
      a.counters[1] = 0;
    }
  }
}

#endif  // WARPGRAPH_HOPPER

}  // namespace warpgraph
