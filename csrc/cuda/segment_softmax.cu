// Segment softmax: out[e, h] = exp(x[e, h] − m) / Σ exp(x − m) over the edges of e's row, m their maximum.
//
// One warp per (row, head): lanes take every 32nd edge, three passes (maximum, sum, write). The maximum
// ignores NaN, which then reaches the sum and so the whole segment-head. A segment of −∞ alone keeps the sum
// at 0 and gives zeros.
#include "cuda/common.cuh"
#include "cuda/segment_softmax.h"

namespace warpgraph {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;

template <typename T>
__global__ void segmentSoftmaxKernel(const int32_t* __restrict__ rowPtr, const T* __restrict__ scores,
                                     T* __restrict__ out, int64_t numRows, int64_t heads) {
  const int lane = threadIdx.x % kWarpSize;
  const int64_t stride = int64_t{gridDim.x} * kWarps;
  const int64_t items = numRows * heads;
  for (int64_t item = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpSize; item < items; item += stride) {
    const int64_t row = item / heads;
    const int64_t head = item % heads;
    const int64_t end = rowPtr[row + 1];
    const int64_t first = rowPtr[row] + lane;
    float max = -INFINITY;
    for (int64_t e = first; e < end; e += kWarpSize) max = fmaxf(max, toFloat(scores[e * heads + head]));
    max = warpMax(max);
    if (max == -INFINITY) max = 0.0f;  // −∞ − −∞ would be NaN
    float sum = 0.0f;
    for (int64_t e = first; e < end; e += kWarpSize) sum += expf(toFloat(scores[e * heads + head]) - max);
    sum = warpSum(sum);
    const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (int64_t e = first; e < end; e += kWarpSize) {
      out[e * heads + head] = fromFloat<T>(expf(toFloat(scores[e * heads + head]) - max) * factor);
    }
  }
}

}  // namespace

cudaError_t launchSegmentSoftmax(DType dtype, const int32_t* rowPtr, const void* scores, void* out,
                                 int64_t numRows, int64_t heads, cudaStream_t stream) {
  if (numRows * heads == 0) return cudaSuccess;
  return dispatchFloat(dtype, [&](auto element) {
    using T = decltype(element);
    segmentSoftmaxKernel<<<blocksFor(numRows * heads, kWarps), kThreads, 0, stream>>>(
        rowPtr, static_cast<const T*>(scores), static_cast<T*>(out), numRows, heads);
    return cudaGetLastError();
  });
}

}  // namespace warpgraph
