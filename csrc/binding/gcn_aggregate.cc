#include "cuda/gcn_aggregate.h"

#include "binding/arguments.h"
#include "binding/functions.h"

namespace warpgraph {

void gcnWeights(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "gcnAggregate", 13);
  const int64_t numRows = arguments.size(5);
  const int64_t numEdges = arguments.size(6);
  const int64_t numSrc = arguments.size(7);
  const auto* rowPtr = arguments.data<const int32_t>(0, DType::kInt32, {numRows + 1});
  const auto* colIdx = arguments.data<const int32_t>(1, DType::kInt32, {numEdges});
  const auto* dstDegrees = arguments.data<const float>(2, DType::kFloat32, {numRows});
  const auto* srcDegrees = arguments.data<const float>(3, DType::kFloat32, {numSrc});
  auto* weights = arguments.data<float>(4, DType::kFloat32, {numEdges});
  const Schedule schedule = arguments.schedule(8);
  arguments.check(launchGcnWeights(rowPtr, colIdx, dstDegrees, srcDegrees, weights, schedule,
                                   arguments.device().stream()));
}

void gcnAggregate(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "gcnAggregate", 15);
  const DType dtype = arguments.dtype(5);
  const int64_t numRows = arguments.size(6);
  const int64_t numEdges = arguments.size(7);
  const int64_t numSrc = arguments.size(8);
  const int64_t features = arguments.size(9);
  const auto* rowPtr = arguments.data<const int32_t>(0, DType::kInt32, {numRows + 1});
  const auto* colIdx = arguments.data<const int32_t>(1, DType::kInt32, {numEdges});
  const auto* weights = arguments.data<const float>(2, DType::kFloat32, {numEdges});
  const void* x = arguments.data(3, dtype, {numSrc, features});
  void* out = arguments.data(4, dtype, {numRows, features});
  const Schedule schedule = arguments.schedule(10);
  const Workspace workspace = arguments.workspace(gcnAggregateWorkspaceBytes(schedule, features));
  arguments.check(launchGcnAggregate(dtype, rowPtr, colIdx, weights, x, out, numSrc, features, schedule,
                                     workspace.data(), arguments.device().stream()));
}

}  // namespace warpgraph
