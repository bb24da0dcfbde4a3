// C[b] = A[b]·B[b] for many rows of half types on Hopper: A (m, k), B (k, n), C (m, n).
//
// One block per multiprocessor takes tiles of 128×256 of C in turn. A producer warp has the copy engine bring
// (128, 64) of A and (64, 256) of B ahead into a ring of buffers; two warpgroups multiply 64 rows each
// straight from there with wgmma, and hand their results to the copy engine, which writes them while the next
// tile is computed. Nobody waits for anything but full or empty buffers: the warp-specialised persistent
// kernel of CUTLASS 3 (github.com/NVIDIA/cutlass). B is read as it lies, with k or with n contiguous.
#include "cuda/matmul_hopper.cuh"
#include "cuda/vector.cuh"
#include "cuda/wgmma.cuh"

namespace warpgraph {
namespace {

using namespace matmul_hopper;

constexpr int kColumns = 256;
constexpr int kDepth = 64;  // 128 bytes, the span of the swizzle
constexpr int kStages = 3;
constexpr int kConsumers = 2;  // warpgroups
constexpr int kThreads = (1 + kConsumers) * kWarpgroup;
constexpr int kRowsOfConsumer = kRows / kConsumers;

constexpr int kHalf = 2;  // bytes of an element
constexpr int kBox = 64;  // elements of 128 bytes
constexpr int kBytesOfA = kRows * kDepth * kHalf;
constexpr int kBytesOfB = kColumns * kDepth * kHalf;
constexpr int kStageBytes = kBytesOfA + kBytesOfB;
constexpr int kBytesOfC = kRowsOfConsumer * kColumns * kHalf;  // of one consumer
constexpr size_t kSharedBytes = kStages * kStageBytes + kConsumers * kBytesOfC + kAlignment;

#if WARPGRAPH_HOPPER

constexpr int kBoxBytes = kBox * kHalf * kBox;  // of a box of B with n contiguous, and of C

struct Barriers {
  uint64_t full[kStages], empty[kStages];
};

// One warp.
template <bool kTransposed>
__device__ void produce(const Matmul& matmul, const Tiles& tiles, const CUtensorMap* mapA,
                        const CUtensorMap* mapB, char* stages, Barriers* barriers) {
  const int lane = threadIdx.x % kWarpSize;
  const int boxesOfA = kRows / tiles.boxRows;
  constexpr int kBoxesOfB = kTransposed ? 1 : kColumns / kBox;
  Turn<kStages> turn;
  forEachTile<kColumns>(matmul, tiles, [&](const TileOfC& tile) {
    if (!tile.isLive()) return;
    const int row = rowOfBox(matmul, tiles, tile);
    const int entryA = entryOfA(matmul, tile);
    const int entryB = entryOf(tile, matmul.bBatch);
    const int column = static_cast<int>(tile.column) + lane * kBox;
    for (int k = 0; k < matmul.k; k += kDepth) {
      char* a = stages + turn.stage * kStageBytes;
      char* b = a + kBytesOfA;
      uint64_t* full = &barriers->full[turn.stage];
      barrierWait(&barriers->empty[turn.stage], turn.parity ^ 1);
      if (lane == 0) barrierExpect(full, kStageBytes);
      __syncwarp();
      if (lane < boxesOfA) copyTile(a + lane * tiles.boxRows * kSpan, mapA, full, k, row, entryA);
      if (lane < kBoxesOfB) {
        if constexpr (kTransposed) {
          copyTile(b, mapB, full, k, column, entryB);
        } else {
          copyTile(b + lane * kBoxBytes, mapB, full, column, k, entryB);
        }
      }
      turn.next();
    }
  });
}

// Whether a float32 stays finite when it is rounded to the type.
template <typename T>
__device__ bool isFiniteAs(float value) {
  const float limit = std::is_same_v<T, __half> ? 65520.0f : __uint_as_float(0x7f7f8000);
  return fabsf(value) < limit;
}

// Rounds a warpgroup's 64×256 sums, zeros from row `live` on, into shared memory in swizzled boxes of 64×64,
// and says whether all are finite.
template <typename T>
__device__ bool roundSums(const float (&sums)[128], int live, char* c) {
  const int thread = threadIdx.x % kWarpgroup;
  const int lane = thread % kWarpSize;
  const int firstRow = thread / kWarpSize * 16;
  const bool isLive[2] = {firstRow + lane / 4 < live, firstRow + lane / 4 + 8 < live};
  // Each lane's address in storeMatrices: a row of one of 2×2 matrices of 8×8.
  const int row = firstRow + lane % 16;
  bool isFinite = true;
#pragma unroll
  for (int pair = 0; pair < kColumns / 16; ++pair) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = isLive[i % 2] ? sums[pair * 8 + i * 2] : 0.0f;
      const float y = isLive[i % 2] ? sums[pair * 8 + i * 2 + 1] : 0.0f;
      isFinite = isFinite && isFiniteAs<T>(x) && isFiniteAs<T>(y);
      words[i] = detail::narrowPair({x, y}, T{});
    }
    const int piece = pair * 2 + lane / 16;
    storeMatrices(c + piece / 8 * kBoxBytes + row * 128 + (piece % 8 ^ row % 8) * 16, words);
  }
  return isFinite;
}

