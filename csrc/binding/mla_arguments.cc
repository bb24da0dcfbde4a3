#include "binding/mla_arguments.h"

namespace warpgraph {

MlaKeys mlaKeys(Arguments& arguments, size_t index, DType dtype, const MlaSizes& sizes) {
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

int64_t mlaSettings(const Arguments& arguments, size_t index, MlaSizes* sizes) {
  sizes->scale = static_cast<float>(arguments.number(index));
  sizes->causal = arguments.boolean(index + 1);
  sizes->hasQueryOffset = !arguments.isNull(index + 2);
  sizes->queryOffset = sizes->hasQueryOffset ? arguments.integer(index + 2) : 0;
  sizes->tf32 = arguments.boolean(index + 3);
  const int64_t numSplits = arguments.size(index + 4);
  if (numSplits > kMostMlaSplits) arguments.fail(index + 4, "at most 1024 splits");
  // More than any kernel keeps of intermediate results, so that their sizes can be computed without overflow.
  constexpr int64_t kChosenSplits = 4096;
  const auto product = {sizes->batch, sizes->numQueries, sizes->heads, sizes->rank + 1,
                        numSplits + kChosenSplits};
  if (bytesFor(4 * sizeof(float), product) == SIZE_MAX) {
    arguments.fail(index + 4, "few enough for the sizes given");
  }
  return numSplits;
}

float* mlaLse(Arguments& arguments, size_t index, const MlaSizes& sizes) {
  if (arguments.isNull(index)) return nullptr;
  return arguments.data<float>(index, DType::kFloat32, {sizes.batch, sizes.heads, sizes.numQueries});
}

}  // namespace warpgraph
