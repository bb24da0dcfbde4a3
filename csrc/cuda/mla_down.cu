// qLatent = q·wUpKᵀ per head: (rows of queries, headDim ≤ 128) · (headDim, rank ≤ 512).
//
// Memory is the limit, and tiles of the general product, of 128 × 128, come in two waves, each of which waits
// for its loads, multiplies, and writes. Here a block has all of a head's weights, 128 KB, and 128 queries on
// their way at once. The queries' fragments stay in registers while it multiplies them with 128 rows of the
// weights after the other, and writes meanwhile what is done.
#include "cuda/mla_down.h"

#include "cuda/common.cuh"
#include "cuda/matmul_mma_tile.cuh"
#include "cuda/mma.cuh"

namespace warpgraph {
namespace {

using namespace matmul_mma;

constexpr int kLines = 128;  // of a tile: queries, or rows of the weights
constexpr int kDepth = 128;
constexpr int kTiles = 4;  // of weights
constexpr int kWarpRows = 2, kWarpColumns = 4;
constexpr int kThreads = kWarpRows * kWarpColumns * kWarpSize;
constexpr int kRowMatrices = kLines / kWarpRows / 16;       // of a warp's part
constexpr int kColumnMatrices = kLines / kWarpColumns / 8;  // the same
constexpr int kHalfTileBytes = kLines * kDepthBytes;        // 64 of the depth
constexpr int kTileBytes = kDepth * 2 / kDepthBytes * kHalfTileBytes;
constexpr int kPitch = kColumnMatrices * 16 + kPieceBytes;  // of a warp's results, see Tile::kPitchOfC
constexpr int kResultBytes = kRowMatrices * 16 * kPitch;    // of a warp
constexpr int kSharedBytes = (1 + kTiles) * kTileBytes + kWarpRows * kWarpColumns * kResultBytes;

struct DownArguments {
  const void *q, *wUpK;
  void* qLatent;
  int rows, heads, headDim, rank;
};

#if __CUDA_ARCH__ >= 900

// Starts to copy a tile, lines of headDim elements, one for each `heads`.
template <typename T>
__device__ void copyTile(char* tile, const T* from, int lines, const DownArguments& a) {
  constexpr int kPieces = kDepth * 2 / kPieceBytes, kLinesPerPass = kThreads / kPieces;
  const int piece = threadIdx.x % kPieces, first = threadIdx.x / kPieces;
  const int64_t stride = int64_t{a.heads} * a.headDim;
  from += first * stride + piece * 8;
  tile += piece / kDepthPieces * kHalfTileBytes;
#pragma unroll
  for (int line = first; line < first + kLines; line += kLinesPerPass, from += kLinesPerPass * stride) {
    copyAsync16(tile + pieceAlongK(line, piece % kDepthPieces), from, line < lines && piece * 8 < a.headDim);
  }
}

// Where the pieces of a step begin in the lines of a tile.
__device__ const char* stepOf(const char* tile, int step, int line, int half) {
  return tile + step / kSteps * kHalfTileBytes + pieceAlongK(line, step % kSteps * 2 + half);
}

#endif  // __CUDA_ARCH__ >= 900

template <typename T>
__global__ void __launch_bounds__(kThreads, 1) mlaDownKernel(const __grid_constant__ DownArguments a) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char shared[];
  constexpr int kAllSteps = kDepth * 2 / kStepBytes;
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const int row = warp / kWarpColumns * kRowMatrices * 16, column = warp % kWarpColumns * kColumnMatrices * 8;
  const int64_t head = blockIdx.x;
  const int firstRow = static_cast<int>(blockIdx.y) * kLines;
  char* const weights = shared + kTileBytes;
  char* const results = weights + kTiles * kTileBytes + warp * kResultBytes;
  // In this order, as in matmul_mma.cuh.
  waitForPrevious();
  allowNext();
  copyTile(shared, static_cast<const T*>(a.q) + (int64_t{firstRow} * a.heads + head) * a.headDim,
           a.rows - firstRow, a);
#pragma unroll 1
  for (int tile = 0; tile < kTiles; ++tile) {
    copyTile(weights + tile * kTileBytes,
             static_cast<const T*>(a.wUpK) + (int64_t{tile} * kLines * a.heads + head) * a.headDim,
             a.rank - tile * kLines, a);
    copyAsyncCommit();
  }
  uint32_t queries[kAllSteps][kRowMatrices][4];
#pragma unroll 1
  for (int tile = 0; tile * kLines < a.rank; ++tile) {
    copyAsyncWait<kTiles - 1>();
    __syncthreads();
    if (tile == 0) {
#pragma unroll
      for (int step = 0; step < kAllSteps; ++step) {
#pragma unroll
        for (int i = 0; i < kRowMatrices; ++i) {
          loadMatrices(queries[step][i], stepOf(shared, step, row + i * 16 + lane % 16, lane / 16));
        }
      }
    }
    copyAsyncCommit();  // an empty group, so that the same wait is for the next tile
    const char* const tileOfWeights = weights + tile * kTileBytes;
    float sums[kRowMatrices][kColumnMatrices][4] = {};
#pragma unroll
    for (int step = 0; step < kAllSteps; ++step) {
#pragma unroll
      for (int j = 0; j < kColumnMatrices / 2; ++j) {
        uint32_t b[4];
        loadMatrices(b,
                     stepOf(tileOfWeights, step, column + j * 16 + lane % 8 + lane / 16 * 8, lane / 8 % 2));
#pragma unroll
        for (int i = 0; i < kRowMatrices; ++i) {
          mma16816<T>(sums[i][j * 2], queries[step][i], b[0], b[1]);
          mma16816<T>(sums[i][j * 2 + 1], queries[step][i], b[2], b[3]);
        }
      }
    }
    // Through shared memory, to write lines of 64 bytes.
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kRowMatrices; ++i) {
#pragma unroll
      for (int j = 0; j < kColumnMatrices; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          alignas(4)
              const T pair[2] = {fromFloat<T>(sums[i][j][half * 2]), fromFloat<T>(sums[i][j][half * 2 + 1])};
          char* to = results + (i * 16 + half * 8 + lane / 4) * kPitch + j * 16 + lane % 4 * 4;
          *reinterpret_cast<uint32_t*>(to) = *reinterpret_cast<const uint32_t*>(pair);
        }
      }
    }
    __syncwarp();
    constexpr int kPieces = kColumnMatrices, kRowsPerPass = kWarpSize / kPieces;
    const int piece = lane % kPieces, toColumn = tile * kLines + column + piece * 8;
#pragma unroll
    for (int line = lane / kPieces; line < kRowMatrices * 16; line += kRowsPerPass) {
      const int toRow = firstRow + row + line;
      if (toRow >= a.rows || toColumn >= a.rank) continue;
      T* to = static_cast<T*>(a.qLatent) + (int64_t{toRow} * a.heads + head) * a.rank + toColumn;
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(results + line * kPitch + piece * 16);
    }
  }
  copyAsyncWait<0>();
