#include "binding/mla_arguments.h"

namespace warpgraph {

MlaKeys mlaKeys(Arguments& arguments, DType dtype, const MlaSizes& sizes) {
  MlaKeys keys = {};
  keys.numKeys = arguments.size(kMlaNumKeys);
  keys.pageSize = arguments.size(kMlaPageSize);
  keys.numPages = arguments.size(kMlaNumPages);
  keys.pagesPerSequence = arguments.size(kMlaPagesPerSequence);
  const bool isPaged = !arguments.isNull(kMlaBlockTable);
  int64_t capacity = keys.numKeys;
  if (isPaged) {
    // Kernels divide by it with shifts, and copy at least so many rows at a time.
    constexpr int64_t kLeastPage = 16;
    if (keys.pageSize < kLeastPage || (keys.pageSize & (keys.pageSize - 1)) != 0) {
      arguments.fail(kMlaPageSize, "a power of two from 16 on");
    }
    if (__builtin_mul_overflow(keys.pagesPerSequence, keys.pageSize, &capacity)) capacity = -1;
    keys.blockTable =
        arguments.data<const int32_t>(kMlaBlockTable, DType::kInt32, {sizes.batch, keys.pagesPerSequence});
  } else {
    for (const size_t paged : {kMlaPageSize, kMlaNumPages, kMlaPagesPerSequence}) {
      if (arguments.size(paged) != 0) arguments.fail(paged, "0 without a block table");
    }
  }
  if (keys.numKeys != capacity) arguments.fail(kMlaNumKeys, "the keys of all pages of a sequence");

  const int64_t rows = isPaged ? keys.numPages : sizes.batch;
  const int64_t perRow = isPaged ? keys.pageSize : keys.numKeys;
  keys.latent = arguments.data(kMlaLatent, dtype, {rows, perRow, sizes.rank});
  if (sizes.ropeDim > 0) keys.rope = arguments.data(kMlaRope, dtype, {rows, perRow, sizes.ropeDim});
  if (!arguments.isNull(kMlaLengths)) {
    keys.lengths = arguments.data<const int32_t>(kMlaLengths, DType::kInt32, {sizes.batch});
  }
  // Page numbers are clamped to those there are: without any, no sequence may have a key.
  if (isPaged && keys.numPages == 0) keys.numKeys = 0;
  return keys;
}

MlaSizes mlaSizes(const Arguments& arguments, MlaPlan* plan) {
  MlaSizes sizes = {};
  sizes.batch = arguments.size(kMlaBatch);
  sizes.numQueries = arguments.size(kMlaNumQueries);
  sizes.heads = arguments.size(kMlaHeads);
  sizes.rank = arguments.size(kMlaRank);
  sizes.ropeDim = arguments.size(kMlaRopeDim);
  sizes.scale = static_cast<float>(arguments.number(kMlaScale));
  sizes.causal = arguments.boolean(kMlaCausal);
  sizes.hasQueryOffset = !arguments.isNull(kMlaQueryOffset);
  sizes.queryOffset = sizes.hasQueryOffset ? arguments.integer(kMlaQueryOffset) : 0;
  sizes.tf32 = arguments.boolean(kMlaTf32);
  plan->numSplits = arguments.size(kMlaNumSplits);
  if (plan->numSplits > kMostMlaSplits) arguments.fail(kMlaNumSplits, "at most 1024 splits");
  // More than any kernel keeps of intermediate results, so that their sizes can be computed without overflow.
  constexpr int64_t kChosenSplits = 4096;
  const auto product = {sizes.batch, sizes.numQueries, sizes.heads, sizes.rank + 1,
                        plan->numSplits + kChosenSplits};
  if (bytesFor(4 * sizeof(float), product) == SIZE_MAX) {
    arguments.fail(kMlaNumSplits, "few enough for the sizes given");
  }
  return sizes;
}

float* mlaLse(Arguments& arguments, const MlaSizes& sizes) {
  if (arguments.isNull(kMlaLse)) return nullptr;
  return arguments.data<float>(kMlaLse, DType::kFloat32, {sizes.batch, sizes.heads, sizes.numQueries});
}

}  // namespace warpgraph
