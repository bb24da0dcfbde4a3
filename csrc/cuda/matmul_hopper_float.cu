// C[b] = A[b]·B[b] for many rows of float32 on Hopper: A (m, k), B (k, n) with n contiguous, C (m, n).
//
// wgmma takes TF32 operands with k contiguous only, and A from registers or from shared memory. So A, which
// has it, is split into its two TF32 numbers in registers, and B by a warpgroup of its own, which reads tiles
// of it down their columns and writes them to shared memory turned and split. Two more warpgroups multiply
// 64×128 of C each, and a producer warp has the copy engine bring tiles ahead: four roles that wait only for
// full or empty buffers. matmul_mma.cuh tells why float32 is split and how it is summed: here the products of
// 32 k are added by the tensor cores, and these sums by float32 additions.
#include "cuda/matmul_hopper.cuh"
#include "cuda/wgmma.cuh"

namespace warpgraph {
namespace {

using namespace matmul_hopper;

constexpr int kColumns = 128;
constexpr int kDepth = kSpan / sizeof(float);
constexpr int kStages = 4;     // as the copy engine brings them
constexpr int kConverted = 2;  // tiles of B, turned and split
constexpr int kConsumers = 2;
constexpr int kThreads = (2 + kConsumers) * kWarpgroup;
constexpr int kBytesOfA = kRows * kSpan;
constexpr int kBytesOfB = kColumns * kSpan;
constexpr int kStageBytes = kBytesOfA + kBytesOfB;
constexpr int kConvertedBytes = 2 * kBytesOfB;
constexpr size_t kSharedBytes = kStages * kStageBytes + kConverted * kConvertedBytes + kAlignment;

#if WARPGRAPH_HOPPER

constexpr int kRowsOfConsumer = kRows / kConsumers;
constexpr int kWarps = kWarpgroup / kWarpSize;
constexpr int kSteps = kDepth / 8;
constexpr int kStepBytes = kSpan / kSteps;

struct Barriers {
  uint64_t full[kStages], empty[kStages], converted[kConverted], used[kConverted];
};

struct Shared {
  char* stages;
  char* converted;
  Barriers* barriers;
};

// Once all lanes of the warp have come here.
__device__ void arriveAsWarp(uint64_t* barrier) {
  __syncwarp();
  if (threadIdx.x % kWarpSize == 0) barrierArrive(barrier);
}

// The two TF32 numbers, or the only one; see Fragment in matmul_mma_fragments.cuh.
template <bool kSplit>
__device__ uint32_t bigOf(uint32_t bits) {
  return kSplit ? (bits + 0x1000u) & 0xffffe000u : toTf32(__uint_as_float(bits));
}
__device__ uint32_t smallOf(uint32_t bits, uint32_t big) {
  return __float_as_uint(__uint_as_float(bits) - __uint_as_float(big));
}

// One warp.
__device__ void produce(const Matmul& matmul, const Tiles& tiles, const CUtensorMap* mapA,
                        const CUtensorMap* mapB, const Shared& shared) {
  const int lane = threadIdx.x % kWarpSize;
  const int boxesOfA = kRows / tiles.boxRows;
  Turn<kStages> turn;
  forEachTile(matmul, tiles, [&](const TileOfC& tile) {
    if (!tile.isLive()) return;
    const int row = rowOfBox(matmul, tiles, tile);
    const int entryA = entryOfA(matmul, tile);
    const int entryB = entryOf(tile, matmul.bBatch);
    for (int k = 0; k < matmul.k; k += kDepth) {
      char* a = shared.stages + turn.stage * kStageBytes;
      uint64_t* full = &shared.barriers->full[turn.stage];
      barrierWait(&shared.barriers->empty[turn.stage], turn.parity ^ 1);
      if (lane == 0) {
        barrierExpect(full, kStageBytes);
        copyTile(a + kBytesOfA, mapB, full, static_cast<int>(tile.column), k, entryB);
      }
      __syncwarp();
      if (lane < boxesOfA) copyTile(a + lane * tiles.boxRows * kSpan, mapA, full, k, row, entryA);
      turn.next();
    }
  });
}

// One warpgroup: B (32, 128) from lines along n to lines along k, in the swizzle, the big numbers and, behind
// them, the small ones. A thread turns one column.
template <bool kSplit>
__device__ void convert(const Matmul& matmul, const Tiles& tiles, const Shared& shared) {
  const int column = threadIdx.x % kWarpgroup;
  Turn<kStages> turn;
  Turn<kConverted> next;
  forEachTile(matmul, tiles, [&](const TileOfC& tile) {
    if (!tile.isLive()) return;
    for (int k = 0; k < matmul.k; k += kDepth) {
      const char* from = shared.stages + turn.stage * kStageBytes + kBytesOfA + column * sizeof(float);
      char* to = shared.converted + next.stage * kConvertedBytes + column * kSpan;
      barrierWait(&shared.barriers->full[turn.stage], turn.parity);
      barrierWait(&shared.barriers->used[next.stage], next.parity ^ 1);
#pragma unroll 4
      for (int piece = 0; piece < kSpan / 16; ++piece) {
        uint32_t bits[4], big[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          bits[i] = *reinterpret_cast<const uint32_t*>(from + (piece * 4 + i) * kColumns * sizeof(float));
          big[i] = bigOf<kSplit>(bits[i]);
        }
        char* at = to + (piece ^ column % 8) * 16;
        *reinterpret_cast<uint4*>(at) = make_uint4(big[0], big[1], big[2], big[3]);
        if constexpr (kSplit) {
          *reinterpret_cast<uint4*>(at + kBytesOfB) =
              make_uint4(smallOf(bits[0], big[0]), smallOf(bits[1], big[1]), smallOf(bits[2], big[2]),
                         smallOf(bits[3], big[3]));
        }
      }
      proxyFence();
      arriveAsWarp(&shared.barriers->converted[next.stage]);
      arriveAsWarp(&shared.barriers->empty[turn.stage]);
      turn.next();
      next.next();
    }
  });
}

// Writes a warpgroup's 64×128 sums, from `row` on.
__device__ void store(const Matmul& matmul, const TileOfC& tile, int64_t row, const float (&sums)[64]) {
  const int thread = threadIdx.x % kWarpgroup;
  const int lane = thread % kWarpSize;
  bool isFinite = true;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t at = row + thread / kWarpSize * 16 + lane / 4 + half * 8;
    if (at >= matmul.m) continue;
    float* c = static_cast<float*>(matmul.c) + tile.b * matmul.cBatch + at * matmul.cRow;
    const bool isLive = at < tile.live;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      const int64_t first = tile.column + j * 8 + lane % 4 * 2;
      const float x = isLive ? sums[j * 4 + half * 2] : 0.0f;
      const float y = isLive ? sums[j * 4 + half * 2 + 1] : 0.0f;
      if (first + 1 < matmul.n) {
        *reinterpret_cast<float2*>(c + first) = {x, y};
      } else if (first < matmul.n) {
        c[first] = x;
      }
      // Beyond the last column are products of zeros: finite where those of the row's other columns are.
      isFinite = isFinite && isfinite(x) && isfinite(y);
    }
  }
  if (!isFinite && matmul.nonFinite != nullptr) *matmul.nonFinite = 1;
}

