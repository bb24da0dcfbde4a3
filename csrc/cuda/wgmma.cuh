// The matrix product of a warpgroup (compute capability 9.0, built as sm_90a), its fences, and how it is told
// of matrices in shared memory. PTX ISA 9.0, section on wgmma.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/hopper.cuh"

namespace warpgraph {

#if WARPGRAPH_HOPPER

__device__ inline void wgmmaFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ inline void wgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// A matrix in shared memory in the 128-byte swizzle (as bulk tensor copies with CU_TENSOR_MAP_SWIZZLE_128B
// write it, 1,024-byte aligned). Both strides are in bytes: for a K-major matrix the stride is that between
// groups of 8 rows (1,024) and the leading one is not used.
__device__ inline uint64_t swizzledMatrix(const void* shared, unsigned leading, unsigned stride) {
  const auto field = [](uint64_t bytes) { return (bytes & 0x3ffff) >> 4; };
  return field(sharedAddress(shared)) | field(leading) << 16 | field(stride) << 32 | uint64_t{1} << 62;
}

// Inline assembly wants each register of a result twice: in the text by its number, and as an operand. The
// inputs' numbers follow.
#define NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NAMES_16 \
  NAMES_8        \
  ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_32 \
  NAMES_16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64                                                                     \
  NAMES_32                                                                           \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_96                                                                     \
  NAMES_64                                                                           \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define NAMES_128                                                                                \
  NAMES_96                                                                                       \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define OPERANDS_8(i)                                                                         \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define OPERANDS_16(i) OPERANDS_8(i), OPERANDS_8(i + 8)
#define OPERANDS_32(i) OPERANDS_16(i), OPERANDS_16(i + 16)
// An instruction that overwrites its result where the operand `accumulate` is 0.
#define WGMMA(instruction, names, inputs, accumulate) \
  "{\n.reg .pred p;\n"                                \
  "setp.ne.b32 p, " accumulate                        \
  ", 0;\n"                                            \
  "wgmma.mma_async.sync.aligned." instruction " {" names "}, " inputs ";\n}\n"

// d (64, kN) += a (64, 16) · b (16, kN), or = when accumulate is 0; f16 or bf16 in, float32 out. Thread i of
// the warpgroup holds of row 16·(i/32) + i%32/4 + 8·(j/2%2) the columns 8·(j/4) + 2·(i%4) + j%2 in d[j]. b is
// (kN, 16) with K contiguous unless kTransposeB is 1. a comes from shared memory or from registers (laid out
// as mma.m16n8k16's a).
template <typename T, int kTransposeB>
__device__ inline void wgmma(float (&d)[32], uint64_t a, uint64_t b, int accumulate) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(WGMMA("m64n64k16.f32.f16.f16", NAMES_32, "%32, %33, p, 1, 1, 0, %35", "%34")
                 : OPERANDS_32(0)
                 : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeB));
  } else {
    asm volatile(WGMMA("m64n64k16.f32.bf16.bf16", NAMES_32, "%32, %33, p, 1, 1, 0, %35", "%34")
                 : OPERANDS_32(0)
                 : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeB));
  }
}
template <typename T, int kTransposeB>
__device__ inline void wgmma(float (&d)[32], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(WGMMA("m64n64k16.f32.f16.f16", NAMES_32, "{%32, %33, %34, %35}, %36, p, 1, 1, %38", "%37")
                 : OPERANDS_32(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
  } else {
    asm volatile(WGMMA("m64n64k16.f32.bf16.bf16", NAMES_32, "{%32, %33, %34, %35}, %36, p, 1, 1, %38", "%37")
                 : OPERANDS_32(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
  }
}
template <typename T, int kTransposeB>
__device__ inline void wgmma(float (&d)[64], uint64_t a, uint64_t b, int accumulate) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(WGMMA("m64n128k16.f32.f16.f16", NAMES_64, "%64, %65, p, 1, 1, 0, %67", "%66")
                 : OPERANDS_32(0), OPERANDS_32(32)
                 : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeB));
  } else {
    asm volatile(WGMMA("m64n128k16.f32.bf16.bf16", NAMES_64, "%64, %65, p, 1, 1, 0, %67", "%66")
                 : OPERANDS_32(0), OPERANDS_32(32)
                 : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeB));
  }
}
template <typename T, int kTransposeB>
__device__ inline void wgmma(float (&d)[64], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(WGMMA("m64n128k16.f32.f16.f16", NAMES_64, "{%64, %65, %66, %67}, %68, p, 1, 1, %70", "%69")
                 : OPERANDS_32(0), OPERANDS_32(32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
  } else {
    asm volatile(WGMMA("m64n128k16.f32.bf16.bf16", NAMES_64, "{%64, %65, %66, %67}, %68, p, 1, 1, %70", "%69")
                 : OPERANDS_32(0), OPERANDS_32(32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
  }
}
template <typename T, int kTransposeB>
__device__ inline void wgmma(float (&d)[96], uint64_t a, uint64_t b, int accumulate) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(WGMMA("m64n192k16.f32.f16.f16", NAMES_96, "%96, %97, p, 1, 1, 0, %99", "%98")
                 : OPERANDS_32(0), OPERANDS_32(32), OPERANDS_32(64)
                 : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeB));
  } else {
    asm volatile(WGMMA("m64n192k16.f32.bf16.bf16", NAMES_96, "%96, %97, p, 1, 1, 0, %99", "%98")
                 : OPERANDS_32(0), OPERANDS_32(32), OPERANDS_32(64)
                 : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeB));
  }
}
template <typename T, int kTransposeB>
__device__ inline void wgmma(float (&d)[96], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(
        WGMMA("m64n192k16.f32.f16.f16", NAMES_96, "{%96, %97, %98, %99}, %100, p, 1, 1, %102", "%101")
        : OPERANDS_32(0), OPERANDS_32(32), OPERANDS_32(64)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
  } else {
    asm volatile(
        WGMMA("m64n192k16.f32.bf16.bf16", NAMES_96, "{%96, %97, %98, %99}, %100, p, 1, 1, %102", "%101")
        : OPERANDS_32(0), OPERANDS_32(32), OPERANDS_32(64)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
  }
}
template <typename T, int kTransposeB>
__device__ inline void wgmma(float (&d)[128], uint64_t a, uint64_t b, int accumulate) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(WGMMA("m64n256k16.f32.f16.f16", NAMES_128, "%128, %129, p, 1, 1, 0, %131", "%130")
                 : OPERANDS_32(0), OPERANDS_32(32), OPERANDS_32(64), OPERANDS_32(96)
                 : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeB));
  } else {
    asm volatile(WGMMA("m64n256k16.f32.bf16.bf16", NAMES_128, "%128, %129, p, 1, 1, 0, %131", "%130")
                 : OPERANDS_32(0), OPERANDS_32(32), OPERANDS_32(64), OPERANDS_32(96)
                 : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeB));
  }
}
template <typename T, int kTransposeB>
__device__ inline void wgmma(float (&d)[128], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(
        WGMMA("m64n256k16.f32.f16.f16", NAMES_128, "{%128, %129, %130, %131}, %132, p, 1, 1, %134", "%133")
        : OPERANDS_32(0), OPERANDS_32(32), OPERANDS_32(64), OPERANDS_32(96)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
  } else {
    asm volatile(
        WGMMA("m64n256k16.f32.bf16.bf16", NAMES_128, "{%128, %129, %130, %131}, %132, p, 1, 1, %134", "%133")
        : OPERANDS_32(0), OPERANDS_32(32), OPERANDS_32(64), OPERANDS_32(96)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
  }
}

// d (64, 128) += a (64, 8) · b (8, 128), or = when accumulate is 0; TF32 in (the upper 19 bits of a float32),
// float32 out, laid out as above. a is laid out as mma.m16n8k8's; b is (128, 8) with K contiguous.
__device__ inline void wgmmaTf32(float (&d)[64], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  asm volatile(WGMMA("m64n128k8.f32.tf32.tf32", NAMES_64, "{%64, %65, %66, %67}, %68, p, 1, 1", "%69")
               : OPERANDS_32(0), OPERANDS_32(32)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

// d (64, kN) += a (64, 16) · b (16, kN) for few columns, where a may be transposed as well: with kTransposeA
// it is (16, 64), M contiguous.
template <typename T, int kTransposeA, int kTransposeB>
__device__ inline void wgmma(float (&d)[8], uint64_t a, uint64_t b, int accumulate) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(WGMMA("m64n16k16.f32.f16.f16", NAMES_8, "%8, %9, p, 1, 1, %11, %12", "%10")
                 : OPERANDS_8(0)
                 : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB));
  } else {
    asm volatile(WGMMA("m64n16k16.f32.bf16.bf16", NAMES_8, "%8, %9, p, 1, 1, %11, %12", "%10")
                 : OPERANDS_8(0)
                 : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB));
  }
}
template <typename T, int kTransposeA, int kTransposeB>
__device__ inline void wgmma(float (&d)[16], uint64_t a, uint64_t b, int accumulate) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(WGMMA("m64n32k16.f32.f16.f16", NAMES_16, "%16, %17, p, 1, 1, %19, %20", "%18")
                 : OPERANDS_16(0)
                 : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB));
  } else {
    asm volatile(WGMMA("m64n32k16.f32.bf16.bf16", NAMES_16, "%16, %17, p, 1, 1, %19, %20", "%18")
                 : OPERANDS_16(0)
                 : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB));
  }
}

#undef NAMES_8
#undef NAMES_16
#undef NAMES_32
#undef NAMES_64
#undef NAMES_96
#undef NAMES_128
#undef OPERANDS_8
#undef OPERANDS_16
#undef OPERANDS_32
#undef WGMMA

#endif  // WARPGRAPH_HOPPER

}  // namespace warpgraph
