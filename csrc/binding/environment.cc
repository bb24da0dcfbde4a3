#include "binding/environment.h"

#include <algorithm>
#include <string>
#include <utility>

#include "binding/pending_reads.h"
#include "runtime/device_health.h"

namespace warpgraph {
namespace {

constexpr int64_t kStepToTellV8 = int64_t{1} << 26;
constexpr size_t kMostDevices =
    1024;  // an index beyond is no device: CUDA says so when the last slot is tried

std::string mebibytes(int64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

void Environment::attach(Napi::Env env) {
  auto* environment = new Environment(env);
  env.SetInstanceData(environment);
  env.AddCleanupHook([](Environment* ending) { ending->shutDown(); }, environment);
}

Environment::Environment(Napi::Env env) : env_(env), reads_(new PendingReads(env)) {}

Environment::~Environment() {
  errorFactory_.SuppressDestruct();
}

void Environment::shutDown() {
  reads_->shutDown();
  if (isRecording()) CapturedGraph::abort(*endRecording().context);
  graphs_.clear();
  structures_.clear();
  buffers_.clear();
  devices_.clear();
}

DeviceContext& Environment::device(int index, const char* op) {
  const cudaError_t lost = lostTo(index);
  if (lost != cudaSuccess) {
    throw makeError(std::string(op) + ": cuda:" + std::to_string(index) + " was lost to an earlier error (" +
                        cudaGetErrorName(lost) + "); only a new process can use it again",
                    "ERR_DEVICE_LOST", lost);
  }
  const auto slot = static_cast<size_t>(index);
  if (slot >= devices_.size()) devices_.resize(std::min(slot, kMostDevices) + 1);
  std::unique_ptr<DeviceContext>& context = devices_[std::min(slot, kMostDevices)];
  if (context == nullptr) check(DeviceContext::create(index, &context), index, op);
  check(context->activate(), index, op);
  return *context;
}

std::shared_ptr<DeviceBuffer> Environment::allocate(DeviceContext& context, size_t bytes, const char* op) {
  Block block;
  const cudaError_t result = context.cache()->allocate(bytes, &block);
  if (result == cudaErrorMemoryAllocation) {
    throw makeError(std::string(op) + ": " + memoryReport(context.device(), bytes),
                    "ERR_DEVICE_OUT_OF_MEMORY", result);
  }
  check(result, context.device(), op);
  auto buffer = std::make_shared<DeviceBuffer>(context, block, bytes);
  use(buffer);
  return buffer;
}

Napi::Value Environment::adopt(std::shared_ptr<DeviceBuffer> buffer) {
  const auto bytes = static_cast<int64_t>(buffer->bytes());
  const Napi::Value handle = adopt(buffers_, std::move(buffer));
  account(bytes);
  return handle;
}

bool Environment::release(Handle handle) {
  const std::shared_ptr<DeviceBuffer>* buffer = buffers_.find(handle);
  if (buffer == nullptr) return false;
  account(-static_cast<int64_t>((*buffer)->bytes()));
  return buffers_.release(handle);
}

void Environment::account(int64_t change) {
  liveBytes_ += change;
  const bool grew = liveBytes_ > toldBytes_ + std::max(kStepToTellV8, toldBytes_ / 8);
  const bool shrank = liveBytes_ < toldBytes_ / 2 - kStepToTellV8;
  if (!grew && !shrank) return;
  Napi::MemoryManagement::AdjustExternalMemory(env_, liveBytes_ - toldBytes_);
  toldBytes_ = liveBytes_;
}

std::string Environment::memoryReport(int device, size_t bytes) {
  size_t free = 0;
  size_t total = 0;
  cudaMemGetInfo(&free, &total);
  const AllocatorFigures figures = Allocator::of(device).figures();
  return "cuda:" + std::to_string(device) + " is out of memory: asked for " + mebibytes(bytes) + ", " +
         mebibytes(figures.bytes) + " live in " + std::to_string(figures.buffers) + " buffers, " +
         mebibytes(figures.cachedBytes) + " cached, " + mebibytes(free) + " free of " + mebibytes(total);
}

void Environment::check(cudaError_t result, int device, const char* op) {
  if (result != cudaSuccess) throw error(result, device, op);
}

Napi::Error Environment::error(cudaError_t result, int device, const char* op) {
  cudaGetLastError();  // reported here; later calls must not find it again
  noteError(device, result);
  const std::string message = std::string(op) + ": cuda:" + std::to_string(device) + ": " +
                              cudaGetErrorString(result) + " (" + cudaGetErrorName(result) + ")";
  return makeError(message, lostTo(device) == cudaSuccess ? "ERR_DEVICE" : "ERR_DEVICE_LOST", result);
}

Napi::Error Environment::makeError(const std::string& message, const char* code, cudaError_t result) {
  if (errorFactory_.IsEmpty()) return Napi::Error::New(env_, message);
  const Napi::Value made =
      errorFactory_.Call({Napi::String::New(env_, message), Napi::String::New(env_, code),
                          Napi::String::New(env_, cudaGetErrorName(result))});
  return Napi::Error(env_, made);
}

}  // namespace warpgraph