// One warpgroup: rows 64·consumer and on of the tiles.
template <bool kSplit>
__device__ void consume(const Matmul& matmul, const Tiles& tiles, int consumer, const Shared& shared) {
  const int lane = threadIdx.x % kWarpSize;
  // The line of A that this lane gives the address of.
  const int line = consumer * kRowsOfConsumer + threadIdx.x % kWarpgroup / kWarpSize * 16 + lane % 16;
  Turn<kStages> turn;
  Turn<kConverted> next;
  forEachTile(matmul, tiles, [&](const TileOfC& tile) {
    float sums[64];
#pragma unroll
    for (float& sum : sums) sum = 0.0f;
    for (int k = 0; tile.isLive() && k < matmul.k; k += kDepth) {
      const char* a = shared.stages + turn.stage * kStageBytes + line * kSpan;
      uint32_t big[kSteps][4], small[kSteps][4];
      barrierWait(&shared.barriers->full[turn.stage], turn.parity);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        loadMatrices(big[step], a + ((step * 2 + lane / 16) ^ line % 8) * 16);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const uint32_t bits = big[step][i];
          big[step][i] = bigOf<kSplit>(bits);
          small[step][i] = smallOf(bits, big[step][i]);
          // Computed here, not between products, which may not be under way when their registers are written.
          asm volatile("" : "+r"(big[step][i]), "+r"(small[step][i]));
        }
      }
      arriveAsWarp(&shared.barriers->empty[turn.stage]);
      const char* b = shared.converted + next.stage * kConvertedBytes;
      barrierWait(&shared.barriers->converted[next.stage], next.parity);
      float products[64];
      wgmmaFence();
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const uint64_t bigB = swizzledMatrix(b + step * kStepBytes, 0, kAlignment);
        if constexpr (kSplit) {
          const uint64_t smallB = swizzledMatrix(b + kBytesOfB + step * kStepBytes, 0, kAlignment);
          wgmmaTf32(products, small[step], bigB, step > 0);
          wgmmaTf32(products, big[step], smallB, 1);
        }
        wgmmaTf32(products, big[step], bigB, kSplit || step > 0);
      }
      wgmmaCommit();
      wgmmaWait<0>();
      arriveAsWarp(&shared.barriers->used[next.stage]);
#pragma unroll
      for (int i = 0; i < 64; ++i) sums[i] += products[i];
      turn.next();
      next.next();
    }
    store(matmul, tile, tile.row + consumer * kRowsOfConsumer, sums);
  });
}

