// out[row] = Σ weight[i]·partial[i, row] / Σ weight[i] with weight[i] = exp(lse[i] − max lse), for every row
// (b, t, h) of rank elements (FlashDecoding; Dao et al., 2023). Always in the order of the pieces, so that
// the bits do not vary. A warp per row where a query has few pieces; where it has many, the block's warps
// share them, since the few queries there are would leave the card idle.
#include "cuda/common.cuh"
#include "cuda/hopper.cuh"
#include "cuda/mla_combine.h"

namespace warpgraph {
namespace {

constexpr int kWarps = 8;
constexpr int kVectors = 4;                         // of four columns, per lane
constexpr int kColumns = kWarpSize * 4 * kVectors;  // per step
constexpr int64_t kManyPieces = 8;

struct CombineArguments {
  MlaPartials partials;
  int64_t batch, numQueries, heads, rank;
};

// The pieces of one query.
struct Pieces {
  const float* out;  // of slot 0
  const float* lse;
  int64_t first, step, count;  // slots: first, first + step, …
  int64_t outStride, lseStride;
  bool shares;

  __device__ int64_t slot(int64_t i) const { return first + i * step - (shares && i > 0 ? 1 : 0); }
};

__device__ Pieces piecesOf(const CombineArguments& a, int64_t row) {
  const int64_t rows = a.numQueries * a.heads;
  const int64_t b = row / rows, t = row % rows / a.heads, h = row % a.heads;
  const MlaPartials& p = a.partials;
  Pieces pieces{p.out + row % rows * a.rank,
                p.lse + h * a.numQueries + t,
                b,
                a.batch,
                p.numSplits,
                rows * a.rank,
                rows,
                false};
  if (p.shares != nullptr) {
    const int2 share = p.shares[b];
    pieces.first = int64_t{2} * share.x + 1;
    pieces.step = 2;
    pieces.count = share.y > 1 ? share.y : 0;
    pieces.shares = true;
  }
  return pieces;
}

__device__ float4 loadColumns(const float* row, int64_t column, int64_t rank, bool aligned) {
  if (aligned) return column < rank ? __ldcs(reinterpret_cast<const float4*>(row + column)) : float4{};
  return {column < rank ? row[column] : 0.0f, column + 1 < rank ? row[column + 1] : 0.0f,
          column + 2 < rank ? row[column + 2] : 0.0f, column + 3 < rank ? row[column + 3] : 0.0f};
}

__device__ float warpMax(float value) {
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    value = maxKeepingNaN(value, __shfl_xor_sync(kFullWarp, value, offset));
  }
  return value;
}

template <typename T, bool kMany>
__global__ void __launch_bounds__(kWarps* kWarpSize)
    mlaCombineKernel(const CombineArguments a, T* __restrict__ out, float* __restrict__ lse) {
  waitForPrerequisites();
  __shared__ float4 sums[kMany ? kWarps : 1][kMany ? kColumns / 4 : 1];
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const bool aligned = a.rank % 4 == 0;
  const int64_t allRows = a.batch * a.numQueries * a.heads;
  constexpr int kRows = kMany ? 1 : kWarps;  // of a block
  constexpr int kStep = kMany ? kWarps : 1;  // from one of a warp's pieces to the next
  for (int64_t row = int64_t{blockIdx.x} * kRows + (kMany ? 0 : warp); row < allRows;
       row += int64_t{gridDim.x} * kRows) {
    const Pieces pieces = piecesOf(a, row);
    if (pieces.count == 0) continue;
    float max = -INFINITY;
    for (int64_t i = lane; i < pieces.count; i += kWarpSize) {
      max = maxKeepingNaN(max, pieces.lse[pieces.slot(i) * pieces.lseStride]);
    }
    max = warpMax(max);
    // Where no piece has a key any finite maximum makes all weights 0; −∞ − −∞ would be NaN.
    const float base = max == -INFINITY ? 0.0f : max;
    float total = 0.0f;
    for (int64_t i = lane; i < pieces.count; i += kWarpSize) {
      total += expf(pieces.lse[pieces.slot(i) * pieces.lseStride] - base);
    }
    total = warpSum(total);
    const float inverse = total == 0.0f ? 0.0f : 1.0f / total;

    for (int64_t firstColumn = 0; firstColumn < a.rank; firstColumn += kColumns) {
      float4 sum[kVectors] = {};
#pragma unroll 2
      for (int64_t i = kMany ? warp : 0; i < pieces.count; i += kStep) {
        const int64_t slot = pieces.slot(i);
        const float weight = expf(pieces.lse[slot * pieces.lseStride] - base);
        if (weight == 0.0f) continue;
        const float* partial = pieces.out + slot * pieces.outStride;
        for (int v = 0; v < kVectors; ++v) {
          const int64_t column = firstColumn + (v * kWarpSize + lane) * 4;
          const float4 value = loadColumns(partial, column, a.rank, aligned);
          sum[v].x += weight * value.x;
          sum[v].y += weight * value.y;
          sum[v].z += weight * value.z;
          sum[v].w += weight * value.w;
        }
      }
      const auto store = [&](int64_t column, float4 value) {
        const float values[4] = {value.x, value.y, value.z, value.w};
        for (int k = 0; k < 4; ++k) {
          if (column + k < a.rank) out[row * a.rank + column + k] = fromFloat<T>(values[k] * inverse);
        }
      };
      if constexpr (kMany) {
        for (int v = 0; v < kVectors; ++v) sums[warp][v * kWarpSize + lane] = sum[v];
        __syncthreads();
        if (threadIdx.x < kColumns / 4) {
          float4 value = sums[0][threadIdx.x];
          for (int w = 1; w < kWarps; ++w) {
            const float4 other = sums[w][threadIdx.x];
            value.x += other.x;
            value.y += other.y;
            value.z += other.z;
            value.w += other.w;
          }
          store(firstColumn + threadIdx.x * 4, value);
        }
        __syncthreads();
      } else {
        for (int v = 0; v < kVectors; ++v) store(firstColumn + (v * kWarpSize + lane) * 4, sum[v]);
      }
    }
    if (lse != nullptr && lane == 0 && (!kMany || warp == 0)) {
      const int64_t rows = a.numQueries * a.heads;
      const int64_t b = row / rows, t = row % rows / a.heads, h = row % a.heads;
      lse[(b * a.heads + h) * a.numQueries + t] = total == 0.0f ? -INFINITY : base + logf(total);
    }
  }
}

template <typename T, bool kMany>
cudaError_t launch(const CombineArguments& arguments, T* out, float* lse, bool early, cudaStream_t stream) {
  const int64_t rows = arguments.batch * arguments.numQueries * arguments.heads;
  cudaLaunchConfig_t config{};
  config.gridDim = blocksFor(rows, kMany ? 1 : kWarps);
  config.blockDim = kWarps * kWarpSize;
  config.stream = stream;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  return cudaLaunchKernelEx(&config, mlaCombineKernel<T, kMany>, arguments, out, lse);
}

}  // namespace

cudaError_t launchMlaCombine(DType dtype, const MlaPartials& partials, const MlaSizes& sizes, void* out,
                             float* lse, int64_t expectedPieces, bool early, cudaStream_t stream) {
  const CombineArguments arguments{partials, sizes.batch, sizes.numQueries, sizes.heads, sizes.rank};
  if (sizes.batch * sizes.numQueries * sizes.heads == 0) return cudaSuccess;
  return dispatchFloat(dtype, [&](auto element) {
    using T = decltype(element);
    auto* typed = static_cast<T*>(out);
    return expectedPieces >= kManyPieces ? launch<T, true>(arguments, typed, lse, early, stream)
                                         : launch<T, false>(arguments, typed, lse, early, stream);
  });
}

}  // namespace warpgraph
