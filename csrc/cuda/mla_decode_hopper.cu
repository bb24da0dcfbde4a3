#include "cuda/mla_decode_hopper.h"

#include "cuda/mla_combine.h"
#include "cuda/mla_decode_narrow.cuh"
#include "cuda/mla_decode_wide.cuh"
#include "cuda/tensor_map.h"

namespace warpgraph {
namespace {

using namespace decode;

constexpr int64_t kMostRank = kLatentBoxes * kBoxColumns;
constexpr int64_t kNarrowRows = 32;
constexpr int64_t kMostGridY = 65535;
constexpr int kWideOverhead = 4, kNarrowOverhead = 2;  // tiles, see DecodeArguments
constexpr int64_t kWaves = 4;                          // of blocks, when query tiles nearly fill the card

struct Plan {
  int tileRows;
  int64_t queryTiles;  // grid x
  int64_t shares;      // grid y when the keys are shared equally
  int64_t slots;       // of partial results
};

Plan planFor(const MlaSizes& sizes, int64_t numSplits, int numMultiprocessors) {
  const int64_t rows = sizes.numQueries * sizes.heads;
  Plan plan{};
  plan.tileRows = rows <= 16 ? 16 : rows <= kNarrowRows ? 32 : kWideRows;
  plan.queryTiles = (rows + plan.tileRows - 1) / plan.tileRows;
  if (numSplits > 0) {
    plan.slots = numSplits == 1 ? 0 : numSplits * sizes.batch;
    return plan;
  }
  const int64_t perTile = numMultiprocessors / plan.queryTiles;
  plan.shares =
      perTile >= kWaves
          ? perTile
          : std::min((kWaves * numMultiprocessors + plan.queryTiles - 1) / plan.queryTiles, sizes.batch);
  plan.slots = 2 * plan.shares;
  return plan;
}

// Where the sequences' lengths are known here, so are the splits that every block would find for itself, or
// 0; they need no more partial results than the plan has.
int64_t knownSplits(const MlaSizes& sizes, const MlaKeys& keys, const Plan& plan, int overhead) {
  if (keys.lengths != nullptr) return 0;
  return equalSplits(overhead, ceilTiles(mlaSeen(sizes, keys.numKeys, sizes.numQueries - 1)),
                     static_cast<int>(sizes.batch), static_cast<int>(std::min(plan.shares, kMostGridY)));
}

int64_t roundUp(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// The workspace: partial results, their lse, the shares of every sequence.
struct Workspace {
  int64_t outBytes, lseBytes, sharesBytes;
};
Workspace workspaceFor(const MlaSizes& sizes, const Plan& plan) {
  const int64_t rows = plan.slots * sizes.numQueries * sizes.heads;
  return {roundUp(rows * sizes.rank * 4), roundUp(rows * 4),
          plan.shares > 0 ? roundUp(sizes.batch * static_cast<int64_t>(sizeof(int2))) : 0};
}

struct Maps {
  CUtensorMap query, queryRope, latent, rope;
};

// (planes, rows, columns) with rows `stride` elements apart, in tiles of (1, boxRows, 64).
cudaError_t encode(CUtensorMap* map, DType dtype, const void* base, int64_t columns, int64_t rows,
                   int64_t planes, int64_t stride, int boxRows) {
  const int64_t sizes[] = {columns, rows, planes};
  const int64_t strides[] = {stride * 2, rows * stride * 2};
  const int box[] = {kBoxColumns, boxRows, 1};
  return encodeTiles(map, dtype, base, 3, sizes, strides, box, CU_TENSOR_MAP_SWIZZLE_128B);
}

cudaError_t encodeMaps(Maps& maps, DType dtype, const MlaLatentAttention& attention, const MlaSizes& sizes,
                       int tileRows, int copyRows) {
  const MlaKeys& keys = attention.keys;
  const bool paged = keys.blockTable != nullptr;
  const int64_t rows = paged ? keys.pageSize : keys.numKeys, planes = paged ? keys.numPages : sizes.batch;
  const int64_t queries = sizes.numQueries * sizes.heads;
  cudaError_t error = encode(&maps.query, dtype, attention.qLatent, sizes.rank, queries, sizes.batch,
                             attention.qLatentStride, tileRows);
  if (error != cudaSuccess) return error;
  error = encode(&maps.latent, dtype, keys.latent, sizes.rank, rows, planes, sizes.rank, copyRows);
  if (error != cudaSuccess) return error;
  if (sizes.ropeDim == 0) {
    // Copies from beyond the latents' columns arrive as zeros.
    maps.queryRope = maps.query;
    maps.rope = maps.latent;
    return cudaSuccess;
  }
  error = encode(&maps.queryRope, dtype, attention.qRope, sizes.ropeDim, queries, sizes.batch,
                 attention.qRopeStride, tileRows);
  if (error != cudaSuccess) return error;
  return encode(&maps.rope, dtype, keys.rope, sizes.ropeDim, rows, planes, sizes.ropeDim, copyRows);
}

template <typename Kernel>
cudaError_t launch(Kernel kernel, size_t sharedBytes, int threads, dim3 grid, const Maps& maps,
                   const DecodeArguments& arguments, bool early, const LaunchTarget& target) {
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                 static_cast<int>(sharedBytes));
  if (error != cudaSuccess) return error;
  if (early) {
    return launchKernelWithShared(kernel, grid, static_cast<unsigned>(threads), sharedBytes, target,
                                  maps.query, maps.queryRope, maps.latent, maps.rope, arguments);
  }
  kernel<<<grid, threads, sharedBytes, target.stream>>>(maps.query, maps.queryRope, maps.latent, maps.rope,
                                                        arguments);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launchFor(int tileRows, dim3 grid, const Maps& maps, const DecodeArguments& arguments, bool early,
                      const LaunchTarget& target) {
  if (tileRows == 16) {
    return launch(mlaNarrowKernel<T, 16>, sizeof(NarrowShared<16>), kNarrowThreads, grid, maps, arguments,
                  early, target);
  }
  if (tileRows == 32) {
    return launch(mlaNarrowKernel<T, 32>, sizeof(NarrowShared<32>), kNarrowThreads, grid, maps, arguments,
                  early, target);
  }
  return launch(mlaWideKernel<T>, sizeof(WideShared), kWideThreads, grid, maps, arguments, early, target);
}

bool isAligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

}  // namespace

bool mlaDecodeHopperTakes(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int computeCapability) {
  // Coordinates of copies and numbers of rows are 32-bit, strides of a tensor's descriptor below 2^40 bytes.
  constexpr int64_t kMostCoordinate = int64_t{1} << 30;
  constexpr int64_t kMostStride = int64_t{1} << 40;
  if (computeCapability != 90) return false;
  if (dtype != DType::kFloat16 && dtype != DType::kBfloat16) return false;
  if (sizes.rank <= 0 || sizes.rank > kMostRank || sizes.rank % kBoxColumns != 0) return false;
  if (sizes.ropeDim != 0 && sizes.ropeDim != kBoxColumns) return false;
  if (keys.numKeys <= 0 || keys.numKeys >= kMostCoordinate || sizes.batch >= kMostCoordinate) return false;
  if (keys.numKeys * sizes.rank * 2 >= kMostStride) return false;
  if (sizes.numQueries * sizes.heads >= kMostCoordinate) return false;
  if (sizes.batch * (keys.numKeys / kTile + kWideOverhead + 1) >= kMostCoordinate) return false;
  if (keys.blockTable != nullptr) {
    if (keys.pageSize < kTile / kMostCopies || (keys.pageSize & (keys.pageSize - 1)) != 0) return false;
    if (keys.numPages <= 0 || keys.numPages >= kMostCoordinate) return false;
  }
  return isAligned(keys.latent) && isAligned(keys.rope);
}

int64_t mlaDecodeHopperWorkspaceBytes(const MlaSizes& sizes, int64_t numSplits, int numMultiprocessors) {
  if (sizes.batch * sizes.numQueries * sizes.heads == 0) return 0;
  const Workspace workspace = workspaceFor(sizes, planFor(sizes, numSplits, numMultiprocessors));
  return workspace.outBytes + workspace.lseBytes + workspace.sharesBytes;
}

cudaError_t launchMlaDecodeHopper(DType dtype, const MlaLatentAttention& attention, const MlaSizes& sizes,
                                  int64_t numSplits, bool early, MlaPartials* unmerged, void* workspace,
                                  const LaunchTarget& target) {
  if (sizes.batch * sizes.numQueries * sizes.heads == 0) return cudaSuccess;
  const Plan plan = planFor(sizes, numSplits, target.limits.multiprocessors);
  const Workspace parts = workspaceFor(sizes, plan);
  char* bytes = static_cast<char*>(workspace);
  const MlaKeys& keys = attention.keys;
  const int overhead = plan.tileRows == kWideRows ? kWideOverhead : kNarrowOverhead;
  int64_t gridY = numSplits > 0 ? numSplits * sizes.batch : plan.shares;
  if (numSplits == 0) numSplits = knownSplits(sizes, keys, plan, overhead);

  DecodeArguments arguments{};
  arguments.keys = keys;
  arguments.sizes = sizes;
  arguments.scaleLog2 = sizes.scale * 1.4426950408889634f;
  arguments.ropeColumn = sizes.ropeDim == 0 ? kMostRank : 0;
  arguments.queryRopeColumn = arguments.ropeColumn;
  arguments.copyRows =
      keys.blockTable == nullptr ? kTile : static_cast<int>(std::min<int64_t>(keys.pageSize, kTile));
  arguments.numSplits = static_cast<int>(numSplits);
  arguments.overhead = overhead;
  arguments.out = attention.out;
  arguments.lse = attention.lse;
  arguments.partialOut = static_cast<float*>(workspace);
  arguments.partialLse = static_cast<float*>(static_cast<void*>(bytes + parts.outBytes));
  arguments.shares = reinterpret_cast<int2*>(bytes + parts.outBytes + parts.lseBytes);

  Maps maps;
  cudaError_t error = encodeMaps(maps, dtype, attention, sizes, plan.tileRows, arguments.copyRows);
  if (error != cudaSuccess) return error;
  if (numSplits > 0) gridY = std::min(gridY, numSplits * sizes.batch);
  const dim3 grid(static_cast<unsigned>(plan.queryTiles), static_cast<unsigned>(std::min(gridY, kMostGridY)));
  error = dtype == DType::kFloat16
              ? launchFor<__half>(plan.tileRows, grid, maps, arguments, early, target)
              : launchFor<__nv_bfloat16>(plan.tileRows, grid, maps, arguments, early, target);
  if (error != cudaSuccess || numSplits == 1 || plan.shares == 1) return error;
  const MlaPartials partials{arguments.partialOut, arguments.partialLse,
                             numSplits > 0 ? nullptr : arguments.shares, numSplits,
                             numSplits > 0 ? numSplits : plan.shares / sizes.batch + 1};
  if (unmerged != nullptr) {
    *unmerged = partials;
    return cudaSuccess;
  }
  return launchMlaCombine(dtype, partials, sizes, attention.out, attention.lse, target);
}

}  // namespace warpgraph
