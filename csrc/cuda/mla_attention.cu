// Multi-head latent attention, absorbed: the query is projected down to the latents' space once, so that keys
// and values are the latents themselves, and only the result is projected up.
//
// One block per query (b, t, h), looping over queries in strides of the grid and over keys in tiles of kTile
// with an online softmax (Milakov and Gimelshein, arXiv:1805.02867). The query in latent space and the
// weighted sum of latents lie in the block's part of the workspace, so no size is limited by shared memory.
#include "cuda/common.cuh"
#include "cuda/mla_attention.h"

namespace warpgraph {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kTile = 64;  // keys per step
constexpr int64_t kMostMlaBlocks = 2048;

// Σ a[i]·b[i·stride] over i < length, in all lanes of the warp.
template <typename A, typename B>
__device__ float warpDot(const A* a, const B* b, int64_t length, int lane) {
  float sum = 0.0f;
  for (int64_t i = lane; i < length; i += kWarpSize) sum += toFloat(a[i]) * toFloat(b[i]);
  return warpSum(sum);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    mlaAttentionKernel(const T* __restrict__ q, const T* __restrict__ kvLatent, const T* __restrict__ wUpK,
                       const T* __restrict__ wUpV, const T* __restrict__ qRope, const T* __restrict__ kRope,
                       T* __restrict__ out, MlaSizes sizes, float* workspace) {
  __shared__ float weights[kTile];
  waitForInputs();
  const int lane = threadIdx.x % kWarpSize;
  const int warp = threadIdx.x / kWarpSize;
  const int64_t rank = sizes.rank;
  float* query = workspace + int64_t{blockIdx.x} * 2 * rank;  // q·wUpK, (rank)
  float* mean = query + rank;                                 // Σ weight·latent, (rank)
  const int64_t items = sizes.batch * sizes.numQueries * sizes.heads;
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const int64_t head = item % sizes.heads;
    const int64_t t = item / sizes.heads % sizes.numQueries;
    const int64_t b = item / sizes.heads / sizes.numQueries;
    const int64_t visible = t + 1 + sizes.numKeys - sizes.numQueries;
    const int64_t seen = sizes.causal ? min(max(visible, int64_t{0}), sizes.numKeys) : sizes.numKeys;
    const T* latents = kvLatent + b * sizes.numKeys * rank;

    for (int64_t r = warp; r < rank; r += kWarps) {
      const float value = warpDot(q + item * sizes.headDim, wUpK + (r * sizes.heads + head) * sizes.headDim,
                                  sizes.headDim, lane);
      if (lane == 0) query[r] = value;
    }
    for (int64_t r = threadIdx.x; r < rank; r += kThreads) mean[r] = 0.0f;
    __syncthreads();

    float max = -INFINITY;  // the same in all threads
    float sum = 0.0f;
    for (int64_t first = 0; first < seen; first += kTile) {
      const int count = static_cast<int>(min(int64_t{kTile}, seen - first));
      for (int k = warp; k < count; k += kWarps) {
        const int64_t s = first + k;
        float logit = warpDot(query, latents + s * rank, rank, lane);
        if (sizes.ropeDim > 0) {
          logit += warpDot(qRope + item * sizes.ropeDim, kRope + (b * sizes.numKeys + s) * sizes.ropeDim,
                           sizes.ropeDim, lane);
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
      sum *= decay;
      for (int k = 0; k < count; ++k) sum += weights[k];
      for (int64_t r = threadIdx.x; r < rank; r += kThreads) {
        float value = mean[r] * decay;
        for (int k = 0; k < count; ++k) value += weights[k] * toFloat(latents[(first + k) * rank + r]);
        mean[r] = value;
      }
      __syncthreads();
    }

    for (int64_t d = threadIdx.x; d < sizes.valueDim; d += kThreads) {
      float value = 0.0f;
      for (int64_t r = 0; r < rank; ++r) {
        value += mean[r] * toFloat(wUpV[(r * sizes.heads + head) * sizes.valueDim + d]);
      }
      out[item * sizes.valueDim + d] = fromFloat<T>(sum == 0.0f ? 0.0f : value / sum);
    }
    __syncthreads();
  }
}

}  // namespace

int64_t mlaAttentionBlocks(const MlaSizes& sizes) {
  if (sizes.valueDim == 0) return 0;
  return std::min(sizes.batch * sizes.numQueries * sizes.heads, kMostMlaBlocks);
}

cudaError_t launchMlaAttention(DType dtype, const MlaTensors& tensors, const MlaSizes& sizes, void* workspace,
                               const LaunchTarget& target) {
  const int64_t blocks = mlaAttentionBlocks(sizes);
  if (blocks == 0) return cudaSuccess;
  return dispatchFloat(dtype, [&](auto element) {
    using T = decltype(element);
    const auto input = [](const void* pointer) { return static_cast<const T*>(pointer); };
    return launchKernel(mlaAttentionKernel<T>, static_cast<unsigned>(blocks), kThreads, target,
                        input(tensors.q), input(tensors.kvLatent), input(tensors.wUpK), input(tensors.wUpV),
                        input(tensors.qRope), input(tensors.kRope), static_cast<T*>(tensors.out), sizes,
                        static_cast<float*>(workspace));
  });
}

}  // namespace warpgraph
