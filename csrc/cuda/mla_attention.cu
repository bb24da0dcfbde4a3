// Chooses the kernels of multi-head latent attention: the single place that knows all of them.
#include "cuda/mla_attention.h"

#include "cuda/mla_plain.h"
#include "cuda/mla_small.h"

namespace warpgraph {
namespace {

// Without elements and lse nothing is to be written, and products of sizes may mean nothing.
bool writesNothing(int64_t width, const float* lse, const MlaSizes& sizes) {
  const bool noQueries = sizes.batch == 0 || sizes.numQueries == 0 || sizes.heads == 0;
  return noQueries || (width == 0 && lse == nullptr);
}

enum class Path { kNothing, kSmall, kPlain };

Path pathOf(DType dtype, const MlaAttention& attention, const MlaSizes& sizes, const MlaPlan& plan) {
  if (writesNothing(sizes.valueDim, attention.lse, sizes)) return Path::kNothing;
  // What is small depends on the batch; with a number of splits the bits of a sequence's result must not.
  const bool isFree = plan.algorithm == MlaAlgorithm::kAuto && plan.numSplits == 0;
  if (isFree && mlaSmallTakes(dtype, sizes, attention.keys)) return Path::kSmall;
  return Path::kPlain;
}

Path pathOf(const MlaLatentAttention& attention, const MlaSizes& sizes) {
  return writesNothing(sizes.rank, attention.lse, sizes) ? Path::kNothing : Path::kPlain;
}

}  // namespace

size_t mlaAttentionWorkspaceBytes(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                                  const MlaPlan& plan, const DeviceLimits&) {
  return pathOf(dtype, attention, sizes, plan) == Path::kPlain ? mlaPlainWorkspaceBytes(sizes) : 0;
}

cudaError_t launchMlaAttention(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                               const MlaPlan& plan, void* workspace, const LaunchTarget& target) {
  switch (pathOf(dtype, attention, sizes, plan)) {
    case Path::kNothing:
      return cudaSuccess;
    case Path::kSmall:
      return launchMlaSmall(dtype, attention, sizes, target);
    case Path::kPlain:
      return launchMlaPlain(dtype, plainOf(attention, sizes), sizes, workspace, target);
  }
  return cudaErrorInvalidValue;
}

size_t mlaDecodeWorkspaceBytes(DType, const MlaLatentAttention& attention, const MlaSizes& sizes,
                               const MlaPlan&, const DeviceLimits&) {
  return pathOf(attention, sizes) == Path::kPlain ? mlaPlainWorkspaceBytes(sizes) : 0;
}

cudaError_t launchMlaDecode(DType dtype, const MlaLatentAttention& attention, const MlaSizes& sizes,
                            const MlaPlan&, void* workspace, const LaunchTarget& target) {
  if (pathOf(attention, sizes) == Path::kNothing) return cudaSuccess;
  return launchMlaPlain(dtype, plainOf(attention), sizes, workspace, target);
}

}  // namespace warpgraph
