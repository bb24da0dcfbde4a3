// out = mean·wUpV per head, the mean (rows of queries, rank) still in pieces.
//
// A block has a head's weights (rank, valueDim ≤ 128) on their way into shared memory while the attention
// kernel is still ending, and then takes 32 rows. A warp merges four of them from float32 into a tile of
// halves, as mla_combine.cu does, with all of their first pieces on the way at once, and the warps multiply.
// What merging on its own would cost is a launch, and writing and reading the mean.
#include "cuda/mla_up.h"

#include <cstring>

#include "cuda/common.cuh"
#include "cuda/matmul_mma_tile.cuh"
#include "cuda/mma.cuh"

namespace warpgraph {
namespace {

using namespace matmul_mma;

constexpr int kRows = 32;
constexpr int kColumns = 128;
constexpr int kMostRank = 512;
constexpr int kDepth = 64;  // columns of a tile of means
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kRowsOfWarp = kRows / kWarps;
constexpr int kMostPieces = kWarpSize / kRowsOfWarp;  // of a row: a lane knows one
static_assert(kManyMlaPieces <= kMostPieces);
constexpr int kAhead = 2;  // pieces

struct UpArguments {
  const float* partialOut;  // (pieces, rows, heads, rank)
  const float* partialLse;  // (pieces, batch, heads, numQueries)
  const void* wUpV;
  void* out;
  float* lse;
  int numPieces, rows, numQueries, heads, rank, valueDim;
};

#if __CUDA_ARCH__ >= 900

constexpr int kVec = 4;
constexpr int kVectors = kMostRank / (kWarpSize * kVec);  // of a lane, per row

// The rows that a warp merges.
class WarpRows {
 public:
  // Asks for the first pieces. Rows past the last one are taken as the last one.
  __device__ WarpRows(const UpArguments& a, int first, int head) : a_(a) {
    const int lane = threadIdx.x % kWarpSize;
    const int row = min(first + lane / kMostPieces, a.rows - 1), piece = lane % kMostPieces;
    const int at = row / a.numQueries * a.heads * a.numQueries + head * a.numQueries + row % a.numQueries;
    const bool exists = piece < a.numPieces;
    const float lse = exists ? a.partialLse[int64_t{piece} * a.rows * a.heads + at] : -INFINITY;
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      from_[r] = a.partialOut + (int64_t{min(first + r, a.rows - 1)} * a.heads + head) * a.rank;
    }
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
#pragma unroll
        for (int v = 0; v < kVectors; ++v) loaded_[r][i][v] = columns(r, i, columnOf(v));
      }
    }
    weigh(lse);
    if (a.lse != nullptr && piece == 0 && first + lane / kMostPieces < a.rows) {
      a.lse[at] = total_ == 0.0f ? -INFINITY : base_ + logf(total_);
    }
  }

  // Merges into lines of the tile of means.
  template <typename T>
  __device__ void merge(char* means, int line) const {
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      float4 sum[kVectors] = {};
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const float weight = __shfl_sync(kFullWarp, weight_, r * kMostPieces + i);
#pragma unroll
        for (int v = 0; v < kVectors; ++v) add(sum[v], weight, loaded_[r][i][v]);
      }
