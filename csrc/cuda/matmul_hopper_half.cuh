// What the matrix products of half types on Hopper share: how B lies in shared memory, the products of a
// stage of k, how a warpgroup writes its 64 rows of C, and the maps of all three.
#pragma once

#include "cuda/matmul_hopper.cuh"
#include "cuda/vector.cuh"
#include "cuda/wgmma.cuh"

namespace warpgraph {
namespace matmul_hopper {

constexpr int kHalf = 2;               // bytes of an element
constexpr int kDepth = kSpan / kHalf;  // of a stage
constexpr int kBox = kSpan / kHalf;    // columns of a box of C, and of B with n contiguous
constexpr int kRowsOfConsumer = 64;    // of a tile of C, those of a warpgroup
constexpr int kBoxBytes = kBox * kSpan;

#if WARPGRAPH_HOPPER

// One warp: brings (kDepth, kColumns) of B.
template <bool kTransposed, int kColumns>
__device__ void copyB(char* b, const CUtensorMap* map, uint64_t* full, int k, int column, int entry) {
  const int lane = threadIdx.x % kWarpSize;
  if constexpr (kTransposed) {
    if (lane == 0) copyTile(b, map, full, k, column, entry);
  } else {
    if (lane < kColumns / kBox) copyTile(b + lane * kBoxBytes, map, full, column + lane * kBox, k, entry);
  }
}

// One warpgroup: the products of its 64 rows of A with the columns of B, begun and committed.
template <typename T, bool kTransposed, int kSums>
__device__ void multiplyStage(float (&sums)[kSums], const char* a, const char* b, bool isFirst) {
  wgmmaFence();
#pragma unroll
  for (int step = 0; step < kDepth / 16; ++step) {
    const uint64_t matrixA = swizzledMatrix(a + step * 16 * kHalf, 0, kAlignment);
    const uint64_t matrixB = kTransposed ? swizzledMatrix(b + step * 16 * kHalf, 0, kAlignment)
                                         : swizzledMatrix(b + step * 16 * kSpan, kBoxBytes, kAlignment);
    wgmma<T, kTransposed ? 0 : 1>(sums, matrixA, matrixB, !isFirst || step > 0);
  }
  wgmmaCommit();
}

// Whether a float32 stays finite when it is rounded to the type.
template <typename T>
__device__ bool isFiniteAs(float value) {
  const float limit = std::is_same_v<T, __half> ? 65520.0f : __uint_as_float(0x7f7f8000);
  return fabsf(value) < limit;
}

// How many of a warpgroup's rows, from `row` on, are live.
__device__ inline int liveFrom(const TileOfC& tile, int64_t row) {
  return static_cast<int>(min(max(tile.live - row, int64_t{0}), int64_t{kRowsOfConsumer}));
}

// Rounds a warpgroup's 64 rows of sums, zeros from row `live` on, into shared memory in swizzled boxes of
// 64×64, and says whether all are finite.
template <typename T, int kSums>
__device__ bool roundSums(const float (&sums)[kSums], int live, char* c) {
  const int thread = threadIdx.x % kWarpgroup;
  const int lane = thread % kWarpSize;
  const int firstRow = thread / kWarpSize * 16;
  const bool isLive[2] = {firstRow + lane / 4 < live, firstRow + lane / 4 + 8 < live};
  // Each lane's address in storeMatrices: a row of one of 2×2 matrices of 8×8.
  const int row = firstRow + lane % 16;
  bool isFinite = true;
#pragma unroll
  for (int pair = 0; pair < kSums / 8; ++pair) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = isLive[i % 2] ? sums[pair * 8 + i * 2] : 0.0f;
      const float y = isLive[i % 2] ? sums[pair * 8 + i * 2 + 1] : 0.0f;
      isFinite = isFinite && isFiniteAs<T>(x) && isFiniteAs<T>(y);
      words[i] = detail::narrowPair({x, y}, T{});
    }
    const int piece = pair * 2 + lane / 16;
    storeMatrices(c + piece / 8 * kBoxBytes + row * kSpan + (piece % 8 ^ row % 8) * 16, words);
  }
  return isFinite;
}

// One thread, when a warpgroup's rows, from `row` on, are in shared memory: starts to write those that exist.
template <int kColumns>
__device__ void storeC(const Matmul& matmul, const TileOfC& tile, int64_t row, const char* c,
                       const CUtensorMap* map) {
  if (row >= matmul.m) return;
  for (int box = 0; box < kColumns / kBox && tile.column + box * kBox < matmul.n; ++box) {
    storeTile(map, c + box * kBoxBytes, static_cast<int>(tile.column) + box * kBox, static_cast<int>(row),
              static_cast<int>(tile.b));
  }
  storeCommit();
}

#endif  // WARPGRAPH_HOPPER

// What the copy engine has to know of the three matrices.
struct Maps {
  CUtensorMap a, b, c;
};

// columns: of B in a stage.
inline cudaError_t encodeMaps(Maps& maps, DType dtype, const Matmul& matmul, const Tiles& tiles,
                              int columns) {
  cudaError_t error = encodeA(&maps.a, dtype, matmul, tiles);
  if (error != cudaSuccess) return error;
  error = matmul.bTransposed ? encodeMatrices(&maps.b, dtype, matmul.b, matmul.k, matmul.n, matmul.batch,
                                              matmul.bRow, matmul.bBatch, kDepth, columns)
                             : encodeMatrices(&maps.b, dtype, matmul.b, matmul.n, matmul.k, matmul.batch,
                                              matmul.bRow, matmul.bBatch, kBox, kDepth);
  if (error != cudaSuccess) return error;
  return encodeMatrices(&maps.c, dtype, matmul.c, matmul.n, matmul.m, matmul.batch, matmul.cRow,
                        matmul.cBatch, kBox, kRowsOfConsumer);
}

}  // namespace matmul_hopper
}  // namespace warpgraph
