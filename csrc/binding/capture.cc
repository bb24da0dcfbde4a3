#include <cuda_runtime_api.h>

#include <utility>

#include "binding/arguments.h"
#include "binding/functions.h"

namespace warpgraph {
namespace {

const CapturedGraph& graphAt(const Arguments& arguments, size_t index) {
  const auto* graph = arguments.environment().graphs().find(arguments.number(index));
  if (graph == nullptr) arguments.fail(index, "a live graph");
  return **graph;
}

}  // namespace

void beginCapture(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "capture", 1);
  Environment& environment = arguments.environment();
  DeviceContext& context = environment.device(arguments.deviceIndex(0), arguments.op());
  if (environment.isRecording()) arguments.fail(0, "a device while no capture is under way");
  environment.check(CapturedGraph::begin(context), context.device(), arguments.op());
  environment.startRecording(context);
}

void abortCapture(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "capture", 0);
  Environment& environment = arguments.environment();
  if (!environment.isRecording()) return;
  Recording recording = environment.endRecording();
  CapturedGraph::abort(*recording.context);
}

Napi::Value endCapture(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "capture", 0);
  Environment& environment = arguments.environment();
  if (!environment.isRecording()) {
    throw Napi::TypeError::New(info.Env(), "capture: none is under way");
  }
  Recording recording = environment.endRecording();
  std::unique_ptr<CapturedGraph> graph;
  environment.check(CapturedGraph::end(*recording.context, std::move(recording.buffers), &graph),
                    recording.context->device(), arguments.op());
  return environment.adopt(environment.graphs(), std::move(graph));
}

void replay(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "capture", 1);
  Environment& environment = arguments.environment();
  const CapturedGraph& graph = graphAt(arguments, 0);
  DeviceContext& context = environment.device(graph.context().device(), arguments.op());
  environment.check(graph.launch(), context.device(), arguments.op());
}

void releaseGraph(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "capture", 1);
  if (!arguments.environment().graphs().release(arguments.number(0))) arguments.fail(0, "a live graph");
}

void copy(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "copy", 3);
  const int64_t bytes = arguments.size(2);
  const void* from = arguments.data(0, 1, {bytes});
  void* to = arguments.data(1, 1, {bytes});
  if (bytes == 0) return;
  arguments.check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                                  arguments.device().stream()));
}

}  // namespace warpgraph
