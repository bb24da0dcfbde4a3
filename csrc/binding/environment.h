// What one JavaScript environment (the main thread or a worker) holds: its streams, its buffers, its reads in
// flight. Nothing is shared between environments but the allocator's figures and the state of devices.
#pragma once

#include <napi.h>

#include <memory>
#include <utility>
#include <vector>

#include "binding/structure.h"
#include "runtime/captured_graph.h"
#include "runtime/device_buffer.h"
#include "runtime/device_context.h"
#include "runtime/handle_table.h"

namespace warpgraph {

class PendingReads;

// A capture under way: the device, and the buffers used so far.
struct Recording {
  DeviceContext* context = nullptr;
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
};

class Environment {
 public:
  // Makes the environment's instance, which goes when the environment does.
  static void attach(Napi::Env env);
  static Environment& of(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

  explicit Environment(Napi::Env env);
  ~Environment();

  // The device, current in this thread. Throws when it was lost or cannot be used.
  DeviceContext& device(int index, const char* op);

  // A buffer of uninitialised memory. Throws when memory is short.
  std::shared_ptr<DeviceBuffer> allocate(DeviceContext& context, size_t bytes, const char* op);

  // Hands a buffer, or something else of a table, to JavaScript.
  Napi::Value adopt(std::shared_ptr<DeviceBuffer> buffer);
  template <typename Pointer>
  Napi::Value adopt(HandleTable<Pointer>& table, Pointer pointer) {
    const Handle handle = table.add(std::move(pointer));
    if (handle < 0) throw Napi::Error::New(env_, "too many handles");
    return Napi::Number::New(env_, handle);
  }
  bool release(Handle handle);

  HandleTable<std::shared_ptr<DeviceBuffer>>& buffers() { return buffers_; }
  HandleTable<std::unique_ptr<Structure>>& structures() { return structures_; }
  HandleTable<std::unique_ptr<CapturedGraph>>& graphs() { return graphs_; }

  bool isRecording() const { return recording_.context != nullptr; }
  void startRecording(DeviceContext& context) { recording_.context = &context; }
  Recording endRecording() { return std::exchange(recording_, Recording{}); }
  // A buffer is used; a recording holds it from now on.
  void use(const std::shared_ptr<DeviceBuffer>& buffer) {
    if (isRecording()) recording_.buffers.push_back(buffer);
  }

  PendingReads& reads() { return *reads_; }

  void setErrorFactory(Napi::Function factory) { errorFactory_ = Napi::Persistent(factory); }

  // Throws a DeviceError unless the call succeeded; an error that ends the device's context is remembered.
  void check(cudaError_t error, int device, const char* op);
  Napi::Error error(cudaError_t error, int device, const char* op);

  // Gives everything back to the devices; the environment is about to end.
  void shutDown();

 private:
  Napi::Error makeError(const std::string& message, const char* code, cudaError_t error);
  std::string memoryReport(int device, size_t bytes);
  // Counts what JavaScript's handles keep alive, and tells V8 when it has changed much: a collection may
  // follow each time, which a loop that makes and disposes one large result a round must not pay for.
  void account(int64_t change);

  const Napi::Env env_;
  std::vector<std::unique_ptr<DeviceContext>> devices_;  // by index, made on first use
  HandleTable<std::shared_ptr<DeviceBuffer>> buffers_;
  HandleTable<std::unique_ptr<Structure>> structures_;
  HandleTable<std::unique_ptr<CapturedGraph>> graphs_;
  Recording recording_;
  std::unique_ptr<PendingReads> reads_;
  Napi::FunctionReference errorFactory_;
  int64_t liveBytes_ = 0;
  int64_t toldBytes_ = 0;
};

}  // namespace warpgraph
