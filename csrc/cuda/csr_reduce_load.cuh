// Rows of x that may not be there, read side by side.
//
// Written out as `if (exists) row = load`, the compiler reads into other registers and moves from them, and
// each move waits for its read, so that reads which should be on their way together go one by one. A
// predicated load in place leaves the compiler no choice.
#pragma once

#include "cuda/vector.cuh"

namespace warpgraph {

namespace detail {
// Reads unless the source is negative. Volatile, since a kernel before this one may have written what is
// read: not before waitForInputs().
__device__ inline void loadWordIf(int source, const void* from, unsigned short& to) {
  asm volatile("{.reg .pred p; setp.ge.s32 p, %1, 0; @p ld.global.nc.u16 %0, [%2];}"
               : "+h"(to)
               : "r"(source), "l"(from));
}
__device__ inline void loadWordIf(int source, const void* from, unsigned& to) {
  asm volatile("{.reg .pred p; setp.ge.s32 p, %1, 0; @p ld.global.nc.u32 %0, [%2];}"
               : "+r"(to)
               : "r"(source), "l"(from));
}
__device__ inline void loadWordIf(int source, const void* from, uint2& to) {
  asm volatile("{.reg .pred p; setp.ge.s32 p, %2, 0; @p ld.global.nc.v2.u32 {%0, %1}, [%3];}"
               : "+r"(to.x), "+r"(to.y)
               : "r"(source), "l"(from));
}
__device__ inline void loadWordIf(int source, const void* from, uint4& to) {
  asm volatile("{.reg .pred p; setp.ge.s32 p, %4, 0; @p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%5];}"
               : "+r"(to.x), "+r"(to.y), "+r"(to.z), "+r"(to.w)
               : "r"(source), "l"(from));
}
}  // namespace detail

// Where a row of x begins, for a lane whose first feature is at x. A row has fewer than 2^32 bytes.
template <typename T>
__device__ const T* rowOf(const T* x, uint32_t source, uint32_t rowBytes) {
  return reinterpret_cast<const T*>(reinterpret_cast<uintptr_t>(x) + uint64_t{source} * rowBytes);
}

// The row of a source, or of values that are all `neutral` where the source is negative: there is none.
template <int kVec, typename T>
__device__ Vector<T, kVec> loadRowOr(float neutral, const T* x, int source, uint32_t rowBytes) {
  Vector<T, kVec> row;
  const unsigned pair = detail::narrowPair({neutral, neutral}, T{});
  if constexpr (sizeof(row) < 4) {
    row.word = static_cast<unsigned short>(pair);
  } else {
    auto* words = reinterpret_cast<unsigned*>(&row.word);
#pragma unroll
    for (unsigned w = 0; w < sizeof(row) / 4; ++w) words[w] = pair;
  }
  detail::loadWordIf(source, rowOf(x, source, rowBytes), row.word);
  return row;
}

}  // namespace warpgraph
