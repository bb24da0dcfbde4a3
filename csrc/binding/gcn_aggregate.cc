#include "cuda/gcn_aggregate.h"

#include "binding/arguments.h"
#include "binding/functions.h"

namespace warpgraph {

void gcnAggregate(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "gcnAggregate", 11);
  const DType dtype = arguments.dtype(6);
  const int64_t numRows = arguments.size(7);
  const int64_t numEdges = arguments.size(8);
  const int64_t numSrc = arguments.size(9);
  const int64_t features = arguments.size(10);
  const auto* rowPtr = arguments.data<const int32_t>(0, DType::kInt32, {numRows + 1});
  const auto* colIdx = arguments.data<const int32_t>(1, DType::kInt32, {numEdges});
  const void* x = arguments.data(2, dtype, {numSrc, features});
  const auto* dstDegrees = arguments.data<const float>(3, DType::kFloat32, {numRows});
  const auto* srcDegrees = arguments.data<const float>(4, DType::kFloat32, {numSrc});
  void* out = arguments.data(5, dtype, {numRows, features});
  arguments.check(launchGcnAggregate(dtype, rowPtr, colIdx, x, dstDegrees, srcDegrees, out, numRows, features,
                                     arguments.device().stream()));
}

}  // namespace warpgraph
