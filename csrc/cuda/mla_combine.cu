// out[row] = Σ weight[i]·partial[i, row] / Σ weight[i] with weight[i] = exp(lse[i] − max lse), for every row
// (b, t, h) of rank elements (FlashDecoding; Dao et al., 2023). Always in the order of the pieces, so that
// the bits do not vary. A warp per row where a query has few pieces; where it has many, the block's warps
// share them, since the few queries there are would leave the card idle. A launch this short is mostly
// latency: the code is kept small, as it comes from far away, and free of 64-bit divisions.
#include <cstring>

#include "cuda/common.cuh"
#include "cuda/mla_combine.h"

namespace warpgraph {
namespace {

constexpr int kWarps = 8;
constexpr int kVectors = 4;  // of a lane, per step
constexpr int64_t kMostGridY = 65535;
constexpr int64_t kManyPieces = 8;  // of a query: dealt to several warps, which adds them in another order

struct CombineArguments {
  MlaPartials partials;
  int64_t batch, numQueries, heads, rank;
};

// The pieces of one query.
struct Pieces {
  const float* out;  // of slot 0
  const float* lse;
  int64_t first, step;  // slots: first, first + step, …
  int count;
  int64_t outStride, lseStride;
  int behind;  // by how much the slots after the first are lower

  __device__ int64_t slot(int i) const { return first + i * step - (i > 0 ? behind : 0); }
  __device__ float lseOf(int i) const { return lse[slot(i) * lseStride]; }
};

__device__ Pieces piecesOf(const CombineArguments& a, int64_t b, int row, int64_t lseAt) {
  const int64_t rows = a.numQueries * a.heads;
  const MlaPartials& p = a.partials;
  Pieces pieces{p.out + row * a.rank,          p.lse + lseAt, b,    a.batch,
                static_cast<int>(p.numSplits), rows * a.rank, rows, 0};
  if (p.shares != nullptr) {
    const int2 share = p.shares[b];
    if (share.y < 0) {  // as with a fixed number of splits
      pieces.count = share.y < -1 ? -share.y : 0;
      return pieces;
    }
    pieces.first = int64_t{2} * share.x + 1;
    pieces.step = 2;
    pieces.count = share.y > 1 ? share.y : 0;
    pieces.behind = 1;
  }
  return pieces;
}

__device__ float warpMax(float value) {
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    value = maxKeepingNaN(value, __shfl_xor_sync(kFullWarp, value, offset));
  }
  return value;
}

template <int kVec>
struct alignas(kVec * sizeof(float)) Columns {
  float value[kVec];
};

template <int kVec>
__device__ Columns<kVec> loadColumns(const float* from) {
  return *reinterpret_cast<const Columns<kVec>*>(from);
}

template <typename T, int kVec>
__device__ void storeColumns(T* to, const Columns<kVec>& columns, float factor) {
  T values[kVec];
  for (int k = 0; k < kVec; ++k) values[k] = fromFloat<T>(columns.value[k] * factor);
  if constexpr (kVec == 4 && sizeof(T) == 4) {
    *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(values);
  } else if constexpr (kVec == 4) {
    uint2 packed;
    memcpy(&packed, values, sizeof(packed));
    *reinterpret_cast<uint2*>(to) = packed;
  } else {
    *to = values[0];
  }
}

// The weighted sum over pieces first, first + step, … of a lane's columns from `column` on.
template <int kVec>
__device__ void addPieces(Columns<kVec> (&sum)[kVectors], const Pieces& pieces, int first, int step,
                          float base, int64_t column, int64_t rank) {
#pragma unroll 4
  for (int i = first; i < pieces.count; i += step) {
    const float* partial = pieces.out + pieces.slot(i) * pieces.outStride;
    const float weight = expf(pieces.lseOf(i) - base);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = column + v * kWarpSize * kVec;
      if (at >= rank) break;
      // A piece without keys left whatever was there.
      const Columns<kVec> loaded = loadColumns<kVec>(partial + at);
      for (int k = 0; k < kVec; ++k) sum[v].value[k] += weight == 0.0f ? 0.0f : weight * loaded.value[k];
    }
  }
}

