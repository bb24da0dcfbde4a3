#include "cuda/gcn_aggregate.h"

#include "binding/arguments.h"
#include "binding/functions.h"

namespace warpgraph {

void gcnWeights(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "gcnAggregate", 13);
  const int64_t numRows = arguments.size(4);
  const int64_t numEdges = arguments.size(5);
  const int64_t numSrc = arguments.size(6);
  const auto* colIdx = arguments.data<const int32_t>(0, DType::kInt32, {numEdges});
  const auto* dstDegrees = arguments.data<const float>(1, DType::kFloat32, {numRows});
  const auto* srcDegrees = arguments.data<const float>(2, DType::kFloat32, {numSrc});
  auto* weights = arguments.data<float>(3, DType::kFloat32, {numEdges});
  const Schedule schedule = arguments.schedule(7);
  arguments.check(
      launchGcnWeights(colIdx, dstDegrees, srcDegrees, weights, schedule, arguments.device().stream()));
}

void gcnAggregate(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "gcnAggregate", 15);
  const DType dtype = arguments.dtype(4);
  const int64_t numRows = arguments.size(5);
  const int64_t numEdges = arguments.size(6);
  const int64_t numSrc = arguments.size(7);
  const int64_t features = arguments.features(8);
  const auto* colIdx = arguments.data<const int32_t>(0, DType::kInt32, {numEdges});
  const auto* weights = arguments.data<const float>(1, DType::kFloat32, {numEdges});
  const void* x = arguments.data(2, dtype, {numSrc, features});
  void* out = arguments.data(3, dtype, {numRows, features});
  const Schedule schedule = arguments.schedule(9);
  const Workspace workspace = arguments.workspace(sizeof(float), {schedule.numPieces, features});
  arguments.check(launchGcnAggregate(dtype, colIdx, weights, x, out, numSrc, features, schedule,
                                     workspace.data(), arguments.device().stream()));
}

}  // namespace warpgraph
