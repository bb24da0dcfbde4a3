// Splits rows of keys and values: eight lanes load a row into shared memory, split it there and write it out.
// That costs what reading and writing memory costs, once; done in the attention, once per tile of queries, it
// took 45 % of the time.
//
// A head's rows lie one behind the other, padded with zeros to whole tiles of keys, so that the attention
// copies tiles without looking at lengths, pages or alignment. The rotary part, the same for all heads, is
// repeated behind each head's part: a row has one scale, as its largest element wants it.
#include "cuda/mla_expand_split.h"

#include "cuda/mla_fragments.cuh"

namespace warpgraph {
namespace {

constexpr int kSplitThreads = 256;
constexpr int kSplitRows = kSplitThreads / kRowLanes;
static_assert(kSplitKeys % kSplitRows == 0, "blocks are full");

struct SplitInput {
  const float* rows;  // (batch, chunkKeys, heads, dim)
  const float* rope;  // as MlaKeys' rope; of values null, and ropeDim 0
  int dim, ropeDim;
  int ropeColumn, columns;  // of a split row: where the rope part begins, and all
  int64_t firstKey, chunkKeys;
  int64_t headRows;  // of a head's split rows
  bool rowsBy16, ropeBy16, wantsExponents;
};

__global__ void __launch_bounds__(kSplitThreads)
    mlaSplitKernel(SplitInput from, MlaKeys keys, MlaSizes sizes, MlaSplitRows to) {
#if __CUDA_ARCH__ >= 800
  waitForInputs();
  extern __shared__ __align__(16) char shared[];
  const int lane = threadIdx.x % kRowLanes, blockRow = threadIdx.x / kRowLanes;
  char* const tile = shared + blockRow * (from.columns * int{sizeof(float)} + kTilePadding);

  const int64_t at = int64_t{blockIdx.x} * kSplitRows + blockRow;
  const int64_t s = at % from.headRows, h = at / from.headRows % sizes.heads,
                b = at / from.headRows / sizes.heads;
  const Visible visible(keys, sizes, b);
  const bool valid = s < min(from.chunkKeys, visible.length - from.firstKey);
  const int64_t row = valid ? (b * from.chunkKeys + s) * sizes.heads + h : 0;
  loadRow(tile, from.rows + row * from.dim, from.dim, from.ropeColumn, valid, from.rowsBy16);
  const int64_t ropeRow = valid && from.ropeDim > 0 ? keyRow(keys, b, from.firstKey + s) : 0;
  loadRow(tile + from.ropeColumn * int{sizeof(float)}, from.rope + ropeRow * from.ropeDim, from.ropeDim,
          from.columns - from.ropeColumn, valid, from.ropeBy16);
  copyAsyncCommit();
  copyAsyncWait<0>();
  __syncwarp();
  const RowScale scale = splitRow<2>(tile, from.columns);
  __syncwarp();
  auto* const out = static_cast<float4*>(to.rows) + at * (from.columns / 4);
#pragma unroll 4
  for (int i = lane; i < from.columns / 4; i += kRowLanes) out[i] = reinterpret_cast<const float4*>(tile)[i];
  if (lane == 0) to.scales[at] = from.wantsExponents ? scale.exponent : scale.scale;
#endif
}

cudaError_t launchSplit(const SplitInput& from, const MlaKeys& keys, const MlaSizes& sizes,
                        const MlaSplitRows& to, const LaunchTarget& target) {
  const int64_t rows = sizes.batch * sizes.heads * from.headRows;
  if (rows == 0) return cudaSuccess;
  const cudaError_t error = setMostShared(mlaSplitKernel);
  if (error != cudaSuccess) return error;
  return launchKernelWithShared(mlaSplitKernel, static_cast<unsigned>(rows / kSplitRows), kSplitThreads,
                                static_cast<size_t>(kSplitRows * rowBytes(from.columns, sizeof(float))),
                                target, from, keys, sizes, to);
}

}  // namespace

MlaSplitBytes mlaSplitBytes(const MlaSizes& sizes, int64_t numKeys) {
  const int64_t rows = sizes.batch * sizes.heads * padTo(numKeys, kSplitKeys);
  const auto bytes = static_cast<int64_t>(sizeof(float));
  return {rows * expandKeyColumns(sizes) * bytes, rows * expandValueColumns(sizes) * bytes, rows * bytes};
}

cudaError_t launchMlaSplitKeys(const void* k, const MlaKeys& keys, int64_t firstKey, int64_t chunkKeys,
                               const MlaSizes& sizes, const MlaSplitRows& to, const LaunchTarget& target) {
  SplitInput from = {};
  from.rows = static_cast<const float*>(k);
  from.rope = static_cast<const float*>(keys.rope);
  from.dim = static_cast<int>(sizes.headDim);
  from.ropeDim = static_cast<int>(sizes.ropeDim);
  from.ropeColumn = expandRopeColumn(sizes);
  from.columns = expandKeyColumns(sizes);
  from.firstKey = firstKey;
  from.chunkKeys = chunkKeys;
  from.headRows = padTo(chunkKeys, kSplitKeys);
  from.rowsBy16 = copiesBy16(k, sizes.headDim, sizes.headDim, sizeof(float));
  from.ropeBy16 = copiesBy16(keys.rope, sizes.ropeDim, sizes.ropeDim, sizeof(float));
  return launchSplit(from, keys, sizes, to, target);
}

cudaError_t launchMlaSplitValues(const void* v, const MlaKeys& keys, int64_t firstKey, int64_t chunkKeys,
                                 const MlaSizes& sizes, const MlaSplitRows& to, const LaunchTarget& target) {
  SplitInput from = {};
  from.rows = static_cast<const float*>(v);
  from.dim = static_cast<int>(sizes.valueDim);
  from.ropeColumn = from.columns = expandValueColumns(sizes);
  from.firstKey = firstKey;
  from.chunkKeys = chunkKeys;
  from.headRows = padTo(chunkKeys, kSplitKeys);
  from.rowsBy16 = copiesBy16(v, sizes.valueDim, sizes.valueDim, sizeof(float));
  from.ropeBy16 = true;
  from.wantsExponents = true;
  return launchSplit(from, keys, sizes, to, target);
}

}  // namespace warpgraph
