// The matrix product in float16 on tensor cores; see matmul_mma.cuh.
#include "cuda/matmul_mma.cuh"

namespace warpgraph {

cudaError_t launchMatmulHalf(const Matmul& matmul, const LaunchTarget& target) {
  return matmul_mma::launch<__half, false>(matmul, target);
}

}  // namespace warpgraph
