// The absorbed way: qLatent = q·wUpKᵀ per head, attention over the latents, out = mean·wUpV per head
// (DeepSeek-V2, arXiv:2405.04434, section 2.1). What decoding wants: the latents are read once for all heads.
#include "cuda/matmul.h"
#include "cuda/mla_absorb.h"
#include "cuda/mla_decode_hopper.h"
#include "cuda/mla_paths.h"
#include "cuda/mla_plain.h"
#include "cuda/workspace.h"

namespace warpgraph {
namespace {

// From so many queries of a sequence on the projections are large products. It may not depend on the batch.
constexpr int64_t kManyQueries = 256;

enum class Kernel { kHopper, kMma, kPlain };

Kernel kernelOf(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, const DeviceLimits& limits) {
  if (mlaDecodeHopperTakes(dtype, sizes, keys, limits.computeCapability)) return Kernel::kHopper;
  return mlaAbsorbTakes(dtype, sizes, keys, limits.computeCapability) ? Kernel::kMma : Kernel::kPlain;
}

int64_t mmaSplits(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int64_t numSplits,
                  const DeviceLimits& limits) {
  return numSplits > 0 ? numSplits : mlaAbsorbSplits(dtype, sizes, keys, limits.multiprocessors);
}

struct AbsorbedWorkspace {
  void *qLatent, *mean;  // (batch, numQueries, heads, rank) each
  void* core;
  size_t bytes;
};

MlaLatentAttention coreOf(const MlaAttention& attention, const MlaSizes& sizes, void* qLatent, void* mean) {
  MlaLatentAttention core = {};
  core.qLatent = qLatent;
  core.qLatentStride = sizes.rank;
  core.qRope = attention.qRope;
  core.qRopeStride = sizes.ropeDim;
  core.keys = attention.keys;
  core.out = mean;
  core.lse = attention.lse;
  return core;
}

AbsorbedWorkspace layOut(DType dtype, const MlaAttention& attention, const MlaSizes& sizes, int64_t numSplits,
                         const DeviceLimits& limits, void* base) {
  WorkspaceLayout layout(base);
  const int64_t bytes =
      sizes.batch * sizes.numQueries * sizes.heads * sizes.rank * static_cast<int64_t>(bytesOf(dtype));
  AbsorbedWorkspace workspace;
  workspace.qLatent = layout.take(bytes);
  workspace.mean = layout.take(bytes);
  const MlaLatentAttention core = coreOf(attention, sizes, nullptr, nullptr);
  workspace.core =
      layout.take(static_cast<int64_t>(mlaLatentWorkspaceBytes(dtype, core, sizes, numSplits, limits)));
  workspace.bytes = layout.bytes();
  return workspace;
}

// One product per head, over the queries of all sequences.
Matmul projection(const MlaSizes& sizes, int64_t n, int64_t k) {
  Matmul matmul = {};
  matmul.batch = sizes.heads;
  matmul.m = sizes.batch * sizes.numQueries;
  matmul.n = n;
  matmul.k = k;
  matmul.aRow = sizes.heads * k;
  matmul.aBatch = k;
  matmul.cRow = sizes.heads * n;
  matmul.cBatch = n;
  matmul.tf32 = sizes.tf32;
  matmul.large = sizes.numQueries >= kManyQueries;
  return matmul;
}

}  // namespace

bool mlaLatentIsFast(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, const DeviceLimits& limits) {
  return kernelOf(dtype, sizes, keys, limits) != Kernel::kPlain;
}

size_t mlaLatentWorkspaceBytes(DType dtype, const MlaLatentAttention& attention, const MlaSizes& sizes,
                               int64_t numSplits, const DeviceLimits& limits) {
  switch (kernelOf(dtype, sizes, attention.keys, limits)) {
    case Kernel::kHopper:
      return static_cast<size_t>(mlaDecodeHopperWorkspaceBytes(sizes, numSplits, limits.multiprocessors));
    case Kernel::kMma:
      return static_cast<size_t>(
          mlaAbsorbWorkspaceBytes(sizes, mmaSplits(dtype, sizes, attention.keys, numSplits, limits)));
    case Kernel::kPlain:
      return mlaPlainWorkspaceBytes(sizes);
  }
  return 0;
}

cudaError_t launchMlaLatent(DType dtype, const MlaLatentAttention& attention, const MlaSizes& sizes,
                            int64_t numSplits, bool early, void* workspace, const LaunchTarget& target) {
  switch (kernelOf(dtype, sizes, attention.keys, target.limits)) {
    case Kernel::kHopper:
      return launchMlaDecodeHopper(dtype, attention, sizes, numSplits, early, workspace, target);
    case Kernel::kMma:
      return launchMlaAbsorb(dtype, attention, sizes,
                             mmaSplits(dtype, sizes, attention.keys, numSplits, target.limits), workspace,
                             target);
    case Kernel::kPlain:
      return launchMlaPlain(dtype, plainOf(attention), sizes, workspace, target);
  }
  return cudaErrorInvalidValue;
}

size_t mlaAbsorbedWorkspaceBytes(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                                 int64_t numSplits, const DeviceLimits& limits) {
  return layOut(dtype, attention, sizes, numSplits, limits, nullptr).bytes;
}

cudaError_t launchMlaAbsorbed(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                              int64_t numSplits, void* base, const LaunchTarget& target) {
  const DeviceLimits& limits = target.limits;
  const AbsorbedWorkspace workspace = layOut(dtype, attention, sizes, numSplits, limits, base);

  Matmul down = projection(sizes, sizes.rank, sizes.headDim);
  down.a = attention.q;
  down.b = attention.wUpK;  // (rank, heads, headDim): a head's columns of it, transposed
  down.bRow = sizes.heads * sizes.headDim;
  down.bBatch = sizes.headDim;
  down.bTransposed = true;
  down.c = workspace.qLatent;
  cudaError_t error = launchMatmul(dtype, down, target);
  if (error != cudaSuccess) return error;

  Matmul up = projection(sizes, sizes.valueDim, sizes.rank);
  up.a = workspace.mean;
  up.b = attention.wUpV;
  up.bRow = sizes.heads * sizes.valueDim;
  up.bBatch = sizes.valueDim;
  up.bIsThere = true;
  up.c = attention.out;

  const MlaLatentAttention core = coreOf(attention, sizes, workspace.qLatent, workspace.mean);
  error = launchMlaLatent(dtype, core, sizes, numSplits, true, workspace.core, target);
  if (error != cudaSuccess) return error;
  return launchMatmul(dtype, up, target);
}

}  // namespace warpgraph
