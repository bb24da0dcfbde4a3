// How mla_small.cu cuts its work, and where the parts of a block lie in shared memory.
#pragma once

#include <algorithm>

#include "cuda/mla_attention.h"

namespace warpgraph {
namespace mla_small {

constexpr int kWarps = 8;
constexpr int kVectorBytes = 16;
constexpr int kColumns = 4;                     // that a lane sums at once
constexpr int64_t kMostSharedBytes = 48 << 10;  // what every card grants without being asked
constexpr int64_t kFar = 1 << 30;               // past all keys

// Shared memory of a block. Widths are elements of the dtype in whole vectors, strides those of rows.
struct Layout {
  int headWidth, rankWidth, ropeWidth;
  int keyStride;    // a row: latent, then rope part
  int headStride;   // of wUpK's slice
  int valueStride;  // of wUpV's slice
  int queryStride;  // a row: query, then rotated part
  int contextStart, weightsStart,
      scratch;  // of a warp, in floats: the absorbed query, the sum of latents, the weights
  int keysAt, wUpKAt, wUpVAt, queriesAt, scratchAt, bytes;       // bytes from the start
  unsigned headDivisor, rankDivisor, valueDivisor, ropeDivisor;  // ⌈2³² / chunks of a row⌉, 0 for one
  int rankLaneBits, valueLaneBits;                               // logarithms of lanes side by side on a row
  int queryOffset;  // where it is given; past all keys when not causal
  int tileQueries, tiles;
};

inline int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The stride of rows of whole vectors: an odd number of them.
inline int64_t oddVectors(int64_t bytes) {
  return (bytes / kVectorBytes) % 2 == 1 ? bytes : bytes + kVectorBytes;
}

// The largest chunk that divides all rows.
inline int64_t chunkBytes(DType dtype, const MlaSizes& sizes) {
  const int64_t lengths = sizes.headDim | sizes.valueDim | sizes.rank | sizes.ropeDim;
  const int64_t bytes = lengths * static_cast<int64_t>(bytesOf(dtype));
  for (const int64_t chunk : {int64_t{kVectorBytes}, int64_t{4}}) {
    if (bytes % chunk == 0) return chunk;
  }
  return 2;
}

// The logarithm of how many lanes, side by side, read a row of this length, kColumns elements each.
inline int laneBitsFor(int64_t length) {
  int bits = 5;
  while (bits > 2 && (int64_t{kColumns} << (bits - 1)) >= length) --bits;
  return bits;
}

// Queries of a block, and blocks for all of them.
inline int tileQueries(const MlaSizes& sizes, int queriesPerWarp) {
  return static_cast<int>(std::min(roundUp(sizes.numQueries, kWarps), int64_t{queriesPerWarp} * kWarps));
}
inline int tilesOf(const MlaSizes& sizes, int tileQueries) {
  return static_cast<int>((sizes.numQueries + tileQueries - 1) / tileQueries);
}

// False when it does not fit.
inline bool layOut(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int queriesPerWarp,
                   Layout* layout) {
  for (const int64_t size : {sizes.headDim, sizes.valueDim, sizes.rank, sizes.ropeDim, keys.numKeys}) {
    if (size > kMostSharedBytes) return false;
  }
  // Shifts, since this is done for each call and a division takes as long as all the rest of a line.
  const int elementBits = dtype == DType::kFloat32 ? 2 : 1;
  const auto width = [&](int64_t length) { return roundUp(length << elementBits, kVectorBytes); };
  const int64_t keyBytes = oddVectors(width(sizes.rank) + width(sizes.ropeDim));
  const int64_t headBytes = oddVectors(width(sizes.headDim));
  const int64_t valueBytes = width(sizes.valueDim);
  const int64_t queryBytes = width(sizes.headDim) + width(sizes.ropeDim);
  layout->tileQueries = tileQueries(sizes, queriesPerWarp);
  const int64_t absorbed = (width(sizes.rank) + width(sizes.ropeDim)) >> elementBits;
  const int64_t context = roundUp(sizes.rank, 4);
  const int64_t scratch = absorbed + context + roundUp(keys.numKeys, 4);
  int64_t at = 0;
  const auto take = [&](int64_t bytes) {
    const int64_t from = at;
    at = roundUp(at + bytes, kVectorBytes);
    return static_cast<int>(std::min(from, kMostSharedBytes));
  };
  layout->keysAt = take(keys.numKeys * keyBytes);
  layout->wUpKAt = take(sizes.rank * headBytes);
  layout->wUpVAt = take(sizes.rank * valueBytes);
  layout->queriesAt = take(layout->tileQueries * queryBytes);
  layout->scratchAt = take(kWarps * scratch * static_cast<int64_t>(sizeof(float)));
  if (at > kMostSharedBytes) return false;
  layout->bytes = static_cast<int>(at);
  layout->headWidth = static_cast<int>(width(sizes.headDim) >> elementBits);
  layout->rankWidth = static_cast<int>(width(sizes.rank) >> elementBits);
  layout->ropeWidth = static_cast<int>(width(sizes.ropeDim) >> elementBits);
  layout->keyStride = static_cast<int>(keyBytes >> elementBits);
  layout->headStride = static_cast<int>(headBytes >> elementBits);
  layout->valueStride = static_cast<int>(valueBytes >> elementBits);
  layout->queryStride = static_cast<int>(queryBytes >> elementBits);
  const auto chunk = static_cast<unsigned>(chunkBytes(dtype, sizes));
  const auto divisor = [&](int64_t length) {
    const unsigned perRow = (static_cast<unsigned>(length) << elementBits) / chunk;
    return perRow < 2 ? 0u : (0u - 1) / perRow + 1;
  };
  layout->headDivisor = divisor(sizes.headDim);
  layout->rankDivisor = divisor(sizes.rank);
  layout->valueDivisor = divisor(sizes.valueDim);
  layout->ropeDivisor = divisor(sizes.ropeDim);
  layout->queryOffset = static_cast<int>(sizes.causal ? std::clamp(sizes.queryOffset, -kFar, kFar) : kFar);
  layout->rankLaneBits = laneBitsFor(sizes.rank);
  layout->valueLaneBits = laneBitsFor(sizes.valueDim);
  layout->contextStart = static_cast<int>(absorbed);
  layout->weightsStart = static_cast<int>(absorbed + context);
  layout->scratch = static_cast<int>(scratch);
  layout->tiles = tilesOf(sizes, layout->tileQueries);
  return true;
}

}  // namespace mla_small
}  // namespace warpgraph
