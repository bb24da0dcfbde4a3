// Chooses the kernel of a matrix product. The choice may not depend on m or batch: kernels differ in the last
// bits, and a row of the result may not depend on what it is computed along with.
#include "cuda/matmul.h"

#include "cuda/matmul_launch.h"

namespace warpgraph {

cudaError_t launchMatmul(DType dtype, const Matmul& matmul, const LaunchTarget& target) {
  const int computeCapability = target.limits.computeCapability;
  if (matmul.batch == 0 || matmul.m == 0 || matmul.n == 0) return cudaSuccess;
  // A tile without rows reads nothing, waits for nothing, and would write too early.
  if (matmul.bIsThere && (matmul.rowLimits != nullptr || matmul.pages.blockTable != nullptr)) {
    return cudaErrorInvalidValue;
  }
  if (computeCapability < 80) return launchMatmulPlain(dtype, matmul, target);
  if (matmulHopperTakes(dtype, matmul, computeCapability)) {
    return launchMatmulHopper(dtype, matmul, target);
  }
  if (matmulHopperFewTakes(dtype, matmul, computeCapability)) {
    return launchMatmulHopperFew(dtype, matmul, target);
  }
  switch (dtype) {
    case DType::kFloat32:
      return matmulHopperFloatTakes(matmul, computeCapability) ? launchMatmulHopperFloat(matmul, target)
                                                               : launchMatmulFloat(matmul, target);
    case DType::kFloat16:
      return launchMatmulHalf(matmul, target);
    case DType::kBfloat16:
      return launchMatmulBfloat16(matmul, target);
    case DType::kInt32:
      break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace warpgraph
