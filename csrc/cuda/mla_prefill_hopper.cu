// Attention over expanded keys and values on Hopper: softmax(scale·(q·k + qRope·kRope))·v for float16 and
// bfloat16; q (B, Tq, H, D), k (B, Tk, H, D), v (B, Tk, H, Dv), the rotary parts qRope (B, Tq, H, Dr) and
// kRope (B, Tk, Dr), which all heads share and which may be paged.
//
// The structure is FlashAttention-3's (Shah et al., arXiv:2407.08608). A block takes tiles of 128 queries of
// one head until none is left. One warp fetches tiles of 128 keys and values into a ring in shared memory by
// bulk tensor copies; two warpgroups of 64 queries each multiply. The tensor cores stay busy in two ways: a
// warpgroup starts the product of its queries with the next keys before the weights·values of the current
// ones and computes the next weights while the latter runs; and the two warpgroups take turns at issuing
// products, so that one's exponentials run under the other's products. Weights go from the first product's
// registers straight into the second's.
#include "cuda/mla_prefill_hopper.h"

#include "cuda/mla_prefill_load.cuh"
#include "cuda/mla_prefill_softmax.cuh"
#include "cuda/tensor_map.h"
#include "cuda/wgmma.cuh"

namespace warpgraph {
namespace {

#if WARPGRAPH_HOPPER

// Of the 168 registers that a thread has at the start, 3 · 168 = 2 · 232 + 40.
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;

// The turns of the consumers: named barriers that two warpgroups share. 0 is the block's own.
__device__ void awaitTurn(int group) {
  asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory");
}
__device__ void passTurn(int group) {
  asm volatile("bar.arrive %0, 256;" ::"r"(2 - group) : "memory");
}

template <typename T, int kD, int kDr, int kDv>
__device__ void consume(PrefillShared<T, kD, kDr, kDv>& shared, const PrefillArguments& a, int group) {
  using Shared = PrefillShared<T, kD, kDr, kDv>;
  constexpr int kLogits = kTileKeys / 2;  // a thread's, of two rows
  constexpr unsigned kMatrix = kTileKeys * kRowBytes;
  const int lane = threadIdx.x % kWarpSize;
  const int firstRow = group * kGroupRows + threadIdx.x % kWarpgroup / kWarpSize * 16;  // the warp's
  const uint64_t qMatrix = swizzledMatrix(shared.q[group], 0, 1024);
  const uint64_t kMatrices = swizzledMatrix(shared.k, 0, 1024);
  const uint64_t vMatrices = swizzledMatrix(shared.v, kMatrix, 1024);
  RingPosition kAt, vAt;

  const auto startLogits = [&](float (&s)[kLogits]) {
    const uint64_t k = kMatrices + kAt.stage * (sizeof(shared.k[0]) >> 4);
    pin(s);
    wgmmaFence();
#pragma unroll
    for (int step = 0; step < Shared::kKeyParts * 4; ++step) {
      wgmma<T, 0>(s, qMatrix + step / 4 * (kGroupRows * kRowBytes >> 4) + step % 4 * 2,
                  k + step / 4 * (kMatrix >> 4) + step % 4 * 2, step > 0);
    }
    wgmmaCommit();
  };
  const auto startValues = [&](float (&o)[kDv / 2], const uint32_t (&p)[kTileKeys / 16][4]) {
    const uint64_t v = vMatrices + vAt.stage * (sizeof(shared.v[0]) >> 4);
    pin(o);
    wgmmaFence();
#pragma unroll
    for (int step = 0; step < kTileKeys / 16; ++step) {
      wgmma<T, 1>(o, p[step], v + step * (16 * kRowBytes >> 4), 1);
    }
    wgmmaCommit();
  };

  unsigned qParity = 0;
  const auto takeTile = [&] {
    barrierWait(&shared.qFull[group], qParity);
    qParity ^= 1;
    return shared.tile[group];
  };
  int allVisible;  // how many keys all queries of the warpgroup see
  int visible[2];  // and the thread's two
  const auto setVisible = [&](const PrefillTile& tile) {
    allVisible = tile.visible(group * kGroupRows);
    visible[0] = tile.visible(firstRow + lane / 4);
    visible[1] = tile.visible(firstRow + lane / 4 + 8);
  };
  const auto mask = [&](float (&s)[kLogits], int keyTile) {
    const int key = keyTile * kTileKeys + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kLogits; ++i) {
      if (key + i / 4 * 8 + i % 2 >= visible[i / 2 % 2]) s[i] = -INFINITY;
    }
  };
  uint32_t p[kTileKeys / 16][4];
  const auto packWeights = [&](const float (&s)[kLogits]) {
#pragma unroll
    for (int i = 0; i < kLogits; i += 2) p[i / 8][i / 2 % 4] = pack<T>(s[i], s[i + 1]);
  };
  float o[kDv / 2];
  float decay[2];
  const auto endLogits = [&] {
    barrierArrive(&shared.kEmpty[kAt.stage]);
    kAt.advance();
  };
  const auto endValues = [&] {
    wgmmaWait<0>();
    pin(o);
    barrierArrive(&shared.vEmpty[vAt.stage]);
    vAt.advance();
  };

