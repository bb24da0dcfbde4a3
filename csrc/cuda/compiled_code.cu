// Kernels have bodies for some compute capabilities only, so a launcher must choose by what was compiled, not
// by what the card could do. A kernel's static shared memory tells: its size is a constant of the
// compilation, and the runtime reads it off the code that it has loaded.
#include "cuda/compiled_code.h"

#include <algorithm>

#include "cuda/hopper.cuh"

namespace warpgraph {
namespace {

constexpr int kBytesPerStep = 16;   // sizes are rounded up to fewer
constexpr int kHopperSteps = 1000;  // above every capability

__global__ void probeKernel() {
#if defined(__CUDA_ARCH__)
#if WARPGRAPH_HOPPER
  constexpr int kSteps = __CUDA_ARCH__ / 10 + kHopperSteps;
#else
  constexpr int kSteps = __CUDA_ARCH__ / 10;
#endif
  __shared__ volatile char bytes[kSteps * kBytesPerStep];
  bytes[threadIdx.x] = 0;
#endif
}

}  // namespace

cudaError_t compiledCapability(int* capability) {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, probeKernel);
  if (error != cudaSuccess) return error;
  const int steps = static_cast<int>(attributes.sharedSizeBytes) / kBytesPerStep;
  const bool hasHopper = steps >= kHopperSteps;
  *capability = hasHopper ? steps - kHopperSteps : steps == 90 ? 89 : steps;
  return cudaSuccess;
}

}  // namespace warpgraph
