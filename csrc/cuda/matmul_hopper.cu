// C[b] = A[b]·B[b] for many rows of half types on Hopper: A (m, k), B (k, n), C (m, n).
//
// One block per multiprocessor takes tiles of 128×256 of C in turn. A producer warp has the copy engine bring
// (128, 64) of A and (64, 256) of B ahead into a ring of buffers; two warpgroups multiply 64 rows each
// straight from there with wgmma, and hand their results to the copy engine, which writes them while the next
// tile is computed. Nobody waits for anything but full or empty buffers: the warp-specialised persistent
// kernel of CUTLASS 3 (github.com/NVIDIA/cutlass). B is read as it lies, with k or with n contiguous.
#include "cuda/common.cuh"
#include "cuda/hopper.cuh"
#include "cuda/matmul_launch.h"
#include "cuda/matmul_rows.cuh"
#include "cuda/tensor_map.h"
#include "cuda/vector.cuh"

namespace warpgraph {
namespace {

constexpr int kRows = 128;
constexpr int kColumns = 256;
constexpr int kDepth = 64;  // 128 bytes, the span of the swizzle
constexpr int kStages = 3;
constexpr int kConsumers = 2;  // warpgroups
constexpr int kWarpgroup = 128;
constexpr int kThreads = (1 + kConsumers) * kWarpgroup;
constexpr int kRowsOfConsumer = kRows / kConsumers;
constexpr int kFewestRowsOfBox = 8;  // the swizzle's period

constexpr int kHalf = 2;  // bytes of an element
constexpr int kBox = 64;  // elements of 128 bytes
constexpr int kBytesOfA = kRows * kDepth * kHalf;
constexpr int kBytesOfB = kColumns * kDepth * kHalf;
constexpr int kStageBytes = kBytesOfA + kBytesOfB;
constexpr int kBytesOfC = kRowsOfConsumer * kColumns * kHalf;  // of one consumer
constexpr int kAlignment = 1024;                               // of swizzled tiles
constexpr size_t kSharedBytes = kStages * kStageBytes + kConsumers * kBytesOfC + kAlignment;

// How C is dealt: one tile under another to the blocks of a cluster, those of rowGroups × columns × batch in
// turn to the clusters.
struct Tiles {
  int64_t rowGroups, columns, count;
  int clusterSize, boxRows;  // boxRows: rows of A that one copy brings
};

#if WARPGRAPH_HOPPER

constexpr int kBoxBytes = kBox * kHalf * kBox;  // of a box of B with n contiguous, and of C

struct Barriers {
  uint64_t full[kStages], empty[kStages];
};

// A buffer of the ring and the parity of the round.
struct Turn {
  int stage = 0;
  unsigned parity = 0;
  __device__ void next() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

struct Group {
  int64_t b, row, column;
};

// Columns go fastest, so that blocks at work share rows of A, and all of B stays in the second-level cache.
__device__ Group groupAt(const Tiles& tiles, int64_t index) {
  const int64_t row = index / tiles.columns;
  return {row / tiles.rowGroups, row % tiles.rowGroups * kRows * tiles.clusterSize,
          index % tiles.columns * kColumns};
}

// Calls body(b, row, column, live) with each tile of this block, and how many of the batch entry's rows are
// live. A tile is left out when none of its cluster's is live.
template <typename Body>
__device__ void forEachTile(const Matmul& matmul, const Tiles& tiles, Body body) {
  const int block = blockIdx.x % tiles.clusterSize;
  const int64_t clusters = gridDim.x / tiles.clusterSize;
  for (int64_t index = blockIdx.x / tiles.clusterSize; index < tiles.count; index += clusters) {
    const Group group = groupAt(tiles, index);
    const int64_t live = liveRows(matmul, group.b);
    body(group, live > group.row, group.row + block * kRows, live);
  }
}

// One warp. Gathered rows come in boxes, one lane's each.
template <bool kTransposed>
__device__ void produce(const Matmul& matmul, const Tiles& tiles, const CUtensorMap* mapA,
                        const CUtensorMap* mapB, char* stages, Barriers* barriers) {
  const int lane = threadIdx.x % kWarpSize;
  const bool isGathered = matmul.pages.blockTable != nullptr;
  const int boxesOfA = kRows / tiles.boxRows;
  // This block's share of B.
  const int columns = kColumns / tiles.clusterSize;
  const int firstColumn = blockIdx.x % tiles.clusterSize * columns;
  const int boxesOfB = kTransposed ? 1 : columns / kBox;
  const auto all = static_cast<uint16_t>((1 << tiles.clusterSize) - 1);
  Turn turn;
  forEachTile(matmul, tiles, [&](const Group& group, bool isLive, int64_t row, int64_t live) {
    if (!isLive) return;
    const int64_t firstRow = row + lane * tiles.boxRows;
    // Rows past the limit are read from anywhere: the consumers write zeros for them.
    int64_t stored = firstRow;
    if (isGathered) stored = firstRow < live ? storedRow(matmul.pages, group.b, firstRow) : 0;
    const int batchOfA = static_cast<int>(isGathered || matmul.aBatch == 0 ? 0 : group.b);
    const int batchOfB = static_cast<int>(matmul.bBatch == 0 ? 0 : group.b);
    const int column = static_cast<int>(group.column) + firstColumn + lane * kBox;
    for (int64_t depth = 0; depth < matmul.k; depth += kDepth) {
      char* a = stages + turn.stage * kStageBytes;
      char* b = a + kBytesOfA + (firstColumn + lane * kBox) * kDepth * kHalf;
      uint64_t* full = &barriers->full[turn.stage];
      barrierWait(&barriers->empty[turn.stage], turn.parity ^ 1);
      if (lane == 0) barrierExpect(full, kStageBytes);
      __syncwarp();
      const int k = static_cast<int>(depth);
      if (lane < boxesOfA) {
        copyTile(a + lane * tiles.boxRows * kDepth * kHalf, mapA, full, k, static_cast<int>(stored),
                 batchOfA);
      }
      if (lane < boxesOfB) {
        copyTileToCluster(b, mapB, full, all, kTransposed ? k : column, kTransposed ? column : k, batchOfB);
      }
      turn.next();
    }
  });
}

// Whether a float32 stays finite when it is rounded to the type.
template <typename T>
__device__ bool isFiniteAs(float value) {
  return fabsf(value) < (std::is_same_v<T, __half> ? 65520.0f : __uint_as_float(0x7f7f8000));
}

// Rounds a warpgroup's 64×256 sums, zeros from row `live` on, into shared memory in swizzled boxes of 64×64,
// and says whether all are finite.
template <typename T>
__device__ bool roundSums(const float (&sums)[128], int live, char* c) {
  const int thread = threadIdx.x % kWarpgroup;
  const int lane = thread % kWarpSize;
  const int firstRow = thread / kWarpSize * 16;
  const bool isLive[2] = {firstRow + lane / 4 < live, firstRow + lane / 4 + 8 < live};
  // Each lane's address in storeMatrices: a row of one of 2×2 matrices of 8×8.
  const int row = firstRow + lane % 16;
  bool isFinite = true;
#pragma unroll
  for (int pair = 0; pair < kColumns / 16; ++pair) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = isLive[i % 2] ? sums[pair * 8 + i * 2] : 0.0f;
      const float y = isLive[i % 2] ? sums[pair * 8 + i * 2 + 1] : 0.0f;
      isFinite = isFinite && isFiniteAs<T>(x) && isFiniteAs<T>(y);
      words[i] = detail::narrowPair({x, y}, T{});
    }
    const int piece = pair * 2 + lane / 16;
    storeMatrices(c + piece / 8 * kBoxBytes + row * 128 + (piece % 8 ^ row % 8) * 16, words);
  }
  return isFinite;
}

// One warpgroup: rows 64·consumer and on of the tiles.
template <typename T, bool kTransposed>
__device__ void consume(const Matmul& matmul, const Tiles& tiles, int consumer, const CUtensorMap* mapC,
                        const char* stages, char* c, Barriers* barriers) {
  const bool isFirst = threadIdx.x % kWarpgroup == 0;
  const int namedBarrier = 1 + consumer;  // 0 is that of the block
  // The first lanes of a warp tell the blocks of the cluster that it is done with a buffer.
  const unsigned lane = threadIdx.x % kWarpSize;
  const auto giveBack = [&](int stage) {
    if (lane < static_cast<unsigned>(tiles.clusterSize)) barrierArriveAt(&barriers->empty[stage], lane);
  };
  Turn turn;
  forEachTile(matmul, tiles, [&](const Group& group, bool isLive, int64_t firstRow, int64_t live) {
    float sums[128];
    if (isLive) {
      int previous = -1;
      for (int64_t depth = 0; depth < matmul.k; depth += kDepth) {
        const char* a = stages + turn.stage * kStageBytes + consumer * kRowsOfConsumer * kDepth * kHalf;
        const char* b = stages + turn.stage * kStageBytes + kBytesOfA;
        barrierWait(&barriers->full[turn.stage], turn.parity);
        wgmmaFence();
#pragma unroll
        for (int step = 0; step < kDepth / 16; ++step) {
          const uint64_t matrixA = swizzledMatrix(a + step * 16 * kHalf, 0, kAlignment);
          const uint64_t matrixB = kTransposed
                                       ? swizzledMatrix(b + step * 16 * kHalf, 0, kAlignment)
                                       : swizzledMatrix(b + step * 16 * kBox * kHalf, kBoxBytes, kAlignment);
          wgmma<T, kTransposed ? 0 : 1>(sums, matrixA, matrixB, depth > 0 || step > 0);
        }
        wgmmaCommit();
        // While this product runs the one before is done with its buffer.
        wgmmaWait<1>();
        if (previous >= 0) giveBack(previous);
        previous = turn.stage;
        turn.next();
      }
      wgmmaWait<0>();
      giveBack(previous);
    }
    // The copy engine must have read the result before.
    if (isFirst) storeWaitRead();
    namedBarrierSync(namedBarrier, kWarpgroup);
    const int64_t row = firstRow + consumer * kRowsOfConsumer;
    const auto liveHere = min(max(live - row, int64_t{0}), int64_t{kRowsOfConsumer});
    const bool isFinite = roundSums<T>(sums, static_cast<int>(liveHere), c);
    if (!isFinite && matmul.nonFinite != nullptr) *matmul.nonFinite = 1;
    proxyFence();
    namedBarrierSync(namedBarrier, kWarpgroup);
    if (isFirst && row < matmul.m) {
      for (int box = 0; box < kColumns / kBox && group.column + box * kBox < matmul.n; ++box) {
        storeTile(mapC, c + box * kBoxBytes, static_cast<int>(group.column) + box * kBox,
                  static_cast<int>(row), static_cast<int>(group.b));
      }
      storeCommit();
    }
  });
  if (isFirst) storeWaitRead();
}

#endif  // WARPGRAPH_HOPPER

template <typename T, bool kTransposed>
__global__ void __launch_bounds__(kThreads, 1)
    matmulHopperKernel(const __grid_constant__ Matmul matmul, const __grid_constant__ Tiles tiles,
                       const __grid_constant__ CUtensorMap mapA, const __grid_constant__ CUtensorMap mapB,
                       const __grid_constant__ CUtensorMap mapC) {
#if WARPGRAPH_HOPPER
  extern __shared__ char shared[];
  __shared__ Barriers barriers;
  char* stages = shared + (kAlignment - sharedAddress(shared) % kAlignment) % kAlignment;
  if (threadIdx.x == 0) {
    prefetchMap(&mapA);
    prefetchMap(&mapB);
    prefetchMap(&mapC);
    for (int stage = 0; stage < kStages; ++stage) {
      barrierInit(&barriers.full[stage], 1);
      barrierInit(&barriers.empty[stage], kConsumers * kWarpgroup / kWarpSize * tiles.clusterSize);
    }
    barrierInitFence();
  }
  clusterSync();
  const int warpgroup = threadIdx.x / kWarpgroup;
  if (warpgroup == 0) {
    giveRegisters<56>();
    if (threadIdx.x < kWarpSize) {
      produce<kTransposed>(matmul, tiles, &mapA, &mapB, stages, &barriers);
    }
  } else {
    takeRegisters<224>();
    const int consumer = warpgroup - 1;
    consume<T, kTransposed>(matmul, tiles, consumer, &mapC, stages,
                            stages + kStages * kStageBytes + consumer * kBytesOfC, &barriers);
  }
  // No block may end while others still write to its shared memory or arrive at its barriers.
  clusterSync();
#endif
}

// Rows of A that lie together, and begin where a tile's do: those of a box. 0: too few.
int rowsOfBox(const PagedRows& pages) {
  if (pages.blockTable == nullptr) return kRows;
  int rows = kRows;
  while (rows >= kFewestRowsOfBox && (pages.pageSize % rows != 0 || pages.firstRow % rows != 0)) rows /= 2;
  return rows >= kFewestRowsOfBox ? rows : 0;
}

bool canCopy(const void* pointer, int64_t row, int64_t batch) {
  constexpr int64_t kBytes = 16;
  constexpr int64_t kMostStride = (int64_t{1} << 40) / kHalf - 1;
  return reinterpret_cast<uintptr_t>(pointer) % kBytes == 0 && row > 0 && row <= kMostStride && batch >= 0 &&
         batch <= kMostStride && (row | batch) * kHalf % kBytes == 0;
}

// A map of batch × (rows, columns), fetched in (boxRows, boxColumns). A batch stride of 0 is one matrix for
// all.
cudaError_t encodeMatrices(CUtensorMap* map, DType dtype, const void* base, int64_t columns, int64_t rows,
                           int64_t batch, int64_t rowStride, int64_t batchStride, int boxColumns,
                           int boxRows) {
  const int64_t sizes[] = {columns, rows, batchStride == 0 ? 1 : batch};
  const int64_t strideBytes[] = {rowStride * kHalf, (batchStride == 0 ? rowStride : batchStride) * kHalf};
  const int box[] = {boxColumns, boxRows, 1};
  return encodeTiles(map, dtype, base, 3, sizes, strideBytes, box, CU_TENSOR_MAP_SWIZZLE_128B);
}

}  // namespace

