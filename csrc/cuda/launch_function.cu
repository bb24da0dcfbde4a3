#include "cuda/launch_function.h"

#include "cuda/driver.h"

namespace warpgraph {
namespace {

// The kernel as the driver knows it on the current device.
cudaError_t find(const void* kernel, LoadedKernels& loaded, CUfunction* function) {
  const auto found = loaded.find(kernel);
  if (found != loaded.end()) {
    *function = found->second;
    return cudaSuccess;
  }
  const cudaError_t error = cudaGetFuncBySymbol(function, kernel);
  if (error == cudaSuccess) loaded.emplace(kernel, *function);
  return error;
}

}  // namespace

cudaError_t launchFunction(const void* kernel, const LaunchShape& shape, const LaunchTarget& target,
                           void** parameters) {
  static const auto launch = findDriverFunction<decltype(&cuLaunchKernelEx)>("cuLaunchKernelEx");
  if (launch == nullptr) return cudaErrorNotSupported;
  CUfunction function;
  const cudaError_t error = find(kernel, *target.loaded, &function);
  if (error != cudaSuccess) return error;

  CUlaunchAttribute attributes[2];
  unsigned numAttributes = 0;
  if (shape.overlaps && target.limits.computeCapability >= 90) {
    CUlaunchAttribute& overlap = attributes[numAttributes++];
    overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    overlap.value.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster.x * shape.cluster.y * shape.cluster.z > 1) {
    CUlaunchAttribute& cluster = attributes[numAttributes++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = shape.cluster.x;
    cluster.value.clusterDim.y = shape.cluster.y;
    cluster.value.clusterDim.z = shape.cluster.z;
  }
  CUlaunchConfig config{};
  config.gridDimX = shape.grid.x;
  config.gridDimY = shape.grid.y;
  config.gridDimZ = shape.grid.z;
  config.blockDimX = shape.threads;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = static_cast<unsigned>(shape.sharedBytes);
  config.hStream = target.stream;
  config.attrs = attributes;
  config.numAttrs = numAttributes;
  // The runtime's errors have the driver's numbers.
  return static_cast<cudaError_t>(launch(&config, function, parameters, nullptr));
}

}  // namespace warpgraph
