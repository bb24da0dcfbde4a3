#include "runtime/device_context.h"

namespace warpgraph {

cudaError_t DeviceContext::create(int device, std::unique_ptr<DeviceContext>* context) {
  cudaError_t error = cudaSetDevice(device);
  if (error != cudaSuccess) return error;
  int major, minor, multiprocessors;
  error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (error != cudaSuccess) return error;
  cudaStream_t stream;
  error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  context->reset(new DeviceContext(device, stream, 10 * major + minor, multiprocessors));
  return cudaSuccess;
}

DeviceContext::~DeviceContext() {
  // Errors have nobody to go to any more; a driver that is already unloading refuses everything.
  if (activate() != cudaSuccess) return;
  cudaStreamSynchronize(stream_);
  allocator_.endStream(stream_);
  cudaStreamDestroy(stream_);
}

}  // namespace warpgraph
