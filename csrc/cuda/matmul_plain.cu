// C = A·B, one thread per element of C, in tiles of 16×16: the fallback for cards without the tensor core
// instructions that matmul_mma.cuh needs.
#include "cuda/common.cuh"
#include "cuda/matmul_launch.h"
#include "cuda/matmul_rows.cuh"

namespace warpgraph {
namespace {

constexpr int kTile = 16;

template <typename T>
__device__ void multiplyTile(const Matmul& matmul, int64_t batch, int64_t firstRow, int64_t firstColumn) {
  __shared__ float a[kTile][kTile + 1];
  __shared__ float b[kTile][kTile + 1];
  const int x = threadIdx.x;
  const int y = threadIdx.y;
  const int64_t row = firstRow + y;
  const int64_t column = firstColumn + x;
  const int64_t live = liveRows(matmul, batch);
  const T* aRow =
      row < live ? firstOfA<T>(matmul, batch) + storedRow(matmul.pages, batch, row) * matmul.aRow : nullptr;
  const T* bFirst = static_cast<const T*>(matmul.b) + batch * matmul.bBatch;
  float sum = 0.0f;
  for (int64_t first = 0; first < matmul.k; first += kTile) {
    a[y][x] = aRow != nullptr && first + x < matmul.k ? toFloat(aRow[first + x]) : 0.0f;
    // Neighbouring threads read neighbouring elements, whichever way B lies.
    const int64_t p = first + (matmul.bTransposed ? x : y);
    const int64_t j = firstColumn + (matmul.bTransposed ? y : x);
    const int64_t at = matmul.bTransposed ? j * matmul.bRow + p : p * matmul.bRow + j;
    const float value = p < matmul.k && j < matmul.n ? toFloat(bFirst[at]) : 0.0f;
    (matmul.bTransposed ? b[x][y] : b[y][x]) = value;
    __syncthreads();
    for (int p = 0; p < kTile; ++p) sum = fmaf(a[y][p], b[p][x], sum);
    __syncthreads();
  }
  if (row >= matmul.m || column >= matmul.n) return;
  const T value = fromFloat<T>(row < live ? sum : 0.0f);
  static_cast<T*>(matmul.c)[batch * matmul.cBatch + row * matmul.cRow + column] = value;
  if (matmul.nonFinite != nullptr && !isfinite(toFloat(value))) *matmul.nonFinite = 1;
}

template <typename T>
__global__ void __launch_bounds__(kTile* kTile) matmulPlainKernel(Matmul matmul) {
  for (int64_t batch = blockIdx.z; batch < matmul.batch; batch += gridDim.z) {
    for (int64_t row = int64_t{blockIdx.y} * kTile; row < matmul.m; row += int64_t{gridDim.y} * kTile) {
      for (int64_t column = int64_t{blockIdx.x} * kTile; column < matmul.n;
           column += int64_t{gridDim.x} * kTile) {
        multiplyTile<T>(matmul, batch, row, column);
      }
    }
  }
}

}  // namespace

cudaError_t launchMatmulPlain(DType dtype, const Matmul& matmul, const LaunchTarget& target) {
  const dim3 grid(blocksFor(matmul.n, kTile), blocksOfAxis(matmul.m, kTile), blocksOfAxis(matmul.batch, 1));
  return dispatchFloat(dtype, [&](auto element) {
    matmulPlainKernel<decltype(element)><<<grid, dim3(kTile, kTile), 0, target.stream>>>(matmul);
    return cudaGetLastError();
  });
}

}  // namespace warpgraph
