// The matrix product in bfloat16 on tensor cores; see matmul_mma.cuh.
#include "cuda/matmul_mma.cuh"

namespace warpgraph {

cudaError_t launchMatmulBfloat16(const Matmul& matmul, int numMultiprocessors, cudaStream_t stream) {
  return matmul_mma::launch<__nv_bfloat16, false>(matmul, numMultiprocessors, stream);
}

}  // namespace warpgraph
