#include "cuda/segment_softmax.h"

#include "binding/arguments.h"
#include "binding/functions.h"

namespace warpgraph {

void segmentSoftmax(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "segmentSoftmax", 5);
  const Structure& structure = arguments.structure(0);
  const DType dtype = arguments.dtype(3);
  const int64_t heads = arguments.size(4);
  const void* scores = arguments.data(1, dtype, {structure.numEdges, heads});
  void* out = arguments.data(2, dtype, {structure.numEdges, heads});
  // Any number of heads fits no edges, but not a grid.
  if (structure.numEdges == 0) return;
  const Workspace workspace =
      arguments.workspace(kSoftmaxPartialBytes, {softmaxPartials(structure.schedule), heads});
  arguments.check(launchSegmentSoftmax(dtype, scores, out, heads, structure.schedule, workspace.data(),
                                       arguments.target()));
}

}  // namespace warpgraph
