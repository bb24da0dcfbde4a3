// Short vectors of elements, read and written in one instruction of up to 16 bytes.
//
// They stay packed in registers as they came from memory, and are widened to float32 only where they are
// used: eight half elements in flight take four registers, not eight.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace warpgraph {

namespace detail {
template <int kBytes>
struct Word;
template <>
struct Word<2> {
  using Type = unsigned short;
};
template <>
struct Word<4> {
  using Type = unsigned;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};
}  // namespace detail

template <typename T, int kVec>
struct Vector {
  using Word = typename detail::Word<sizeof(T) * kVec>::Type;
  Word word;
};

// Reads through the read-only path. The address is aligned to the vector.
template <int kVec, typename T>
__device__ Vector<T, kVec> loadVector(const T* from) {
  return {__ldg(reinterpret_cast<const typename Vector<T, kVec>::Word*>(from))};
}

// The same for data that is read once: it does not push out what is read again.
template <int kVec, typename T>
__device__ Vector<T, kVec> loadVectorOnce(const T* from) {
  return {__ldcs(reinterpret_cast<const typename Vector<T, kVec>::Word*>(from))};
}

namespace detail {
__device__ inline float2 widenPair(unsigned bits, float) {
  return {__uint_as_float(bits), 0.0f};
}
__device__ inline float2 widenPair(unsigned bits, __half) {
  return __half22float2(*reinterpret_cast<const __half2*>(&bits));
}
// bfloat16 is the upper half of a float32.
__device__ inline float2 widenPair(unsigned bits, __nv_bfloat16) {
  return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u)};
}
__device__ inline unsigned narrowPair(float2 pair, float) {
  return __float_as_uint(pair.x);
}
__device__ inline unsigned narrowPair(float2 pair, __half) {
  const __half2 bits = __float22half2_rn(pair);
  return *reinterpret_cast<const unsigned*>(&bits);
}
__device__ inline unsigned narrowPair(float2 pair, __nv_bfloat16) {
  const __nv_bfloat162 bits = __float22bfloat162_rn(pair);
  return *reinterpret_cast<const unsigned*>(&bits);
}
}  // namespace detail

// The elements as float32.
template <typename T, int kVec>
__device__ void widen(const Vector<T, kVec>& vector, float (&values)[kVec]) {
  constexpr int kPerWord = sizeof(T) == 4 ? 1 : 2;
  if constexpr (sizeof(vector.word) < 4) {
    values[0] = detail::widenPair(vector.word, T{}).x;
  } else {
    const auto* words = reinterpret_cast<const unsigned*>(&vector.word);
#pragma unroll
    for (int w = 0; w < kVec / kPerWord; ++w) {
      const float2 pair = detail::widenPair(words[w], T{});
      values[w * kPerWord] = pair.x;
      if constexpr (kPerWord == 2) values[w * 2 + 1] = pair.y;
    }
  }
}

// Rounds to nearest even, and writes data that is not read again soon.
template <typename T, int kVec>
__device__ void storeVectorOnce(T* to, const float (&values)[kVec]) {
  constexpr int kPerWord = sizeof(T) == 4 ? 1 : 2;
  Vector<T, kVec> vector;
  if constexpr (sizeof(vector.word) < 4) {
    vector.word = static_cast<unsigned short>(detail::narrowPair({values[0], 0.0f}, T{}));
  } else {
    auto* words = reinterpret_cast<unsigned*>(&vector.word);
#pragma unroll
    for (int w = 0; w < kVec / kPerWord; ++w) {
      const float second = kPerWord == 2 ? values[w * kPerWord + kPerWord - 1] : 0.0f;
      words[w] = detail::narrowPair({values[w * kPerWord], second}, T{});
    }
  }
  __stcs(reinterpret_cast<typename Vector<T, kVec>::Word*>(to), vector.word);
}

// As many indices as a vector has elements, to a multiple of that many.
template <int kVec>
__device__ void storeIndicesOnce(int32_t* to, const int32_t (&values)[kVec]) {
  constexpr int kPerStore = kVec < 4 ? kVec : 4;
  using Word = typename detail::Word<4 * kPerStore>::Type;
#pragma unroll
  for (int k = 0; k < kVec; k += kPerStore) {
    __stcs(reinterpret_cast<Word*>(to + k), *reinterpret_cast<const Word*>(values + k));
  }
}

}  // namespace warpgraph
