#include "cuda/segment_softmax.h"

#include "binding/arguments.h"
#include "binding/functions.h"

namespace warpgraph {

void segmentSoftmax(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "segmentSoftmax", 12);
  const DType dtype = arguments.dtype(3);
  const int64_t numRows = arguments.size(4);
  const int64_t numEdges = arguments.size(5);
  const int64_t heads = arguments.size(6);
  const auto* rowPtr = arguments.data<const int32_t>(0, DType::kInt32, {numRows + 1});
  const void* scores = arguments.data(1, dtype, {numEdges, heads});
  void* out = arguments.data(2, dtype, {numEdges, heads});
  const Schedule schedule = arguments.schedule(7);
  const Workspace workspace = arguments.workspace(segmentSoftmaxWorkspaceBytes(schedule, heads));
  arguments.check(launchSegmentSoftmax(dtype, rowPtr, scores, out, heads, schedule, workspace.data(),
                                       arguments.device().stream()));
}

}  // namespace warpgraph
