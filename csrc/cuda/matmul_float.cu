// The matrix product in float32 on tensor cores; see matmul_mma.cuh.
#include "cuda/matmul_mma.cuh"

namespace warpgraph {

cudaError_t launchMatmulFloat(const Matmul& matmul, int numMultiprocessors, cudaStream_t stream) {
  return matmul.tf32 ? matmul_mma::launch<float, false>(matmul, numMultiprocessors, stream)
                     : matmul_mma::launch<float, true>(matmul, numMultiprocessors, stream);
}

}  // namespace warpgraph
