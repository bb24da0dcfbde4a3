// The expanded way: keys and values are projected up for all heads, k = latent·wUpK and v = latent·wUpV, and
// ordinary attention runs over them. It costs fewer operations than absorbing when queries are many.
//
// The workspace is bounded: keys are expanded chunk by chunk, and the chunks' results merged by their
// log-sum-exp; sequences go in groups. How keys are cut does not depend on the batch.
//
// In float32 what a product makes is split for tensor cores (mla_expand_split.h) at once, while it is still
// in L2, and the next product overwrites it.
//
// A value that is not finite would reach queries that do not see it, as 0·NaN: the product that makes the
// values notes it, the kernels then do nothing, and the plain kernel behind them computes all.
#include <algorithm>

#include "cuda/matmul.h"
#include "cuda/mla_expand.h"
#include "cuda/mla_expand_split.h"
#include "cuda/mla_paths.h"
#include "cuda/mla_plain.h"
#include "cuda/mla_prefill_hopper.h"
#include "cuda/workspace.h"

namespace warpgraph {
namespace {

constexpr int64_t kChunkBytes = int64_t{1} << 28;  // of one sequence's keys and values, about
constexpr int64_t kGroupBytes = int64_t{1} << 29;  // of those of the sequences of a group, if more than one
constexpr int64_t kChunkStep = 128;                // what a chunk's keys are a multiple of

// What the rows of a chunk take: the product's, which keys and values take turns in, and what the attention
// reads. Of half types the attention reads what the products make.
struct ExpandedBytes {
  int64_t product, k, v, scales;

