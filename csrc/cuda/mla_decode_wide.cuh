// Many queries: tiles of 64 rows (t, h) against tiles of 64 keys.
//
// The result of a tile, 64 × 512 float32, takes half a multiprocessor's registers: warpgroup 0 holds its left
// 256 columns, warpgroup 1 the right ones. Key tiles go in pairs. Each warpgroup computes the logits and the
// softmax of one tile of the pair and multiplies the weights of both with its half of the values, so that the
// softmax of one overlaps the matrix products of the other (FlashMLA's "seesaw", April 2025; unlike there,
// the first tile's weights go to both before the second tile's maximum is known, and the result is scaled
// once more: this frees the first tile early). A tile of latents is fetched once and is both K (K-major) and
// V (the same bytes through a transposed descriptor). The weights go through shared memory, the second tile's
// in the place of its rope part, which nobody needs after the logits.
//
// The warps of a third warpgroup fetch: each waits for one half of one of the two key tiles to be free and
// fetches it in boxes of 64 × 64, each with its own barrier, so that the logits can start with the first.
#pragma once

#include "cuda/mla_decode_hopper.cuh"

namespace warpgraph {
namespace decode {

constexpr int kWideRows = 64;
constexpr int kWideThreads = 384;

struct WideShared {
  char query[kBoxes][kBoxBytes];
  char keys[2][kBoxes][kBoxBytes];
  char weights[kBoxBytes];  // of the first tile, (64, 64)
  uint64_t full[2][kBoxes];
  uint64_t free[2][2];  // [tile][boxes that its own warpgroup frees, that the other frees]
  uint64_t queryFull, queryFree;
  float max[2][kWideRows], scale[2][kWideRows];
  float sum[2][2][kWideRows];  // of pieces in turn, by warpgroup
  PieceWalk walk[2];
  ShareStart start;
};

static_assert(sizeof(WideShared) <= kMostShared);

enum WideBarrier { kFirstSoftmax = 1, kSecondSoftmax, kSums, kWarpgroup };

// The box that a lane of a fetching warp fetches, of tile warp / 2: the tile's own warpgroup frees its half
// of the columns (warp % 2 = 0), the other one the rest; with them goes the rope part, of the second tile
// late, since its place holds the weights.
__device__ inline int wideBox(int warp, int lane) {
  const bool left = warp == 0 || warp == 3;
  return left ? (lane < 4 ? lane : kLatentBoxes) : 4 + lane;
}
__device__ inline int wideBoxes(int warp) {
  return warp == 0 || warp == 3 ? 5 : 4;
}

__device__ inline void wideFetch(const CUtensorMap* queryMap, const CUtensorMap* queryRopeMap,
                                 const CUtensorMap* latentMap, const CUtensorMap* ropeMap,
                                 const DecodeArguments& a, const QueryRows& rows, WideShared& shared,
                                 int warp, int lane) {
  if (lane >= wideBoxes(warp)) return;
  const int tileOfPair = warp / 2, box = wideBox(warp, lane);
  const bool isRope = box == kLatentBoxes;
  const CUtensorMap* map = isRope ? ropeMap : latentMap;
  const int column = isRope ? a.ropeColumn : box * kBoxColumns;
  unsigned phase = 0, queryPhase = 0;
  Pieces pieces;
  pieces.start(a, shared.start);
  Piece piece;
  while (pieces.next(a, rows, piece)) {
    if (piece.end <= piece.begin) continue;
    if (warp == 0) {
      waitForPrevious();  // the queries may be in the making
      barrierWait(&shared.queryFree, queryPhase ^ 1);
      queryPhase ^= 1;
      if (lane == 0) barrierExpect(&shared.queryFull, kBoxes * kBoxBytes);
      for (int b = lane; b < kBoxes; b += wideBoxes(0)) {
        const bool rope = b == kLatentBoxes;
        copyTile(shared.query[b], rope ? queryRopeMap : queryMap, &shared.queryFull,
                 rope ? a.queryRopeColumn : b * kBoxColumns, rows.first, piece.sequence);
      }
    }
    for (int tile = piece.begin + tileOfPair; tile < piece.end; tile += 2) {
      const TileSource source = tileSource(a, piece, tile);
      barrierWait(&shared.free[tileOfPair][warp % 2], phase ^ 1);
      phase ^= 1;
      fetchBox(shared.keys[tileOfPair][box], map, &shared.full[tileOfPair][box], a, source, column);
    }
  }
}

#if WARPGRAPH_HOPPER

// logits (64 rows, 64 keys) = query · keys^T, in the order in which the boxes of this tile arrive.
template <typename T, int kGroup>
__device__ inline void wideLogits(float (&logits)[32], WideShared& shared, unsigned phase) {
  // Rolled, since instructions are fetched hardly faster than they are executed here.
#pragma unroll 1
  for (int i = 0; i < kBoxes; ++i) {
    const int box = kGroup == 0 ? (i < 4    ? i
                                   : i == 4 ? kLatentBoxes
                                            : i - 1)
                                : (i < kLatentBoxes ? i ^ 4 : i);
    barrierWait(&shared.full[kGroup][box], phase);
    wgmmaFence();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      wgmma<T, 0>(logits, swizzledMatrix(shared.query[box] + k * 32, 0, 1024),
                  swizzledMatrix(shared.keys[kGroup][box] + k * 32, 0, 1024), i + k > 0);
    }
    wgmmaCommit();
  }
}

// A warpgroup's half of 16 keys' values: four boxes, (16, 256) with the columns contiguous.
template <int kGroup>
__device__ inline uint64_t wideValues(WideShared& shared, int tile, int k) {
  return swizzledMatrix(shared.keys[tile][kGroup * 4] + k * 2048, kBoxBytes, 1024);
}

// result += weights · values, the weights in registers or in shared memory.
template <typename T, int kGroup>
__device__ inline void wideAdd(float (&result)[128], const uint32_t (&weights)[4][4], WideShared& shared,
                               int tile) {
  wgmmaFence();
#pragma unroll
  for (int k = 0; k < 4; ++k) wgmma<T, 1>(result, weights[k], wideValues<kGroup>(shared, tile, k), 1);
  wgmmaCommit();
}
template <typename T, int kGroup>
__device__ inline void wideAdd(float (&result)[128], const char* weights, WideShared& shared, int tile) {
  wgmmaFence();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    wgmma<T, 1>(result, swizzledMatrix(weights + k * 32, 0, 1024), wideValues<kGroup>(shared, tile, k), 1);
  }
  wgmmaCommit();
}

