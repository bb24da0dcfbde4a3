#include "cuda/mla_attention.h"

#include "binding/arguments.h"
#include "binding/functions.h"

namespace warpgraph {

void mlaAttention(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "mlaAttention", 18);
  const DType dtype = arguments.dtype(7);
  MlaSizes sizes;
  sizes.batch = arguments.size(8);
  sizes.numQueries = arguments.size(9);
  sizes.numKeys = arguments.size(10);
  sizes.heads = arguments.size(11);
  sizes.headDim = arguments.size(12);
  sizes.valueDim = arguments.size(13);
  sizes.rank = arguments.size(14);
  sizes.ropeDim = arguments.size(15);
  sizes.scale = static_cast<float>(arguments.number(16));
  sizes.causal = arguments.boolean(17);
  const bool hasRope = sizes.ropeDim > 0;
  MlaTensors tensors;
  tensors.q = arguments.data(0, dtype, {sizes.batch, sizes.numQueries, sizes.heads, sizes.headDim});
  tensors.kvLatent = arguments.data(1, dtype, {sizes.batch, sizes.numKeys, sizes.rank});
  tensors.wUpK = arguments.data(2, dtype, {sizes.rank, sizes.heads, sizes.headDim});
  tensors.wUpV = arguments.data(3, dtype, {sizes.rank, sizes.heads, sizes.valueDim});
  tensors.qRope = hasRope
                      ? arguments.data(4, dtype, {sizes.batch, sizes.numQueries, sizes.heads, sizes.ropeDim})
                      : nullptr;
  tensors.kRope = hasRope ? arguments.data(5, dtype, {sizes.batch, sizes.numKeys, sizes.ropeDim}) : nullptr;
  tensors.out = arguments.data(6, dtype, {sizes.batch, sizes.numQueries, sizes.heads, sizes.valueDim});

  const Workspace workspace = arguments.workspace(sizeof(float), {mlaAttentionBlocks(sizes), 2, sizes.rank});
  arguments.check(launchMlaAttention(dtype, tensors, sizes, workspace.data(), arguments.target()));
}

}  // namespace warpgraph
