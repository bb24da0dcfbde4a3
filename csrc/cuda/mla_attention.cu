// Chooses the kernels of multi-head latent attention. This is the single place that knows all of them.
#include "cuda/mla_attention.h"

#include "cuda/mla_plain.h"

namespace warpgraph {
namespace {

// Without elements and lse nothing is to be written, and products of sizes may mean nothing.
bool writesNothing(int64_t width, const float* lse, const MlaSizes& sizes) {
  const bool noQueries = sizes.batch == 0 || sizes.numQueries == 0 || sizes.heads == 0;
  return noQueries || (width == 0 && lse == nullptr);
}

}  // namespace

size_t mlaAttentionWorkspaceBytes(DType, const MlaAttention& attention, const MlaSizes& sizes,
                                  const MlaPlan&) {
  if (writesNothing(sizes.valueDim, attention.lse, sizes)) return 0;
  return mlaPlainWorkspaceBytes(sizes);
}

cudaError_t launchMlaAttention(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                               const MlaPlan&, void* workspace, cudaStream_t stream) {
  if (writesNothing(sizes.valueDim, attention.lse, sizes)) return cudaSuccess;
  return launchMlaPlain(dtype, plainOf(attention, sizes), sizes, workspace, stream);
}

size_t mlaDecodeWorkspaceBytes(DType, const MlaLatentAttention& attention, const MlaSizes& sizes,
                               const MlaPlan&) {
  if (writesNothing(sizes.rank, attention.lse, sizes)) return 0;
  return mlaPlainWorkspaceBytes(sizes);
}

cudaError_t launchMlaDecode(DType dtype, const MlaLatentAttention& attention, const MlaSizes& sizes,
                            const MlaPlan&, void* workspace, cudaStream_t stream) {
  if (writesNothing(sizes.rank, attention.lse, sizes)) return cudaSuccess;
  return launchMlaPlain(dtype, plainOf(attention), sizes, workspace, stream);
}

}  // namespace warpgraph
