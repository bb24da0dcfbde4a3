#include "runtime/device_health.h"

#include <atomic>

namespace warpgraph {
namespace {

constexpr int kMostDevices = 64;
std::atomic<int> lost[kMostDevices];

bool endsContext(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorExternalDevice:
    case cudaErrorMpsClientTerminated:
      return true;
    default:
      // Not in the headers of every CUDA 12: cudaErrorContained, cudaErrorTensorMemoryLeak.
      return static_cast<int>(error) == 226 || static_cast<int>(error) == 721;
  }
}

}  // namespace

cudaError_t lostTo(int device) {
  if (device < 0 || device >= kMostDevices) return cudaSuccess;
  return static_cast<cudaError_t>(lost[device].load(std::memory_order_relaxed));
}

void noteError(int device, cudaError_t error) {
  if (device < 0 || device >= kMostDevices || !endsContext(error)) return;
  int well = cudaSuccess;
  lost[device].compare_exchange_strong(well, error);
}

}  // namespace warpgraph
