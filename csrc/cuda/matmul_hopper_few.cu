// C[b] = A[b]·B[b] for few rows of half types on Hopper: A (m, k), B (k, n), C (m, n).
//
// Memory is the limit, and such a product is over before it could hide much: what counts is that all it reads
// is on its way at once. A block computes 64 or 128 rows of C, of one or several tiles of 128 columns. A warp
// has the copy engine bring all of their k, as much as fits into shared memory: A once for all tiles, and B
// while the kernel before is still ending, where it may. A warpgroup multiplies 64 rows with wgmma as stages
// of 64 of k arrive, and the copy engine writes the result of a tile while the next one is multiplied. The
// parts are those of matmul_hopper.cu; without other tiles to load ahead for, no warp is set apart for
// loading.
//
// All blocks add along k in the same order with the same instruction, so their choice may depend on m and
// batch.
#include "cuda/matmul_hopper_half.cuh"

namespace warpgraph {
namespace {

using namespace matmul_hopper;

constexpr int kColumns = 128;
constexpr int kBytesOfB = kColumns * kSpan;
constexpr int kMostStages = 12;
constexpr int kMostShared = 226 * 1024 - kAlignment;  // and one for the barriers

// kWarpgroups: of 64 rows each.
template <int kWarpgroups>
struct FewTile {
  static constexpr int kConsumers = kWarpgroups;
  static constexpr int kTileRows = kConsumers * kRowsOfConsumer;
  static constexpr int kBytesOfA = kTileRows * kSpan;
  static constexpr int kThreads = kConsumers * kWarpgroup;
  static constexpr int kBytesOfC = kRowsOfConsumer * kColumns * kHalf;  // of one consumer
  static constexpr int kMostRing = std::min(kMostShared / (kBytesOfA + kBytesOfB), kMostStages);
  static_assert(kConsumers * kBytesOfC <= kBytesOfA + kBytesOfB, "C takes the place of a stage");
};

// Shared memory holds stages of A, then stages of B, then C. A block of one tile has as many of B as of A,
// uses them in turn, and C takes their place in the end. With more tiles A stays for all of them, and each
// stage is used once.
struct FewPlan {
  int tiles, stagesOfA, stagesOfB, offsetOfC, bytes;
};

#if WARPGRAPH_HOPPER

struct Barriers {
  uint64_t full[kMostStages], empty[kMostStages];
};

// One warp: brings the tiles' stages of A and B, one after the other.
template <bool kTransposed, typename Tile>
class Loader {
 public:
  __device__ Loader(const Matmul& matmul, const Tiles& tiles, const FewPlan& plan, const TileOfC& tile,
                    const CUtensorMap* mapA, const CUtensorMap* mapB, char* stages, uint64_t* full)
      : tiles_(tiles),
        mapA_(mapA),
        mapB_(mapB),
        a_(stages),
        b_(stages + plan.stagesOfA * Tile::kBytesOfA),
        full_(full),
        depth_(static_cast<int>(matmul.k)),
        entryA_(entryOfA(matmul, tile)),
        entryB_(entryOf(tile, matmul.bBatch)),
        column_(static_cast<int>(tile.column)) {}

  // The next of B, before the stage of A.
  __device__ void bringB(int stage, bool withA) {
    uint64_t* const full = &full_[stage];
    if (threadIdx.x == 0) barrierExpect(full, kBytesOfB + (withA ? Tile::kBytesOfA : 0));
    __syncwarp();
    copyB<kTransposed, kColumns>(b_ + stage * kBytesOfB, mapB_, full, k_, column_, entryB_);
    k_ += kDepth;
    if (k_ < depth_) return;
    k_ = 0;
    column_ += kColumns;
  }

  // row: where this lane's box lies.
  __device__ void bringA(int stage, int k, int row) const {
    const int line = threadIdx.x * tiles_.boxRows;
    char* const a = a_ + stage * Tile::kBytesOfA + line * kSpan;
    if (line < Tile::kTileRows) copyTile(a, mapA_, &full_[stage], k, row, entryA_);
  }

