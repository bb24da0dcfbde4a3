// The arguments that the functions of multi-head latent attention have in common; typings/addon.d.ts names
// them.
#pragma once

#include "binding/arguments.h"
#include "cuda/mla_attention.h"

namespace warpgraph {

constexpr size_t kMlaKeyArguments = 8;
constexpr size_t kMlaSettingArguments = 5;

// Eight arguments from `index` on, of keys in `dtype` for sizes.batch sequences of sizes.rank and
// sizes.ropeDim.
MlaKeys mlaKeys(Arguments& arguments, size_t index, DType dtype, const MlaSizes& sizes);

// Five arguments from `index` on: the first four go into sizes; gives numSplits.
int64_t mlaSettings(const Arguments& arguments, size_t index, MlaSizes* sizes);

// lse (batch, heads, numQueries), or null.
float* mlaLse(Arguments& arguments, size_t index, const MlaSizes& sizes);

}  // namespace warpgraph
