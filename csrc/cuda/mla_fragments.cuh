// Products of tiles (mla_tile.cuh) on warp-level tensor cores, and float32 operands as sums of two float16.
//
// float32 is multiplied on half-precision tensor cores: a row is scaled by a power of two so that its largest
// element is about 2^14, and each element is the sum of two float16, big and small, which together hold 22
// bits of it. Three products, big·big + big·small + small·big, are then as good as float32, at half the cost
// of three TF32 products: float16 has TF32's eleven significant bits, and the row's scale gives it the range
// (an element is wrong by at most 2^-23 of itself or 2^-39 of its row's largest). The idea of error-corrected
// tensor core products is Ootomo and Yokota's (arXiv:2203.03341).
#pragma once

#include "cuda/mla_tile.cuh"
#include "cuda/mma.cuh"

namespace warpgraph {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

constexpr int kWarpRows = 16;   // of a product's left operand
constexpr int kSplitBits = 14;  // a split row's largest element is in [2^14, 2^15)

#if __CUDA_ARCH__ >= 800

__device__ inline float exp2Fast(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// The dtype that products of T are computed in.
template <typename T>
struct ProductOf {
  using Type = T;
};
template <>
struct ProductOf<float> {
  using Type = __half;
};

template <typename T>
__device__ inline uint32_t packPair(float x, float y) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __half2 pair = __floats2half2_rn(x, y);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}
// Two neighbours of a split operand; small only when there is a second term.
template <typename T, int kTerms>
__device__ inline void splitPair(float x, float y, uint32_t& big, uint32_t& small) {
  big = packPair<T>(x, y);
  if constexpr (kTerms == 2) {
    const float2 rounded = __half22float2(*reinterpret_cast<const __half2*>(&big));
    small = packPair<T>(x - rounded.x, y - rounded.y);
  }
}

// What a split row was divided by: 2^(exponent − kSplitBits), as `scale`, which is NaN for a row that holds
// NaN or infinity (its elements are zeros then).
struct RowScale {
  float scale, exponent;
};

// Splits a row in place, by the lanes that loaded it. All lanes of a warp must call it.
template <int kTerms>
__device__ RowScale splitRow(char* shared, int columns) {
  constexpr int kStep = kRowLanes * kGroup * sizeof(float);
  const int lane = threadIdx.x % kRowLanes;
  char* const mine = shared + lane * kGroup * sizeof(float);
  const int groups = (columns / kGroup - lane + kRowLanes - 1) / kRowLanes;
  const int half = lane / 4;  // which half of a group is read first: then no two lanes read from one bank
  float most = 0.0f;
#pragma unroll 4
  for (int g = 0; g < groups; ++g) {
    const auto* group = reinterpret_cast<const float4*>(mine + g * kStep);
    const float4 x = group[half], y = group[1 - half];
    for (const float value : {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w}) {
      most = maxKeepingNaN(most, fabsf(value));
    }
  }
  for (int offset = kRowLanes / 2; offset > 0; offset /= 2) {
    most = maxKeepingNaN(most, __shfl_xor_sync(kFullWarp, most, offset));
  }
  const bool finite = most < INFINITY;
  // Rows of zeros and of next to nothing keep a scale that float32 holds.
  const int exponent = max(__float_as_int(most) >> 23, 1 + kSplitBits) - 127;
  const float factor = __int_as_float((127 + kSplitBits - exponent) << 23);
#pragma unroll 2
  for (int g = 0; g < groups; ++g) {
    auto* group = reinterpret_cast<float4*>(mine + g * kStep);
    const float4 x = group[0], y = group[1];
    const float2 pairs[] = {{x.x, x.y}, {x.z, x.w}, {y.x, y.y}, {y.z, y.w}};
    alignas(16) uint32_t big[4], small[4];
    for (int i = 0; i < 4; ++i) {
      splitPair<float, kTerms>(pairs[i].x * factor, pairs[i].y * factor, big[i], small[i]);
    }
    group[0] = *reinterpret_cast<const float4*>(big);
    if constexpr (kTerms == 2) group[1] = *reinterpret_cast<const float4*>(small);
  }
  if (!finite) {
    for (int g = 0; g < groups; ++g) {
      auto* group = reinterpret_cast<float4*>(mine + g * kStep);
      group[0] = group[1] = float4{};
    }
  }
  return {finite ? __int_as_float((127 - kSplitBits + exponent) << 23) : NAN, static_cast<float>(exponent)};
}

// ---- fragments ----

// A 16×16 operand, in each of its terms.
template <int kTerms>
using Fragment = uint32_t[kTerms][4];

template <int kTerms>
__device__ inline void loadFragment(Fragment<kTerms>& fragment, const char* shared) {
  for (int term = 0; term < kTerms; ++term) loadMatrices(fragment[term], shared + term * 16);
}
template <int kTerms>
__device__ inline void loadFragmentTransposed(Fragment<kTerms>& fragment, const char* shared) {
  for (int term = 0; term < kTerms; ++term) loadMatricesTransposed(fragment[term], shared + term * 16);
}

// Where a lane's part of a fragment lies, from the tile's first row and group on. As the left operand (rows,
// inner) and as the right one of a product with its transposed (inner, columns), as values are; and as the
// right one (columns, inner), as keys are.
__device__ inline int leftOffset(int bytesPerRow, int groupBytes) {
  const int lane = threadIdx.x % kWarpSize;
  return (lane % 16) * bytesPerRow + lane / 16 * groupBytes;
}
__device__ inline int rightOffset(int bytesPerRow, int groupBytes) {
  const int lane = threadIdx.x % kWarpSize;
  return (lane / 16 * 8 + lane % 8) * bytesPerRow + lane / 8 % 2 * groupBytes;
}

// The columns 16·pair … of acc (rows, columns) += a (rows, 16) · b (16, 16), small terms first.
template <typename T, int kTerms, int kRowTiles, int kTiles>
__device__ inline void multiply(float (&acc)[kRowTiles][kTiles][4], int pair,
                                const Fragment<kTerms> (&a)[kRowTiles], const Fragment<kTerms>& b) {
  using Product = typename ProductOf<T>::Type;
#pragma unroll
  for (int order = 2 * (kTerms - 1); order >= 0; --order) {  // small·big, big·small, big·big
    const int left = order == 2 ? 1 : 0, right = order == 1 ? 1 : 0;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      mma16816<Product>(acc[r][2 * pair], a[r][left], b[right][0], b[right][1]);
      mma16816<Product>(acc[r][2 * pair + 1], a[r][left], b[right][2], b[right][3]);
    }
  }
}

#endif  // __CUDA_ARCH__ >= 800

}  // namespace warpgraph
