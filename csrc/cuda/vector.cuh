// Short vectors of elements, read and written in one instruction of up to 16 bytes.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace warpgraph {

template <typename T, int kVec>
struct alignas(sizeof(T) * kVec) Vector {
  T element[kVec];
};

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

template <typename To, typename From>
__device__ To bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}
}  // namespace detail

// Reads through the read-only path. The address is aligned to the vector.
template <int kVec, typename T>
__device__ Vector<T, kVec> loadVector(const T* from) {
  using Word = typename detail::Word<sizeof(T) * kVec>::Type;
  return detail::bits<Vector<T, kVec>>(__ldg(reinterpret_cast<const Word*>(from)));
}

// The same for data that is read once: it does not push out what is read again.
template <int kVec, typename T>
__device__ Vector<T, kVec> loadVectorOnce(const T* from) {
  using Word = typename detail::Word<sizeof(T) * kVec>::Type;
  return detail::bits<Vector<T, kVec>>(__ldcs(reinterpret_cast<const Word*>(from)));
}

// Writes data that is not read again soon.
template <int kVec, typename T>
__device__ void storeVectorOnce(T* to, const Vector<T, kVec>& vector) {
  using Word = typename detail::Word<sizeof(T) * kVec>::Type;
  __stcs(reinterpret_cast<Word*>(to), detail::bits<Word>(vector));
}

}  // namespace warpgraph
