// What the generic attention kernels share: rows of queries, keys and values in shared memory, and products
// of their fragments on warp-level tensor cores.
//
// float32 is multiplied on half-precision tensor cores: a row is scaled by a power of two so that its largest
// element is about 2^14, and each element is the sum of two float16, big and small, which together hold 22
// bits of it. Three products, big·big + big·small + small·big, are then as good as float32, at half the cost
// of three TF32 products: float16 has TF32's eleven significant bits, and the row's scale gives it the range
// (an element is wrong by at most 2^-23 of itself or 2^-39 of its row's largest). The idea of error-corrected
// tensor core products is Ootomo and Yokota's (arXiv:2203.03341).
//
// A tile is rows of columns padded with zeros to a multiple of 16, and 16 bytes between rows, so that the
// eight rows of a matrix load lie in different banks. Eight elements, a group, are one row of such a load: 16
// bytes of half-precision numbers, or for float32 the 32 bytes that held its elements, big parts first.
#pragma once

#include "cuda/common.cuh"
#include "cuda/mla_attention.h"
#include "cuda/mma.cuh"

namespace warpgraph {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

constexpr int kGroup = 8;     // elements of one row of an 8×8 matrix
constexpr int kRowLanes = 8;  // lanes that load and split a row together
constexpr int kTilePadding = 16;
constexpr int kWarpRows = 16;   // of a product's left operand
constexpr int kSplitBits = 14;  // a split row's largest element is in [2^14, 2^15)

constexpr int64_t padTo(int64_t size, int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

constexpr int64_t rowBytes(int64_t columns, size_t elementBytes) {
  return columns * static_cast<int64_t>(elementBytes) + kTilePadding;
}

// Whether rows of `columns` elements, `stride` elements apart, can be copied by 16 bytes.
inline bool copiesBy16(const void* rows, int64_t columns, int64_t stride, size_t elementBytes) {
  return reinterpret_cast<uintptr_t>(rows) % 16 == 0 && columns * elementBytes % 16 == 0 &&
         stride * elementBytes % 16 == 0;
}

constexpr int64_t kMostGrid = 0x7fffffff;

// Bytes of shared memory that a block of the current device can have.
inline int64_t sharedMemoryLimit() {
  int device = 0, bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
    return 0;
  return bytes;
}

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

// A sequence's length, and the number of keys that its query t sees.
struct Visible {
  int64_t length, offset;
  bool causal;

  __device__ Visible(const MlaKeys& keys, const MlaSizes& sizes, int64_t b) : causal(sizes.causal) {
    length = keys.lengths == nullptr
                 ? keys.numKeys
                 : min(max(static_cast<int64_t>(keys.lengths[b]), int64_t{0}), keys.numKeys);
    offset = sizes.hasQueryOffset ? sizes.queryOffset : length - sizes.numQueries;
  }
  __device__ int64_t to(int64_t t) const {
    return causal ? min(max(t + offset + 1, int64_t{0}), length) : length;
  }
};

// The row of key s of sequence b in the latents and rotary keys.
__device__ inline int64_t keyRow(const MlaKeys& keys, int64_t b, int64_t s) {
  if (keys.blockTable == nullptr) return b * keys.numKeys + s;
  const int shift = __ffsll(keys.pageSize) - 1;
  const int64_t page = keys.blockTable[b * keys.pagesPerSequence + (s >> shift)];
  return min(max(page, int64_t{0}), keys.numPages - 1) << shift | (s & (keys.pageSize - 1));
}

// Starts to bring `columns` elements of a row into shared memory, padded with zeros; zeros alone when not
// valid. A row's lanes call it together; `row` must be readable memory also when not valid.
template <typename T>
__device__ inline void loadRow(char* shared, const T* row, int columns, int padded, bool valid, bool by16) {
  constexpr int kVec = 16 / sizeof(T);
  const int lane = threadIdx.x % kRowLanes;
  int filled = 0;
  if (by16) {
#pragma unroll 4
    for (int c = lane * kVec; c < columns; c += kRowLanes * kVec) {
      copyAsync16(shared + c * sizeof(T), row + c, valid);
    }
    filled = columns;
  } else if (valid) {
#pragma unroll 1
    for (int c = lane; c < columns; c += kRowLanes) reinterpret_cast<T*>(shared)[c] = row[c];
    filled = columns;
  }
#pragma unroll 1
  for (int c = filled + lane; c < padded; c += kRowLanes) {
    reinterpret_cast<T*>(shared)[c] = fromFloat<T>(0.0f);
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
  const int lane = threadIdx.x % kRowLanes;
  float most = 0.0f;
  for (int c = lane * kGroup; c < columns; c += kRowLanes * kGroup) {
    const auto* group = reinterpret_cast<const float4*>(shared + c * sizeof(float));
    const float4 x = group[0], y = group[1];
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
  for (int c = lane * kGroup; c < columns; c += kRowLanes * kGroup) {
    auto* group = reinterpret_cast<float4*>(shared + c * sizeof(float));
    const float4 x = group[0], y = group[1];
    const float2 pairs[] = {{x.x, x.y}, {x.z, x.w}, {y.x, y.y}, {y.z, y.w}};
    __half2 big[4], small[4];
    for (int i = 0; i < 4; ++i) {
      const float2 pair = finite ? make_float2(pairs[i].x * factor, pairs[i].y * factor) : float2{};
      big[i] = __floats2half2_rn(pair.x, pair.y);
      const float2 rounded = __half22float2(big[i]);
      small[i] = __floats2half2_rn(pair.x - rounded.x, pair.y - rounded.y);
    }
    group[0] = *reinterpret_cast<const float4*>(big);
    if constexpr (kTerms == 2) group[1] = *reinterpret_cast<const float4*>(small);
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

#endif  // __CUDA_ARCH__ >= 800

}  // namespace warpgraph