#pragma unroll 1
      for (int i = kAhead; i < a_.numPieces; ++i) {
        const float weight = __shfl_sync(kFullWarp, weight_, r * kMostPieces + i);
#pragma unroll
        for (int v = 0; v < kVectors; ++v) add(sum[v], weight, columns(r, i, columnOf(v)));
      }
      const float inverse = __shfl_sync(kFullWarp, total_ == 0.0f ? 0.0f : 1.0f / total_, r * kMostPieces);
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const int column = columnOf(v);
        if (column >= a_.rank) continue;
        const T values[kVec] = {fromFloat<T>(sum[v].x * inverse), fromFloat<T>(sum[v].y * inverse),
                                fromFloat<T>(sum[v].z * inverse), fromFloat<T>(sum[v].w * inverse)};
        uint2 packed;
        memcpy(&packed, values, sizeof(packed));
        char* tile = means + column / kDepth * kRows * kDepthBytes;
        const int piece = pieceAlongK(line + r, column % kDepth / 8);
        *reinterpret_cast<uint2*>(tile + piece + column % 8 * sizeof(T)) = packed;
      }
    }
  }

 private:
  // As mla_combine.cu does, to the bit; see there for −∞.
  __device__ void weigh(float lse) {
    float most = lse;
    for (int offset = kMostPieces / 2; offset > 0; offset /= 2) {
      most = maxKeepingNaN(most, __shfl_xor_sync(kFullWarp, most, offset));
    }
    base_ = most == -INFINITY ? 0.0f : most;
    weight_ = expf(lse - base_);
    total_ = weight_;
    for (int offset = kMostPieces / 2; offset > 0; offset /= 2) {
      total_ += __shfl_xor_sync(kFullWarp, total_, offset);
    }
  }

  static __device__ int columnOf(int vector) {
    return (vector * kWarpSize + static_cast<int>(threadIdx.x) % kWarpSize) * kVec;
  }
  __device__ float4 columns(int row, int piece, int column) const {
    const float* from = from_[row] + int64_t{piece} * a_.rows * a_.heads * a_.rank;
    return *reinterpret_cast<const float4*>(from + min(column, a_.rank - kVec));
  }
  // A piece without keys left whatever was there.
  static __device__ void add(float4& sum, float weight, const float4& piece) {
    sum.x += weight == 0.0f ? 0.0f : weight * piece.x;
    sum.y += weight == 0.0f ? 0.0f : weight * piece.y;
    sum.z += weight == 0.0f ? 0.0f : weight * piece.z;
    sum.w += weight == 0.0f ? 0.0f : weight * piece.w;
  }

  const UpArguments& a_;
  const float* from_[kRowsOfWarp];
  float base_, total_, weight_;  // of the lane's row and piece
  float4 loaded_[kRowsOfWarp][kAhead][kVectors];
};

// Starts to copy a head's weights.
template <typename T>
__device__ void copyWeights(char* weights, const UpArguments& a, int head) {
  constexpr int kPieces = kColumns / 8, kLines = kThreads / kPieces;
  const int piece = threadIdx.x % kPieces, line = threadIdx.x / kPieces;
  const int64_t stride = int64_t{a.heads} * a.valueDim;
  const T* from = static_cast<const T*>(a.wUpV) + head * int64_t{a.valueDim} + line * stride + piece * 8;
#pragma unroll 4
  for (int k = line; k < a.rank; k += kLines, from += kLines * stride) {
    copyAsync16(weights + pieceAlongN<T, kColumns>(k, piece), from, piece * 8 < a.valueDim);
  }
  copyAsyncCommit();
}

// sums += means · 16 columns of the weights, in the order and by the instructions of matmul_mma_block.cuh.
template <typename T>
__device__ void multiply(float (&sums)[kRows / 16][2][4], const char* means, const char* weights, int rank) {
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
#pragma unroll 4
  for (int k = 0; k < rank; k += 16) {
    uint32_t b[4];
    loadMatricesTransposed(b, weights + pieceAlongN<T, kColumns>(k + lane % 16, warp * 2 + lane / 16));
    const char* tile = means + k / kDepth * kRows * kDepthBytes;
#pragma unroll
    for (int i = 0; i < kRows / 16; ++i) {
      uint32_t m[4];
      loadMatrices(m, tile + pieceAlongK(i * 16 + lane % 16, k % kDepth / 8 + lane / 16));
      mma16816<T>(sums[i][0], m, b[0], b[1]);
      mma16816<T>(sums[i][1], m, b[2], b[3]);
    }
  }
}

#endif  // __CUDA_ARCH__ >= 900