bool matmulHopperTakes(DType dtype, const Matmul& matmul, int computeCapability) {
  constexpr int64_t kMostIndex = INT32_MAX - 2 * kColumns;
  const bool isGathered = matmul.pages.blockTable != nullptr;
  const int64_t storedRows = isGathered ? matmul.pages.numPages * matmul.pages.pageSize : matmul.m;
  return computeCapability == 90 && matmul.large && bytesOf(dtype) == kHalf && matmul.k > 0 &&
         std::max({storedRows, matmul.m, matmul.n, matmul.k, matmul.batch}) <= kMostIndex && storedRows > 0 &&
         rowsOfBox(matmul.pages) > 0 && canCopy(matmul.a, matmul.aRow, isGathered ? 0 : matmul.aBatch) &&
         canCopy(matmul.b, matmul.bRow, matmul.bBatch) && canCopy(matmul.c, matmul.cRow, matmul.cBatch) &&
         (matmul.cBatch > 0 || matmul.batch == 1);
}

cudaError_t launchMatmulHopper(DType dtype, const Matmul& matmul, int numMultiprocessors,
                               cudaStream_t stream) {
  const bool isGathered = matmul.pages.blockTable != nullptr;
  const int64_t storedRows = isGathered ? matmul.pages.numPages * matmul.pages.pageSize : matmul.m;
  const auto parts = [](int64_t size, int64_t part) { return (size + part - 1) / part; };
  Tiles tiles;
  tiles.clusterSize = matmul.m > kRows ? 2 : 1;
  tiles.boxRows = rowsOfBox(matmul.pages);
  tiles.rowGroups = parts(matmul.m, kRows * tiles.clusterSize);
  tiles.columns = parts(matmul.n, kColumns);
  tiles.count = tiles.rowGroups * tiles.columns * matmul.batch;

  CUtensorMap a, b, c;
  cudaError_t error = encodeMatrices(&a, dtype, matmul.a, matmul.k, storedRows, matmul.batch, matmul.aRow,
                                     isGathered ? 0 : matmul.aBatch, kDepth, tiles.boxRows);
  if (error != cudaSuccess) return error;
  error = matmul.bTransposed
              ? encodeMatrices(&b, dtype, matmul.b, matmul.k, matmul.n, matmul.batch, matmul.bRow,
                               matmul.bBatch, kDepth, kColumns / tiles.clusterSize)
              : encodeMatrices(&b, dtype, matmul.b, matmul.n, matmul.k, matmul.batch, matmul.bRow,
                               matmul.bBatch, kBox, kDepth);
  if (error != cudaSuccess) return error;
  error = encodeMatrices(&c, dtype, matmul.c, matmul.n, matmul.m, matmul.batch, matmul.cRow, matmul.cBatch,
                         kBox, kRowsOfConsumer);
  if (error != cudaSuccess) return error;

  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(tiles.clusterSize), 1, 1};
  cudaLaunchConfig_t config = {};
  const int64_t clusters = std::min(tiles.count, int64_t{numMultiprocessors / tiles.clusterSize});
  config.gridDim = dim3(static_cast<unsigned>(clusters) * tiles.clusterSize);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kSharedBytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  const auto launch = [&](auto kernel) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int{kSharedBytes});
    return error != cudaSuccess ? error : cudaLaunchKernelEx(&config, kernel, matmul, tiles, a, b, c);
  };
  if (dtype == DType::kFloat16) {
    return matmul.bTransposed ? launch(matmulHopperKernel<__half, true>)
                              : launch(matmulHopperKernel<__half, false>);
  }
  return matmul.bTransposed ? launch(matmulHopperKernel<__nv_bfloat16, true>)
                            : launch(matmulHopperKernel<__nv_bfloat16, false>);
}

}  // namespace warpgraph
