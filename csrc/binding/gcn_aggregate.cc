#include "cuda/gcn_aggregate.h"

#include "binding/arguments.h"
#include "binding/functions.h"

namespace warpgraph {

void gcnWeights(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "gcnAggregate", 4);
  const Structure& graph = arguments.graph(0);
  const auto* dstDegrees = arguments.data<const float>(1, DType::kFloat32, {graph.numRows});
  const auto* srcDegrees = arguments.data<const float>(2, DType::kFloat32, {graph.numSrc});
  auto* edges = arguments.data<WeightedEdge>(3, DType::kInt32, {graph.numEdges, 2});
  arguments.check(
      launchGcnWeights(graph.sources(), dstDegrees, srcDegrees, edges, graph.schedule, arguments.target()));
}

void gcnAggregate(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "gcnAggregate", 6);
  const Structure& graph = arguments.graph(0);
  const DType dtype = arguments.dtype(4);
  const int64_t features = arguments.features(5);
  const auto* edges = arguments.data<const WeightedEdge>(1, DType::kInt32, {graph.numEdges, 2});
  const void* x = arguments.data(2, dtype, {graph.numSrc, features});
  void* out = arguments.data(3, dtype, {graph.numRows, features});
  const Workspace workspace = arguments.workspace(sizeof(float), {graph.schedule.numPieces, features});
  arguments.check(launchGcnAggregate(dtype, edges, x, out, graph.numSrc, features, graph.schedule,
                                     workspace.data(), arguments.target()));
}

}  // namespace warpgraph