// One warpgroup: rows 64·consumer and on of the tiles.
template <typename T, bool kTransposed>
__device__ void consume(const Matmul& matmul, const Tiles& tiles, int consumer, const CUtensorMap* mapC,
                        const char* stages, char* c, Barriers* barriers) {
  const bool isFirst = threadIdx.x % kWarpgroup == 0;
  const int namedBarrier = 1 + consumer;  // 0 is that of the block
  const auto giveBack = [&](int stage) {
    if (threadIdx.x % kWarpSize == 0) barrierArrive(&barriers->empty[stage]);
  };
  Turn<kStages> turn;
  forEachTile<kColumns>(matmul, tiles, [&](const TileOfC& tile) {
    float sums[128];
    if (tile.isLive()) {
      int previous = -1;
      for (int k = 0; k < matmul.k; k += kDepth) {
        const char* a = stages + turn.stage * kStageBytes + consumer * kRowsOfConsumer * kDepth * kHalf;
        const char* b = stages + turn.stage * kStageBytes + kBytesOfA;
        barrierWait(&barriers->full[turn.stage], turn.parity);
        wgmmaFence();
#pragma unroll
        for (int step = 0; step < kDepth / 16; ++step) {
          const uint64_t matrixA = swizzledMatrix(a + step * 16 * kHalf, 0, kAlignment);
          const uint64_t matrixB = kTransposed
                                       ? swizzledMatrix(b + step * 16 * kHalf, 0, kAlignment)
                                       : swizzledMatrix(b + step * 16 * kBox * kHalf, kBoxBytes, kAlignment);
          wgmma<T, kTransposed ? 0 : 1>(sums, matrixA, matrixB, k > 0 || step > 0);
        }
        wgmmaCommit();
        // While this product runs the one before is done with its buffer.
        wgmmaWait<1>();
        if (previous >= 0) giveBack(previous);
        previous = turn.stage;
        turn.next();
      }
      wgmmaWait<0>();
      giveBack(previous);
    }
    // The copy engine must have read the result before.
    if (isFirst) storeWaitRead();
    namedBarrierSync(namedBarrier, kWarpgroup);
    const int64_t row = tile.row + consumer * kRowsOfConsumer;
    const auto liveHere = min(max(tile.live - row, int64_t{0}), int64_t{kRowsOfConsumer});
    const bool isFinite = roundSums<T>(sums, static_cast<int>(liveHere), c);
    if (!isFinite && matmul.nonFinite != nullptr) *matmul.nonFinite = 1;
    proxyFence();
    namedBarrierSync(namedBarrier, kWarpgroup);
    if (isFirst && row < matmul.m) {
      for (int box = 0; box < kColumns / kBox && tile.column + box * kBox < matmul.n; ++box) {
        storeTile(mapC, c + box * kBoxBytes, static_cast<int>(tile.column) + box * kBox,
                  static_cast<int>(row), static_cast<int>(tile.b));
      }
      storeCommit();
    }
  });
  if (isFirst) storeWaitRead();
}

