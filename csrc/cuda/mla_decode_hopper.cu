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
constexpr int64_t kMostCoordinate = int64_t{1} << 30;  // of copies, and numbers of rows: they have 32 bits
constexpr int64_t kMostGridAxis = 65535;
constexpr int kWideOverhead = 4, kNarrowOverhead = 2;  // tiles, see DecodeArguments
constexpr int64_t kWaves = 4;                          // of blocks, when query tiles nearly fill the card

struct Plan {
  int tileRows;
  int64_t queryTiles;  // grid x
  int64_t shares;      // blocks of a tile of queries when the keys are shared equally
  int64_t slots;       // of partial results
};

// Whether clusters merge the splits. It may not depend on the batch when the caller asked for them.
bool clustersMerge(const Plan& plan, int64_t numSplits) {
  return plan.tileRows == kWideRows && numSplits == kMergedSplits;
}

Plan planFor(const MlaSizes& sizes, int64_t numSplits, int numMultiprocessors) {
  const int64_t rows = sizes.numQueries * sizes.heads;
  Plan plan{};
  plan.tileRows = rows <= 16 ? 16 : rows <= kNarrowRows ? 32 : kWideRows;
  plan.queryTiles = (rows + plan.tileRows - 1) / plan.tileRows;
  if (numSplits > 0) {
    plan.slots = numSplits == 1 || clustersMerge(plan, numSplits) ? 0 : numSplits * sizes.batch;
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

DecodeSizes narrow(const MlaSizes& sizes, const MlaKeys& keys) {
  const auto narrowed = [](int64_t value) { return static_cast<int>(value); };
  DecodeSizes small{};
  small.batch = narrowed(sizes.batch);
  small.numQueries = narrowed(sizes.numQueries);
  small.heads = narrowed(sizes.heads);
  small.rank = narrowed(sizes.rank);
  small.numKeys = narrowed(keys.numKeys);
  small.causal = sizes.causal;
  small.hasQueryOffset = sizes.hasQueryOffset;
  // Beyond that a query sees all keys, or none.
  small.queryOffset = narrowed(std::clamp(sizes.queryOffset, -kMostCoordinate, kMostCoordinate - 1));
  return small;
}

// Where the sequences' lengths are known here, so are the splits that every block would find for itself, or
// 0; they need no more partial results than the plan has.
int64_t knownSplits(const DecodeSizes& sizes, const MlaKeys& keys, const Plan& plan, int overhead) {
  if (keys.lengths != nullptr) return 0;
  return equalSplits(overhead, ceilTiles(sizes.seen(sizes.numKeys, sizes.numQueries - 1)), sizes.batch,
                     static_cast<int>(std::min(plan.shares, kMostGridAxis)));
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
cudaError_t launch(Kernel kernel, const LaunchShape& shape, const Maps& maps,
                   const DecodeArguments& arguments, const LaunchTarget& target) {
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                 static_cast<int>(shape.sharedBytes));
  if (error != cudaSuccess) return error;
  return launchShaped(kernel, shape, target, maps.query, maps.queryRope, maps.latent, maps.rope, arguments);
}

template <typename T, Cut kCut>
cudaError_t launchCut(int tileRows, dim3 grid, const Maps& maps, const DecodeArguments& arguments, bool early,
                      const LaunchTarget& target) {
  const auto launchNarrow = [&](auto kernel, size_t sharedBytes) {
    return launch(kernel, {grid, kNarrowThreads, launchedSharedBytes(sharedBytes), dim3(1), early}, maps,
                  arguments, target);
  };
  if constexpr (kCut != Cut::kMerges) {
    if (tileRows == 16) return launchNarrow(mlaNarrowKernel<T, kCut, 16>, sizeof(NarrowShared<16>));
    if (tileRows == 32) return launchNarrow(mlaNarrowKernel<T, kCut, 32>, sizeof(NarrowShared<32>));
  }
  // Where clusters do not merge: blocks that read the same keys, on one GPC. The second one finds them
  // nearer.
  const dim3 cluster = kCut == Cut::kMerges ? dim3(1, kMergedSplits) : dim3(grid.x % 2 == 0 ? 2 : 1);
  return launch(mlaWideKernel<T, kCut>,
                {grid, kWideThreads, launchedSharedBytes(sizeof(WideShared)), cluster, early}, maps,
                arguments, target);
}

template <typename T>
cudaError_t launchFor(Cut cut, int tileRows, dim3 grid, const Maps& maps, const DecodeArguments& arguments,
                      bool early, const LaunchTarget& target) {
  switch (cut) {
    case Cut::kShares:
      return launchCut<T, Cut::kShares>(tileRows, grid, maps, arguments, early, target);
    case Cut::kSplits:
      return launchCut<T, Cut::kSplits>(tileRows, grid, maps, arguments, early, target);
    case Cut::kMerges:
      return launchCut<T, Cut::kMerges>(tileRows, grid, maps, arguments, early, target);
  }
  return cudaErrorInvalidValue;
}

bool isAligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

}  // namespace

bool mlaDecodeHopperTakes(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int computeCapability) {
  // Strides of a tensor's descriptor are below 2^40 bytes.
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
                                  int64_t numSplits, bool early, void* workspace,
                                  const LaunchTarget& target) {
  if (sizes.batch * sizes.numQueries * sizes.heads == 0) return cudaSuccess;
  const Plan plan = planFor(sizes, numSplits, target.limits.multiprocessors);
  const Workspace parts = workspaceFor(sizes, plan);
  char* bytes = static_cast<char*>(workspace);
  const MlaKeys& keys = attention.keys;
  const int overhead = plan.tileRows == kWideRows ? kWideOverhead : kNarrowOverhead;
  const DecodeSizes small = narrow(sizes, keys);
  int64_t sequencesAtOnce = sizes.batch;
  if (numSplits == 0) {
    numSplits = knownSplits(small, keys, plan, overhead);
    if (numSplits > 0) sequencesAtOnce = std::min(sizes.batch, plan.shares / numSplits);
  }

  DecodeArguments arguments{};
  arguments.keys = keys;
  arguments.sizes = small;
  arguments.scaleLog2 = sizes.scale * 1.4426950408889634f;
  arguments.ropeColumn = sizes.ropeDim == 0 ? kMostRank : 0;
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
  dim3 grid(static_cast<unsigned>(plan.queryTiles));
  if (numSplits > 0) {
    grid.y = static_cast<unsigned>(numSplits);
    grid.z = static_cast<unsigned>(std::min(sequencesAtOnce, kMostGridAxis));
  } else {
    grid.y = static_cast<unsigned>(std::min(plan.shares, kMostGridAxis));
  }
  const Cut cut = clustersMerge(plan, numSplits) ? Cut::kMerges : numSplits > 0 ? Cut::kSplits : Cut::kShares;
  // A cluster that merges takes one sequence; without, a grid takes all.
  const int64_t perGrid = cut == Cut::kMerges ? int64_t{grid.z} : sizes.batch;
  for (int64_t first = 0; first < sizes.batch && error == cudaSuccess; first += perGrid) {
    arguments.firstSequence = static_cast<int>(first);
    arguments.endSequence = static_cast<int>(std::min(first + perGrid, sizes.batch));
    error = dtype == DType::kFloat16
                ? launchFor<__half>(cut, plan.tileRows, grid, maps, arguments, early, target)
                : launchFor<__nv_bfloat16>(cut, plan.tileRows, grid, maps, arguments, early, target);
  }
  if (error != cudaSuccess || numSplits == 1 || plan.shares == 1 || cut == Cut::kMerges) return error;
  const MlaPartials partials{arguments.partialOut, arguments.partialLse,
                             numSplits > 0 ? nullptr : arguments.shares, numSplits,
                             numSplits > 0 ? numSplits : plan.shares / sizes.batch + 1};
  return launchMlaCombine(dtype, partials, sizes, attention.out, attention.lse, target);
}

}  // namespace warpgraph