 private:
  const Tiles& tiles_;
  const CUtensorMap *const mapA_, *const mapB_;
  char *const a_, *const b_;
  uint64_t* const full_;
  const int depth_, entryA_, entryB_;
  int column_, k_ = 0;  // of the next stage
};

#endif  // WARPGRAPH_HOPPER

template <typename T, bool kTransposed, typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, 2)
    matmulHopperFewKernel(const __grid_constant__ Matmul matmul, const __grid_constant__ Tiles tiles,
                          const __grid_constant__ FewPlan plan, const __grid_constant__ CUtensorMap mapA,
                          const __grid_constant__ CUtensorMap mapB,
                          const __grid_constant__ CUtensorMap mapC) {
#if WARPGRAPH_HOPPER
  extern __shared__ char shared[];
  __shared__ Barriers barriers;
  char* const stages = shared + (kAlignment - sharedAddress(shared) % kAlignment) % kAlignment;
  const int warp = threadIdx.x / kWarpSize, consumer = threadIdx.x / kWarpgroup;
  if (threadIdx.x == 0) {
    prefetchMap(&mapA);
    prefetchMap(&mapB);
    prefetchMap(&mapC);
    for (int stage = 0; stage < plan.stagesOfB; ++stage) {
      barrierInit(&barriers.full[stage], 1);
      barrierInit(&barriers.empty[stage], Tile::kThreads / kWarpSize);
    }
    barrierInitFence();
  }
  __syncthreads();

  TileOfC tile = placeOfTile(tiles, blockIdx.x);  // its divisions before the wait
  // In this order: a kernel that comes early after this one may take all that was written before for done.
  // Else the block waits when its first stages of B are on their way.
  if (!matmul.bIsThere) {
    waitForPrevious();
    allowNext();
  }
  tile.live = liveRows(matmul, tile.b);
  const int64_t end = min(tile.column + tiles.tileColumns, matmul.n);
  const auto depth = static_cast<int>(matmul.k);
  const bool loads = warp == 0 && tile.isLive();
  // The last block along n may have fewer tiles.
  const int numTiles = static_cast<int>(end - tile.column + kColumns - 1) / kColumns;
  const int ahead = min(plan.stagesOfB, numTiles * ((depth + kDepth - 1) / kDepth));
  Loader<kTransposed, Tile> loader(matmul, tiles, plan, tile, &mapA, &mapB, stages, barriers.full);
  if (matmul.bIsThere) {
    for (int stage = 0; loads && stage < ahead; ++stage) loader.bringB(stage, stage < plan.stagesOfA);
    waitForPrevious();
    allowNext();
  }
  const int row = loads ? rowOfBox(matmul, tiles, tile) : 0;
  for (int stage = 0; loads && stage < ahead; ++stage) {
    if (!matmul.bIsThere) loader.bringB(stage, stage < plan.stagesOfA);
    if (stage < plan.stagesOfA) loader.bringA(stage, stage * kDepth, row);
  }

  char* const c = stages + plan.offsetOfC + consumer * Tile::kBytesOfC;
  const int64_t firstRow = tile.row + consumer * kRowsOfConsumer;
  int stage = 0, parity = 0;
  for (; tile.column < end; tile.column += kColumns) {
    float sums[kColumns / 2];
    int stageOfA = 0;
    for (int k = 0; tile.isLive() && k < depth; k += kDepth) {
      const char* const a = stages + stageOfA * Tile::kBytesOfA + consumer * kRowsOfConsumer * kSpan;
      const char* const b = stages + plan.stagesOfA * Tile::kBytesOfA + stage * kBytesOfB;
      barrierWait(&barriers.full[stage], parity);
      multiplyStage<T, kTransposed>(sums, a, b, k == 0);
      // While this product runs the one before is done with its stage.
      const int later = k - kDepth + plan.stagesOfB * kDepth;
      if (k > 0 && later < depth) {
        wgmmaWait<1>();
        const int free = stage > 0 ? stage - 1 : plan.stagesOfB - 1;
        if (threadIdx.x % kWarpSize == 0) barrierArrive(&barriers.empty[free]);
        if (warp == 0) {
          barrierWait(&barriers.empty[free], stage > 0 ? parity : parity ^ 1);
          loader.bringB(free, true);
          loader.bringA(free, later, row);
        }
      }
      if (++stageOfA == plan.stagesOfA) stageOfA = 0;
      if (++stage == plan.stagesOfB) {
        stage = 0;
        parity ^= 1;
      }
    }
    wgmmaWait<0>();
    // Nobody reads the stages any more, and the copy engine has read the result before.
    if (threadIdx.x % kWarpgroup == 0) storeWaitRead();
    __syncthreads();
    const bool isFinite = roundSums<T>(sums, liveFrom(tile, firstRow), c);
    if (!isFinite && matmul.nonFinite != nullptr) *matmul.nonFinite = 1;
    proxyFence();
    namedBarrierSync(1 + consumer, kWarpgroup);
    if (threadIdx.x % kWarpgroup == 0) storeC<kColumns>(matmul, tile, firstRow, c, &mapC);
  }
  if (threadIdx.x % kWarpgroup == 0) storeWaitRead();
#endif
}

// A block takes as many tiles as can be on their way at once, while there are blocks for three quarters of
// the multiprocessors.
template <typename Tile>
FewPlan planFor(const Matmul& matmul, const LaunchTarget& target) {
  const Tiles single = dealTiles(matmul, kColumns, Tile::kTileRows);
  const int64_t steps = (matmul.k + kDepth - 1) / kDepth;
  constexpr int kAllOfC = Tile::kConsumers * Tile::kBytesOfC;
  const int64_t room = kMostShared - kAllOfC - steps * Tile::kBytesOfA;
  int64_t most = std::min({room / (steps * kBytesOfB), kMostStages / steps, single.columns});
  const auto isBusy = [&](int64_t tiles) {
    const int64_t blocks = single.count / single.columns * ((single.columns + tiles - 1) / tiles);
    return blocks >= target.limits.multiprocessors * 3 / 4;
  };
  while (most > 1 && !isBusy(most)) --most;
  FewPlan plan{};
  plan.tiles = static_cast<int>(std::max(most, int64_t{1}));
  plan.stagesOfA = static_cast<int>(std::min(steps, int64_t{Tile::kMostRing}));
  plan.stagesOfB = plan.tiles * plan.stagesOfA;
  plan.bytes = plan.stagesOfA * Tile::kBytesOfA + plan.stagesOfB * kBytesOfB;
  if (plan.tiles > 1) {
    plan.offsetOfC = plan.bytes;
    plan.bytes += kAllOfC;
  }
  return plan;
}

template <typename T, bool kTransposed, typename Tile>
cudaError_t launch(DType dtype, const Matmul& matmul, const LaunchTarget& target) {
  const FewPlan plan = planFor<Tile>(matmul, target);
  const Tiles tiles = dealTiles(matmul, plan.tiles * kColumns, Tile::kTileRows);
  if (tiles.count > INT32_MAX) return cudaErrorInvalidValue;  // more than a grid has
  Maps maps;
  cudaError_t error = encodeMaps(maps, dtype, matmul, tiles, kColumns);
  if (error != cudaSuccess) return error;

  const auto kernel = matmulHopperFewKernel<T, kTransposed, Tile>;
  // Always the same, since all threads of the process share the attribute.
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShared + kAlignment);
  if (error != cudaSuccess) return error;
  return launchKernelWithShared(kernel, static_cast<unsigned>(tiles.count), Tile::kThreads,
                                static_cast<size_t>(plan.bytes + kAlignment), target, matmul, tiles, plan,
                                maps.a, maps.b, maps.c);
}