template <typename T>
__device__ inline void widePack(uint32_t (&weights)[4][4], const float (&p)[32]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) weights[i / 4][i % 4] = packPair<T>(p[2 * i], p[2 * i + 1]);
}

// Weights of the warp's 16 rows into a swizzled (64, 64) tile.
__device__ inline void wideStore(char* tile, const uint32_t (&weights)[4][4], int warp, int lane) {
  const int row = warp * 16 + lane % 16;
#pragma unroll
  for (int k = 0; k < 4; ++k) storeMatrices(swizzled(tile, row, 2 * k + lane / 16), weights[k]);
}

__device__ inline void wideScale(float (&result)[128], const float (&scale)[2]) {
#pragma unroll
  for (int i = 0; i < 128; ++i) result[i] *= scale[i / 2 % 2];
}

// A thread's two rows of the tile.
struct WideRowPair {
  int row[2];   // within the tile
  int seen[2];  // keys that they see
};

// Scales and masks logits and reduces the maximum of a thread's rows.
template <typename T, int kGroup>
__device__ inline void wideMask(float (&logits)[32], float (&max)[2], const DecodeArguments& a,
                                const Piece& piece, const WideRowPair& rows, int tile, WideShared& shared,
                                int thread) {
#pragma unroll
  for (float& logit : logits) logit *= a.scaleLog2;
  const int firstKey = tile * kTile;
  if (firstKey + kTile > piece.everyoneSees) {
    const int firstRow = ::max(piece.everyoneSees - firstKey, 0);
    // All warps' products with these latents have to be done before they change.
    namedBarrierSync(kWarpgroup + kGroup, 128);
    bool found = false;
#pragma unroll 1
    for (int box = 0; box < kLatentBoxes; ++box) {
      found |= discardNonFinite<T>(shared.keys[kGroup][box], firstRow, thread);
    }
    proxyFence();
    const bool discarded = namedBarrierOr(kWarpgroup + kGroup, 128, found);
    const int firstColumn = firstKey + thread % 4 * 2;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int key = firstColumn + i / 4 * 8 + i % 2;
      logits[i] = seenLogit(logits[i], key < rows.seen[i / 2 % 2], discarded);
    }
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) max[i / 2 % 2] = fmaxf(max[i / 2 % 2], logits[i]);
#pragma unroll
  for (float& value : max) {
    value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, 1));
    value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, 2));
  }
}

// Logits to weights; their sum over the thread's columns is added to sum.
__device__ inline void wideExp(float (&p)[32], float (&sum)[2], const float (&max)[2]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    p[i] = exp2Approx(p[i] - max[i / 2 % 2]);
    sum[i / 2 % 2] += p[i];
  }
}

