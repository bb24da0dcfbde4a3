// C[b] = A[b]·B[b] by warp-level matrix products (mma.sync), from compute capability 8.0 on: A (m, k), B (k,
// n), C (m, n).
//
// A block computes a tile of C. Tiles of A and B of 128 bytes along k go through a ring of buffers in shared
// memory, filled ahead by cp.async, so that loads are in flight while the tensor cores work: the multistage
// pipeline of CUTLASS (github.com/NVIDIA/cutlass, "Efficient GEMM in CUDA"). 16-byte pieces are permuted
// within their rows so that neither the copies nor ldmatrix meet bank conflicts. A small product has all of
// its k in flight at once.
//
// float32 is split into two TF32 numbers, and a product is big·big + big·small + small·big: what is left out
// is below 2^-21 of it. The tensor cores truncate where they add, so that long sums in them drift; they add
// the products of 8 k only, and float32 additions, rounded to nearest, do the rest (Ootomo and Yokota,
// arXiv:2203.03341).
//
// All tiles add along k in the same order with the same instructions, so the choice of the tile may depend on
// m and batch.
#pragma once

#include "cuda/matmul_mma_block.cuh"

namespace warpgraph {
namespace matmul_mma {

template <typename T, bool kTransposed, bool kSplit, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    matmulKernel(const Matmul matmul, const Vectors vectors) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(128) char shared[];
  // In this order: a kernel that comes early after this one may take all that was written before for done.
  // Else the block waits when its first tiles of B are on their way.
  if (!matmul.bIsThere) {
    waitForPrevious();
    allowNext();
  }
  Block<T, kTransposed, kSplit, Shape> block(matmul, vectors, shared);
  for (int64_t b = blockIdx.z; b < matmul.batch; b += gridDim.z) {
    for (int64_t y = blockIdx.y; y * Shape::kRows < matmul.m; y += gridDim.y) {
      for (int64_t x = blockIdx.x; x * Shape::kColumns < matmul.n; x += gridDim.x) {
        block.compute(b, y * Shape::kRows, x * Shape::kColumns);
      }
    }
  }
#endif
}

template <typename T, bool kTransposed, bool kSplit, typename Shape>
cudaError_t launchShape(const Matmul& matmul, const Vectors& vectors, const LaunchTarget& target) {
  const auto kernel = matmulKernel<T, kTransposed, kSplit, Shape>;
  const size_t bytes = Shape::template sharedBytes<T>(matmul.k);
  // Always the same, since all threads of the process share the attribute.
  const auto most = static_cast<int>(Shape::template sharedBytes<T>(INT32_MAX));
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  if (error != cudaSuccess) return error;
  const dim3 grid(blocksFor(matmul.n, Shape::kColumns), blocksOfAxis(matmul.m, Shape::kRows),
                  blocksOfAxis(matmul.batch, 1));
  return launchKernelWithShared(kernel, grid, Shape::kThreads, bytes, target, matmul, vectors);
}

// The largest tile of which there are enough to keep every multiprocessor busy. 96 KB of shared memory are
// what every card has.
template <typename T, bool kTransposed, bool kSplit>
cudaError_t launchTransposed(const Matmul& matmul, const Vectors& vectors, const LaunchTarget& target) {
  const auto tiles = [&](int64_t rows, int64_t columns) {
    return (matmul.m + rows - 1) / rows * ((matmul.n + columns - 1) / columns) * matmul.batch;
  };
  const auto isBusy = [&](int64_t rows, int64_t columns) {
    return tiles(rows, columns) >= target.limits.multiprocessors * 3 / 4;
  };
  if (matmul.m > 64 && isBusy(128, 128)) {
    using Tall =
        std::conditional_t<kSplit, Tile<128, 64, 4, 2, 3, false, 2>, Tile<128, 128, 2, 4, 3, false, 2>>;
    return launchShape<T, kTransposed, kSplit, Tall>(matmul, vectors, target);
  }
  if (matmul.m > 32 && isBusy(64, 64)) {
    return launchShape<T, kTransposed, kSplit, Tile<64, 64, 2, 2, 6, true, 2>>(matmul, vectors, target);
  }
  // With a short k and many tiles memory is the limit: wide tiles read A less often.
  if (matmul.k <= 256 && matmul.n >= 128 && isBusy(32, 128)) {
    return launchShape<T, kTransposed, kSplit, Tile<32, 128, 1, 4, 4, false, 4>>(matmul, vectors, target);
  }
  return launchShape<T, kTransposed, kSplit, Tile<32, 64, 2, 2, 8, true, 2>>(matmul, vectors, target);
}

// Sizes are or-ed together: they are powers of two in the lower bits.
template <typename T>
bool isAligned(const void* pointer, int64_t sizes) {
  return reinterpret_cast<uintptr_t>(pointer) % kPieceBytes == 0 && sizes * sizeof(T) % kPieceBytes == 0;
}

template <typename T, bool kSplit>
cudaError_t launch(const Matmul& matmul, const LaunchTarget& target) {
  const bool isGathered = matmul.pages.blockTable != nullptr;
  const Vectors vectors{
      isAligned<T>(matmul.a, matmul.aRow | (isGathered ? 0 : matmul.aBatch) | matmul.k),
      isAligned<T>(matmul.b, matmul.bRow | matmul.bBatch | (matmul.bTransposed ? matmul.k : matmul.n)),
      isAligned<T>(matmul.c, matmul.cRow | matmul.cBatch | matmul.n),
  };
  return matmul.bTransposed ? launchTransposed<T, true, kSplit>(matmul, vectors, target)
                            : launchTransposed<T, false, kSplit>(matmul, vectors, target);
}

}  // namespace matmul_mma
}  // namespace warpgraph