template <typename T>
__global__ void __launch_bounds__(kThreads, 1) mlaUpKernel(const __grid_constant__ UpArguments a) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char shared[];
  const int head = static_cast<int>(blockIdx.x), first = static_cast<int>(blockIdx.y) * kRows;
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  char* const weights = shared;
  char* const means = shared + a.rank * kColumns * sizeof(T);
  copyWeights<T>(weights, a, head);
  // In this order, as in matmul_mma.cuh.
  waitForPrevious();
  allowNext();
  WarpRows(a, first + warp * kRowsOfWarp, head).merge<T>(means, warp * kRowsOfWarp);
  copyAsyncWait<0>();
  __syncthreads();
  float sums[kRows / 16][2][4] = {};
  multiply<T>(sums, means, weights, a.rank);
#pragma unroll
  for (int i = 0; i < kRows / 16; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + i * 16 + half * 8 + lane / 4;
      if (row >= a.rows) continue;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int column = warp * 16 + j * 8 + lane % 4 * 2;
        if (column >= a.valueDim) continue;
        alignas(4)
            const T pair[2] = {fromFloat<T>(sums[i][j][half * 2]), fromFloat<T>(sums[i][j][half * 2 + 1])};
        T* out = static_cast<T*>(a.out) + (int64_t{row} * a.heads + head) * a.valueDim + column;
        *reinterpret_cast<uint32_t*>(out) = *reinterpret_cast<const uint32_t*>(pair);
      }
    }
  }
#endif
}

template <typename T>
cudaError_t launch(const UpArguments& arguments, const LaunchTarget& target) {
  const auto kernel = mlaUpKernel<T>;
  constexpr int kMostBytes = kMostRank * (kColumns + kRows) * static_cast<int>(sizeof(T));
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBytes);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(arguments.heads),
                  static_cast<unsigned>((arguments.rows + kRows - 1) / kRows));
  const size_t bytes = static_cast<size_t>(arguments.rank) * (kColumns + kRows) * sizeof(T);
  return launchKernelWithShared(kernel, grid, kThreads, bytes, target, arguments);
}

}  // namespace

bool mlaUpTakes(DType dtype, const MlaPartials& partials, const MlaAttention& attention,
                const MlaSizes& sizes, const DeviceLimits& limits) {
  const int64_t rows = sizes.batch * sizes.numQueries, tiles = sizes.heads * ((rows + kRows - 1) / kRows);
  const auto places =
      reinterpret_cast<uintptr_t>(attention.wUpV) | reinterpret_cast<uintptr_t>(attention.out);
  return (dtype == DType::kFloat16 || dtype == DType::kBfloat16) && limits.computeCapability == 90 &&
         partials.numSplits >= kAhead && partials.numSplits < kManyMlaPieces &&
         tiles <= limits.multiprocessors && tiles >= limits.multiprocessors * 3 / 4 &&
         sizes.rank % kDepth == 0 && sizes.rank <= kMostRank && sizes.valueDim % 8 == 0 &&
         sizes.valueDim <= kColumns && places % kPieceBytes == 0;
}

cudaError_t launchMlaUp(DType dtype, const MlaPartials& partials, const MlaAttention& attention,
                        const MlaSizes& sizes, const LaunchTarget& target) {
  const auto size = [](int64_t value) { return static_cast<int>(value); };
  const UpArguments arguments{partials.out,
                              partials.lse,
                              attention.wUpV,
                              attention.out,
                              attention.lse,
                              size(partials.numSplits),
                              size(sizes.batch * sizes.numQueries),
                              size(sizes.numQueries),
                              size(sizes.heads),
                              size(sizes.rank),
                              size(sizes.valueDim)};
  return dtype == DType::kFloat16 ? launch<__half>(arguments, target)
                                  : launch<__nv_bfloat16>(arguments, target);
}

}  // namespace warpgraph
