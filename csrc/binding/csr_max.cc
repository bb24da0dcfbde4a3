#include "cuda/csr_max.h"

#include "binding/arguments.h"
#include "binding/functions.h"

namespace warpgraph {

void csrMax(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "csrMax", 16);
  const auto empty = static_cast<float>(arguments.number(2));
  const DType dtype = arguments.dtype(5);
  const int64_t numRows = arguments.size(6);
  const int64_t numEdges = arguments.size(7);
  const int64_t numSrc = arguments.size(8);
  const int64_t features = arguments.features(9);
  const auto* colIdx = arguments.data<const int32_t>(0, DType::kInt32, {numEdges});
  const void* x = arguments.data(1, dtype, {numSrc, features});
  void* out = arguments.data(3, dtype, {numRows, features});
  int32_t* indices =
      arguments.isNull(4) ? nullptr : arguments.data<int32_t>(4, DType::kInt32, {numRows, features});
  const Schedule schedule = arguments.schedule(10);
  const size_t partialBytes = sizeof(float) + (indices == nullptr ? 0 : sizeof(int32_t));
  const Workspace workspace = arguments.workspace(partialBytes, {schedule.numPieces, features});
  arguments.check(launchCsrMax(dtype, colIdx, x, empty, out, indices, numSrc, features, schedule,
                               workspace.data(), arguments.device().stream()));
}

}  // namespace warpgraph
