// Chooses how multi-head latent attention is computed: the single place that knows all ways.
#include "cuda/mla_attention.h"

#include <algorithm>

#include "cuda/mla_paths.h"
#include "cuda/mla_plain.h"
#include "cuda/mla_small.h"

namespace warpgraph {
namespace {

// Without elements and lse nothing is to be written, and products of sizes may mean nothing.
bool writesNothing(int64_t width, const float* lse, const MlaSizes& sizes) {
  const bool noQueries = sizes.batch == 0 || sizes.numQueries == 0 || sizes.heads == 0;
  return noQueries || (width == 0 && lse == nullptr);
}

// Whether expanding keys and values costs fewer multiplications than absorbing the weights, per sequence and
// head. The choice may not depend on the batch, nor on lengths, which only the device knows.
bool expandingIsCheaper(const MlaSizes& sizes, const MlaKeys& keys) {
  const auto queries = static_cast<double>(sizes.numQueries);
  const auto numKeys = static_cast<double>(keys.numKeys);
  const auto rank = static_cast<double>(sizes.rank);
  const auto width = static_cast<double>(sizes.headDim + sizes.valueDim);
  const auto rope = static_cast<double>(sizes.ropeDim);
  // Aligned bottom-right the last queries see all keys, the first ones fewer.
  const double hidden = sizes.causal && !sizes.hasQueryOffset ? std::min(queries, numKeys) / 2 : 0.0;
  const double pairs = queries * (numKeys - hidden);
  const double expand = numKeys * rank * width + pairs * (width + rope);
  const double absorb = queries * rank * width + pairs * (2 * rank + rope);
  return expand < absorb;
}

enum class Path { kNothing, kSmall, kAbsorbed, kExpanded, kPlain };

Path pathOf(DType dtype, const MlaAttention& attention, const MlaSizes& sizes, const MlaPlan& plan,
            const DeviceLimits& limits) {
  if (writesNothing(sizes.valueDim, attention.lse, sizes)) return Path::kNothing;
  // What is small depends on the batch; with a number of splits the bits of a sequence's result must not.
  const bool isFree = plan.algorithm == MlaAlgorithm::kAuto && plan.numSplits == 0;
  if (isFree && mlaSmallTakes(dtype, sizes, attention.keys)) return Path::kSmall;
  const bool expands =
      plan.algorithm == MlaAlgorithm::kExpand || (isFree && expandingIsCheaper(sizes, attention.keys));
  if (expands && mlaExpandedTakes(dtype, sizes, attention.keys, limits)) return Path::kExpanded;
  return mlaLatentIsFast(dtype, sizes, attention.keys, limits) ? Path::kAbsorbed : Path::kPlain;
}

}  // namespace

size_t mlaAttentionWorkspaceBytes(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                                  const MlaPlan& plan, const DeviceLimits& limits) {
  switch (pathOf(dtype, attention, sizes, plan, limits)) {
    case Path::kNothing:
    case Path::kSmall:
      return 0;
    case Path::kAbsorbed:
      return mlaAbsorbedWorkspaceBytes(dtype, attention, sizes, plan.numSplits, limits);
    case Path::kExpanded:
      return mlaExpandedWorkspaceBytes(dtype, attention, sizes, limits);
    case Path::kPlain:
      return mlaPlainWorkspaceBytes(sizes);
  }
  return 0;
}

cudaError_t launchMlaAttention(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                               const MlaPlan& plan, void* workspace, const LaunchTarget& target) {
  switch (pathOf(dtype, attention, sizes, plan, target.limits)) {
    case Path::kNothing:
      return cudaSuccess;
    case Path::kSmall:
      return launchMlaSmall(dtype, attention, sizes, target);
    case Path::kAbsorbed:
      return launchMlaAbsorbed(dtype, attention, sizes, plan.numSplits, workspace, target);
    case Path::kExpanded:
      return launchMlaExpanded(dtype, attention, sizes, workspace, target);
    case Path::kPlain:
      return launchMlaPlain(dtype, plainOf(attention, sizes), sizes, workspace, target);
  }
  return cudaErrorInvalidValue;
}

size_t mlaDecodeWorkspaceBytes(DType dtype, const MlaLatentAttention& attention, const MlaSizes& sizes,
                               const MlaPlan& plan, const DeviceLimits& limits) {
  if (writesNothing(sizes.rank, attention.lse, sizes)) return 0;
  return mlaLatentWorkspaceBytes(dtype, attention, sizes, plan.numSplits, limits);
}

cudaError_t launchMlaDecode(DType dtype, const MlaLatentAttention& attention, const MlaSizes& sizes,
                            const MlaPlan& plan, void* workspace, const LaunchTarget& target) {
  if (writesNothing(sizes.rank, attention.lse, sizes)) return cudaSuccess;
  return launchMlaLatent(dtype, attention, sizes, plan.numSplits, false, workspace, target);
}

}  // namespace warpgraph
