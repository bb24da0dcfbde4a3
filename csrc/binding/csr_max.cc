#include "cuda/csr_max.h"

#include "binding/arguments.h"
#include "binding/functions.h"

namespace warpgraph {

void csrMax(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "csrMax", 7);
  const Structure& graph = arguments.graph(0);
  const DType dtype = arguments.dtype(4);
  const int64_t features = arguments.features(5);
  const auto empty = static_cast<float>(arguments.number(6));
  const void* x = arguments.data(1, dtype, {graph.numSrc, features});
  void* out = arguments.data(2, dtype, {graph.numRows, features});
  int32_t* indices =
      arguments.isNull(3) ? nullptr : arguments.data<int32_t>(3, DType::kInt32, {graph.numRows, features});
  const size_t partialBytes = sizeof(float) + (indices == nullptr ? 0 : sizeof(int32_t));
  const Workspace workspace = arguments.workspace(partialBytes, {graph.schedule.numPieces, features});
  arguments.check(launchCsrMax(dtype, graph.sources(), x, empty, out, indices, graph.numSrc, features,
                               graph.schedule, workspace.data(), arguments.target()));
}

}  // namespace warpgraph
