// The matrix product in bfloat16 on tensor cores; see matmul_mma.cuh.
#include "cuda/matmul_mma.cuh"

namespace warpgraph {

cudaError_t launchMatmulBfloat16(const Matmul& matmul, const LaunchTarget& target) {
  return matmul_mma::launch<__nv_bfloat16, false>(matmul, target);
}

}  // namespace warpgraph
