// What the generic attention kernels share: rows of queries, keys and values in shared memory, and which keys
// a query sees.
//
// A tile is rows of columns padded with zeros to a multiple of 16, and 16 bytes between rows, so that the
// eight rows of a matrix load lie in different banks. Eight elements, a group, are one row of such a load: 16
// bytes of half-precision numbers, or for float32 the 32 bytes that held its elements, big parts first.
#pragma once

#include "cuda/common.cuh"
#include "cuda/mla_attention.h"
#include "cuda/mma.cuh"

namespace warpgraph {

constexpr int kGroup = 8;     // elements of one row of an 8×8 matrix
constexpr int kRowLanes = 8;  // lanes that load and split a row together
constexpr int kTilePadding = 16;
constexpr int64_t padTo(int64_t size, int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// The columns of the expanded way's tiles: a key's head part, then its rope part from a group's begin on.
inline int expandRopeColumn(const MlaSizes& sizes) {
  return static_cast<int>(padTo(sizes.headDim, kGroup));
}
inline int expandKeyColumns(const MlaSizes& sizes) {
  return static_cast<int>(padTo(expandRopeColumn(sizes) + sizes.ropeDim, 16));
}
// Of a split value in memory; a tile has more of them.
inline int expandValueColumns(const MlaSizes& sizes) {
  return static_cast<int>(padTo(sizes.valueDim, kGroup));
}
constexpr int kSplitKeys = 64;  // what split keys and values are padded to: the largest tile

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

// Lets a kernel have as much as there is: always the same, since all threads of the process share the
// attribute.
template <typename Kernel>
cudaError_t setMostShared(Kernel kernel) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(sharedMemoryLimit()));
}

#if __CUDA_ARCH__ >= 800

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
  constexpr int kVec = 16 / sizeof(T), kStep = kRowLanes * kVec, kUnroll = 4;
  const int lane = threadIdx.x % kRowLanes;
  int filled = 0;
  if (by16) {
    char* to = shared + lane * 16;
    row += lane * kVec;
#pragma unroll 1
    for (int left = columns - lane * kVec; left > 0; left -= kUnroll * kStep) {
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        if (i * kStep < left) copyAsync16(to + i * kRowLanes * 16, row + i * kStep, valid);
      }
      to += kUnroll * kRowLanes * 16;
      row += kUnroll * kStep;
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

#endif  // __CUDA_ARCH__ >= 800

}  // namespace warpgraph
