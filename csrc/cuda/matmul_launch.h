// The kernels behind launchMatmul, one launcher per file. None checks for empty results; matmul.cu does.
#pragma once

#include <algorithm>

#include "cuda/matmul.h"

namespace warpgraph {

// Blocks along y or z of a grid; kernels stride over what is left.
inline unsigned blocksOfAxis(int64_t items, int64_t itemsPerBlock) {
  return static_cast<unsigned>(std::min((items + itemsPerBlock - 1) / itemsPerBlock, int64_t{65535}));
}

// One thread per element; any card.
cudaError_t launchMatmulPlain(DType dtype, const Matmul& matmul, const LaunchTarget& target);

// mma.sync, compute capability 8.0 and later.
cudaError_t launchMatmulFloat(const Matmul& matmul, const LaunchTarget& target);
cudaError_t launchMatmulHalf(const Matmul& matmul, const LaunchTarget& target);
cudaError_t launchMatmulBfloat16(const Matmul& matmul, const LaunchTarget& target);

// wgmma, compute capability 9.0: large products of halves whose pointers, strides and pages the copy engine
// can follow.
bool matmulHopperTakes(DType dtype, const Matmul& matmul, int computeCapability);
cudaError_t launchMatmulHopper(DType dtype, const Matmul& matmul, const LaunchTarget& target);

// The others of halves, as far as the copy engine can follow.
bool matmulHopperFewTakes(DType dtype, const Matmul& matmul, int computeCapability);
cudaError_t launchMatmulHopperFew(DType dtype, const Matmul& matmul, const LaunchTarget& target);

// Large products of float32, with n contiguous in B.
bool matmulHopperFloatTakes(const Matmul& matmul, int computeCapability);
cudaError_t launchMatmulHopperFloat(const Matmul& matmul, const LaunchTarget& target);

}  // namespace warpgraph
