#include "cuda/mla_attention.h"

#include "binding/arguments.h"
#include "binding/functions.h"
#include "binding/mla_arguments.h"

namespace warpgraph {

void mlaAttention(const Napi::CallbackInfo& info) {
  constexpr MlaPlaces kPlaces(4, true);
  constexpr size_t kAlgorithm = kPlaces.end;
  Arguments arguments(info, "mlaAttention", kAlgorithm + 1);
  const DType dtype = arguments.dtype(kPlaces.dtype);
  MlaPlan plan = {};
  const MlaSizes sizes = mlaSizes(arguments, kPlaces, &plan);
  const int64_t algorithm = arguments.size(kAlgorithm);
  if (algorithm >= kMlaAlgorithmCount) arguments.fail(kAlgorithm, "an algorithm");
  plan.algorithm = static_cast<MlaAlgorithm>(algorithm);

  MlaAttention attention = {};
  attention.q = arguments.data(0, dtype, {sizes.batch, sizes.numQueries, sizes.heads, sizes.headDim});
  if (sizes.ropeDim > 0) {
    attention.qRope = arguments.data(1, dtype, {sizes.batch, sizes.numQueries, sizes.heads, sizes.ropeDim});
  }
  attention.wUpK = arguments.data(2, dtype, {sizes.rank, sizes.heads, sizes.headDim});
  attention.wUpV = arguments.data(3, dtype, {sizes.rank, sizes.heads, sizes.valueDim});
  attention.keys = mlaKeys(arguments, kPlaces, dtype, sizes);
  attention.out =
      arguments.data(kPlaces.out, dtype, {sizes.batch, sizes.numQueries, sizes.heads, sizes.valueDim});
  attention.lse = mlaLse(arguments, kPlaces, sizes);

  const LaunchTarget& target = arguments.target();
  const auto bytes =
      static_cast<int64_t>(mlaAttentionWorkspaceBytes(dtype, attention, sizes, plan, target.limits));
  const Workspace workspace = arguments.workspace(1, {bytes});
  arguments.check(launchMlaAttention(dtype, attention, sizes, plan, workspace.data(), target));
}

}  // namespace warpgraph