  PrefillSoftmax softmax;
  // Finds the next logits while the values of the last ones, whose weights are in p, are added to o. There is
  // no branch between the products' start and end: the compiler would have it wait for them at once.
  const auto step = [&](int keyTile, auto masked) {
    float s[kLogits];
    barrierWait(&shared.kFull[kAt.stage], kAt.parity);
    awaitTurn(group);
    startLogits(s);
    rescale(o, decay);
    barrierWait(&shared.vFull[vAt.stage], vAt.parity);
    startValues(o, p);
    passTurn(group);
    wgmmaWait<1>();
    pin(s);
    endLogits();
    if constexpr (decltype(masked)::value) mask(s, keyTile);
    softmax.update(s, a.scale, decay);
    endValues();
    packWeights(s);
  };

  if (group == 1) passTurn(group);
  PrefillTile tile = takeTile();
  while (tile.keyTiles >= 0) {
    softmax = PrefillSoftmax{};
    for (float& value : o) value = 0.0f;
    if (tile.keyTiles == 0) {
      barrierArrive(&shared.qEmpty[group]);
      if (a.first || a.last) writeRows<T, kDv>(a, tile, softmax, o, firstRow, lane);
      tile = takeTile();
      continue;
    }

    int keyTile = tile.keyTiles - 1;
    setVisible(tile);
    {
      float s[kLogits];
      barrierWait(&shared.kFull[kAt.stage], kAt.parity);
      startLogits(s);
      wgmmaWait<0>();
      pin(s);
      endLogits();
      mask(s, keyTile);
      softmax.update(s, a.scale, decay);
      packWeights(s);
    }
    for (; keyTile > 0 && keyTile * kTileKeys > allVisible; --keyTile) step(keyTile - 1, std::true_type{});
    for (; keyTile > 0; --keyTile) step(keyTile - 1, std::false_type{});
    barrierArrive(&shared.qEmpty[group]);
    rescale(o, decay);
    barrierWait(&shared.vFull[vAt.stage], vAt.parity);
    startValues(o, p);
    endValues();
    writeRows<T, kDv>(a, tile, softmax, o, firstRow, lane);
    tile = takeTile();
  }
}

#endif

template <typename T, int kD, int kDr, int kDv>
__global__ void __launch_bounds__(kPrefillThreads, 1)
    mlaPrefillKernel(const __grid_constant__ PrefillMaps maps, const __grid_constant__ PrefillArguments a) {
#if WARPGRAPH_HOPPER
  using Shared = PrefillShared<T, kD, kDr, kDv>;
  extern __shared__ unsigned char bytes[];
  auto& shared = *reinterpret_cast<Shared*>(bytes + (1024 - sharedAddress(bytes) % 1024) % 1024);
  waitForInputs();
  if (a.nonFinite != nullptr && *a.nonFinite != 0) return;

  // What is empty is told by all threads: faster than by a lane of each warp, which would have to wait for
  // the others, and racecheck follows it.
  constexpr int kReaders = kConsumers * kWarpgroup;
  if (threadIdx.x == 0) {
    for (int group = 0; group < kConsumers; ++group) {
      barrierInit(&shared.qFull[group], 1);
      barrierInit(&shared.qEmpty[group], kWarpgroup);
    }
    for (int stage = 0; stage < kStages; ++stage) {
      barrierInit(&shared.kFull[stage], kDr > 0 ? 2 : 1);
      barrierInit(&shared.kEmpty[stage], kReaders);
      barrierInit(&shared.vFull[stage], 1);
      barrierInit(&shared.vEmpty[stage], kReaders);
    }
    barrierInitFence();
  }
  __syncthreads();

  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  if (group == kConsumers) {
    giveRegisters<kProducerRegisters>();
    if (threadIdx.x % kWarpgroup < kWarpSize) {
      produce<T, kD, kDr, kDv>(shared, maps, a, static_cast<int>(threadIdx.x) % kWarpSize);
    }
  } else {
    takeRegisters<kConsumerRegisters>();
    consume<T, kD, kDr, kDv>(shared, a, group);
  }
#endif
}

// A tensor (batch, rows, heads, columns) as tiles of one head, 64 columns wide.
cudaError_t encodeHeads(CUtensorMap* map, DType dtype, const void* base, int64_t batch, int64_t rows,
                        int64_t heads, int64_t columns, int tileRows) {
  const int64_t bytes = static_cast<int64_t>(bytesOf(dtype)) * columns;
  const int64_t sizes[] = {columns, heads, rows, batch};
  const int64_t strides[] = {bytes, bytes * heads, bytes * heads * rows};
  const int box[] = {kColumns, 1, tileRows, 1};
  return encodeTiles(map, dtype, base, 4, sizes, strides, box, CU_TENSOR_MAP_SWIZZLE_128B);
}

cudaError_t encodeMaps(PrefillMaps& maps, DType dtype, const MlaExpandedAttention& attention,
                       const MlaSizes& sizes) {
  const MlaKeys& keys = attention.keys;
  const int64_t batch = sizes.batch, heads = sizes.heads;
  cudaError_t error =
      encodeHeads(&maps.q, dtype, attention.q, batch, sizes.numQueries, heads, sizes.headDim, kGroupRows);
  if (error != cudaSuccess || attention.chunkKeys == 0) return error;
  error =
      encodeHeads(&maps.k, dtype, attention.k, batch, attention.chunkKeys, heads, sizes.headDim, kTileKeys);
  if (error != cudaSuccess) return error;
  error =
      encodeHeads(&maps.v, dtype, attention.v, batch, attention.chunkKeys, heads, sizes.valueDim, kTileKeys);
  if (error != cudaSuccess || sizes.ropeDim == 0) return error;
  error = encodeHeads(&maps.qRope, dtype, attention.qRope, batch, sizes.numQueries, heads, sizes.ropeDim,
                      kGroupRows);
  if (error != cudaSuccess) return error;
  const bool paged = keys.blockTable != nullptr;
  const int64_t rows = paged ? keys.pageSize : keys.numKeys;
  const int64_t bytes = static_cast<int64_t>(bytesOf(dtype)) * sizes.ropeDim;
  const int64_t extents[] = {sizes.ropeDim, rows, paged ? keys.numPages : batch};
  const int64_t strides[] = {bytes, bytes * rows};
  const int box[] = {kColumns, paged ? static_cast<int>(std::min<int64_t>(rows, kTileKeys)) : kTileKeys, 1};
  return encodeTiles(&maps.kRope, dtype, keys.rope, 3, extents, strides, box, CU_TENSOR_MAP_SWIZZLE_128B);
}

template <typename T, int kD, int kDr>
cudaError_t launch(const PrefillMaps& maps, const PrefillArguments& arguments, int blocks,
                   const LaunchTarget& target) {
  constexpr int kBytes = sizeof(PrefillShared<T, kD, kDr, kD>) + 1024;
  const auto kernel = mlaPrefillKernel<T, kD, kDr, kD>;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  return launchKernelWithShared(kernel, static_cast<unsigned>(blocks), kPrefillThreads, kBytes, target, maps,
                                arguments);
}

template <typename T>
cudaError_t launchSized(const MlaSizes& sizes, const PrefillMaps& maps, const PrefillArguments& arguments,
                        int blocks, const LaunchTarget& target) {
  if (sizes.headDim == 128) {
    return sizes.ropeDim == 0 ? launch<T, 128, 0>(maps, arguments, blocks, target)
                              : launch<T, 128, 64>(maps, arguments, blocks, target);
  }
  return sizes.ropeDim == 0 ? launch<T, 64, 0>(maps, arguments, blocks, target)
                            : launch<T, 64, 64>(maps, arguments, blocks, target);
}

int64_t rowTiles(const MlaSizes& sizes) {
  return (sizes.numQueries + kTileRows - 1) / kTileRows;
}

}  // namespace

