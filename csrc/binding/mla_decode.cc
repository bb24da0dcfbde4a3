#include "binding/arguments.h"
#include "binding/functions.h"
#include "binding/mla_arguments.h"
#include "cuda/mla_attention.h"

namespace warpgraph {

void mlaDecode(const Napi::CallbackInfo& info) {
  constexpr size_t kQ = kMlaOwn;
  Arguments arguments(info, "mlaDecode", InOneArray{kQ + 1});
  const DType dtype = arguments.dtype(kMlaDType);
  MlaPlan plan = {};
  const MlaSizes sizes = mlaSizes(arguments, &plan);

  // Each row of the queries is the absorbed part, then the rotated one.
  const int64_t width = sizes.rank + sizes.ropeDim;
  MlaLatentAttention attention = {};
  const void* q = arguments.data(kQ, dtype, {sizes.batch, sizes.numQueries, sizes.heads, width});
  attention.qLatent = q;
  attention.qRope = static_cast<const char*>(q) + static_cast<size_t>(sizes.rank) * bytesOf(dtype);
  attention.qLatentStride = attention.qRopeStride = width;
  attention.keys = mlaKeys(arguments, dtype, sizes);
  attention.out = arguments.data(kMlaOut, dtype, {sizes.batch, sizes.numQueries, sizes.heads, sizes.rank});
  attention.lse = mlaLse(arguments, sizes);

  const LaunchTarget& target = arguments.target();
  const auto bytes =
      static_cast<int64_t>(mlaDecodeWorkspaceBytes(dtype, attention, sizes, plan, target.limits));
  const Workspace workspace = arguments.workspace(1, {bytes});
  arguments.check(launchMlaDecode(dtype, attention, sizes, plan, workspace.data(), target));
}

}  // namespace warpgraph