#endif
}

template <typename T>
cudaError_t launch(const DownArguments& arguments, const LaunchTarget& target) {
  const auto kernel = mlaDownKernel<T>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(arguments.heads),
                  static_cast<unsigned>((arguments.rows + kLines - 1) / kLines));
  return launchKernelWithShared(kernel, grid, kThreads, size_t{kSharedBytes}, target, arguments);
}

}  // namespace

bool mlaDownTakes(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                  const DeviceLimits& limits) {
  constexpr int64_t kFewestRows = 64, kMostRows = int64_t{65535} * kLines;
  const int64_t rows = sizes.batch * sizes.numQueries;
  const auto places = reinterpret_cast<uintptr_t>(attention.q) | reinterpret_cast<uintptr_t>(attention.wUpK);
  return (dtype == DType::kFloat16 || dtype == DType::kBfloat16) && limits.computeCapability >= 90 &&
         limits.sharedBytesPerBlock >= kSharedBytes && rows > kFewestRows && rows <= kMostRows &&
         sizes.heads * ((rows + kLines - 1) / kLines) >= limits.multiprocessors * 3 / 4 &&
         sizes.rank % 8 == 0 && sizes.rank <= kTiles * kLines && sizes.headDim % 8 == 0 &&
         sizes.headDim <= kDepth && places % kPieceBytes == 0;
}

cudaError_t launchMlaDown(DType dtype, const MlaAttention& attention, const MlaSizes& sizes, void* qLatent,
                          const LaunchTarget& target) {
  const DownArguments arguments{attention.q,
                                attention.wUpK,
                                qLatent,
                                static_cast<int>(sizes.batch * sizes.numQueries),
                                static_cast<int>(sizes.heads),
                                static_cast<int>(sizes.headDim),
                                static_cast<int>(sizes.rank)};
  return dtype == DType::kFloat16 ? launch<__half>(arguments, target)
                                  : launch<__nv_bfloat16>(arguments, target);
}

}  // namespace warpgraph
