#include "cuda/csr_max.h"

#include "binding/arguments.h"
#include "binding/functions.h"

namespace warpgraph {

void csrMax(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "csrMax", 11);
  const float empty = arguments.number(3);
  const DType dtype = arguments.dtype(6);
  const int64_t numRows = arguments.size(7);
  const int64_t numEdges = arguments.size(8);
  const int64_t numSrc = arguments.size(9);
  const int64_t features = arguments.size(10);
  const auto* rowPtr = arguments.data<const int32_t>(0, DType::kInt32, {numRows + 1});
  const auto* colIdx = arguments.data<const int32_t>(1, DType::kInt32, {numEdges});
  const void* x = arguments.data(2, dtype, {numSrc, features});
  void* out = arguments.data(4, dtype, {numRows, features});
  int32_t* indices =
      arguments.isNull(5) ? nullptr : arguments.data<int32_t>(5, DType::kInt32, {numRows, features});
  arguments.check(launchCsrMax(dtype, rowPtr, colIdx, x, empty, out, indices, numRows, features,
                               arguments.device().stream()));
}

}  // namespace warpgraph
