#include "binding/pending_reads.h"

#include <utility>

#include "binding/environment.h"

namespace warpgraph {

struct PendingReads::Read : ReadRequest {
  Read(Napi::Env env, std::shared_ptr<DeviceBuffer> buffer, Napi::TypedArray into)
      : deferred(Napi::Promise::Deferred::New(env)),
        buffer(std::move(buffer)),
        into(Napi::Persistent(into)) {}
  // Whoever deletes a read in a live environment resets `into` first; an ending one takes its references back
  // itself.
  ~Read() override { into.SuppressDestruct(); }

  PendingReads* owner = nullptr;  // until shutDown()
  Napi::Promise::Deferred deferred;
  std::shared_ptr<DeviceBuffer> buffer;
  Napi::Reference<Napi::TypedArray> into;
};

void PendingReads::startThread() {
  auto readback = std::make_unique<Readback>([this](std::unique_ptr<ReadRequest> request) {
    auto* read = static_cast<Read*>(request.get());
    if (bridge_.NonBlockingCall(read) == napi_ok) {
      request.release();  // finish() has it now
      return;
    }
    const std::lock_guard<std::mutex> lock(refusedMutex_);
    refused_.push_back(std::move(request));
  });
  bridge_ = Bridge::New(env_, "warpgraph data()", 0, 1, this);
  bridge_.Unref(env_);
  readback_ = std::move(readback);
}

Napi::Promise PendingReads::start(std::shared_ptr<DeviceBuffer> buffer, Napi::TypedArray into, size_t bytes) {
  constexpr const char* op = "data";
  Environment& environment = Environment::of(env_);
  DeviceContext& context = buffer->context();
  if (readback_ == nullptr) startThread();
  cudaEvent_t ready;
  environment.check(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming | cudaEventBlockingSync),
                    context.device(), op);
  const cudaError_t error = cudaEventRecord(ready, context.stream());
  if (error != cudaSuccess) {
    cudaEventDestroy(ready);
    throw environment.error(error, context.device(), op);
  }
  auto read = std::make_unique<Read>(env_, buffer, into);
  const Napi::Promise promise = read->deferred.Promise();
  read->device = context.device();
  read->ready = ready;
  read->source = buffer->data();
  read->destination = static_cast<char*>(into.ArrayBuffer().Data()) + into.ByteOffset();
  read->bytes = bytes;
  read->owner = this;
  if (inFlight_.empty()) bridge_.Ref(env_);
  inFlight_.insert(read.get());
  readback_->submit(std::move(read));
  return promise;
}

void PendingReads::finish(Napi::Env env, Napi::Function, PendingReads* reads, Read* pending) {
  const std::unique_ptr<Read> read(pending);
  if (read->owner != nullptr) read->owner->inFlight_.erase(pending);
  if (env == nullptr) return;  // the environment is ending, and nobody waits any more
  read->into.Reset();
  if (reads->inFlight_.empty()) reads->bridge_.Unref(env);
  if (read->result == cudaSuccess) {
    read->deferred.Resolve(env.Undefined());
  } else {
    read->deferred.Reject(Environment::of(env).error(read->result, read->device, "data").Value());
  }
}

void PendingReads::shutDown() {
  if (readback_ == nullptr) return;
  // Nothing is being copied any more once the thread has ended. Reads that it never came to go with it; those
  // that it reported and nobody finished wait in the bridge, and hold their buffers no longer than the
  // device's stream lives.
  readback_->stop();
  for (Read* read : inFlight_) {
    read->owner = nullptr;
    read->buffer.reset();
  }
  inFlight_.clear();
  readback_.reset();
  refused_.clear();
  bridge_.Release();
}

}  // namespace warpgraph
