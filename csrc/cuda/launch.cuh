// How all kernels of the ops are launched: so that a kernel may start while the one before it in the stream
// is still ending (programmatic dependent launch, compute capability 9.0 and later).
// CUDA's graphs hold such launches from CUDA 12.3 on.
//
// The rule that makes this safe: every thread calls waitForInputs() or waitForPrevious() before it reads what
// another kernel may have written and before it writes anything. Before that it may read a graph's structure
// alone, which was copied from the host, or computed before a launch that no kernel overtakes (deal_rows.cu,
// and the weights in gcn_aggregate.cu), and an op's inputs in a kernel that comes behind one of the same op
// that lets it come only after waitForPrevious(), since what wrote them is done by then; the kernels between
// the two may have let it come earlier.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "cuda/launch_function.h"
#include "cuda/launch_target.h"

namespace warpgraph {

// Lets the next kernel's blocks come as soon as there is room for them. Called after waitForPrevious() it
// tells the next kernel more: what was written before this one is there.
__device__ inline void allowNext() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Returns when all work queued before this kernel is done and seen.
__device__ inline void waitForPrevious() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// What most kernels do.
__device__ inline void waitForInputs() {
  allowNext();
  waitForPrevious();
}

template <typename... Parameters, typename... Arguments>
cudaError_t launchShaped(void (*kernel)(Parameters...), const LaunchShape& shape, const LaunchTarget& target,
                         Arguments&&... arguments) {
  const auto launch = [&](Parameters... values) {
    void* parameters[] = {&values...};
    return launchFunction(reinterpret_cast<const void*>(kernel), shape, target, parameters);
  };
  return launch(std::forward<Arguments>(arguments)...);
}

// With `sharedBytes` of dynamic shared memory.
template <typename... Parameters, typename... Arguments>
cudaError_t launchKernelWithShared(void (*kernel)(Parameters...), dim3 grid, unsigned threads,
                                   size_t sharedBytes, const LaunchTarget& target, Arguments&&... arguments) {
  return launchShaped(kernel, {grid, threads, sharedBytes}, target, std::forward<Arguments>(arguments)...);
}

template <typename... Parameters, typename... Arguments>
cudaError_t launchKernel(void (*kernel)(Parameters...), dim3 grid, unsigned threads,
                         const LaunchTarget& target, Arguments&&... arguments) {
  return launchKernelWithShared(kernel, grid, threads, 0, target, std::forward<Arguments>(arguments)...);
}

}  // namespace warpgraph
