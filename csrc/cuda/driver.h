// The driver's own functions, found at run time: the addon doesn't link with libcuda, which is there only
// where a driver is.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace warpgraph {

// Null when the driver has no function of this name. It has the interface of CUDA 12.0.
void* findDriverFunction(const char* name);

template <typename Function>
Function findDriverFunction(const char* name) {
  return reinterpret_cast<Function>(findDriverFunction(name));
}

}  // namespace warpgraph
