// What the decode kernels for Hopper share: the tiles of keys in shared memory, the bits of softmax, and
// where results go.
#pragma once

#include <cfloat>

#include "cuda/common.cuh"
#include "cuda/hopper.cuh"
#include "cuda/mla_decode_pieces.cuh"
#include "cuda/wgmma.cuh"

namespace warpgraph {
namespace decode {

// One thread: the copy engine has to know its maps before the first copy.
__device__ inline void prefetchMaps(const CUtensorMap* query, const CUtensorMap* queryRope,
                                    const CUtensorMap* latent, const CUtensorMap* rope) {
  prefetchMap(latent);
  prefetchMap(rope);
  prefetchMap(query);
  prefetchMap(queryRope);
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
    source.plane[c] = min(max(__ldcg(table + (key >> pageBits)), 0), static_cast<int>(a.keys.numPages) - 1);
    source.copies = c + 1;
  }
  return source;
}

__device__ inline void fetchBox(char* box, const CUtensorMap* map, uint64_t* full, const DecodeArguments& a,
                                const TileSource& source, int column, bool evictFirst) {
  const unsigned copyBytes = static_cast<unsigned>(a.copyRows) * kBoxColumns * 2;
  barrierExpect(full, source.copies * copyBytes);
#pragma unroll
  for (int c = 0; c < kMostCopies; ++c) {
    if (c < source.copies) {
      if (evictFirst) {
        copyTileEvictFirst(box + c * copyBytes, map, full, column, source.row[c], source.plane[c]);
      } else {
        copyTile(box + c * copyBytes, map, full, column, source.row[c], source.plane[c]);
      }
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

// A logit of a tile from which elements that are not finite were taken out as values: it shows whose they
// were.
__device__ inline float discardedLogit(float logit) {
  return isfinite(logit) ? logit : NAN;
}

// Natural logarithm of Σ exp(logit) from the maximum in base 2.
__device__ inline float naturalLse(float max, float sum) {
  return sum == 0.0f ? -INFINITY : 0.6931471805599453f * (max + log2f(sum));
}

// Where a row's lse goes.
__device__ inline void storeLse(const DecodeArguments& a, const Piece& piece, int row, float lse) {
  const int query = queryOfRow(a, row), numQueries = a.sizes.numQueries;
  const int at = (row - query * a.sizes.heads) * numQueries + query;
  const int64_t rows = int64_t{numQueries} * a.sizes.heads;
  if (piece.slot >= 0) {
    a.partialLse[piece.slot * rows + at] = lse;
  } else if (a.lse != nullptr) {
    a.lse[piece.sequence * rows + at] = lse;
  }
}

// Where a piece's results go: a row (t, h) of the sequence.
template <typename Out>
__device__ Out* resultRow(const DecodeArguments& a, const Piece& piece, int row) {
  const int64_t rows = int64_t{a.sizes.numQueries} * a.sizes.heads;
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
