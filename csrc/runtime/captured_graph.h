// Work recorded once and launched again as one CUDA graph.
//
// The graph's kernels hold the addresses that they were recorded with, so the graph holds every buffer that
// was used while recording, inputs, results and intermediate results alike, until it goes.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>
#include <vector>

#include "runtime/device_buffer.h"

namespace warpgraph {

class CapturedGraph {
 public:
  // Starts to record what is queued on the context's stream; nothing is executed meanwhile.
  static cudaError_t begin(DeviceContext& context);
  // Ends the recording and throws it away.
  static void abort(DeviceContext& context);
  // Ends the recording. The graph takes over the holds on its buffers.
  static cudaError_t end(DeviceContext& context, std::vector<std::shared_ptr<DeviceBuffer>> buffers,
                         std::unique_ptr<CapturedGraph>* graph);

  // Waits for launches under way.
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  DeviceContext& context() const { return context_; }
  cudaError_t launch() const { return cudaGraphLaunch(graph_, context_.stream()); }

 private:
  CapturedGraph(DeviceContext& context, cudaGraphExec_t graph,
                std::vector<std::shared_ptr<DeviceBuffer>> buffers)
      : context_(context), graph_(graph), buffers_(std::move(buffers)) {}

  DeviceContext& context_;
  const cudaGraphExec_t graph_;
  const std::vector<std::shared_ptr<DeviceBuffer>> buffers_;
};

}  // namespace warpgraph
