#include "runtime/device_context.h"

#include <algorithm>

#include "cuda/compiled_code.h"

namespace warpgraph {
namespace {

cudaError_t readLimits(int device, DeviceLimits* limits) {
  int major = 0;
  int minor = 0;
  int l2Bytes = 0;
  const std::pair<cudaDeviceAttr, int*> wanted[] = {
      {cudaDevAttrComputeCapabilityMajor, &major},
      {cudaDevAttrComputeCapabilityMinor, &minor},
      {cudaDevAttrMultiProcessorCount, &limits->multiprocessors},
      {cudaDevAttrL2CacheSize, &l2Bytes},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, &limits->sharedBytesPerBlock},
  };
  for (const auto& [attribute, value] : wanted) {
    const cudaError_t error = cudaDeviceGetAttribute(value, attribute, device);
    if (error != cudaSuccess) return error;
  }
  int compiled = 0;
  const cudaError_t error = compiledCapability(&compiled);
  if (error != cudaSuccess) return error;
  limits->computeCapability = std::min(10 * major + minor, compiled);
  limits->l2Bytes = l2Bytes;
  return cudaSuccess;
}

}  // namespace

cudaError_t DeviceContext::create(int device, std::unique_ptr<DeviceContext>* context) {
  cudaError_t error = cudaSetDevice(device);
  if (error != cudaSuccess) return error;
  DeviceLimits limits;
  error = readLimits(device, &limits);
  if (error != cudaSuccess) return error;
  cudaStream_t stream;
  error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  context->reset(new DeviceContext(device, stream, limits));
  return cudaSuccess;
}

DeviceContext::~DeviceContext() {
  // Errors have nobody to go to any more; a driver that is already unloading refuses everything.
  const bool isReachable = activate() == cudaSuccess;
  if (isReachable) cudaStreamSynchronize(stream());
  cache_->end();
  if (isReachable) cudaStreamDestroy(stream());
}

}  // namespace warpgraph
