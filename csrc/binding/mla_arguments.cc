#include "binding/mla_arguments.h"

namespace warpgraph {

MlaKeys mlaKeys(Arguments& arguments, const MlaPlaces& places, DType dtype, const MlaSizes& sizes) {
  const size_t index = places.keys;
  MlaKeys keys = {};
  keys.numKeys = arguments.size(index + 4);
  keys.pageSize = arguments.size(index + 5);
  keys.numPages = arguments.size(index + 6);
  keys.pagesPerSequence = arguments.size(index + 7);
  const bool isPaged = !arguments.isNull(index + 3);
  int64_t capacity = keys.numKeys;
  if (isPaged) {
    // Kernels divide by it with shifts, and copy at least so many rows at a time.
    constexpr int64_t kLeastPage = 16;
    if (keys.pageSize < kLeastPage || (keys.pageSize & (keys.pageSize - 1)) != 0) {
      arguments.fail(index + 5, "a power of two from 16 on");
    }
    if (__builtin_mul_overflow(keys.pagesPerSequence, keys.pageSize, &capacity)) capacity = -1;
    keys.blockTable =
        arguments.data<const int32_t>(index + 3, DType::kInt32, {sizes.batch, keys.pagesPerSequence});
  } else {
    for (const size_t paged : {index + 5, index + 6, index + 7}) {
      if (arguments.size(paged) != 0) arguments.fail(paged, "0 without a block table");
    }
  }
  if (keys.numKeys != capacity) arguments.fail(index + 4, "the keys of all pages of a sequence");

  const int64_t rows = isPaged ? keys.numPages : sizes.batch;
  const int64_t perRow = isPaged ? keys.pageSize : keys.numKeys;
  keys.latent = arguments.data(index, dtype, {rows, perRow, sizes.rank});
  if (sizes.ropeDim > 0) keys.rope = arguments.data(index + 1, dtype, {rows, perRow, sizes.ropeDim});
  if (!arguments.isNull(index + 2)) {
    keys.lengths = arguments.data<const int32_t>(index + 2, DType::kInt32, {sizes.batch});
  }
  // Page numbers are clamped to those there are: without any, no sequence may have a key.
  if (isPaged && keys.numPages == 0) keys.numKeys = 0;
  return keys;
}

MlaSizes mlaSizes(const Arguments& arguments, const MlaPlaces& places, MlaPlan* plan) {
  MlaSizes sizes = {};
  size_t index = places.sizes;
  sizes.batch = arguments.size(index++);
  sizes.numQueries = arguments.size(index++);
  sizes.heads = arguments.size(index++);
  if (places.hasProjections) {
    sizes.headDim = arguments.size(index++);
    sizes.valueDim = arguments.size(index++);
  }
  sizes.rank = arguments.size(index++);
  sizes.ropeDim = arguments.size(index);

  index = places.settings;
  sizes.scale = static_cast<float>(arguments.number(index));
  sizes.causal = arguments.boolean(index + 1);
  sizes.hasQueryOffset = !arguments.isNull(index + 2);
  sizes.queryOffset = sizes.hasQueryOffset ? arguments.integer(index + 2) : 0;
  sizes.tf32 = arguments.boolean(index + 3);
  plan->numSplits = arguments.size(index + 4);
  if (plan->numSplits > kMostMlaSplits) arguments.fail(index + 4, "at most 1024 splits");
  // More than any kernel keeps of intermediate results, so that their sizes can be computed without overflow.
  constexpr int64_t kChosenSplits = 4096;
  const auto product = {sizes.batch, sizes.numQueries, sizes.heads, sizes.rank + 1,
                        plan->numSplits + kChosenSplits};
  if (bytesFor(4 * sizeof(float), product) == SIZE_MAX) {
    arguments.fail(index + 4, "few enough for the sizes given");
  }
  return sizes;
}

float* mlaLse(Arguments& arguments, const MlaPlaces& places, const MlaSizes& sizes) {
  const size_t index = places.out + 1;
  if (arguments.isNull(index)) return nullptr;
  return arguments.data<float>(index, DType::kFloat32, {sizes.batch, sizes.heads, sizes.numQueries});
}

}  // namespace warpgraph