template <typename T, bool kMany, int kVec>
__global__ void __launch_bounds__(kWarps* kWarpSize)
    mlaCombineKernel(const CombineArguments a, T* __restrict__ out, float* __restrict__ lse) {
  constexpr int kRows = kMany ? 1 : kWarps;  // of a block
  constexpr int kColumns = kWarpSize * kVec * kVectors;
  __shared__ Columns<kVec> sums[kMany ? kWarps : 1][kMany ? kColumns / kVec : 1];
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const int rows = static_cast<int>(a.numQueries * a.heads);
  const int heads = static_cast<int>(a.heads);
  waitForPrevious();
  allowNext();
  for (int64_t b = blockIdx.y; b < a.batch; b += gridDim.y) {
    const int row = static_cast<int>(blockIdx.x) * kRows + (kMany ? 0 : warp);
    if (row >= rows) return;
    const int64_t lseAt = row % heads * a.numQueries + row / heads;
    const Pieces pieces = piecesOf(a, b, row, lseAt);
    if (pieces.count == 0) continue;
    float max = -INFINITY;
    for (int i = lane; i < pieces.count; i += kWarpSize) max = maxKeepingNaN(max, pieces.lseOf(i));
    max = warpMax(max);
    // Where no piece has a key any finite maximum makes all weights 0; −∞ − −∞ would be NaN.
    const float base = max == -INFINITY ? 0.0f : max;
    float total = 0.0f;
    for (int i = lane; i < pieces.count; i += kWarpSize) total += expf(pieces.lseOf(i) - base);
    total = warpSum(total);
    const float inverse = total == 0.0f ? 0.0f : 1.0f / total;

    T* to = out + (b * rows + row) * a.rank;
    for (int64_t first = 0; first < a.rank; first += kColumns) {
      const int64_t column = first + lane * kVec;
      Columns<kVec> sum[kVectors] = {};
      addPieces<kVec>(sum, pieces, kMany ? warp : 0, kMany ? kWarps : 1, base, column, a.rank);
      if constexpr (kMany) {
        for (int v = 0; v < kVectors; ++v) sums[warp][v * kWarpSize + lane] = sum[v];
        __syncthreads();
        if (warp < kVectors) {
          Columns<kVec> all = sums[0][threadIdx.x];
          for (int w = 1; w < kWarps; ++w) {
            for (int k = 0; k < kVec; ++k) all.value[k] += sums[w][threadIdx.x].value[k];
          }
          const int64_t at = first + threadIdx.x * kVec;
          if (at < a.rank) storeColumns<T>(to + at, all, inverse);
        }
        __syncthreads();
      } else {
        for (int v = 0; v < kVectors; ++v) {
          const int64_t at = column + v * kWarpSize * kVec;
          if (at < a.rank) storeColumns<T>(to + at, sum[v], inverse);
        }
      }
    }
    if (lse != nullptr && lane == 0 && (!kMany || warp == 0)) {
      lse[b * rows + lseAt] = total == 0.0f ? -INFINITY : base + logf(total);
    }
  }
}

template <typename T, bool kMany, int kVec>
cudaError_t launch(const CombineArguments& arguments, T* out, float* lse, const LaunchTarget& target) {
  const int64_t rows = arguments.numQueries * arguments.heads;
  const int64_t perBlock = kMany ? 1 : kWarps;
  const dim3 grid(static_cast<unsigned>((rows + perBlock - 1) / perBlock),
                  static_cast<unsigned>(std::min(arguments.batch, kMostGridY)));
  return launchKernel(mlaCombineKernel<T, kMany, kVec>, grid, kWarps * kWarpSize, target, arguments, out,
                      lse);
}

}  // namespace

cudaError_t launchMlaCombine(DType dtype, const MlaPartials& partials, const MlaSizes& sizes, void* out,
                             float* lse, const LaunchTarget& target) {
  const CombineArguments arguments{partials, sizes.batch, sizes.numQueries, sizes.heads, sizes.rank};
  const int64_t rows = sizes.numQueries * sizes.heads;
  if (sizes.batch * rows == 0) return cudaSuccess;
  if (rows > INT32_MAX || partials.numSplits > INT32_MAX) return cudaErrorInvalidValue;
  return dispatchFloat(dtype, [&](auto element) {
    using T = decltype(element);
    auto* typed = static_cast<T*>(out);
    if (sizes.rank % 4 != 0) return launch<T, true, 1>(arguments, typed, lse, target);
    return partials.expectedPieces >= kManyPieces ? launch<T, true, 4>(arguments, typed, lse, target)
                                                  : launch<T, false, 4>(arguments, typed, lse, target);
  });
}

}  // namespace warpgraph
