// Multi-head latent attention by plain loops, absorbed: the query is projected down to the latents' space
// once, so that keys and values are the latents themselves, and only the result is projected up (DeepSeek-V2,
// arXiv:2405.04434, section 2.1.2). It takes every shape and option: the path of whatever no faster kernel
// takes.
//
// One block per query (b, t, h), looping over queries in strides of the grid and over keys in tiles of kTile
// with an online softmax (Milakov and Gimelshein, arXiv:1805.02867). The query in latent space and the
// weighted sum of latents lie in the block's part of the workspace, so no size is limited by shared memory. A
// block reads the keys that its query sees and no others: what the others hold cannot matter.
#include "cuda/common.cuh"
#include "cuda/launch.cuh"
#include "cuda/mla_keys.cuh"
#include "cuda/mla_plain.h"

namespace warpgraph {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kTile = 64;  // keys per step
constexpr int64_t kMostMlaBlocks = 2048;

// Σ a[i]·b[i] over i < length, in all lanes of the warp.
template <typename A, typename B>
__device__ float warpDot(const A* __restrict__ a, const B* __restrict__ b, int64_t length, int lane) {
  float sum = 0.0f;
  for (int64_t i = lane; i < length; i += kWarpSize) sum += toFloat(a[i]) * toFloat(b[i]);
  return warpSum(sum);
}

// query[r] = Σ q[d]·wUpK[r, head, d], or q itself when it is in the latents' space already.
template <typename T>
__device__ void absorbQuery(const MlaPlainAttention& attention, const MlaSizes& sizes, int64_t item,
                            float* query) {
  const T* q = static_cast<const T*>(attention.q) + item * attention.qStride;
  const T* wUpK = static_cast<const T*>(attention.wUpK);
  if (attention.absorbed) {
    for (int64_t r = threadIdx.x; r < sizes.rank; r += kThreads) query[r] = toFloat(q[r]);
    return;
  }
  const int64_t head = item % sizes.heads;
  const int lane = threadIdx.x % kWarpSize;
  for (int64_t r = threadIdx.x / kWarpSize; r < sizes.rank; r += kWarps) {
    const float value = warpDot(q, wUpK + (r * sizes.heads + head) * sizes.headDim, sizes.headDim, lane);
    if (lane == 0) query[r] = value;
  }
}

// out[d] = Σ mean[r]·wUpV[r, head, d] / sum, or the mean itself; zeros when nothing weighs anything.
template <typename T>
__device__ void writeResult(const MlaPlainAttention& attention, const MlaSizes& sizes, int64_t item,
                            const float* mean, float sum) {
  const T* wUpV = static_cast<const T*>(attention.wUpV);
  const int64_t head = item % sizes.heads;
  const int64_t width = attention.absorbed ? sizes.rank : sizes.valueDim;
  T* out = static_cast<T*>(attention.out) + item * width;
  for (int64_t d = threadIdx.x; d < width; d += kThreads) {
    float value = 0.0f;
    if (attention.absorbed) {
      value = mean[d];
    } else {
      for (int64_t r = 0; r < sizes.rank; ++r) {
        value += mean[r] * toFloat(wUpV[(r * sizes.heads + head) * sizes.valueDim + d]);
      }
    }
    out[d] = fromFloat<T>(sum == 0.0f ? 0.0f : value / sum);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    mlaPlainKernel(MlaPlainAttention attention, MlaSizes sizes, float* workspace) {
  waitForInputs();
  if (attention.onlyIf != nullptr && *attention.onlyIf == 0) return;
  __shared__ float weights[kTile];
  __shared__ int64_t rows[kTile];
  const int lane = threadIdx.x % kWarpSize;
  const int warp = threadIdx.x / kWarpSize;
  const MlaKeys& keys = attention.keys;
  const T* latents = static_cast<const T*>(keys.latent);
  const T* ropes = static_cast<const T*>(keys.rope);
  const int64_t rank = sizes.rank;
  float* query = workspace + int64_t{blockIdx.x} * 2 * rank;  // in the latents' space
  float* mean = query + rank;                                 // Σ weight·latent
  const int64_t items = sizes.batch * sizes.numQueries * sizes.heads;
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const int64_t head = item % sizes.heads;
    const int64_t t = item / sizes.heads % sizes.numQueries;
    const int64_t b = item / sizes.heads / sizes.numQueries;
    const int64_t seen = mlaSeen(sizes, mlaLength(keys, b), t);
    const T* qRope = static_cast<const T*>(attention.qRope) + item * attention.qRopeStride;

    absorbQuery<T>(attention, sizes, item, query);
    for (int64_t r = threadIdx.x; r < rank; r += kThreads) mean[r] = 0.0f;

    float max = -INFINITY;  // the same in all threads
    float sum = 0.0f;
    for (int64_t first = 0; first < seen; first += kTile) {
      const int count = static_cast<int>(min(int64_t{kTile}, seen - first));
      if (threadIdx.x < count) rows[threadIdx.x] = mlaRow(keys, b, first + threadIdx.x);
      __syncthreads();
      for (int k = warp; k < count; k += kWarps) {
        float logit = warpDot(query, latents + rows[k] * rank, rank, lane);
        if (sizes.ropeDim > 0) {
          logit += warpDot(qRope, ropes + rows[k] * sizes.ropeDim, sizes.ropeDim, lane);
        }
        if (lane == 0) weights[k] = logit * sizes.scale;
      }
      __syncthreads();
      float tileMax = max;
      for (int k = 0; k < count; ++k) tileMax = fmaxf(tileMax, weights[k]);
      // While nothing but −∞ was seen any finite maximum leaves exp at 0; −∞ − −∞ would be NaN.
      const float base = tileMax == -INFINITY ? 0.0f : tileMax;
      const float decay = expf(max - base);
      max = tileMax;
      __syncthreads();
      if (threadIdx.x < count) weights[threadIdx.x] = expf(weights[threadIdx.x] - base);
      __syncthreads();
      // Each tile is summed by itself: the error of long sums grows with the number of tiles, not of keys.
      float tileSum = 0.0f;
      for (int k = 0; k < count; ++k) tileSum += weights[k];
      sum = sum * decay + tileSum;
      for (int64_t r = threadIdx.x; r < rank; r += kThreads) {
        float value = 0.0f;
        for (int k = 0; k < count; ++k) value += weights[k] * toFloat(latents[rows[k] * rank + r]);
        mean[r] = mean[r] * decay + value;
      }
      __syncthreads();
    }

    __syncthreads();
    writeResult<T>(attention, sizes, item, mean, sum);
    if (attention.lse != nullptr && threadIdx.x == 0) {
      attention.lse[(b * sizes.heads + head) * sizes.numQueries + t] =
          sum == 0.0f ? -INFINITY : max + logf(sum);
    }
    __syncthreads();
  }
}

int64_t blocksOf(const MlaSizes& sizes) {
  return std::min(sizes.batch * sizes.numQueries * sizes.heads, kMostMlaBlocks);
}

}  // namespace

MlaPlainAttention plainOf(const MlaAttention& attention, const MlaSizes& sizes) {
  return {false,          attention.q,    sizes.headDim, attention.qRope, sizes.ropeDim, attention.wUpK,
          attention.wUpV, attention.keys, attention.out, attention.lse,   nullptr};
}

MlaPlainAttention plainOf(const MlaLatentAttention& attention) {
  return {true,    attention.qLatent, attention.qLatentStride, attention.qRope, attention.qRopeStride,
          nullptr, nullptr,           attention.keys,          attention.out,   attention.lse,
          nullptr};
}

size_t mlaPlainWorkspaceBytes(const MlaSizes& sizes) {
  return static_cast<size_t>(blocksOf(sizes)) * 2 * sizes.rank * sizeof(float);
}

cudaError_t launchMlaPlain(DType dtype, const MlaPlainAttention& attention, const MlaSizes& sizes,
                           void* workspace, const LaunchTarget& target) {
  const int64_t blocks = blocksOf(sizes);
  if (blocks == 0) return cudaSuccess;
  return dispatchFloat(dtype, [&](auto element) {
    using T = decltype(element);
    return launchKernel(mlaPlainKernel<T>, static_cast<unsigned>(blocks), kThreads, target, attention, sizes,
                        static_cast<float*>(workspace));
  });
}

}  // namespace warpgraph