__device__ inline void wideRelease(uint64_t* barrier, int lane) {
  if (lane == 0) barrierArrive(barrier);
}

template <typename Out, int kGroup>
__device__ inline void wideWrite(const float (&result)[128], const float (&sum)[2], const DecodeArguments& a,
                                 const Piece& piece, const QueryRows& tile, const WideRowPair& rows,
                                 int lane) {
  const int columns = static_cast<int>(a.sizes.rank) - kGroup * 256;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (rows.row[half] >= tile.count) continue;
    const float inverse = sum[half] == 0.0f ? 0.0f : 1.0f / sum[half];
    Out* out = resultRow<Out>(a, piece, tile.first + rows.row[half]) + kGroup * 256 + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (i % 8 == 0 && i * 8 >= columns) break;
      const float x = result[i * 4 + half * 2] * inverse, y = result[i * 4 + half * 2 + 1] * inverse;
      if constexpr (std::is_same_v<Out, float>) {
        *reinterpret_cast<float2*>(out + i * 8) = {x, y};
      } else {
        *reinterpret_cast<uint32_t*>(out + i * 8) = packPair<Out>(x, y);
      }
    }
  }
}

// Warpgroup 0 takes the first tile of each pair, warpgroup 1 the second, where there is one.
template <typename T, int kGroup>
__device__ inline void wideConsume(const DecodeArguments& a, const QueryRows& tileRows, WideShared& shared) {
  const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
  char* secondWeights = shared.keys[1][kLatentBoxes];
  unsigned phase0 = 0, phase1 = 0, queryPhase = 0;
  if (thread == 0) shared.walk[kGroup].pieces.start(a, shared.start);
  for (int turn = 0;; turn ^= 1) {
    const Piece* next = nextPiece(shared.walk[kGroup], turn, a, tileRows, thread, kWarpgroup + kGroup,
                                  kGroup == 0 && blockIdx.x == 0);
    if (next == nullptr) break;
    const Piece& piece = *next;
    if (piece.end <= piece.begin) {
      if (kGroup == 0) writeEmpty<T, 128>(a, piece, tileRows, thread);
      continue;
    }
    WideRowPair rows;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows.row[half] = warp * 16 + lane / 4 + half * 8;
      const int row = tileRows.first + min(rows.row[half], tileRows.count - 1);
      rows.seen[half] =
          static_cast<int>(mlaSeen(a.sizes, piece.length, row / static_cast<int>(a.sizes.heads)));
    }
    float result[128];
#pragma unroll
    for (float& value : result) value = 0.0f;
    float max[2] = {-FLT_MAX, -FLT_MAX};
    float sum[2] = {0.0f, 0.0f};
    barrierWait(&shared.queryFull, queryPhase);
    queryPhase ^= 1;
    for (int first = piece.begin; first < piece.end; first += 2) {
      const bool second = first + 1 < piece.end;
      const bool last = first + 2 >= piece.end;
      if constexpr (kGroup == 0) {
        float p[32];
        wideLogits<T, 0>(p, shared, phase0);
        wgmmaWait<0>();
        if (last && lane == 0) barrierArrive(&shared.queryFree);
        const float before[2] = {max[0], max[1]};
        wideMask<T, 0>(p, max, a, piece, rows, first, shared, thread);
        const float scale[2] = {exp2Approx(before[0] - max[0]), exp2Approx(before[1] - max[1])};
        if (lane % 4 == 0) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            shared.max[0][rows.row[half]] = max[half];
            shared.scale[0][rows.row[half]] = scale[half];
          }
        }
        sum[0] *= scale[0];
        sum[1] *= scale[1];
        wideExp(p, sum, max);
        uint32_t weights[4][4];
        widePack<T>(weights, p);
        wideStore(shared.weights, weights, warp, lane);
        proxyFence();
        namedBarrierArrive(kFirstSoftmax, 256);
        wideScale(result, scale);
        wideAdd<T, 0>(result, weights, shared, 0);
        wgmmaWait<0>();
        wideRelease(&shared.free[0][0], lane);
        phase0 ^= 1;
        if (second) {
          namedBarrierSync(kSecondSoftmax, 256);
          float again[2];
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            max[half] = shared.max[1][rows.row[half]];
            again[half] = shared.scale[1][rows.row[half]];
            sum[half] *= again[half];
          }
          wideScale(result, again);
          for (int box = 0; box < 4; ++box) barrierWait(&shared.full[1][box], phase1);
          wideAdd<T, 0>(result, secondWeights, shared, 1);
          wgmmaWait<0>();
          wideRelease(&shared.free[1][1], lane);
          phase1 ^= 1;
        }
      } else {
        float p[32];
        float mine[2] = {-FLT_MAX, -FLT_MAX};
        if (second) {
          wideLogits<T, 1>(p, shared, phase1);
          wgmmaWait<0>();
          wideMask<T, 1>(p, mine, a, piece, rows, first + 1, shared, thread);
        }
        if (last && lane == 0) barrierArrive(&shared.queryFree);
        namedBarrierSync(kFirstSoftmax, 256);
        float scale[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          scale[half] = shared.scale[0][rows.row[half]];
          max[half] = shared.max[0][rows.row[half]];
          sum[half] *= scale[half];
        }
        wideScale(result, scale);
        for (int box = 4; box < 8; ++box) barrierWait(&shared.full[0][box], phase0);
        wideAdd<T, 1>(result, shared.weights, shared, 0);
        phase0 ^= 1;
        if (!second) {
          wgmmaWait<0>();
          wideRelease(&shared.free[0][1], lane);
          continue;
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float before = max[half];
          max[half] = fmaxf(before, mine[half]);
          scale[half] = exp2Approx(before - max[half]);
          sum[half] *= scale[half];
          if (lane % 4 == 0) {
            shared.max[1][rows.row[half]] = max[half];
            shared.scale[1][rows.row[half]] = scale[half];
          }
        }
        wideExp(p, sum, max);
        uint32_t weights[4][4];
        widePack<T>(weights, p);
        wideStore(secondWeights, weights, warp, lane);
        proxyFence();
        namedBarrierArrive(kSecondSoftmax, 256);
        wgmmaWait<0>();
        wideRelease(&shared.free[0][1], lane);
        wideScale(result, scale);
        wideAdd<T, 1>(result, weights, shared, 1);
        wgmmaWait<0>();
        wideRelease(&shared.free[1][0], lane);
        phase1 ^= 1;
      }
    }