#endif  // WARPGRAPH_HOPPER

template <bool kSplit>
__global__ void __launch_bounds__(kThreads, 1)
    matmulHopperFloatKernel(const __grid_constant__ Matmul matmul, const __grid_constant__ Tiles tiles,
                            const __grid_constant__ CUtensorMap mapA,
                            const __grid_constant__ CUtensorMap mapB) {
#if WARPGRAPH_HOPPER
  // In this order: a kernel that comes early after this one may take all that was written before for done.
  waitForPrevious();
  allowNext();
  extern __shared__ char dynamic[];
  __shared__ Barriers barriers;
  char* stages = dynamic + (kAlignment - sharedAddress(dynamic) % kAlignment) % kAlignment;
  const Shared shared{stages, stages + kStages * kStageBytes, &barriers};
  if (threadIdx.x == 0) {
    prefetchMap(&mapA);
    prefetchMap(&mapB);
    for (int stage = 0; stage < kStages; ++stage) {
      barrierInit(&barriers.full[stage], 1);
      barrierInit(&barriers.empty[stage], (1 + kConsumers) * kWarps);
    }
    for (int stage = 0; stage < kConverted; ++stage) {
      barrierInit(&barriers.converted[stage], kWarps);
      barrierInit(&barriers.used[stage], kConsumers * kWarps);
    }
    barrierInitFence();
  }
  __syncthreads();
  const int warpgroup = threadIdx.x / kWarpgroup;
  if (warpgroup == 0) {
    giveRegisters<40>();
    if (threadIdx.x < kWarpSize) produce(matmul, tiles, &mapA, &mapB, shared);
  } else if (warpgroup == 1) {
    giveRegisters<72>();
    convert<kSplit>(matmul, tiles, shared);
  } else {
    takeRegisters<200>();
    consume<kSplit>(matmul, tiles, warpgroup - 2, shared);
  }
#endif
}

}  // namespace

bool matmulHopperFloatTakes(const Matmul& matmul, int computeCapability) {
  return computeCapability == 90 && matmul.large && !matmul.bTransposed && canCopyAll<float>(matmul);
}

cudaError_t launchMatmulHopperFloat(const Matmul& matmul, const LaunchTarget& target) {
  const Tiles tiles = dealTiles(matmul, kColumns);
  CUtensorMap a, b;
  cudaError_t error = encodeA(&a, DType::kFloat32, matmul, tiles);
  if (error != cudaSuccess) return error;
  error = encodeMatrices(&b, DType::kFloat32, matmul.b, matmul.n, matmul.k, matmul.batch, matmul.bRow,
                         matmul.bBatch, kColumns, kDepth, CU_TENSOR_MAP_SWIZZLE_NONE);
  if (error != cudaSuccess) return error;
  const auto blocks = static_cast<unsigned>(std::min(tiles.count, int64_t{target.limits.multiprocessors}));
  const auto kernel = matmul.tf32 ? matmulHopperFloatKernel<false> : matmulHopperFloatKernel<true>;
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int{kSharedBytes});
  if (error != cudaSuccess) return error;
  return launchKernelWithShared(kernel, blocks, kThreads, kSharedBytes, target, matmul, tiles, a, b);
}

}  // namespace warpgraph
