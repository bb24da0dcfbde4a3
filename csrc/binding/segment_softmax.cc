#include "cuda/segment_softmax.h"

#include "binding/arguments.h"
#include "binding/functions.h"

namespace warpgraph {

void segmentSoftmax(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "segmentSoftmax", 11);
  const DType dtype = arguments.dtype(2);
  const int64_t numEdges = arguments.size(3);
  const int64_t heads = arguments.size(4);
  const void* scores = arguments.data(0, dtype, {numEdges, heads});
  void* out = arguments.data(1, dtype, {numEdges, heads});
  const Schedule schedule = arguments.schedule(5);
  const Workspace workspace = arguments.workspace(kSoftmaxPartialBytes, {schedule.numPieces, heads});
  arguments.check(launchSegmentSoftmax(dtype, scores, out, heads, schedule, workspace.data(),
                                       arguments.device().stream()));
}

}  // namespace warpgraph
