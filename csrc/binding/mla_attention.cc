#include "cuda/mla_attention.h"

#include "binding/arguments.h"
#include "binding/functions.h"
#include "binding/mla_arguments.h"

namespace warpgraph {

void mlaAttention(const Napi::CallbackInfo& info) {
  constexpr size_t kKeys = 4;
  constexpr size_t kOut = kKeys + kMlaKeyArguments;
  constexpr size_t kSizes = kOut + 3;
  constexpr size_t kSettings = kSizes + 7;
  constexpr size_t kAlgorithm = kSettings + kMlaSettingArguments;
  Arguments arguments(info, "mlaAttention", kAlgorithm + 1);
  const DType dtype = arguments.dtype(kOut + 2);
  MlaSizes sizes = {};
  sizes.batch = arguments.size(kSizes);
  sizes.numQueries = arguments.size(kSizes + 1);
  sizes.heads = arguments.size(kSizes + 2);
  sizes.headDim = arguments.size(kSizes + 3);
  sizes.valueDim = arguments.size(kSizes + 4);
  sizes.rank = arguments.size(kSizes + 5);
  sizes.ropeDim = arguments.size(kSizes + 6);
  MlaPlan plan = {};
  plan.numSplits = mlaSettings(arguments, kSettings, &sizes);
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
  attention.keys = mlaKeys(arguments, kKeys, dtype, sizes);
  attention.out = arguments.data(kOut, dtype, {sizes.batch, sizes.numQueries, sizes.heads, sizes.valueDim});
  attention.lse = mlaLse(arguments, kOut + 1, sizes);

  const LaunchTarget& target = arguments.target();
  const auto bytes =
      static_cast<int64_t>(mlaAttentionWorkspaceBytes(dtype, attention, sizes, plan, target.limits));
  const Workspace workspace = arguments.workspace(1, {bytes});
  arguments.check(launchMlaAttention(dtype, attention, sizes, plan, workspace.data(), target));
}

}  // namespace warpgraph
