// What the decode kernels for Hopper share: which keys a block takes, the tiles of keys in shared memory, and
// the bits of softmax.
#pragma once

#include <cfloat>

#include "cuda/common.cuh"
#include "cuda/hopper.cuh"
#include "cuda/mla_keys.cuh"
#include "cuda/wgmma.cuh"

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

struct DecodeArguments {
  MlaKeys keys;
  MlaSizes sizes;
  float scaleLog2;  // scale·log2 e
  int ropeColumn;   // where the rope part begins in its tensor; beyond its end when there is none
  int queryRopeColumn;
  int copyRows;   // keys that one copy fetches: a tile or a page
  int numSplits;  // 0: equal shares
  int overhead;   // of a sequence, in tiles, when shares are cut
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

__device__ inline QueryRows queryRows(const DecodeArguments& a, int tileRows) {
  const int heads = static_cast<int>(a.sizes.heads);
  const int rows = static_cast<int>(a.sizes.numQueries) * heads;
  const int first = static_cast<int>(blockIdx.x) * tileRows;
  const int count = min(tileRows, rows - first);
  return {first, count, first / heads, (first + count - 1) / heads};
}

__host__ __device__ inline int ceilTiles(int64_t keys) {
  return static_cast<int>((keys + kTile - 1) / kTile);
}

// Tiles of a sequence that any query sees.
__device__ inline int tilesOf(const DecodeArguments& a, int64_t b) {
  return ceilTiles(mlaSeen(a.sizes, mlaLength(a.keys, b), a.sizes.numQueries - 1));
}

// How the blocks share the keys, unless the caller fixed the number of splits: where all sequences have
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

// Computed by the whole block, for lengths that are known to the GPU only.
template <int kThreads>
__device__ void findShare(const DecodeArguments& a, ShareStart& start) {
  constexpr int kWarps = kThreads / kWarpSize;
  static_assert(kWarps <= 12);
  const int batch = static_cast<int>(a.sizes.batch);
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

// Consecutive tiles of keys of one sequence.
struct Piece {
  int sequence;
  int slot;          // of the partial results; −1: all the sequence's keys, the result is final
  int begin, end;    // tiles; none when end ≤ begin
  int everyoneSees;  // keys that all the block's queries see
  int length;        // keys of the sequence
};

// The pieces that a block takes, one after another.
class Pieces {
 public:
  __device__ void start(const DecodeArguments& a, const ShareStart& start) {
    split_ = before_ = begin_ = end_ = lastBefore_ = 0;
    total_ = shares_ = 1;
    splits_ = a.numSplits > 0 ? a.numSplits : start.splits;
    if (splits_ > 0) {
      sequence_ = static_cast<int>(blockIdx.y) / splits_;
      split_ = static_cast<int>(blockIdx.y) % splits_;
      return;
    }
    sequence_ = start.sequence;
    before_ = start.before;
    total_ = start.total;
    shares_ = start.shares;
    begin_ = shareBegin(min(static_cast<int>(blockIdx.y), shares_), total_, shares_);
    end_ = shareBegin(min(static_cast<int>(blockIdx.y) + 1, shares_), total_, shares_);
  }

  __device__ bool next(const DecodeArguments& a, const QueryRows& rows, Piece& piece) {
    if (sequence_ >= a.sizes.batch) return false;
    return splits_ > 0 ? nextSplit(a, rows, piece) : nextOfShare(a, rows, piece);
  }

  // Whether the last piece is its sequence's first.
  __device__ bool isFirst() const { return first_; }
  // Where the last piece's sequence lies, as MlaPartials wants it.
  __device__ int2 sharesOfSequence(const DecodeArguments& a) const {
    if (splits_ > 0) return {0, -splits_};
    const int firstTile = lastBefore_ + a.overhead;
    if (before_ == firstTile) return {0, 1};
    const int first = shareOf(firstTile, total_, shares_);
    return {first, shareOf(before_ - 1, total_, shares_) - first + 1};
  }

 private:
  __device__ bool nextSplit(const DecodeArguments& a, const QueryRows& rows, Piece& piece) {
    const int64_t tiles = tilesOf(a, sequence_);
    fill(a, rows, piece, static_cast<int>(split_ * tiles / splits_),
         static_cast<int>((split_ + 1) * tiles / splits_));
    piece.slot = splits_ == 1 ? -1 : split_ * static_cast<int>(a.sizes.batch) + sequence_;
    first_ = split_ == 0;
    const int item = split_ + static_cast<int>(gridDim.y);
    sequence_ += item / splits_;
    split_ = item % splits_;
    return true;
  }

  __device__ bool nextOfShare(const DecodeArguments& a, const QueryRows& rows, Piece& piece) {
    while (sequence_ < a.sizes.batch && before_ < end_) {
      const int tiles = tilesOf(a, sequence_);
      const int firstTile = before_ + a.overhead;
      const int begin = max(begin_ - firstTile, 0);
      const int end = min(max(end_ - firstTile, 0), tiles);
      // Who has a sequence's beginning writes the result of one without keys.
      const bool mine = end > begin || (tiles == 0 && before_ >= begin_);
      if (mine) {
        fill(a, rows, piece, begin, end);
        first_ = begin == 0;
        piece.slot = end - begin == tiles ? -1 : 2 * static_cast<int>(blockIdx.y) + (first_ ? 1 : 0);
      }
      lastBefore_ = before_;
      before_ = firstTile + tiles;
      ++sequence_;
      if (mine) return true;
    }
    return false;
  }

  __device__ void fill(const DecodeArguments& a, const QueryRows& rows, Piece& piece, int begin,
                       int end) const {
    const int64_t length = mlaLength(a.keys, sequence_);
    piece.sequence = sequence_;
    piece.length = static_cast<int>(length);
    piece.begin = begin;
    piece.end = min(end, ceilTiles(mlaSeen(a.sizes, length, rows.lastQuery)));
    piece.everyoneSees = static_cast<int>(mlaSeen(a.sizes, length, rows.firstQuery));
  }

  int sequence_, split_, before_, begin_, end_, total_, shares_, lastBefore_, splits_;
  bool first_;
};

// A warpgroup's walk over its block's pieces, in shared memory for the sake of registers.
struct PieceWalk {
  Pieces pieces;
  Piece piece[2];  // by turns
  int more[2];
};

// The next piece, or null; leads: who writes down in which shares a sequence lies.
__device__ inline const Piece* nextPiece(PieceWalk& walk, int turn, const DecodeArguments& a,
                                         const QueryRows& rows, int thread, int barrier, bool leads) {
  Piece& piece = walk.piece[turn];
  if (thread == 0) {
    walk.more[turn] = walk.pieces.next(a, rows, piece);
    if (walk.more[turn] && leads && a.numSplits == 0 && walk.pieces.isFirst()) {
      a.shares[piece.sequence] = walk.pieces.sharesOfSequence(a);
    }
  }
  namedBarrierSync(barrier, 128);
  return walk.more[turn] ? &piece : nullptr;
}

// Where the keys of a tile lie: coordinates of the copies that fetch one box of it.
struct TileSource {
  int row[kMostCopies], plane[kMostCopies];
  int copies;
};

// Pages past the length are not looked up. What those rows hold then, and what rows past the length hold in
// pages that are fetched, is left to discardNonFinite().
__device__ inline TileSource tileSource(const DecodeArguments& a, const Piece& piece, int tile) {
  TileSource source{};
  if (a.keys.blockTable == nullptr) {
    source.row[0] = tile * kTile;
    source.plane[0] = piece.sequence;
    source.copies = 1;
    return source;
  }
  const int32_t* table = a.keys.blockTable + int64_t{piece.sequence} * a.keys.pagesPerSequence;
  const int pageSize = static_cast<int>(a.keys.pageSize);
  const int pageBits = __ffs(pageSize) - 1;
#pragma unroll
  for (int c = 0; c < kMostCopies; ++c) {
    const int key = tile * kTile + c * a.copyRows;
    if (c * a.copyRows >= kTile || key >= piece.length) continue;
    source.row[c] = key & (pageSize - 1);
    source.plane[c] = min(max(table[key >> pageBits], 0), static_cast<int>(a.keys.numPages) - 1);
    source.copies = c + 1;
  }
  return source;
}

__device__ inline void fetchBox(char* box, const CUtensorMap* map, uint64_t* full, const DecodeArguments& a,
                                const TileSource& source, int column) {
  const unsigned copyBytes = static_cast<unsigned>(a.copyRows) * kBoxColumns * 2;
  barrierExpect(full, source.copies * copyBytes);
#pragma unroll
  for (int c = 0; c < kMostCopies; ++c) {
    if (c < source.copies) {
      copyTileOnce(box + c * copyBytes, map, full, column, source.row[c], source.plane[c]);
    }
  }
}

// Writes zeros over what is not finite in rows from firstRow on of a box of latents, 128 threads; whether
// there was anything.
template <typename T>
__device__ bool discardNonFinite(char* box, int firstRow, int thread) {
  constexpr uint32_t kExponent = std::is_same_v<T, __half> ? 0x7c00u : 0x7f80u;
  constexpr int kVectors = kBoxBytes / sizeof(uint4);
  bool found = false;
  auto* vectors = reinterpret_cast<uint4*>(box);
#pragma unroll 1
  for (int i = firstRow * (kBoxColumns * 2 / static_cast<int>(sizeof(uint4))) + thread; i < kVectors;
       i += 128) {
    uint4 v = vectors[i];
    uint32_t words[4] = {v.x, v.y, v.z, v.w};
    bool dirty = false;
    for (uint32_t& word : words) {
      const bool low = (word & kExponent) == kExponent;
      const bool high = (word >> 16 & kExponent) == kExponent;
      word &= (low ? 0u : 0xffffu) | (high ? 0u : 0xffff0000u);
      dirty |= low || high;
    }
    if (dirty) vectors[i] = {words[0], words[1], words[2], words[3]};
    found |= dirty;
  }
  return found;
}

// Rows of 128 bytes: where the 16-byte chunk of a row lies in the swizzle.
__device__ inline char* swizzled(char* box, int row, int chunk) {
  return box + row * 128 + ((chunk ^ (row & 7)) << 4);
}

__device__ inline float exp2Approx(float value) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

template <typename T>
__device__ inline uint32_t packPair(float a, float b) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 pair = __floats2half2_rn(a, b);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}

// A logit (base 2) as a query sees it: −∞ where it sees no key. A key with elements that are not finite,
// which were taken out of its values, shows itself in the logit.
__device__ inline float seenLogit(float logit, bool seen, bool discarded) {
  if (!seen) return -INFINITY;
  return discarded && !isfinite(logit) ? NAN : logit;
}

// Natural logarithm of Σ exp(logit) from the maximum in base 2.
__device__ inline float naturalLse(float max, float sum) {
  return sum == 0.0f ? -INFINITY : 0.6931471805599453f * (max + log2f(sum));
}

// Where a row's lse goes.
__device__ inline void storeLse(const DecodeArguments& a, const Piece& piece, int row, float lse) {
  const int heads = static_cast<int>(a.sizes.heads);
  const int64_t numQueries = a.sizes.numQueries;
  const int64_t at = row % heads * numQueries + row / heads;
  if (piece.slot >= 0) {
    a.partialLse[piece.slot * numQueries * heads + at] = lse;
  } else if (a.lse != nullptr) {
    a.lse[piece.sequence * numQueries * heads + at] = lse;
  }
}

// Where a piece's results go: a row (t, h) of the sequence.
template <typename Out>
__device__ Out* resultRow(const DecodeArguments& a, const Piece& piece, int row) {
  const int64_t rows = a.sizes.numQueries * a.sizes.heads;
  if constexpr (std::is_same_v<Out, float>) {
    return a.partialOut + (piece.slot * rows + row) * a.sizes.rank;
  } else {
    return static_cast<Out*>(a.out) + (piece.sequence * rows + row) * a.sizes.rank;
  }
}

// A piece without keys, by kThreads threads.
template <typename T, int kThreads>
__device__ void writeEmpty(const DecodeArguments& a, const Piece& piece, const QueryRows& rows, int thread) {
  for (int row = thread; row < rows.count; row += kThreads) storeLse(a, piece, rows.first + row, -INFINITY);
  if (piece.slot >= 0) return;
  const int64_t rank = a.sizes.rank;
  T* out = resultRow<T>(a, piece, rows.first);
  for (int64_t i = thread; i < rows.count * rank; i += kThreads) out[i] = fromFloat<T>(0.0f);
}

}  // namespace decode
}  // namespace warpgraph
