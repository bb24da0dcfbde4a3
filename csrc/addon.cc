// The native addon: one line per function.
#include <napi.h>

#include "binding/environment.h"
#include "binding/functions.h"

namespace warpgraph {
namespace {

Napi::Object init(Napi::Env env, Napi::Object exports) {
  Environment::attach(env);
  const auto add = [&](const char* name, auto* function) {
    exports.Set(name, Napi::Function::New(env, function, name));
  };
  add("setDeviceErrorFactory", setDeviceErrorFactory);
  add("driverStatus", driverStatus);
  add("deviceProperties", deviceProperties);
  add("synchronize", synchronize);

  add("allocate", allocate);
  add("upload", upload);
  add("fill", fill);
  add("download", download);
  add("downloadAsync", downloadAsync);
  add("release", release);
  add("memory", memory);
  add("emptyCache", emptyCache);

  add("dealRows", dealRows);
  add("createStructure", createStructure);
  add("releaseStructure", releaseStructure);

  add("beginCapture", beginCapture);
  add("abortCapture", abortCapture);
  add("endCapture", endCapture);
  add("replay", replay);
  add("releaseGraph", releaseGraph);
  add("copy", copy);

  add("measureLaunch", measureLaunch);
  add("measureCopy", measureCopy);

  add("cast", cast);
  add("matmul", matmul);
  add("segmentSoftmax", segmentSoftmax);
  add("gcnWeights", gcnWeights);
  add("gcnAggregate", gcnAggregate);
  add("csrMax", csrMax);
  add("mlaAttention", mlaAttention);
  add("mlaDecode", mlaDecode);
  return exports;
}

NODE_API_MODULE(warpgraph, init)

}  // namespace
}  // namespace warpgraph
