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

cudaError_t launchFunction(const void* kernel, dim3 grid, unsigned threads, size_t sharedBytes,
                           const LaunchTarget& target, void** parameters) {
  static const auto launch = findDriverFunction<decltype(&cuLaunchKernelEx)>("cuLaunchKernelEx");
  if (launch == nullptr) return cudaErrorNotSupported;
  CUfunction function;
  const cudaError_t error = find(kernel, *target.loaded, &function);
  if (error != cudaSuccess) return error;

  CUlaunchAttribute overlap;
  overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  overlap.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{};
  config.gridDimX = grid.x;
  config.gridDimY = grid.y;
  config.gridDimZ = grid.z;
  config.blockDimX = threads;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = static_cast<unsigned>(sharedBytes);
  config.hStream = target.stream;
  config.attrs = &overlap;
  config.numAttrs = target.limits.computeCapability >= 90 ? 1 : 0;
  // The runtime's errors have the driver's numbers.
  return static_cast<cudaError_t>(launch(&config, function, parameters, nullptr));
}

}  // namespace warpgraph
