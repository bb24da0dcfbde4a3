#include "binding/arguments.h"
#include "binding/functions.h"
#include "binding/mla_arguments.h"
#include "cuda/mla_attention.h"

namespace warpgraph {

void mlaDecode(const Napi::CallbackInfo& info) {
  constexpr size_t kKeys = 1;
  constexpr size_t kOut = kKeys + kMlaKeyArguments;
  constexpr size_t kSizes = kOut + 3;
  constexpr size_t kSettings = kSizes + 5;
  Arguments arguments(info, "mlaDecode", kSettings + kMlaSettingArguments);
  const DType dtype = arguments.dtype(kOut + 2);
  MlaSizes sizes = {};
  sizes.batch = arguments.size(kSizes);
  sizes.numQueries = arguments.size(kSizes + 1);
  sizes.heads = arguments.size(kSizes + 2);
  sizes.rank = arguments.size(kSizes + 3);
  sizes.ropeDim = arguments.size(kSizes + 4);
  MlaPlan plan = {};
  plan.numSplits = mlaSettings(arguments, kSettings, &sizes);

  // Each row of the queries is the absorbed part, then the rotated one.
  const int64_t width = sizes.rank + sizes.ropeDim;
  MlaLatentAttention attention = {};
  const void* q = arguments.data(0, dtype, {sizes.batch, sizes.numQueries, sizes.heads, width});
  attention.qLatent = q;
  attention.qRope = static_cast<const char*>(q) + static_cast<size_t>(sizes.rank) * bytesOf(dtype);
  attention.qLatentStride = attention.qRopeStride = width;
  attention.keys = mlaKeys(arguments, kKeys, dtype, sizes);
  attention.out = arguments.data(kOut, dtype, {sizes.batch, sizes.numQueries, sizes.heads, sizes.rank});
  attention.lse = mlaLse(arguments, kOut + 1, sizes);

  const LaunchTarget& target = arguments.target();
  const auto bytes =
      static_cast<int64_t>(mlaDecodeWorkspaceBytes(dtype, attention, sizes, plan, target.limits));
  const Workspace workspace = arguments.workspace(1, {bytes});
  arguments.check(launchMlaDecode(dtype, attention, sizes, plan, workspace.data(), target));
}

}  // namespace warpgraph
