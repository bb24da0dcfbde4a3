// What the decode kernels for Hopper share: which keys a block takes, the tiles of keys in shared memory, and the
// bits of softmax.
#pragma once

#include <cfloat>

#include "cuda/common.cuh"
#include "cuda/hopper.cuh"
#include "cuda/mla_keys.cuh"

namespace warpgraph {
namespace decode {

constexpr int kTile = 64;           // keys of a tile
constexpr int kBoxColumns = 64;     // a row of a box: 128 bytes, the span of the swizzle
constexpr int kLatentBoxes = 8;     // up to 512 columns
constexpr int kBoxes = kLatentBoxes + 1;  // and the rope part, last
constexpr unsigned kBoxBytes = kTile * kBoxColumns * 2;
constexpr int kMostCopies = 4;      // of a box of keys: pages have at least 16
constexpr int64_t kLeastShare = 4;  // tiles: shorter shares would cost more to merge than they save

struct DecodeArguments {
  MlaKeys keys;
  MlaSizes sizes;
  float scaleLog2;     // scale·log2 e
  int ropeColumn;      // where the rope part begins in its tensor; beyond its end when there is none
  int queryRopeColumn;
  int copyRows;        // keys that one copy fetches: a tile or a page
  int64_t numSplits;   // 0: equal shares
  int64_t overhead;    // of a sequence, in tiles, when shares are cut
  void* out;
  float* lse;
  float* partialOut;   // as in MlaPartials
  float* partialLse;
  int2* shares;
};

// The rows of queries (t, h) that a block takes, of every sequence.
struct QueryRows {
  int first, count;    // of the sequence's numQueries·heads rows
  int firstQuery, lastQuery;
};

__device__ inline QueryRows queryRows(const DecodeArguments& a, int tileRows) {
  const int heads = static_cast<int>(a.sizes.heads);
  const int rows = static_cast<int>(a.sizes.numQueries) * heads;
  const int first = static_cast<int>(blockIdx.x) * tileRows;
  const int count = min(tileRows, rows - first);
  return {first, count, first / heads, (first + count - 1) / heads};
}

__device__ inline int ceilTiles(int64_t keys) { return static_cast<int>((keys + kTile - 1) / kTile); }

// Tiles of a sequence that any query sees.
__device__ inline int tilesOf(const DecodeArguments& a, int64_t b) {
  return ceilTiles(mlaSeen(a.sizes, mlaLength(a.keys, b), a.sizes.numQueries - 1));
}

// Equal shares of all tiles, laid end to end, each sequence preceded by a.overhead tiles for the work that a
// sequence costs whatever its length. Where a share begins:
struct ShareStart {
  int64_t total;     // tiles
  int64_t shares;    // may be fewer than blocks
  int64_t sequence;  // that holds the share's first tile
  int64_t before;    // tiles before that sequence
  int64_t warpTotals[12];
};

// Computed by the whole block, since lengths are known to the GPU only.
template <int kThreads>
__device__ void findShare(const DecodeArguments& a, ShareStart& start) {
  constexpr int kWarps = kThreads / kWarpSize;
  static_assert(kWarps <= 12);
  const int64_t batch = a.sizes.batch;
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const int64_t perThread = (batch + kThreads - 1) / kThreads;
  const int64_t first = min(threadIdx.x * perThread, batch), last = min(first + perThread, batch);
  int64_t mine = 0;
  for (int64_t b = first; b < last; ++b) mine += tilesOf(a, b) + a.overhead;
  int64_t upToMine = mine;
  for (int offset = 1; offset < kWarpSize; offset *= 2) {
    const int64_t other = __shfl_up_sync(kFullWarp, upToMine, offset);
    if (lane >= offset) upToMine += other;
  }
  if (lane == kWarpSize - 1) start.warpTotals[warp] = upToMine;
  __syncthreads();
  int64_t total = 0, before = upToMine - mine;
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp) before += start.warpTotals[w];
    total += start.warpTotals[w];
  }
  const int64_t shares = min(int64_t{gridDim.y}, max(total / kLeastShare, int64_t{1}));
  const int64_t position = blockIdx.y * total / shares;
  if (threadIdx.x == 0) {
    start.total = total;
    start.shares = shares;
    if (position >= total) start.sequence = batch;
  }
  if (before <= position && position < before + mine) {
    int64_t b = first;
    for (; before + tilesOf(a, b) + a.overhead <= position; ++b) before += tilesOf(a, b) + a.overhead;
    start.sequence = b;
    start.before = before;
  }
  __syncthreads();
}

// Consecutive tiles of keys of one sequence.
struct Piece {
  int64_t sequence;
  int64_t slot;      // of the partial results; −1: all the sequence's keys, the result is final
  int begin, end;    // tiles; none when end ≤ begin
  int everyoneSees;  // keys that all the block's queries see
  int64_t length;    // keys of the sequence
};

// The pieces that a block takes, one after another.
class Pieces {
 public:
  __device__ Pieces(const DecodeArguments& a, const ShareStart& start, const QueryRows& rows)
      : a_(a), rows_(rows) {
    if (a.numSplits > 0) {
      sequence_ = blockIdx.y / a.numSplits;
      split_ = blockIdx.y % a.numSplits;
      return;
    }
    sequence_ = start.sequence;
    before_ = start.before;
    total_ = start.total;
    shares_ = start.shares;
    begin_ = blockIdx.y * total_ / shares_;
    end_ = blockIdx.y < shares_ ? (blockIdx.y + 1) * total_ / shares_ : 0;
  }

  __device__ bool next(Piece& piece) { return a_.numSplits > 0 ? nextSplit(piece) : nextOfShare(piece); }

