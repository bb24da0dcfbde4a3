// Chooses how mla_expand_kernel.cuh cuts its work, and launches it.
#include "cuda/mla_expand.h"

#include <iterator>

#include "cuda/mla_expand_kernel.cuh"

namespace warpgraph {
namespace {

using ExpandKernel = void (*)(MlaExpandedAttention, MlaSizes, ExpandPlan);

// Tile shapes, best first. Split operands take twice the registers and the shared memory.
struct ExpandVariant {
  int rowTiles, warps, keyTile, mostValues;
};
constexpr ExpandVariant kHalfVariants[] = {{2, 4, 64, 128}, {1, 4, 32, 256}};
constexpr ExpandVariant kSplitVariants[] = {{1, 8, 64, 128}, {1, 4, 64, 128}, {1, 4, 32, 256}};
constexpr int kMostColumns = 256;
// Longer sequences than any card holds; key numbers within a chunk are ints.
constexpr int64_t kMostSequence = int64_t{1} << 30;

int64_t expandSharedBytes(const ExpandPlan& plan, const ExpandVariant& variant, size_t elementBytes) {
  const int64_t rows = variant.warps * kWarpRows * variant.rowTiles;
  return (rows + variant.keyTile) * rowBytes(plan.keyColumns, elementBytes) +
         variant.keyTile * rowBytes(plan.valueColumns, elementBytes) +
         (rows + 2 * variant.keyTile) * static_cast<int64_t>(sizeof(float));
}

// The best variant that fits the current device; null when none does.
const ExpandVariant* chooseExpand(DType dtype, const MlaSizes& sizes, ExpandPlan& plan) {
  if (std::max({sizes.headDim, sizes.valueDim, sizes.ropeDim}) > kMostColumns) return nullptr;
  plan.headColumns = expandRopeColumn(sizes);
  plan.keyColumns = expandKeyColumns(sizes);
  plan.splitValueColumns = expandValueColumns(sizes);
  plan.valueColumns = static_cast<int>(padTo(sizes.valueDim, 64));
  const int64_t limit = sharedMemoryLimit();
  const auto fits = [&](const ExpandVariant& variant) {
    return sizes.valueDim <= variant.mostValues &&
           (sizes.numQueries > 64 || variant.warps * variant.rowTiles == 4) &&
           expandSharedBytes(plan, variant, bytesOf(dtype)) <= limit;
  };
  const auto first = [&](const auto& variants) {
    const auto* found = std::find_if(std::begin(variants), std::end(variants), fits);
    return found == std::end(variants) ? nullptr : found;
  };
  return dtype == DType::kFloat32 ? first(kSplitVariants) : first(kHalfVariants);
}

template <typename T>
ExpandKernel expandKernel(const ExpandVariant& variant, bool tf32) {
  constexpr bool kSplit = std::is_same_v<T, float>;
  if (variant.keyTile == 32) return mlaExpandKernel < T, kSplit ? 2 : 1, 1, 32, 32 > ;
  if constexpr (kSplit) {
    return tf32 ? mlaExpandKernel<T, 1, 1, 64, 16> : mlaExpandKernel<T, 2, 1, 64, 16>;
  } else {
    return mlaExpandKernel<T, 1, 2, 64, 16>;
  }
}

}  // namespace

bool mlaExpandTakes(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int computeCapability) {
  ExpandPlan plan{};
  return computeCapability >= 80 && keys.numKeys <= kMostSequence &&
         chooseExpand(dtype, sizes, plan) != nullptr;
}

cudaError_t launchMlaExpand(DType dtype, const MlaExpandedAttention& attention, const MlaSizes& sizes,
                            const LaunchTarget& target) {
  if (sizes.batch == 0 || sizes.numQueries == 0 || sizes.heads == 0) return cudaSuccess;
  ExpandPlan plan{};
  const ExpandVariant* variant = chooseExpand(dtype, sizes, plan);
  if (variant == nullptr) return cudaErrorInvalidValue;
  const int64_t rows = variant->warps * kWarpRows * variant->rowTiles;
  plan.warps = variant->warps;
  plan.splitKeys = padTo(attention.chunkKeys, kSplitKeys);
  plan.queryTiles = (sizes.numQueries + rows - 1) / rows;
  plan.items = plan.queryTiles * sizes.batch * sizes.heads;
  const size_t bytes = bytesOf(dtype);
  plan.qBy16 = copiesBy16(attention.q, sizes.headDim, sizes.headDim, bytes);
  plan.qRopeBy16 = copiesBy16(attention.qRope, sizes.ropeDim, sizes.ropeDim, bytes);
  plan.kBy16 = copiesBy16(attention.k, sizes.headDim, sizes.headDim, bytes);
  plan.kRopeBy16 = copiesBy16(attention.keys.rope, sizes.ropeDim, sizes.ropeDim, bytes);
  plan.vBy16 = copiesBy16(attention.v, sizes.valueDim, sizes.valueDim, bytes);
  const auto sharedBytes = static_cast<int>(expandSharedBytes(plan, *variant, bytes));
  return dispatchFloat(dtype, [&](auto element) {
    const ExpandKernel kernel = expandKernel<decltype(element)>(*variant, sizes.tf32);
    const cudaError_t error = setMostShared(kernel);
    if (error != cudaSuccess) return error;
    return launchKernelWithShared(kernel, static_cast<unsigned>(std::min(plan.items, kMostGrid)),
                                  static_cast<unsigned>(plan.warps * kWarpSize),
                                  static_cast<size_t>(sharedBytes), target, attention, sizes, plan);
  });
}

}  // namespace warpgraph
