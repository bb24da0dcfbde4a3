// The matrix product in float32 on tensor cores; see matmul_mma.cuh.
#include "cuda/matmul_mma.cuh"

namespace warpgraph {

cudaError_t launchMatmulFloat(const Matmul& matmul, const LaunchTarget& target) {
  return matmul.tf32 ? matmul_mma::launch<float, false>(matmul, target)
                     : matmul_mma::launch<float, true>(matmul, target);
}

}  // namespace warpgraph