#pragma unroll
    for (float& value : sum) {
      value += __shfl_xor_sync(kFullWarp, value, 1);
      value += __shfl_xor_sync(kFullWarp, value, 2);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (lane % 4 == 0) shared.sum[turn][kGroup][rows.row[half]] = sum[half];
    }
    namedBarrierSync(kSums, 256);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum[half] = shared.sum[turn][0][rows.row[half]] + shared.sum[turn][1][rows.row[half]];
      if (kGroup == 0 && lane % 4 == 0 && rows.row[half] < tileRows.count) {
        storeLse(a, piece, tileRows.first + rows.row[half], naturalLse(max[half], sum[half]));
      }
    }
    if (piece.slot >= 0) {
      wideWrite<float, kGroup>(result, sum, a, piece, tileRows, rows, lane);
    } else {
      wideWrite<T, kGroup>(result, sum, a, piece, tileRows, rows, lane);
    }
  }
}

#endif  // WARPGRAPH_HOPPER

template <typename T>
__global__ void __launch_bounds__(kWideThreads, 1)
    mlaWideKernel(const __grid_constant__ CUtensorMap queryMap,
                  const __grid_constant__ CUtensorMap queryRopeMap,
                  const __grid_constant__ CUtensorMap latentMap, const __grid_constant__ CUtensorMap ropeMap,
                  const __grid_constant__ DecodeArguments a) {
#if WARPGRAPH_HOPPER
  extern __shared__ __align__(1024) char dynamicShared[];  // as the swizzle wants it
  auto& shared = *reinterpret_cast<WideShared*>(dynamicShared);
  const int warp = __shfl_sync(kFullWarp, threadIdx.x / kWarpSize, 0), lane = threadIdx.x % kWarpSize;
  allowNext();
  if (threadIdx.x == 0) {
    for (auto& tile : shared.full) {
      for (uint64_t& barrier : tile) barrierInit(&barrier, 1);
    }
    for (auto& tile : shared.free) {
      for (uint64_t& barrier : tile) barrierInit(&barrier, 4);
    }
    barrierInit(&shared.queryFull, 1);
    barrierInit(&shared.queryFree, 8);
    barrierInitFence();
  }
  if (a.numSplits == 0) findShare<kWideThreads>(a, shared.start);
  __syncthreads();
  const QueryRows rows = queryRows(a, kWideRows);
  if (warp < 8) {
    takeRegisters<232>();
    waitForPrevious();
    if (warp < 4) {
      wideConsume<T, 0>(a, rows, shared);
    } else {
      wideConsume<T, 1>(a, rows, shared);
    }
  } else {
    giveRegisters<40>();
    wideFetch(&queryMap, &queryRopeMap, &latentMap, &ropeMap, a, rows, shared, warp - 8, lane);
  }
#endif
}

}  // namespace decode
}  // namespace warpgraph