#endif  // WARPGRAPH_HOPPER

template <typename T, bool kTransposed>
__global__ void __launch_bounds__(kThreads, 1)
    matmulHopperKernel(const __grid_constant__ Matmul matmul, const __grid_constant__ Tiles tiles,
                       const __grid_constant__ CUtensorMap mapA, const __grid_constant__ CUtensorMap mapB,
                       const __grid_constant__ CUtensorMap mapC) {
#if WARPGRAPH_HOPPER
  // In this order: a kernel that comes early after this one may take all that was written before for done.
  waitForPrevious();
  allowNext();
  extern __shared__ char shared[];
  __shared__ Barriers barriers;
  char* stages = shared + (kAlignment - sharedAddress(shared) % kAlignment) % kAlignment;
  if (threadIdx.x == 0) {
    prefetchMap(&mapA);
    prefetchMap(&mapB);
    prefetchMap(&mapC);
    for (int stage = 0; stage < kStages; ++stage) {
      barrierInit(&barriers.full[stage], 1);
      barrierInit(&barriers.empty[stage], kConsumers * kWarpgroup / kWarpSize);
    }
    barrierInitFence();
  }
  __syncthreads();
  const int warpgroup = threadIdx.x / kWarpgroup;
  if (warpgroup == 0) {
    giveRegisters<56>();
    if (threadIdx.x < kWarpSize) {
      produce<kTransposed>(matmul, tiles, &mapA, &mapB, stages, &barriers);
    }
  } else {
    takeRegisters<224>();
    const int consumer = warpgroup - 1;
    consume<T, kTransposed>(matmul, tiles, consumer, &mapC, stages,
                            stages + kStages * kStageBytes + consumer * kBytesOfC, &barriers);
  }
#endif
}

}  // namespace

bool matmulHopperTakes(DType dtype, const Matmul& matmul, int computeCapability) {
  return computeCapability == 90 && matmul.large && bytesOf(dtype) == kHalf && canCopyAll<__half>(matmul);
}

cudaError_t launchMatmulHopper(DType dtype, const Matmul& matmul, const LaunchTarget& target) {
  const Tiles tiles = dealTiles(matmul, kColumns);
  CUtensorMap a, b, c;
  cudaError_t error = encodeA(&a, dtype, matmul, tiles);
  if (error != cudaSuccess) return error;
  error = matmul.bTransposed ? encodeMatrices(&b, dtype, matmul.b, matmul.k, matmul.n, matmul.batch,
                                              matmul.bRow, matmul.bBatch, kDepth, kColumns)
                             : encodeMatrices(&b, dtype, matmul.b, matmul.n, matmul.k, matmul.batch,
                                              matmul.bRow, matmul.bBatch, kBox, kDepth);
  if (error != cudaSuccess) return error;
  error = encodeMatrices(&c, dtype, matmul.c, matmul.n, matmul.m, matmul.batch, matmul.cRow, matmul.cBatch,
                         kBox, kRowsOfConsumer);
  if (error != cudaSuccess) return error;

  const auto blocks = static_cast<unsigned>(std::min(tiles.count, int64_t{target.limits.multiprocessors}));
  const auto launch = [&](auto kernel) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int{kSharedBytes});
    if (error != cudaSuccess) return error;
    return launchKernelWithShared(kernel, blocks, kThreads, kSharedBytes, target, matmul, tiles, a, b, c);
  };
  if (dtype == DType::kFloat16) {
    return matmul.bTransposed ? launch(matmulHopperKernel<__half, true>)
                              : launch(matmulHopperKernel<__half, false>);
  }
  return matmul.bTransposed ? launch(matmulHopperKernel<__nv_bfloat16, true>)
                            : launch(matmulHopperKernel<__nv_bfloat16, false>);
}

}  // namespace warpgraph
