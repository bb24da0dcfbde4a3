// The operands of a warp's products in registers, and one product (matmul_mma.cuh tells how float32 is
// split).
#pragma once

#include "cuda/mma.cuh"

namespace warpgraph {
namespace matmul_mma {

#if __CUDA_ARCH__ >= 800

// An operand of a product: halves as they are, floats as one TF32 number or as two.
template <typename T, bool kSplit>
struct Fragment {
  uint32_t big[4];
  __device__ explicit Fragment(const uint32_t (&raw)[4]) {
    for (int i = 0; i < 4; ++i) big[i] = sizeof(T) == 4 ? toTf32(__uint_as_float(raw[i])) : raw[i];
  }
};
template <typename T>
struct Fragment<T, true> {
  uint32_t big[4], small[4];
  // splitTf32 in three instructions instead of seven: ties round away from zero as there, a NaN that this
  // rounding loses stays in `small`, and of `small` the tensor cores take the upper bits only, an error below
  // 2^-21 of the value.
  __device__ explicit Fragment(const uint32_t (&raw)[4]) {
    for (int i = 0; i < 4; ++i) {
      big[i] = (raw[i] + 0x1000u) & 0xffffe000u;
      small[i] = __float_as_uint(__uint_as_float(raw[i]) - __uint_as_float(big[i]));
    }
  }
};

// a·b: like mma1688, without a sum to begin from.
__device__ inline void firstMma1688(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %10, %10, %10};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}

// sum += a·b; the 8 columns of b begin at its register `at`.
template <typename T, bool kSplit>
__device__ void multiply(float (&sum)[4], const Fragment<T, kSplit>& a, const Fragment<T, kSplit>& b,
                         int at) {
  if constexpr (kSplit) {
    float product[4];
    firstMma1688(product, a.small, b.big[at], b.big[at + 1]);
    mma1688(product, a.big, b.small[at], b.small[at + 1]);
    mma1688(product, a.big, b.big[at], b.big[at + 1]);
    for (int i = 0; i < 4; ++i) sum[i] += product[i];
  } else if constexpr (sizeof(T) == 4) {
    mma1688(sum, a.big, b.big[at], b.big[at + 1]);
  } else {
    mma16816<T>(sum, a.big, b.big[at], b.big[at + 1]);
  }
}

#endif  // __CUDA_ARCH__ >= 800

}  // namespace matmul_mma
}  // namespace warpgraph