  // The shares in which the last piece's sequence lies: {first, count}.
  __device__ int2 sharesOfSequence() const {
    const auto shareOf = [&](int64_t position) { return ((position + 1) * shares_ - 1) / total_; };
    const int64_t first = shareOf(lastBefore_ + a_.overhead);
    const int64_t last = lastTiles_ > 0 ? shareOf(lastBefore_ + a_.overhead + lastTiles_ - 1) : first;
    return {static_cast<int>(first), static_cast<int>(last - first + 1)};
  }

 private:
  __device__ bool nextSplit(Piece& piece) {
    if (sequence_ >= a_.sizes.batch) return false;
    const int64_t tiles = tilesOf(a_, sequence_);
    fill(piece, split_ * tiles / a_.numSplits, (split_ + 1) * tiles / a_.numSplits);
    piece.slot = a_.numSplits == 1 ? -1 : split_ * a_.sizes.batch + sequence_;
    split_ += gridDim.y;
    sequence_ += split_ / a_.numSplits;
    split_ %= a_.numSplits;
    return true;
  }

  __device__ bool nextOfShare(Piece& piece) {
    while (sequence_ < a_.sizes.batch && before_ < end_) {
      const int64_t tiles = tilesOf(a_, sequence_);
      const int64_t firstTile = before_ + a_.overhead;
      const int64_t begin = max(begin_ - firstTile, int64_t{0});
      const int64_t end = min(max(end_ - firstTile, int64_t{0}), tiles);
      // Who has a sequence's beginning writes the result of one without keys.
      const bool mine = end > begin || (tiles == 0 && before_ >= begin_);
      if (mine) {
        fill(piece, begin, end);
        piece.slot = end - begin == tiles ? -1 : int64_t{2} * blockIdx.y + (begin == 0 ? 1 : 0);
      }
      lastBefore_ = before_;
      lastTiles_ = tiles;
      before_ = firstTile + tiles;
      ++sequence_;
      if (mine) return true;
    }
    return false;
  }

  __device__ void fill(Piece& piece, int64_t begin, int64_t end) const {
    const int64_t length = mlaLength(a_.keys, sequence_);
    piece.sequence = sequence_;
    piece.length = length;
    piece.begin = static_cast<int>(begin);
    piece.end = min(static_cast<int>(end), ceilTiles(mlaSeen(a_.sizes, length, rows_.lastQuery)));
    piece.everyoneSees = static_cast<int>(mlaSeen(a_.sizes, length, rows_.firstQuery));
  }

  const DecodeArguments& a_;
  const QueryRows rows_;
  int64_t sequence_, split_ = 0;
  int64_t before_ = 0, begin_ = 0, end_ = 0, total_ = 1, shares_ = 1, lastBefore_ = 0, lastTiles_ = 0;
};

// Where the keys of a tile lie: coordinates of the copies that fetch one box of it.
struct TileSource {
  int row[kMostCopies], plane[kMostCopies];
  int copies;
};

// Pages past the length are not looked up. What those rows hold then, and what rows past the length hold in pages that
// are fetched, is left to discardNonFinite().
__device__ inline TileSource tileSource(const DecodeArguments& a, const Piece& piece, int tile) {
  TileSource source{};
  if (a.keys.blockTable == nullptr) {
    source.row[0] = tile * kTile;
    source.plane[0] = static_cast<int>(piece.sequence);
    source.copies = 1;
    return source;
  }
  const int32_t* table = a.keys.blockTable + piece.sequence * a.keys.pagesPerSequence;
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

__device__ inline void loadBox(char* box, const CUtensorMap* map, uint64_t* full, const DecodeArguments& a,
                               const TileSource& source, int column) {
  const unsigned copyBytes = static_cast<unsigned>(a.copyRows) * kBoxColumns * 2;
  barrierExpect(full, source.copies * copyBytes);
#pragma unroll
  for (int c = 0; c < kMostCopies; ++c) {
    if (c < source.copies) {
      copyTile(box + c * copyBytes, map, full, column, source.row[c], source.plane[c]);
    }
  }
}

// Writes zeros over what is not finite in rows from firstRow on of a box of latents, 128 threads; whether there was
// anything.
template <typename T>
__device__ bool discardNonFinite(char* box, int firstRow, int thread) {
  constexpr uint32_t kExponent = std::is_same_v<T, __half> ? 0x7c00u : 0x7f80u;
  constexpr int kVectors = kBoxBytes / sizeof(uint4);
  bool found = false;
  auto* vectors = reinterpret_cast<uint4*>(box);
  for (int i = firstRow * (kBoxColumns * 2 / static_cast<int>(sizeof(uint4))) + thread; i < kVectors; i += 128) {
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

// A logit (base 2) as a query sees it: −∞ where it sees no key. A key with elements that are not finite, which were
// taken out of its values, shows itself in the logit.
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

// A piece without keys, by kThreads threads.
template <typename T, int kThreads>
__device__ void writeEmpty(const DecodeArguments& a, const Piece& piece, const QueryRows& rows, int thread) {
  for (int row = thread; row < rows.count; row += kThreads) storeLse(a, piece, rows.first + row, -INFINITY);
  if (piece.slot >= 0) return;
  const int64_t rank = a.sizes.rank;
  T* out = static_cast<T*>(a.out) +
           (piece.sequence * a.sizes.numQueries * a.sizes.heads + rows.first) * rank;
  for (int64_t i = thread; i < rows.count * rank; i += kThreads) out[i] = fromFloat<T>(0.0f);
}

}  // namespace decode
}  // namespace warpgraph
