#include <cuda_runtime_api.h>

#include "binding/arguments.h"
#include "binding/functions.h"

namespace warpgraph {

void setDeviceErrorFactory(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "setDeviceErrorFactory", 1);
  if (!info[0].IsFunction()) arguments.fail(0, "a function");
  arguments.environment().setErrorFactory(info[0].As<Napi::Function>());
}

Napi::Value driverStatus(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  int driver = 0;
  int runtime = 0;
  int count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const cudaError_t error = cudaGetDeviceCount(&count);
  Napi::Object status = Napi::Object::New(env);
  status["driverVersion"] = Napi::Number::New(env, driver);
  status["runtimeVersion"] = Napi::Number::New(env, runtime);
  status["architectures"] = Napi::String::New(env, WARPGRAPH_ARCHITECTURES);
  status["deviceCount"] = Napi::Number::New(env, error == cudaSuccess ? count : 0);
  if (error == cudaSuccess) {
    status["error"] = env.Null();
  } else {
    cudaGetLastError();
    Napi::Object said = Napi::Object::New(env);
    said["cudaName"] = Napi::String::New(env, cudaGetErrorName(error));
    said["message"] = Napi::String::New(env, cudaGetErrorString(error));
    status["error"] = said;
  }
  return status;
}

Napi::Value deviceProperties(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Arguments arguments(info, "deviceProperties", 1);
  const int device = arguments.deviceIndex(0);
  cudaDeviceProp properties;
  arguments.environment().check(cudaGetDeviceProperties(&properties, device), device, arguments.op());
  Napi::Array capability = Napi::Array::New(env, 2);
  capability.Set(0u, Napi::Number::New(env, properties.major));
  capability.Set(1u, Napi::Number::New(env, properties.minor));
  Napi::Object found = Napi::Object::New(env);
  found["name"] = Napi::String::New(env, properties.name);
  found["computeCapability"] = capability;
  found["multiprocessors"] = Napi::Number::New(env, properties.multiProcessorCount);
  found["totalBytes"] = Napi::Number::New(env, static_cast<double>(properties.totalGlobalMem));
  found["l2Bytes"] = Napi::Number::New(env, properties.l2CacheSize);
  return found;
}

void synchronize(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "synchronize", 1);
  Environment& environment = arguments.environment();
  DeviceContext& context = environment.device(arguments.deviceIndex(0), arguments.op());
  environment.check(cudaStreamSynchronize(context.stream()), context.device(), arguments.op());
}

}  // namespace warpgraph