// 128 rows where such tiles keep three quarters of the multiprocessors busy: B is read less often.
template <typename T, bool kTransposed>
cudaError_t launchTransposed(DType dtype, const Matmul& matmul, const LaunchTarget& target) {
  const int64_t tiles = dealTiles(matmul, kColumns, 2 * kRowsOfConsumer).count;
  const bool isTall = matmul.m > kRowsOfConsumer && tiles >= target.limits.multiprocessors * 3 / 4;
  return isTall ? launch<T, kTransposed, FewTile<2>>(dtype, matmul, target)
                : launch<T, kTransposed, FewTile<1>>(dtype, matmul, target);
}

}  // namespace

bool matmulHopperFewTakes(DType dtype, const Matmul& matmul, int computeCapability) {
  return computeCapability == 90 && !matmul.large && bytesOf(dtype) == kHalf && canCopyAll<__half>(matmul);
}

cudaError_t launchMatmulHopperFew(DType dtype, const Matmul& matmul, const LaunchTarget& target) {
  if (dtype == DType::kFloat16) {
    return matmul.bTransposed ? launchTransposed<__half, true>(dtype, matmul, target)
                              : launchTransposed<__half, false>(dtype, matmul, target);
  }
  return matmul.bTransposed ? launchTransposed<__nv_bfloat16, true>(dtype, matmul, target)
                            : launchTransposed<__nv_bfloat16, false>(dtype, matmul, target);
}

}  // namespace warpgraph
