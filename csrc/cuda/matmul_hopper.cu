// C[b] = A[b]·B[b] for many rows of half types on Hopper: A (m, k), B (k, n), C (m, n).
//
// One block per multiprocessor takes tiles of 128×256 of C in turn. A producer warp has the copy engine bring
// (128, 64) of A and (64, 256) of B ahead into a ring of buffers; two warpgroups multiply 64 rows each
// straight from there with wgmma, and hand their results to the copy engine, which writes them while the next
// tile is computed. Nobody waits for anything but full or empty buffers: the warp-specialised persistent
// kernel of CUTLASS 3 (github.com/NVIDIA/cutlass). B is read as it lies, with k or with n contiguous.
#include "cuda/matmul_hopper_half.cuh"

namespace warpgraph {
namespace {

using namespace matmul_hopper;

constexpr int kColumns = 256;
constexpr int kStages = 3;
constexpr int kConsumers = 2;  // warpgroups
constexpr int kThreads = (1 + kConsumers) * kWarpgroup;
static_assert(kRows == kConsumers * kRowsOfConsumer);

constexpr int kBytesOfA = kRows * kDepth * kHalf;
constexpr int kBytesOfB = kColumns * kDepth * kHalf;
constexpr int kStageBytes = kBytesOfA + kBytesOfB;
constexpr int kBytesOfC = kRowsOfConsumer * kColumns * kHalf;  // of one consumer
constexpr size_t kSharedBytes = kStages * kStageBytes + kConsumers * kBytesOfC + kAlignment;

#if WARPGRAPH_HOPPER

struct Barriers {
  uint64_t full[kStages], empty[kStages];
};

// One warp.
template <bool kTransposed>
__device__ void produce(const Matmul& matmul, const Tiles& tiles, const CUtensorMap* mapA,
                        const CUtensorMap* mapB, char* stages, Barriers* barriers) {
  const int lane = threadIdx.x % kWarpSize;
  const int boxesOfA = kRows / tiles.boxRows;
  Turn<kStages> turn;
  forEachTile(matmul, tiles, [&](const TileOfC& tile) {
    if (!tile.isLive()) return;
    const int row = rowOfBox(matmul, tiles, tile);
    const int entryA = entryOfA(matmul, tile);
    const int entryB = entryOf(tile, matmul.bBatch);
    const int column = static_cast<int>(tile.column);
    for (int k = 0; k < matmul.k; k += kDepth) {
      char* a = stages + turn.stage * kStageBytes;
      char* b = a + kBytesOfA;
      uint64_t* full = &barriers->full[turn.stage];
      barrierWait(&barriers->empty[turn.stage], turn.parity ^ 1);
      if (lane == 0) barrierExpect(full, kStageBytes);
      __syncwarp();
      if (lane < boxesOfA) copyTile(a + lane * tiles.boxRows * kSpan, mapA, full, k, row, entryA);
      copyB<kTransposed, kColumns>(b, mapB, full, k, column, entryB);
      turn.next();
    }
  });
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
  forEachTile(matmul, tiles, [&](const TileOfC& tile) {
    float sums[128];
    if (tile.isLive()) {
      int previous = -1;
      for (int k = 0; k < matmul.k; k += kDepth) {
        const char* a = stages + turn.stage * kStageBytes + consumer * kRowsOfConsumer * kDepth * kHalf;
        const char* b = stages + turn.stage * kStageBytes + kBytesOfA;
        barrierWait(&barriers->full[turn.stage], turn.parity);
        multiplyStage<T, kTransposed>(sums, a, b, k == 0);
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
    const bool isFinite = roundSums<T>(sums, liveFrom(tile, row), c);
    if (!isFinite && matmul.nonFinite != nullptr) *matmul.nonFinite = 1;
    proxyFence();
    namedBarrierSync(namedBarrier, kWarpgroup);
    if (isFirst) storeC<kColumns>(matmul, tile, row, c, mapC);
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
  Maps maps;
  const cudaError_t error = encodeMaps(maps, dtype, matmul, tiles, kColumns);
  if (error != cudaSuccess) return error;

  const auto blocks = static_cast<unsigned>(std::min(tiles.count, int64_t{target.limits.multiprocessors}));
  const auto launch = [&](auto kernel) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int{kSharedBytes});
    if (error != cudaSuccess) return error;
    return launchKernelWithShared(kernel, blocks, kThreads, kSharedBytes, target, matmul, tiles, maps.a,
                                  maps.b, maps.c);
  };
  if (dtype == DType::kFloat16) {
    return matmul.bTransposed ? launch(matmulHopperKernel<__half, true>)
                              : launch(matmulHopperKernel<__half, false>);
  }
  return matmul.bTransposed ? launch(matmulHopperKernel<__nv_bfloat16, true>)
                            : launch(matmulHopperKernel<__nv_bfloat16, false>);
}

}  // namespace warpgraph
