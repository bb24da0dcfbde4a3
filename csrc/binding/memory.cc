#include <cuda_runtime_api.h>

#include "binding/arguments.h"
#include "binding/functions.h"
#include "binding/pending_reads.h"

namespace warpgraph {
namespace {

DeviceContext& deviceAt(const Arguments& arguments, size_t index) {
  return arguments.environment().device(arguments.deviceIndex(index), arguments.op());
}

char* dataOf(const Napi::TypedArray& view) {
  return static_cast<char*>(view.ArrayBuffer().Data()) + view.ByteOffset();
}

// The buffer of a read, checked against the view that it goes to.
const std::shared_ptr<DeviceBuffer>& source(const Arguments& arguments, const Napi::TypedArray& into) {
  const std::shared_ptr<DeviceBuffer>& buffer = arguments.buffer(0);
  if (buffer->bytes() < into.ByteLength()) arguments.fail(0, "as large as the view");
  arguments.environment().device(buffer->context().device(), arguments.op());
  return buffer;
}

}  // namespace

Napi::Value allocate(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "allocate", 2);
  Environment& environment = arguments.environment();
  DeviceContext& context = environment.context(arguments.deviceIndex(0), arguments.op());
  const auto bytes = static_cast<size_t>(arguments.size(1));
  return environment.adopt(environment.allocate(context, bytes, arguments.op()));
}

Napi::Value upload(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "upload", 2);
  Environment& environment = arguments.environment();
  DeviceContext& context = deviceAt(arguments, 0);
  const Napi::TypedArray elements = arguments.view(1);
  const size_t bytes = elements.ByteLength();
  std::shared_ptr<DeviceBuffer> buffer = environment.allocate(context, bytes, arguments.op());
  if (bytes > 0) {
    environment.check(
        cudaMemcpyAsync(buffer->data(), dataOf(elements), bytes, cudaMemcpyHostToDevice, context.stream()),
        context.device(), arguments.op());
    // CUDA may read pageable memory after the call has returned; the view is free to change and to go away
    // then.
    environment.check(cudaStreamSynchronize(context.stream()), context.device(), arguments.op());
  }
  return environment.adopt(std::move(buffer));
}

void fill(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "fill", 2);
  Environment& environment = arguments.environment();
  const std::shared_ptr<DeviceBuffer>& shared = arguments.buffer(0);
  environment.use(shared);
  const DeviceBuffer& buffer = *shared;
  const int64_t byte = arguments.size(1);
  if (byte > 255) arguments.fail(1, "a byte");
  DeviceContext& context = environment.device(buffer.context().device(), arguments.op());
  if (buffer.bytes() == 0) return;
  environment.check(cudaMemsetAsync(buffer.data(), static_cast<int>(byte), buffer.bytes(), context.stream()),
                    context.device(), arguments.op());
}

void download(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "dataSync", 2);
  Environment& environment = arguments.environment();
  const Napi::TypedArray into = arguments.view(1);
  const DeviceBuffer& buffer = *source(arguments, into);
  DeviceContext& context = buffer.context();
  if (into.ByteLength() > 0) {
    environment.check(cudaMemcpyAsync(dataOf(into), buffer.data(), into.ByteLength(), cudaMemcpyDeviceToHost,
                                      context.stream()),
                      context.device(), arguments.op());
  }
  environment.check(cudaStreamSynchronize(context.stream()), context.device(), arguments.op());
}

Napi::Value downloadAsync(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "data", 2);
  const Napi::TypedArray into = arguments.view(1);
  return arguments.environment().reads().start(source(arguments, into), into, into.ByteLength());
}

void release(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "release", 1);
  double handle;
  if (!arguments.isNumber(0, &handle) || !arguments.environment().release(handle)) {
    arguments.fail(0, "a live buffer");
  }
}

Napi::Value memory(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "memory", 1);
  const Napi::Env env = info.Env();
  DeviceContext& context = deviceAt(arguments, 0);
  size_t free = 0;
  size_t total = 0;
  arguments.environment().check(cudaMemGetInfo(&free, &total), context.device(), arguments.op());
  const AllocatorFigures figures = context.allocator().figures();
  Napi::Object result = Napi::Object::New(env);
  result["buffers"] = Napi::Number::New(env, static_cast<double>(figures.buffers));
  result["bytes"] = Napi::Number::New(env, static_cast<double>(figures.bytes));
  result["cachedBytes"] = Napi::Number::New(env, static_cast<double>(figures.cachedBytes));
  result["freeBytes"] = Napi::Number::New(env, static_cast<double>(free));
  result["totalBytes"] = Napi::Number::New(env, static_cast<double>(total));
  return result;
}

void emptyCache(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "emptyCache", 1);
  DeviceContext& context = deviceAt(arguments, 0);
  arguments.environment().check(context.allocator().emptyCache(), context.device(), arguments.op());
}

}  // namespace warpgraph
