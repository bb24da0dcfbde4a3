// The matrix product of the library: dense layers and the projections of attention.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/dtype.h"
#include "cuda/launch_target.h"

namespace warpgraph {

// Rows of A gathered through a page table: row i of batch entry b is row firstRow + i of sequence b, whose
// page p lies at rows blockTable[b·pagesPerSequence + p]·pageSize and on of A. Page ids are clamped to
// [0, numPages); rows past a sequence's last page are taken as past its limit.
struct PagedRows {
  const int32_t* blockTable;  // null: not gathered
  int64_t pagesPerSequence, pageSize, numPages, firstRow;
};

// C[b] = A[b]·B[b] for b < batch; C[b] is (m, n), A[b] (m, k), B[b] (k, n), all of one dtype. Strides count
// elements. m, n or k may be 0, and k = 0 gives zeros.
struct Matmul {
  int64_t batch, m, n, k;
  const void* a;  // A[b][i][p] at a[b·aBatch + i·aRow + p]; aBatch is unused when the rows are gathered
  int64_t aRow, aBatch;
  const void* b;  // B[b][p][j] at b[b·bBatch + p·bRow + j], or at b[b·bBatch + j·bRow + p] when bTransposed
  int64_t bRow, bBatch;
  bool bTransposed;
  void* c;  // C[b][i][j] at c[b·cBatch + i·cRow + j]
  int64_t cRow, cBatch;
  bool tf32;      // float32: one TF32 product instead of three, which have float32's accuracy
  bool large;     // many rows: throughput counts, not latency. It may change the last bits of a result.
  bool bIsThere;  // what wrote B is done when this kernel comes, see launch.cuh; only without rowLimits and
                  // pages
  PagedRows pages;
  // Null: none. Else rows i with rowLimitOffset + i ≥ rowLimits[b] are written as zeros, whatever B holds,
  // and their values in A have no effect.
  const int32_t* rowLimits;
  int64_t rowLimitOffset;
  int* nonFinite;  // null: none; else set to 1 when a written value is not finite, and never to 0
};

// float16 and bfloat16 are multiplied on tensor cores and summed in float32, and the sum is rounded once. Of
// a row of the result the bits depend on that row, on B, on n, k, the dtype, the strides, the alignment of
// the pointers, the page size and first row, and `large`, never on m or batch. What is not finite in a row of
// A makes that row of the result, and no other, not finite; of an infinite float32 it makes NaN.
cudaError_t launchMatmul(DType dtype, const Matmul& matmul, const LaunchTarget& target);

}  // namespace warpgraph
