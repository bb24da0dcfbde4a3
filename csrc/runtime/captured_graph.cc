#include "runtime/captured_graph.h"

#include <utility>

namespace warpgraph {

cudaError_t CapturedGraph::begin(DeviceContext& context) {
  // Relaxed: the allocator may ask the driver for memory meanwhile, which is no part of the graph.
  return cudaStreamBeginCapture(context.stream(), cudaStreamCaptureModeRelaxed);
}

void CapturedGraph::abort(DeviceContext& context) {
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(context.stream(), &graph) == cudaSuccess && graph != nullptr)
    cudaGraphDestroy(graph);
  cudaGetLastError();  // a recording that failed ends with an error that was reported already
}

cudaError_t CapturedGraph::end(DeviceContext& context, std::vector<std::shared_ptr<DeviceBuffer>> buffers,
                               std::unique_ptr<CapturedGraph>* result) {
  cudaGraph_t graph = nullptr;
  cudaError_t error = cudaStreamEndCapture(context.stream(), &graph);
  if (error != cudaSuccess) return error;
  cudaGraphExec_t executable;
  error = cudaGraphInstantiateWithFlags(&executable, graph, 0);
  cudaGraphDestroy(graph);
  if (error != cudaSuccess) return error;
  result->reset(new CapturedGraph(context, executable, std::move(buffers)));
  return cudaSuccess;
}

CapturedGraph::~CapturedGraph() {
  // Errors have nobody to go to.
  if (context_.activate() != cudaSuccess) return;
  cudaStreamSynchronize(context_.stream());
  cudaGraphExecDestroy(graph_);
}

}  // namespace warpgraph
