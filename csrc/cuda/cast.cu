// Elementwise conversion between dtypes, by way of float32 except to the same dtype.
#include "cuda/cast.h"

#include <type_traits>

#include "cuda/common.cuh"

namespace warpgraph {
namespace {

constexpr int kThreads = 256;

template <typename In, typename Out>
__global__ void castKernel(const In* __restrict__ input, Out* __restrict__ out, int64_t length) {
  waitForInputs();
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < length; i += stride) {
    if constexpr (std::is_same_v<In, Out>) {
      out[i] = input[i];
    } else {
      out[i] = fromFloat<Out>(toFloat(input[i]));
    }
  }
}

}  // namespace

cudaError_t launchCast(DType inputDType, const void* input, DType outDType, void* out, int64_t length,
                       const LaunchTarget& target) {
  if (length == 0) return cudaSuccess;
  return dispatchAny(inputDType, [&](auto from) {
    return dispatchAny(outDType, [&](auto to) {
      using In = decltype(from);
      using Out = decltype(to);
      return launchKernel(castKernel<In, Out>, blocksFor(length, kThreads), kThreads, target,
                          static_cast<const In*>(input), static_cast<Out*>(out), length);
    });
  });
}

}  // namespace warpgraph
