// Where the rows of A lie, and which of them count.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/matmul.h"

namespace warpgraph {

// The rows of batch entry b before its limit and before the end of its pages; the others give zeros.
__device__ inline int64_t liveRows(const Matmul& matmul, int64_t b) {
  int64_t rows = matmul.m;
  if (matmul.rowLimits != nullptr) rows = min(rows, matmul.rowLimits[b] - matmul.rowLimitOffset);
  if (matmul.pages.blockTable != nullptr) {
    const int64_t listed = matmul.pages.numPages > 0 ? matmul.pages.pagesPerSequence : 0;
    rows = min(rows, listed * matmul.pages.pageSize - matmul.pages.firstRow);
  }
  return rows;
}

// The row of `a` (counted from a + b·aBatch, or from a when gathered) that holds live row i.
__device__ inline int64_t storedRow(const PagedRows& pages, int64_t b, int64_t i) {
  if (pages.blockTable == nullptr) return i;
  const int64_t row = pages.firstRow + i;
  const int64_t listed = pages.blockTable[b * pages.pagesPerSequence + row / pages.pageSize];
  const int64_t page = min(max(listed, int64_t{0}), pages.numPages - 1);
  return page * pages.pageSize + row % pages.pageSize;
}

// Where A's rows of batch entry b are counted from.
template <typename T>
__device__ const T* firstOfA(const Matmul& matmul, int64_t b) {
  return static_cast<const T*>(matmul.a) + (matmul.pages.blockTable == nullptr ? b * matmul.aBatch : 0);
}

}  // namespace warpgraph
