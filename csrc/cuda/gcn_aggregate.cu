// GCN propagation: out[i, f] = Σ x[src, f] / √(deg[i]·deg[src]) over the edges into i, in float32.
//
// One thread per (row, feature): neighbouring threads read neighbouring features of the same source rows.
#include "cuda/common.cuh"
#include "cuda/gcn_aggregate.h"

namespace warpgraph {
namespace {

constexpr int kThreads = 256;

// 1/√degree; a degree of 0 is a factor of 0, a negative one NaN.
__device__ float inverseRoot(float degree) {
  return degree == 0.0f ? 0.0f : 1.0f / sqrtf(degree);
}

template <typename T>
__global__ void gcnAggregateKernel(const int32_t* __restrict__ rowPtr, const int32_t* __restrict__ colIdx,
                                   const T* __restrict__ x, const float* __restrict__ dstDegrees,
                                   const float* __restrict__ srcDegrees, T* __restrict__ out, int64_t numRows,
                                   int64_t features) {
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  const int64_t items = numRows * features;
  for (int64_t item = int64_t{blockIdx.x} * kThreads + threadIdx.x; item < items; item += stride) {
    const int64_t row = item / features;
    const int64_t feature = item % features;
    const float dstFactor = inverseRoot(dstDegrees[row]);
    float sum = 0.0f;
    for (int32_t e = rowPtr[row]; e < rowPtr[row + 1]; ++e) {
      const int64_t src = colIdx[e];
      sum += dstFactor * inverseRoot(srcDegrees[src]) * toFloat(x[src * features + feature]);
    }
    out[item] = fromFloat<T>(sum);
  }
}

}  // namespace

cudaError_t launchGcnAggregate(DType dtype, const int32_t* rowPtr, const int32_t* colIdx, const void* x,
                               const float* dstDegrees, const float* srcDegrees, void* out, int64_t numRows,
                               int64_t features, cudaStream_t stream) {
  if (numRows * features == 0) return cudaSuccess;
  return dispatchFloat(dtype, [&](auto element) {
    using T = decltype(element);
    gcnAggregateKernel<<<blocksFor(numRows * features, kThreads), kThreads, 0, stream>>>(
        rowPtr, colIdx, static_cast<const T*>(x), dstDegrees, srcDegrees, static_cast<T*>(out), numRows,
        features);
    return cudaGetLastError();
  });
}

}  // namespace warpgraph
