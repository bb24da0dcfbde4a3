// What kernels share: the dtype switch, conversion to and from float32, grid sizes, warp reductions.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "cuda/dtype.h"
#include "cuda/launch.cuh"
#include "cuda/schedule.h"

namespace warpgraph {

constexpr unsigned kFullWarp = 0xffffffffu;
constexpr int kWarpSize = 32;

// Enough blocks to fill any card several times over, and far below every hardware limit of a grid: kernels
// loop over their items in strides of the grid, so the number of items has no limit.
constexpr int64_t kMostBlocks = 1 << 16;

// The lanes of a worker: kLanes consecutive threads of one warp.
template <int kLanes>
__device__ unsigned workerMask() {
  if (kLanes == kWarpSize) return kFullWarp;
  return ((1u << (kLanes % kWarpSize)) - 1) << (threadIdx.x % kWarpSize / kLanes * kLanes);
}

// How the blocks of a grid's fast axis share out a schedule: the first of them take the long items, the
// others the short ones, and one worker takes several of those in turn.
struct BlockPlan {
  unsigned longBlocks, blocks;
};

inline BlockPlan planBlocks(int64_t numItems, int64_t numLong, int64_t longPerBlock, int64_t shortPerBlock) {
  const auto blocks = [](int64_t items, int64_t perBlock) {
    return static_cast<unsigned>((items + perBlock - 1) / perBlock);
  };
  const unsigned longBlocks = blocks(numLong, longPerBlock);
  return {longBlocks, longBlocks + blocks(numItems - numLong, shortPerBlock)};
}

inline unsigned blocksFor(int64_t items, int64_t itemsPerBlock) {
  return static_cast<unsigned>(std::min((items + itemsPerBlock - 1) / itemsPerBlock, kMostBlocks));
}

__device__ inline float toFloat(float value) {
  return value;
}
__device__ inline float toFloat(__half value) {
  return __half2float(value);
}
__device__ inline float toFloat(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ inline float toFloat(int32_t value) {
  return static_cast<float>(value);
}

template <typename T>
__device__ T fromFloat(float value);
template <>
__device__ inline float fromFloat(float value) {
  return value;
}
template <>
__device__ inline __half fromFloat(float value) {
  return __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 fromFloat(float value) {
  return __float2bfloat16_rn(value);
}
// Truncates towards zero and saturates; NaN becomes 0.
template <>
__device__ inline int32_t fromFloat(float value) {
  return __float2int_rz(value);
}

// Calls body(T{}) with the dtype's element type. The launcher's checks leave no other value.
template <typename Body>
cudaError_t dispatchFloat(DType dtype, Body body) {
  switch (dtype) {
    case DType::kFloat32:
      return body(float{});
    case DType::kFloat16:
      return body(__half{});
    case DType::kBfloat16:
      return body(__nv_bfloat16{});
    case DType::kInt32:
      break;
  }
  return cudaErrorInvalidValue;
}

template <typename Body>
cudaError_t dispatchAny(DType dtype, Body body) {
  return dtype == DType::kInt32 ? body(int32_t{}) : dispatchFloat(dtype, body);
}

// The maximum of two numbers, NaN when one of them is; in one instruction from compute capability 8.0 on.
__device__ inline float maxKeepingNaN(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return !(b <= a) && !isnan(a) ? b : a;
#endif
}

// Over the workers of a warp, kLanes lanes each with one value.
template <int kLanes>
__device__ int warpMin(int value) {
  for (int offset = kLanes; offset < kWarpSize; offset *= 2) {
    value = min(value, __shfl_xor_sync(kFullWarp, value, offset));
  }
  return value;
}
template <int kLanes>
__device__ int warpMax(int value) {
  for (int offset = kLanes; offset < kWarpSize; offset *= 2) {
    value = max(value, __shfl_xor_sync(kFullWarp, value, offset));
  }
  return value;
}

__device__ inline float warpSum(float value) {
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(kFullWarp, value, offset);
  return value;
}

}  // namespace warpgraph
