// Chooses how mla_absorb_kernel.cuh cuts its work, and launches it.
#include "cuda/mla_absorb.h"

#include "cuda/mla_absorb_kernel.cuh"
#include "cuda/mla_combine.h"

namespace warpgraph {
namespace {

constexpr int kMostRank = 1024;
constexpr int kMostRope = 256;
// Longer sequences than any card holds; numbers of key tiles are ints.
constexpr int64_t kMostSequence = int64_t{1} << 30;

using AbsorbKernel = void (*)(MlaLatentAttention, MlaSizes, AbsorbPlan);

struct AbsorbVariant {
  int rowTiles, keyTile, stages;
};
// Best first. 32 keys leave room for two blocks on a multiprocessor.
constexpr AbsorbVariant kVariants[] = {{2, 64, 2}, {2, 32, 2}, {2, 16, 2}, {1, 32, 2},
                                       {1, 16, 2}, {1, 32, 1}, {1, 16, 1}};

// The best variant that fits the current device, written into plan; null when none does.
const AbsorbVariant* chooseAbsorb(DType dtype, const MlaSizes& sizes, AbsorbPlan& plan) {
  if (sizes.rank > kMostRank || sizes.ropeDim > kMostRope) return nullptr;
  plan.warps = sizes.rank > kMostRank / 2 ? 16 : 8;
  plan.latentColumns = static_cast<int>(padTo(sizes.rank, kGroup));
  plan.columns = static_cast<int>(padTo(plan.latentColumns + sizes.ropeDim, 16));
  const int64_t limit = sharedMemoryLimit();
  for (const AbsorbVariant& variant : kVariants) {
    if (variant.rowTiles == 2 && sizes.numQueries * sizes.heads <= kWarpRows) continue;
    if (plan.warps * kWarpSize > threadsOf(variant.rowTiles)) continue;
    plan.keyTile = variant.keyTile;
    plan.stages = variant.stages;
    if (absorbLayout(plan, variant.rowTiles * kWarpRows, bytesOf(dtype)).bytes > limit) continue;
    const int rows = variant.rowTiles * kWarpRows;
    plan.rowTiles = (sizes.numQueries * sizes.heads + rows - 1) / rows;
    return &variant;
  }
  return nullptr;
}

}  // namespace

bool mlaAbsorbTakes(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int computeCapability) {
  AbsorbPlan plan{};
  return computeCapability >= 80 && keys.numKeys <= kMostSequence &&
         chooseAbsorb(dtype, sizes, plan) != nullptr;
}

int64_t mlaAbsorbSplits(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int numMultiprocessors) {
  AbsorbPlan plan{};
  const AbsorbVariant* variant = chooseAbsorb(dtype, sizes, plan);
  if (variant == nullptr) return 1;
  // A block costs its tiles and about as much as a few more, to start and to merge.
  constexpr int64_t kOverhead = 4, kMostSplits = 64;
  const int64_t bytes = absorbLayout(plan, variant->rowTiles * kWarpRows, bytesOf(dtype)).bytes;
  const int64_t slots = numMultiprocessors * (2 * (bytes + 1024) <= sharedMemoryLimit() ? 2 : 1);
  const int64_t blocks = sizes.batch * plan.rowTiles;
  const int64_t tiles = (keys.numKeys + plan.keyTile - 1) / plan.keyTile;
  int64_t best = 1, bestCost = INT64_MAX;
  for (int64_t splits = 1; splits <= std::min(std::max(tiles, int64_t{1}), kMostSplits); ++splits) {
    const int64_t waves = (blocks * splits + slots - 1) / slots;
    const int64_t cost = waves * ((tiles + splits - 1) / splits + kOverhead);
    if (cost < bestCost) best = splits, bestCost = cost;
  }
  return best;
}

int64_t mlaAbsorbWorkspaceBytes(const MlaSizes& sizes, int64_t numSplits) {
  if (numSplits == 1) return 0;
  return numSplits * sizes.batch * sizes.numQueries * sizes.heads * (sizes.rank + 1) * int64_t{sizeof(float)};
}

cudaError_t launchMlaAbsorb(DType dtype, const MlaLatentAttention& attention, const MlaSizes& sizes,
                            int64_t numSplits, void* workspace, const LaunchTarget& target) {
  const int64_t rows = sizes.batch * sizes.numQueries * sizes.heads;
  if (rows == 0) return cudaSuccess;
  AbsorbPlan plan{};
  const AbsorbVariant* variant = chooseAbsorb(dtype, sizes, plan);
  if (variant == nullptr) return cudaErrorInvalidValue;
  plan.splits = numSplits;
  plan.items = sizes.batch * plan.rowTiles * numSplits;
  plan.partialOut = static_cast<float*>(workspace);
  plan.partialLse = plan.partialOut + numSplits * rows * sizes.rank;
  const size_t bytes = bytesOf(dtype);
  plan.qBy16 = copiesBy16(attention.qLatent, sizes.rank, attention.qLatentStride, bytes);
  plan.qRopeBy16 = copiesBy16(attention.qRope, sizes.ropeDim, attention.qRopeStride, bytes);
  plan.latentBy16 = copiesBy16(attention.keys.latent, sizes.rank, sizes.rank, bytes);
  plan.ropeBy16 = copiesBy16(attention.keys.rope, sizes.ropeDim, sizes.ropeDim, bytes);
  const auto sharedBytes = static_cast<int>(absorbLayout(plan, variant->rowTiles * kWarpRows, bytes).bytes);
  const cudaError_t launched = dispatchFloat(dtype, [&](auto element) {
    using T = decltype(element);
    const AbsorbKernel kernel = variant->rowTiles == 2 ? mlaAbsorbKernel<T, 2> : mlaAbsorbKernel<T, 1>;
    const cudaError_t error = setMostShared(kernel);
    if (error != cudaSuccess) return error;
    return launchKernelWithShared(kernel, static_cast<unsigned>(std::min(plan.items, kMostGrid)),
                                  static_cast<unsigned>(plan.warps * kWarpSize),
                                  static_cast<size_t>(sharedBytes), target, attention, sizes, plan);
  });
  if (launched != cudaSuccess || numSplits == 1) return launched;
  return launchMlaCombine(dtype, {plan.partialOut, plan.partialLse, nullptr, numSplits, numSplits}, sizes,
                          attention.out, attention.lse, target);
}

}  // namespace warpgraph
