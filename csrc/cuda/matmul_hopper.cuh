// What the matrix products on Hopper share: how tiles of C are dealt, and how the copy engine is told of A
// and B.
#pragma once

#include <algorithm>

#include "cuda/common.cuh"
#include "cuda/hopper.cuh"
#include "cuda/matmul_launch.h"
#include "cuda/matmul_rows.cuh"
#include "cuda/tensor_map.h"

namespace warpgraph {
namespace matmul_hopper {

constexpr int kRows = 128;           // of a tile of C of many rows
constexpr int kSpan = 128;           // bytes, of the swizzle
constexpr int kAlignment = 1024;     // of swizzled tiles
constexpr int kFewestRowsOfBox = 8;  // the swizzle's period
constexpr int kWarpgroup = 128;

// The tiles of C: count = batch × rows × columns of them, each (tileRows, tileColumns).
struct Tiles {
  int64_t rows, columns, count;
  int tileRows, tileColumns;
  int boxRows;  // rows of A that one copy brings
};

// A tile begins at (row, column) of batch entry b, of whose rows `live` are live.
struct TileOfC {
  int64_t b, row, column, live;
  __device__ bool isLive() const { return row < live; }
};

#if WARPGRAPH_HOPPER

// A buffer of a ring and the parity of the round.
template <int kStages>
struct Turn {
  int stage = 0;
  unsigned parity = 0;
  __device__ void next() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

// Columns go fastest, so that blocks at work share rows of A, and all of B stays in the second-level cache.
// live is left at 0, for what limits rows may be in the making.
template <typename Index>
__device__ TileOfC placeOfTile(const Tiles& tiles, Index index) {
  const auto rows = static_cast<Index>(tiles.rows), columns = static_cast<Index>(tiles.columns);
  const int64_t row = index / columns % rows, column = index % columns;
  const int64_t b = index / columns / rows;
  return {b, row * tiles.tileRows, column * tiles.tileColumns, 0};
}
template <typename Index>
__device__ TileOfC tileAt(const Matmul& matmul, const Tiles& tiles, Index index) {
  TileOfC tile = placeOfTile(tiles, index);
  tile.live = liveRows(matmul, tile.b);
  return tile;
}

// Calls body with each tile of this block.
template <typename Body>
__device__ void forEachTile(const Matmul& matmul, const Tiles& tiles, Body body) {
  for (int64_t index = blockIdx.x; index < tiles.count; index += gridDim.x) {
    body(tileAt(matmul, tiles, index));
  }
}

// Where this lane's box of A's tile lies: gathered rows come in boxes, one lane's each. Rows past the limit
// are read from anywhere; their results are written as zeros.
__device__ inline int rowOfBox(const Matmul& matmul, const Tiles& tiles, const TileOfC& tile) {
  const int64_t first = tile.row + threadIdx.x % kWarpSize * tiles.boxRows;
  if (matmul.pages.blockTable == nullptr) return static_cast<int>(first);
  return first < tile.live ? static_cast<int>(storedRow(matmul.pages, tile.b, first)) : 0;
}

// The entry of a map along the batch; a stride of 0 is one matrix for all.
__device__ inline int entryOf(const TileOfC& tile, int64_t batchStride) {
  return batchStride == 0 ? 0 : static_cast<int>(tile.b);
}
__device__ inline int entryOfA(const Matmul& matmul, const TileOfC& tile) {
  return matmul.pages.blockTable == nullptr ? entryOf(tile, matmul.aBatch) : 0;
}

#endif  // WARPGRAPH_HOPPER

inline bool isGathered(const Matmul& matmul) {
  return matmul.pages.blockTable != nullptr;
}

inline int64_t storedRows(const Matmul& matmul) {
  return isGathered(matmul) ? matmul.pages.numPages * matmul.pages.pageSize : matmul.m;
}

// Rows of A that lie together and begin where a tile's do; less than kFewestRowsOfBox: too few to copy.
inline int rowsOfBox(const PagedRows& pages, int tileRows = kRows) {
  if (pages.blockTable == nullptr) return tileRows;
  int rows = tileRows;
  while (rows >= kFewestRowsOfBox && (pages.pageSize % rows != 0 || pages.firstRow % rows != 0)) rows /= 2;
  return rows;
}

// Whether the copy engine can follow these strides; it copies multiples of 16 bytes.
template <typename T>
bool canCopy(const void* pointer, int64_t row, int64_t batch) {
  constexpr int64_t kBytes = 16;
  constexpr int64_t kMostStride = (int64_t{1} << 40) / sizeof(T) - 1;
  return reinterpret_cast<uintptr_t>(pointer) % kBytes == 0 && row > 0 && row <= kMostStride && batch >= 0 &&
         batch <= kMostStride && (row | batch) * static_cast<int64_t>(sizeof(T)) % kBytes == 0;
}

// Whether the copy engine can bring A and B, and write C. Coordinates have 32 bits.
template <typename T>
bool canCopyAll(const Matmul& matmul) {
  constexpr int64_t kMostIndex = INT32_MAX - 1024;
  const int64_t most = std::max({storedRows(matmul), matmul.m, matmul.n, matmul.k, matmul.batch});
  return matmul.k > 0 && storedRows(matmul) > 0 && most <= kMostIndex &&
         rowsOfBox(matmul.pages) >= kFewestRowsOfBox &&
         canCopy<T>(matmul.a, matmul.aRow, isGathered(matmul) ? 0 : matmul.aBatch) &&
         canCopy<T>(matmul.b, matmul.bRow, matmul.bBatch) &&
         canCopy<T>(matmul.c, matmul.cRow, matmul.cBatch) && (matmul.cBatch > 0 || matmul.batch == 1);
}

inline Tiles dealTiles(const Matmul& matmul, int columns, int rows = kRows) {
  const auto parts = [](int64_t size, int64_t part) { return (size + part - 1) / part; };
  Tiles tiles;
  tiles.rows = parts(matmul.m, rows);
  tiles.columns = parts(matmul.n, columns);
  tiles.count = matmul.batch * tiles.rows * tiles.columns;
  tiles.tileRows = rows;
  tiles.tileColumns = columns;
  tiles.boxRows = rowsOfBox(matmul.pages, rows);
  return tiles;
}

// A map of batch × (rows, columns), fetched in (boxRows, boxColumns). A batch stride of 0 is one matrix for
// all.
inline cudaError_t encodeMatrices(CUtensorMap* map, DType dtype, const void* base, int64_t columns,
                                  int64_t rows, int64_t batch, int64_t rowStride, int64_t batchStride,
                                  int boxColumns, int boxRows,
                                  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B) {
  const auto bytes = static_cast<int64_t>(bytesOf(dtype));
  const int64_t sizes[] = {columns, rows, batchStride == 0 ? 1 : batch};
  const int64_t strideBytes[] = {rowStride * bytes, (batchStride == 0 ? rowStride : batchStride) * bytes};
  const int box[] = {boxColumns, boxRows, 1};
  return encodeTiles(map, dtype, base, 3, sizes, strideBytes, box, swizzle);
}

inline cudaError_t encodeA(CUtensorMap* map, DType dtype, const Matmul& matmul, const Tiles& tiles) {
  const auto depth = static_cast<int>(kSpan / bytesOf(dtype));
  return encodeMatrices(map, dtype, matmul.a, matmul.k, storedRows(matmul), matmul.batch, matmul.aRow,
                        isGathered(matmul) ? 0 : matmul.aBatch, depth, tiles.boxRows);
}

}  // namespace matmul_hopper
}  // namespace warpgraph