  int64_t all() const { return product + k + v + 2 * scales; }
};

ExpandedBytes expandedBytes(DType dtype, const MlaSizes& sizes, int64_t batch, int64_t chunk) {
  MlaSizes group = sizes;
  group.batch = batch;
  const int64_t perColumn = batch * chunk * sizes.heads * static_cast<int64_t>(bytesOf(dtype));
  if (dtype != DType::kFloat32) return {0, perColumn * sizes.headDim, perColumn * sizes.valueDim, 0};
  const MlaSplitBytes split = mlaSplitBytes(group, chunk);
  return {perColumn * std::max(sizes.headDim, sizes.valueDim), split.keys, split.values, split.scales};
}

// How keys and sequences are cut.
struct Cut {
  int64_t chunk, group;
};

Cut cutOf(DType dtype, const MlaSizes& sizes, const MlaKeys& keys) {
  const int64_t perKey = expandedBytes(dtype, sizes, 1, kChunkStep).all() / kChunkStep;
  const int64_t fitting = kChunkBytes / std::max(perKey, int64_t{1}) / kChunkStep * kChunkStep;
  const int64_t chunk = std::min(std::max(fitting, kChunkStep), keys.numKeys);
  // Few keys are padded to many: `perKey` does not hold there.
  const int64_t perSequence = std::max(expandedBytes(dtype, sizes, 1, chunk).all(), int64_t{1});
  return {chunk, std::clamp(kGroupBytes / perSequence, int64_t{1}, std::max(sizes.batch, int64_t{1}))};
}

struct ExpandedWorkspace {
  int* state;  // zeros at first: whether a value is not finite, then what the Hopper kernel counts by
  int64_t stateBytes;
  void* product;  // float32: (group, chunk, heads, headDim), then (…, valueDim)
  void *k, *v;    // float32: split rows; else (group, chunk, heads, headDim) and (…, valueDim)
  float *keyScales, *valueExponents;  // of split rows
  float* running;                     // (group, numQueries, heads, valueDim), with several chunks
  float* lse;                         // (group, heads, numQueries), with several chunks and no lse asked for
  void* plain;
  size_t bytes;
};

ExpandedWorkspace layOut(DType dtype, const MlaAttention& attention, const MlaSizes& sizes, void* base) {
  const Cut cut = cutOf(dtype, sizes, attention.keys);
  const bool isCut = cut.chunk < attention.keys.numKeys;
  WorkspaceLayout layout(base);
  ExpandedWorkspace workspace = {};
  workspace.stateBytes = static_cast<int64_t>(sizeof(int)) + mlaPrefillHopperWorkspaceBytes();
  workspace.state = layout.take<int>(workspace.stateBytes);
  const ExpandedBytes bytes = expandedBytes(dtype, sizes, cut.group, cut.chunk);
  workspace.product = layout.take(bytes.product);
  workspace.k = layout.take(bytes.k);
  workspace.v = layout.take(bytes.v);
  workspace.keyScales = layout.take<float>(bytes.scales);
  workspace.valueExponents = layout.take<float>(bytes.scales);
  const int64_t queries = cut.group * sizes.numQueries * sizes.heads;
  if (isCut)
    workspace.running = layout.take<float>(queries * sizes.valueDim * static_cast<int64_t>(sizeof(float)));
  if (isCut && attention.lse == nullptr)
    workspace.lse = layout.take<float>(queries * static_cast<int64_t>(sizeof(float)));
  workspace.plain = layout.take(static_cast<int64_t>(mlaPlainWorkspaceBytes(sizes)));
  workspace.bytes = layout.bytes();
  return workspace;
}

const void* offset(const void* pointer, int64_t elements, DType dtype) {
  if (pointer == nullptr) return nullptr;
  return static_cast<const char*>(pointer) + elements * static_cast<int64_t>(bytesOf(dtype));
}

// The attention of sequences first … first + count − 1 alone, and its sizes.
struct Group {
  MlaAttention attention;
  MlaSizes sizes;
};

Group groupOf(DType dtype, const MlaAttention& all, const MlaSizes& allSizes, int64_t first, int64_t count) {
  Group group{all, allSizes};
  group.sizes.batch = count;
  MlaAttention& attention = group.attention;
  const int64_t queries = first * allSizes.numQueries * allSizes.heads;
  attention.q = offset(all.q, queries * allSizes.headDim, dtype);
  attention.qRope = offset(all.qRope, queries * allSizes.ropeDim, dtype);
  attention.out = const_cast<void*>(offset(all.out, queries * allSizes.valueDim, dtype));
  if (all.lse != nullptr) attention.lse = all.lse + queries;
  MlaKeys& keys = attention.keys;
  if (keys.lengths != nullptr) keys.lengths += first;
  if (keys.blockTable != nullptr) {
    keys.blockTable += first * keys.pagesPerSequence;
  } else {
    keys.latent = offset(keys.latent, first * keys.numKeys * allSizes.rank, dtype);
    keys.rope = offset(keys.rope, first * keys.numKeys * allSizes.ropeDim, dtype);
  }
  return group;
}

// Rows of the latents times an up-projection (rank, heads · width); rows past a length are zeros.
Matmul expansion(DType dtype, const Group& group, int64_t firstKey, int64_t numKeys, const void* weights,
                 int64_t width, void* to) {
  const MlaSizes& sizes = group.sizes;
  const MlaKeys& keys = group.attention.keys;
  Matmul matmul = {};
  matmul.batch = sizes.batch;
  matmul.m = numKeys;
  matmul.n = sizes.heads * width;
  matmul.k = sizes.rank;
  matmul.aRow = sizes.rank;
  if (keys.blockTable != nullptr) {
    matmul.a = keys.latent;
    matmul.pages = {keys.blockTable, keys.pagesPerSequence, keys.pageSize, keys.numPages, firstKey};
  } else {
    matmul.a = offset(keys.latent, firstKey * sizes.rank, dtype);
    matmul.aBatch = keys.numKeys * sizes.rank;
  }
  matmul.b = weights;
  matmul.bRow = matmul.n;
  matmul.c = to;
  matmul.cRow = matmul.n;
  matmul.cBatch = numKeys * matmul.n;
  matmul.tf32 = sizes.tf32;
  matmul.large = true;
  matmul.rowLimits = keys.lengths;
  matmul.rowLimitOffset = firstKey;
  return matmul;
}

// Makes a chunk's keys and values, of float32 split.
cudaError_t launchExpansion(DType dtype, const Group& group, int64_t firstKey, int64_t numKeys,
                            const ExpandedWorkspace& workspace, const LaunchTarget& target) {
  const MlaSizes& sizes = group.sizes;
  const MlaAttention& attention = group.attention;
  const bool splits = dtype == DType::kFloat32;
  void* const k = splits ? workspace.product : workspace.k;
  void* const v = splits ? workspace.product : workspace.v;
  const Matmul makeKeys = expansion(dtype, group, firstKey, numKeys, attention.wUpK, sizes.headDim, k);
  Matmul makeValues = expansion(dtype, group, firstKey, numKeys, attention.wUpV, sizes.valueDim, v);
  makeValues.nonFinite = workspace.state;

  cudaError_t error = launchMatmul(dtype, makeKeys, target);
  if (error == cudaSuccess && splits) {
    error = launchMlaSplitKeys(k, attention.keys, firstKey, numKeys, sizes,
                               {workspace.k, workspace.keyScales}, target);
  }
  if (error == cudaSuccess) error = launchMatmul(dtype, makeValues, target);
  if (error == cudaSuccess && splits) {
    error = launchMlaSplitValues(v, attention.keys, firstKey, numKeys, sizes,
                                 {workspace.v, workspace.valueExponents}, target);
  }
  return error;
}

cudaError_t launchGroup(DType dtype, const Group& group, int64_t chunk, const ExpandedWorkspace& workspace,
                        const LaunchTarget& target) {
  const MlaSizes& sizes = group.sizes;
  const MlaAttention& attention = group.attention;
  const int64_t numKeys = attention.keys.numKeys;
  const DeviceLimits& limits = target.limits;
  const bool onHopper = mlaPrefillHopperTakes(dtype, sizes, attention.keys, limits.computeCapability);
  int* nonFinite = workspace.state;
  // Without keys one empty chunk writes the zeros.
  int64_t first = 0;
  do {
    const int64_t count = std::min(chunk, numKeys - first);
    cudaError_t error = launchExpansion(dtype, group, first, count, workspace, target);
    if (error != cudaSuccess) return error;
    MlaExpandedAttention expanded = {};
    expanded.q = attention.q;
    expanded.qRope = attention.qRope;
    expanded.k = workspace.k;
    expanded.v = workspace.v;
    expanded.keys = attention.keys;
    expanded.firstKey = first;
    expanded.chunkKeys = count;
    expanded.first = first == 0;
    expanded.last = first + count >= numKeys;
    expanded.running = workspace.running;
    expanded.out = attention.out;
    expanded.lse = attention.lse != nullptr ? attention.lse : workspace.lse;
    expanded.nonFinite = nonFinite;
    expanded.keyScales = workspace.keyScales;
    expanded.valueExponents = workspace.valueExponents;
    error = onHopper ? launchMlaPrefillHopper(dtype, expanded, sizes, nonFinite + 1, target)
                     : launchMlaExpand(dtype, expanded, sizes, target);
    if (error != cudaSuccess) return error;
    first += chunk;
  } while (first < numKeys);
  return cudaSuccess;
}

}  // namespace

bool mlaExpandedTakes(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, const DeviceLimits& limits) {
  return mlaPrefillHopperTakes(dtype, sizes, keys, limits.computeCapability) ||
         mlaExpandTakes(dtype, sizes, keys, limits.computeCapability);
}

size_t mlaExpandedWorkspaceBytes(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                                 const DeviceLimits&) {
  return layOut(dtype, attention, sizes, nullptr).bytes;
}

cudaError_t launchMlaExpanded(DType dtype, const MlaAttention& attention, const MlaSizes& sizes, void* base,
                              const LaunchTarget& target) {
  const ExpandedWorkspace workspace = layOut(dtype, attention, sizes, base);
  const Cut cut = cutOf(dtype, sizes, attention.keys);
  cudaError_t error =
      cudaMemsetAsync(workspace.state, 0, static_cast<size_t>(workspace.stateBytes), target.stream);
  for (int64_t first = 0; error == cudaSuccess && first < sizes.batch; first += cut.group) {
    const int64_t count = std::min(cut.group, sizes.batch - first);
    error = launchGroup(dtype, groupOf(dtype, attention, sizes, first, count), cut.chunk, workspace, target);
  }
  if (error != cudaSuccess) return error;
  MlaPlainAttention plain = plainOf(attention, sizes);
  plain.onlyIf = workspace.state;
  return launchMlaPlain(dtype, plain, sizes, workspace.plain, target);
}

}  // namespace warpgraph
