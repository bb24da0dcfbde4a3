// One environment's use of one device: its stream, on which all its work is queued in order.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "cuda/launch_target.h"
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
  cudaStream_t stream() const { return target_.stream; }
  const LaunchTarget& target() const { return target_; }
  Allocator& allocator() const { return Allocator::of(device_); }
  const std::shared_ptr<StreamCache>& cache() const { return cache_; }

  // Makes the device current in this thread.
  cudaError_t activate() const { return cudaSetDevice(device_); }

 private:
  DeviceContext(int device, cudaStream_t stream, const DeviceLimits& limits)
      : device_(device), target_{stream, limits, &loaded_}, cache_(Allocator::of(device).startStream()) {}

  const int device_;
  LoadedKernels loaded_;
  const LaunchTarget target_;
  const std::shared_ptr<StreamCache> cache_;
};

}  // namespace warpgraph
