// What mla_small.cu does with rows of its block's shared memory: bring them there, multiply two of them, and
// sum them up with weights.
#pragma once

#include "cuda/common.cuh"
#include "cuda/mla_small_layout.h"
#include "cuda/vector.cuh"

namespace warpgraph {
namespace mla_small {

// Copies a chunk to shared memory; it is there after waitForCopies.
template <int kChunk>
__device__ void copyChunk(void* to, const void* from) {
  if constexpr (kChunk == 2) {
    *static_cast<unsigned short*>(to) = __ldg(static_cast<const unsigned short*>(from));
  } else {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from), "n"(kChunk)
                 : "memory");
#else
    using Word = typename detail::Word<kChunk>::Type;
    *static_cast<Word*>(to) = __ldg(static_cast<const Word*>(from));
#endif
  }
}

__device__ inline void waitForCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Some warps of the block, `threads` of which this is thread `thread`, copy `count` rows of `length`
// elements, each from where rowOf(row) says, and write zeros behind them up to `width`. `divisor` is ⌈2³² /
// chunks of a row⌉, or 0 for one.
template <int kChunk, typename T, typename RowOf>
__device__ void copyRows(int thread, int threads, T* to, int stride, int count, int length, int width,
                         unsigned divisor, RowOf rowOf) {
  constexpr int kPerChunk = kChunk / sizeof(T);
  const int perRow = length / kPerChunk;
#pragma unroll 1
  for (int i = thread; i < count * perRow; i += threads) {
    const int row = divisor == 0 ? i : static_cast<int>(__umulhi(i, divisor));
    const int column = (i - row * perRow) * kPerChunk;
    copyChunk<kChunk>(to + row * stride + column, rowOf(row) + column);
  }
  if constexpr (kChunk < kVectorBytes) {
    const int tail = width - length;
#pragma unroll 1
    for (int i = thread; i < count * tail; i += threads) {
      to[i / tail * stride + length + i % tail] = fromFloat<T>(0.0f);
    }
  }
}

// Vectors of T's size at a, whatever its own type.
template <int kVec, typename A>
__device__ void readVector(const A* a, float (&values)[kVec]) {
  constexpr int kPart = kVectorBytes / sizeof(A) < kVec ? kVectorBytes / sizeof(A) : kVec;
#pragma unroll
  for (int i = 0; i < kVec; i += kPart) {
    float part[kPart];
    using Word = typename Vector<A, kPart>::Word;
    widen(Vector<A, kPart>{*reinterpret_cast<const Word*>(a + i)}, part);
#pragma unroll
    for (int j = 0; j < kPart; ++j) values[i + j] = part[j];
  }
}

// Σ a[i]·b[i] over a whole number of vectors.
template <typename A, typename T>
__device__ float dotRows(const A* a, const T* b, int width) {
  constexpr int kVec = kVectorBytes / sizeof(T);
  float sums[4] = {};
#pragma unroll 2
  for (int i = 0; i < width; i += kVec) {
    float left[kVec], right[kVec];
    readVector(a + i, left);
    readVector(b + i, right);
#pragma unroll
    for (int j = 0; j < kVec; ++j) sums[j % 4] += left[j] * right[j];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Σ weights[i]·rows[i·stride] over i < length, for kColumns columns; and Σ weights[i] into *sum. 1 <<
// laneBits lanes lie side by side on a row, so that the warp reads several rows at once; the sums over all
// rows are in every lane.
template <typename T>
__device__ float4 sumRows(const float* weights, const T* rows, int stride, int length, int laneBits, int lane,
                          float* sum) {
  float4 total = {0.0f, 0.0f, 0.0f, 0.0f};
  float weightSum = 0.0f;
#pragma unroll 4
  for (int i = lane >> laneBits; i < length; i += kWarpSize >> laneBits) {
    float four[kColumns];
    readVector(rows + i * stride, four);
    const float weight = weights[i];
    total.x += weight * four[0];
    total.y += weight * four[1];
    total.z += weight * four[2];
    total.w += weight * four[3];
    weightSum += weight;
  }
#pragma unroll 1
  for (int offset = 1 << laneBits; offset < kWarpSize; offset *= 2) {
    total.x += __shfl_xor_sync(kFullWarp, total.x, offset);
    total.y += __shfl_xor_sync(kFullWarp, total.y, offset);
    total.z += __shfl_xor_sync(kFullWarp, total.z, offset);
    total.w += __shfl_xor_sync(kFullWarp, total.w, offset);
    weightSum += __shfl_xor_sync(kFullWarp, weightSum, offset);
  }
  *sum = weightSum;
  return total;
}

__device__ inline float warpMaximum(float value) {
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, offset));
  }
  return value;
}

}  // namespace mla_small
}  // namespace warpgraph