bool mlaPrefillHopperTakes(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int computeCapability) {
  constexpr int64_t kMostTiles = int64_t{1} << 31;
  return computeCapability == 90 && (dtype == DType::kFloat16 || dtype == DType::kBfloat16) &&
         (sizes.headDim == 64 || sizes.headDim == 128) && sizes.valueDim == sizes.headDim &&
         (sizes.ropeDim == 0 || sizes.ropeDim == 64) && sizes.scale > 0.0f && sizes.scale <= 1e30f &&
         keys.numKeys < kMostTiles && sizes.batch * sizes.heads * rowTiles(sizes) < kMostTiles;
}

int64_t mlaPrefillHopperWorkspaceBytes() {
  return 2 * sizeof(unsigned);
}

cudaError_t launchMlaPrefillHopper(DType dtype, const MlaExpandedAttention& attention, const MlaSizes& sizes,
                                   void* workspace, const LaunchTarget& target) {
  const MlaKeys& keys = attention.keys;
  const int64_t batchHeads = sizes.batch * sizes.heads;
  const int64_t tiles = batchHeads * rowTiles(sizes);
  if (tiles == 0) return cudaSuccess;
  PrefillMaps maps{};
  const cudaError_t error = encodeMaps(maps, dtype, attention, sizes);
  if (error != cudaSuccess) return error;

  // Equal sections of about half an L2 cache of keys and values.
  constexpr int64_t kSectionBytes = int64_t{28} << 20;
  const int64_t keyBytes = batchHeads * attention.chunkKeys * (sizes.headDim + sizes.valueDim) * 2;
  const int64_t sections = std::clamp<int64_t>((keyBytes + kSectionBytes / 2) / kSectionBytes, 1, batchHeads);
  const int64_t sectionHeads = (batchHeads + sections - 1) / sections;
  const bool paged = keys.blockTable != nullptr;
  PrefillArguments a{};
  a.lengths = keys.lengths;
  a.blockTable = keys.blockTable;
  a.nonFinite = attention.nonFinite;
  a.counters = static_cast<unsigned*>(workspace);
  a.running = attention.running;
  a.out = attention.out;
  a.lse = attention.lse;
  a.numKeys = keys.numKeys;
  a.firstKey = attention.firstKey;
  a.queryOffset = sizes.queryOffset;
  a.chunkKeys = static_cast<int>(attention.chunkKeys);
  a.numQueries = static_cast<int>(sizes.numQueries);
  a.heads = static_cast<int>(sizes.heads);
  a.batchHeads = static_cast<unsigned>(batchHeads);
  a.rowTiles = static_cast<unsigned>(rowTiles(sizes));
  a.sectionHeads = static_cast<unsigned>(sectionHeads);
  a.tiles = static_cast<unsigned>(tiles);
  a.pageSize = paged ? static_cast<int>(keys.pageSize) : 0;
  a.numPages = static_cast<int>(keys.numPages);
  a.pagesPerSequence = static_cast<int>(keys.pagesPerSequence);
  a.scale = sizes.scale * kLog2E;
  a.causal = sizes.causal;
  a.hasQueryOffset = sizes.hasQueryOffset;
  a.first = attention.first;
  a.last = attention.last;
  const int blocks = static_cast<int>(std::min<int64_t>(tiles, target.limits.multiprocessors));
  return dtype == DType::kFloat16 ? launchSized<__half>(sizes, maps, a, blocks, target)
                                  : launchSized<__nv_bfloat16>(sizes, maps, a, blocks, target);
}

}  // namespace warpgraph
