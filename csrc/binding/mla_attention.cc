#include "cuda/mla_attention.h"

#include "binding/arguments.h"
#include "binding/functions.h"
#include "binding/mla_arguments.h"

namespace warpgraph {
namespace {

// Its own places in the array of numbers.
enum Place : size_t { kQ = kMlaOwn, kQRope, kWUpK, kWUpV, kHeadDim, kValueDim, kAlgorithm, kPlaces };

}  // namespace

void mlaAttention(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "mlaAttention", InOneArray{kPlaces});
  const DType dtype = arguments.dtype(kMlaDType);
  MlaPlan plan = {};
  MlaSizes sizes = mlaSizes(arguments, &plan);
  sizes.headDim = arguments.size(kHeadDim);
  sizes.valueDim = arguments.size(kValueDim);
  const int64_t algorithm = arguments.size(kAlgorithm);
  if (algorithm >= kMlaAlgorithmCount) arguments.fail(kAlgorithm, "an algorithm");
  plan.algorithm = static_cast<MlaAlgorithm>(algorithm);

  MlaAttention attention = {};
  attention.q = arguments.data(kQ, dtype, {sizes.batch, sizes.numQueries, sizes.heads, sizes.headDim});
  if (sizes.ropeDim > 0) {
    attention.qRope =
        arguments.data(kQRope, dtype, {sizes.batch, sizes.numQueries, sizes.heads, sizes.ropeDim});
  }
  attention.wUpK = arguments.data(kWUpK, dtype, {sizes.rank, sizes.heads, sizes.headDim});
  attention.wUpV = arguments.data(kWUpV, dtype, {sizes.rank, sizes.heads, sizes.valueDim});
  attention.keys = mlaKeys(arguments, dtype, sizes);
  attention.out =
      arguments.data(kMlaOut, dtype, {sizes.batch, sizes.numQueries, sizes.heads, sizes.valueDim});
  attention.lse = mlaLse(arguments, sizes);

  const LaunchTarget& target = arguments.target();
  const auto bytes =
      static_cast<int64_t>(mlaAttentionWorkspaceBytes(dtype, attention, sizes, plan, target.limits));
  const Workspace workspace = arguments.workspace(1, {bytes});
  arguments.check(launchMlaAttention(dtype, attention, sizes, plan, workspace.data(), target));
}

}  // namespace warpgraph
