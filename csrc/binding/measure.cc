// The machine's own limits, for the bench: what an op's time is held against.
#include <cuda_runtime_api.h>

#include <chrono>

#include "binding/arguments.h"
#include "binding/functions.h"
#include "cuda/empty.h"

namespace warpgraph {
namespace {

// Microseconds that `count` repeats of `body` take on the stream, as seen from the host.
template <typename Body>
double microseconds(const Arguments& arguments, const DeviceContext& context, int64_t count, Body body) {
  Environment& environment = arguments.environment();
  const auto check = [&](cudaError_t error) { environment.check(error, context.device(), arguments.op()); };
  check(cudaStreamSynchronize(context.stream()));
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) check(body());
  check(cudaStreamSynchronize(context.stream()));
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Napi::Value measureLaunch(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "measureLaunch", 2);
  DeviceContext& context = arguments.environment().device(arguments.deviceIndex(0), arguments.op());
  const int64_t count = arguments.size(1);
  if (count == 0) arguments.fail(1, "at least 1");
  const double time = microseconds(arguments, context, count, [&] { return launchEmpty(context.stream()); });
  return Napi::Number::New(info.Env(), time / static_cast<double>(count));
}

Napi::Value measureCopy(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "measureCopy", 3);
  Environment& environment = arguments.environment();
  DeviceContext& context = environment.device(arguments.deviceIndex(0), arguments.op());
  const auto bytes = static_cast<size_t>(arguments.size(1));
  const int64_t count = arguments.size(2);
  if (bytes == 0) arguments.fail(1, "at least 1");
  if (count == 0) arguments.fail(2, "at least 1");
  const std::shared_ptr<DeviceBuffer> from = environment.allocate(context, bytes, arguments.op());
  const std::shared_ptr<DeviceBuffer> to = environment.allocate(context, bytes, arguments.op());
  const auto copy = [&] {
    return cudaMemcpyAsync(to->data(), from->data(), bytes, cudaMemcpyDeviceToDevice, context.stream());
  };
  // Zeros may move faster than data; what the first copy costs once is not counted.
  environment.check(cudaMemsetAsync(from->data(), 0x5a, bytes, context.stream()), context.device(),
                    arguments.op());
  environment.check(copy(), context.device(), arguments.op());
  const double time = microseconds(arguments, context, count, copy);
  return Napi::Number::New(info.Env(), 2e6 * static_cast<double>(bytes) * static_cast<double>(count) / time);
}

}  // namespace warpgraph
