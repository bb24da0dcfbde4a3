// Neighbour maximum: out[i, f] = max x[src, f] over the edges into i. NaN wins, the first NaN over later
// ones.
//
// One thread per (row, feature): neighbouring threads read neighbouring features of the same source rows.
#include "cuda/common.cuh"
#include "cuda/csr_max.h"

namespace warpgraph {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void csrMaxKernel(const int32_t* __restrict__ rowPtr, const int32_t* __restrict__ colIdx,
                             const T* __restrict__ x, float empty, T* __restrict__ out,
                             int32_t* __restrict__ indices, int64_t numRows, int64_t features) {
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  const int64_t items = numRows * features;
  for (int64_t item = int64_t{blockIdx.x} * kThreads + threadIdx.x; item < items; item += stride) {
    const int64_t row = item / features;
    const int64_t feature = item % features;
    float max = empty;
    int32_t winner = -1;
    for (int32_t e = rowPtr[row]; e < rowPtr[row + 1]; ++e) {
      const float value = toFloat(x[int64_t{colIdx[e]} * features + feature]);
      if (winner < 0 || value > max || (isnan(value) && !isnan(max))) {
        max = value;
        winner = e;
      }
    }
    out[item] = fromFloat<T>(max);
    if (indices != nullptr) indices[item] = winner;
  }
}

}  // namespace

cudaError_t launchCsrMax(DType dtype, const int32_t* rowPtr, const int32_t* colIdx, const void* x,
                         float empty, void* out, int32_t* indices, int64_t numRows, int64_t features,
                         cudaStream_t stream) {
  if (numRows * features == 0) return cudaSuccess;
  return dispatchFloat(dtype, [&](auto element) {
    using T = decltype(element);
    csrMaxKernel<<<blocksFor(numRows * features, kThreads), kThreads, 0, stream>>>(
        rowPtr, colIdx, static_cast<const T*>(x), empty, static_cast<T*>(out), indices, numRows, features);
    return cudaGetLastError();
  });
}

}  // namespace warpgraph
