// The prefill kernel's softmax and output, in the registers of wgmma's accumulators: a thread holds parts of
// two rows, eight apart, and four lanes share a row.
#pragma once

#include "cuda/mla_prefill_load.cuh"

namespace warpgraph {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

#if WARPGRAPH_HOPPER

__device__ inline float exp2Approximate(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

template <typename T>
__device__ uint32_t pack(float low, float high) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  }
}

// Keeps the compiler from moving uses of a running product's registers across this point.
template <int kN>
__device__ void pin(float (&d)[kN]) {
  for (int i = 0; i < kN; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Over the four lanes that share a row.
__device__ inline float quadMax(float value) {
  value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, 1));
  return fmaxf(value, __shfl_xor_sync(kFullWarp, value, 2));
}
__device__ inline float quadSum(float value) {
  value += __shfl_xor_sync(kFullWarp, value, 1);
  return value + __shfl_xor_sync(kFullWarp, value, 2);
}

// Of a thread's two rows; sum is over the thread's own columns.
struct PrefillSoftmax {
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0f, 0.0f};

  // Logits, unscaled, become weights; decay is what earlier weights are to be multiplied with.
  template <int kN>
  __device__ void update(float (&s)[kN], float scale, float (&decay)[2]) {
    float base[2], total[2] = {0.0f, 0.0f};
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float top = max[row];
#pragma unroll
      for (int i = 2 * row; i < kN; i += 4) top = fmaxf(top, fmaxf(s[i], s[i + 1]));
      top = quadMax(top);
      // While nothing but −∞ was seen any finite maximum leaves the weights at 0; −∞ − −∞ would be NaN.
      base[row] = top == -INFINITY ? 0.0f : top * scale;
      decay[row] = exp2Approximate(max[row] * scale - base[row]);
      max[row] = top;
    }
    // Both rows at once, for the sums' latency.
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const int row = i / 2 % 2;
      s[i] = exp2Approximate(s[i] * scale - base[row]);
      total[row] += s[i];
    }
    for (int row = 0; row < 2; ++row) sum[row] = sum[row] * decay[row] + total[row];
  }
};

template <int kN>
__device__ void rescale(float (&o)[kN], const float (&decay)[2]) {
  for (int i = 0; i < kN; ++i) o[i] *= decay[i / 2 % 2];
}

// Of a row, lane i of four holds the columns 8·j + 2·i + {0, 1} in words[j], and gets of every four j the
// eight columns of j % 4 == i: a transposition, after which a lane stores 16 bytes at once.
template <int kN>
__device__ void transposeQuads(uint32_t (&words)[kN], int lane) {
  for (int j = 0; j < kN; j += 4) {
    for (int bit = 1; bit < 4; bit *= 2) {
      const bool upper = lane & bit;
      for (int k = 0; k < 4; ++k) {
        if (k & bit) continue;
        uint32_t& low = words[j + k];
        uint32_t& high = words[j + k + bit];
        const uint32_t received = __shfl_xor_sync(kFullWarp, upper ? low : high, bit);
        (upper ? low : high) = received;
      }
    }
  }
}

// o, not yet divided by the weights' sum, is merged with earlier chunks and written.
template <typename T, int kDv>
__device__ void writeRows(const PrefillArguments& a, const PrefillTile& tile, const PrefillSoftmax& softmax,
                          const float (&o)[kDv / 2], int firstRow, int lane) {
  for (int row = 0; row < 2; ++row) {
    const int t = tile.firstQuery + firstRow + lane / 4 + 8 * row;
    const bool valid = t < a.numQueries;
    const int64_t at = ((int64_t{tile.b} * a.numQueries + t) * a.heads + tile.h) * kDv;
    const float sum = quadSum(softmax.sum[row]);
    float lse = sum == 0.0f ? -INFINITY : (softmax.max[row] * a.scale + log2f(sum)) * kLn2;
    float weight = sum == 0.0f ? 0.0f : 1.0f / sum;
    float earlierWeight = 0.0f;
    float* lseAt =
        a.lse == nullptr ? nullptr : a.lse + (int64_t{tile.b} * a.heads + tile.h) * a.numQueries + t;
    if (!a.first) {
      const float earlier = valid ? *lseAt : -INFINITY;
      const float top = fmaxf(lse, earlier);
      const float base = top == -INFINITY ? 0.0f : top;
      const float mine = exp2f((lse - base) * kLog2E), other = exp2f((earlier - base) * kLog2E);
      const float both = mine + other;
      if (both != 0.0f) {
        weight *= mine / both;
        earlierWeight = other / both;
      }
      lse = both == 0.0f ? -INFINITY : base + log2f(both) * kLn2;
      __syncwarp();
    }
    if (valid && lane % 4 == 0 && lseAt != nullptr) *lseAt = lse;

    const auto earlierMean = [&](int j) {
      if (a.first || !valid) return float2{0.0f, 0.0f};
      return *reinterpret_cast<const float2*>(a.running + at + 8 * j + lane % 4 * 2);
    };
    if (!a.last) {
      for (int j = 0; j < kDv / 8; ++j) {
        const float2 earlier = earlierMean(j);
        const float2 mean{o[4 * j + 2 * row] * weight + earlier.x * earlierWeight,
                          o[4 * j + 2 * row + 1] * weight + earlier.y * earlierWeight};
        if (valid) *reinterpret_cast<float2*>(a.running + at + 8 * j + lane % 4 * 2) = mean;
      }
      continue;
    }
    uint32_t words[kDv / 8];
    for (int j = 0; j < kDv / 8; ++j) {
      const float2 earlier = earlierMean(j);
      words[j] = pack<T>(o[4 * j + 2 * row] * weight + earlier.x * earlierWeight,
                         o[4 * j + 2 * row + 1] * weight + earlier.y * earlierWeight);
    }
    transposeQuads(words, lane);
    if (!valid) continue;
    T* out = static_cast<T*>(a.out) + at + lane % 4 * 8;
    for (int j = 0; j < kDv / 8; j += 4) {
      *reinterpret_cast<uint4*>(out + 8 * j) = uint4{words[j], words[j + 1], words[j + 2], words[j + 3]};
    }
  }
}

#endif  // WARPGRAPH_HOPPER

}  // namespace warpgraph
