#include "runtime/readback.h"

#include <utility>

namespace warpgraph {

Readback::Readback(std::function<void(std::unique_ptr<ReadRequest>)> report) : report_(std::move(report)) {
  sem_init(&posted_, 0, 0);
  thread_ = std::thread([this] { run(); });
}

void Readback::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  sem_post(&posted_);
  thread_.join();
}

Readback::~Readback() {
  sem_destroy(&posted_);
  for (const auto& request : queue_) cudaEventDestroy(request->ready);
}

void Readback::submit(std::unique_ptr<ReadRequest> request) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(request));
  }
  sem_post(&posted_);
}

std::unique_ptr<ReadRequest> Readback::next() {
  while (sem_wait(&posted_) != 0) continue;  // interrupted by a signal
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return nullptr;
  std::unique_ptr<ReadRequest> request = std::move(queue_.front());
  queue_.pop_front();
  return request;
}

void Readback::run() {
  while (std::unique_ptr<ReadRequest> request = next()) {
    request->result = copy(*request);
    cudaEventDestroy(request->ready);
    report_(std::move(request));
  }
  for (const auto& [device, stream] : streams_) {
    if (cudaSetDevice(device) == cudaSuccess) cudaStreamDestroy(stream);
  }
}

cudaError_t Readback::copy(const ReadRequest& request) {
  cudaError_t error = cudaSetDevice(request.device);
  if (error != cudaSuccess) return error;
  cudaStream_t& stream = streams_[request.device];
  if (stream == nullptr) error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  // The event was made to block: this thread sleeps while the device works, and leaves the core to
  // JavaScript.
  if (error == cudaSuccess) error = cudaEventSynchronize(request.ready);
  if (error == cudaSuccess) {
    error =
        cudaMemcpyAsync(request.destination, request.source, request.bytes, cudaMemcpyDeviceToHost, stream);
  }
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  if (error != cudaSuccess) cudaGetLastError();
  return error;
}

}  // namespace warpgraph
