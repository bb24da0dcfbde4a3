// One environment's use of one device: its stream, on which all its work is queued in order.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "runtime/allocator.h"

namespace warpgraph {

class DeviceContext {
 public:
  static cudaError_t create(int device, std::unique_ptr<DeviceContext>* context);
  // Waits for the work, then gives the stream and its cached memory back.
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  int device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  Allocator& allocator() { return allocator_; }
  // 10·major + minor.
  int computeCapability() const { return computeCapability_; }
  int multiprocessors() const { return multiprocessors_; }

  // Makes the device current in this thread.
  cudaError_t activate() const { return cudaSetDevice(device_); }

 private:
  DeviceContext(int device, cudaStream_t stream, int computeCapability, int multiprocessors)
      : device_(device),
        stream_(stream),
        computeCapability_(computeCapability),
        multiprocessors_(multiprocessors),
        allocator_(Allocator::of(device)) {}

  const int device_;
  const cudaStream_t stream_;
  const int computeCapability_;
  const int multiprocessors_;
  Allocator& allocator_;
};

}  // namespace warpgraph
