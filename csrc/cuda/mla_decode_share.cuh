// Which keys a block of the decode kernels for Hopper takes.
#pragma once

#include "cuda/common.cuh"
#include "cuda/mla_keys.cuh"

namespace warpgraph {
namespace decode {

constexpr int kTile = 64;                 // keys of a tile
constexpr int kBoxColumns = 64;           // a row of a box: 128 bytes, the span of the swizzle
constexpr int kLatentBoxes = 8;           // up to 512 columns
constexpr int kBoxes = kLatentBoxes + 1;  // and the rope part, last
constexpr unsigned kBoxBytes = kTile * kBoxColumns * 2;
constexpr size_t kMostShared = 227 * 1024;
constexpr int kMostCopies = 4;  // of a box of keys: pages have at least 16
constexpr int kLeastShare = 4;  // tiles: shorter shares would cost more to merge than they save

// As in MlaSizes and MlaKeys. 32 bits are enough (see mlaDecodeHopperTakes()), and what a block computes
// before it can begin is code that is not in the cache: half as many instructions take half as long.
struct DecodeSizes {
  int batch, numQueries, heads, rank, numKeys;
  bool causal, hasQueryOffset;
  int queryOffset;

  // How many keys of a sequence query t sees.
  __host__ __device__ int seen(int length, int t) const {
    if (!causal) return length;
    const int offset = hasQueryOffset ? queryOffset : length - numQueries;
    const int most = t + offset + 1;
    return most < 0 ? 0 : most < length ? most : length;
  }
};

// How the keys are cut into what a block takes. It is known when the kernel is compiled, since code for the
// other ways would be fetched, and registers kept, for nothing.
enum class Cut {
  // Each block finds its share: lengths are known to the GPU only, or equal splits cost more. The grid is
  // (tiles of queries, shares).
  kShares,
  // The host knows the splits: (tiles of queries, splits, sequences).
  kSplits,
  // The same, and they are two, those of a cluster's blocks, which merge them and take no others.
  kMerges,
};
constexpr int kMergedSplits = 2;

struct DecodeArguments {
  MlaKeys keys;
  DecodeSizes sizes;
  float scaleLog2;  // scale·log2 e
  int ropeColumn;   // where the rope part begins, of queries and of keys; beyond the end when there is none
  int copyRows;     // keys that one copy fetches: a tile or a page
  int numSplits;    // of Cut::kSplits
  int firstSequence, endSequence;  // that the grid takes
  int overhead;                    // of a sequence, in tiles, when shares are cut
  void* out;
  float* lse;
  float* partialOut;  // as in MlaPartials
  float* partialLse;
  int2* shares;
};

// The rows of queries (t, h) that a block takes, of every sequence.
struct QueryRows {
  int first, count;  // of the sequence's numQueries·heads rows
  int firstQuery, lastQuery;
};

// Which query a row (t, h) belongs to. Divisions make blocks that have little to do begin later.
__device__ inline int queryOfRow(const DecodeArguments& a, int row) {
  return a.sizes.numQueries == 1 ? 0 : row / a.sizes.heads;
}

__device__ inline QueryRows queryRows(const DecodeArguments& a, int tileRows) {
  const int rows = a.sizes.numQueries * a.sizes.heads;
  const int first = static_cast<int>(blockIdx.x) * tileRows;
  const int count = min(tileRows, rows - first);
  return {first, count, queryOfRow(a, first), queryOfRow(a, first + count - 1)};
}

__host__ __device__ inline int ceilTiles(int keys) {
  return static_cast<int>((static_cast<unsigned>(keys) + kTile - 1) / kTile);
}

// Keys of a sequence. Lengths may have been computed on the GPU, where nobody checked them. They are read
// past L1, which may be older, since a block may read them before it has waited for anything.
__device__ inline int lengthOf(const DecodeArguments& a, int b) {
  if (a.keys.lengths == nullptr) return a.sizes.numKeys;
  return min(max(__ldcg(a.keys.lengths + b), 0), a.sizes.numKeys);
}

// Tiles of a sequence that any query sees.
__device__ inline int tilesOf(const DecodeArguments& a, int b) {
  return ceilTiles(a.sizes.seen(lengthOf(a, b), a.sizes.numQueries - 1));
}

// How the blocks share the keys, unless the host knows the number of splits: where all sequences have
// equally many tiles and it costs no more, every sequence in equally many splits, since a piece costs
// a.overhead tiles' time whatever its length, most of it for partial results. Else equal shares of all tiles,
// laid end to end, each sequence preceded by a.overhead tiles.
struct ShareStart {
  // Read while what follows is written: loads of 16 bytes must not touch both.
  alignas(16) int warpTotals[12], warpLeast[12], warpMost[12];
  int splits;    // or 0: shares
  int total;     // tiles
  int shares;    // may be fewer than blocks
  int sequence;  // that holds the share's first tile
  int before;    // tiles before that sequence
};

// The first tile of share i, i·total / shares, without 64-bit divisions.
__device__ inline int shareBegin(int i, int total, int shares) {
  return i * (total / shares) + i * (total % shares) / shares;
}
// The share that holds a tile.
__device__ inline int shareOf(int tile, int total, int shares) {
  int i = static_cast<int>(static_cast<float>(tile) / static_cast<float>(total) * static_cast<float>(shares));
  while (i > 0 && shareBegin(i, total, shares) > tile) --i;
  while (shareBegin(i + 1, total, shares) <= tile) ++i;
  return i;
}

// The number of splits of `batch` sequences of `tiles` tiles for `blocks` blocks, 0 where shares are better.
__host__ __device__ inline int equalSplits(int overhead, int tiles, int batch, int blocks) {
  if (tiles == 0) return 1;
  const int splits = batch < blocks ? max(min(blocks / batch, tiles / kLeastShare), 1) : 1;
  const int rounds = (batch * splits + blocks - 1) / blocks;
  const int cost = rounds * ((tiles + splits - 1) / splits + (splits > 1 ? overhead : 1));
  const int piecesOfShare = 2;
  const int64_t shareTiles = max(int64_t{tiles} * batch / blocks, int64_t{kLeastShare});
  return cost <= shareTiles + piecesOfShare * overhead ? splits : 0;
}

// Computed by the whole block, for Cut::kShares.
template <int kThreads>
__device__ void findShare(const DecodeArguments& a, ShareStart& start) {
  constexpr int kWarps = kThreads / kWarpSize;
  static_assert(kWarps <= 12);
  const int batch = a.sizes.batch;
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const int perThread = (batch + kThreads - 1) / kThreads;
  const int first = min(static_cast<int>(threadIdx.x) * perThread, batch);
  const int last = min(first + perThread, batch);
  int mine = 0, least = INT32_MAX, most = 0;
  for (int b = first; b < last; ++b) {
    const int tiles = tilesOf(a, b);
    mine += tiles + a.overhead;
    least = min(least, tiles);
    most = max(most, tiles);
  }
  least = warpMin<1>(least);
  most = warpMax<1>(most);
  int upToMine = mine;
  for (int offset = 1; offset < kWarpSize; offset *= 2) {
    const int other = __shfl_up_sync(kFullWarp, upToMine, offset);
    if (lane >= offset) upToMine += other;
  }
  if (lane == kWarpSize - 1) {
    start.warpTotals[warp] = upToMine;
    start.warpLeast[warp] = least;
    start.warpMost[warp] = most;
  }
  __syncthreads();
  int total = 0, before = upToMine - mine;
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp) before += start.warpTotals[w];
    total += start.warpTotals[w];
    least = min(least, start.warpLeast[w]);
    most = max(most, start.warpMost[w]);
  }
  const int shares = min(static_cast<int>(gridDim.y), max(total / kLeastShare, 1));
  const int position = shareBegin(min(static_cast<int>(blockIdx.y), shares), total, shares);
  if (threadIdx.x == 0) {
    start.splits = least == most ? equalSplits(a.overhead, least, batch, static_cast<int>(gridDim.y)) : 0;
    start.total = total;
    start.shares = shares;
    if (static_cast<int>(blockIdx.y) >= shares) start.sequence = batch;
  }
  if (before <= position && position < before + mine) {
    int b = first;
    for (; before + tilesOf(a, b) + a.overhead <= position; ++b) before += tilesOf(a, b) + a.overhead;
    start.sequence = b;
    start.before = before;
  }
}

}  // namespace decode
}  // namespace warpgraph
