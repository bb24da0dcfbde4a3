// Flash attention with keys and values of their own per head: out = softmax(scale·(q·k + qRope·kRope))·v.
// q (batch, numQueries, heads, headDim), k (batch, chunkKeys, heads, headDim), v (…, valueDim), rope parts
// beside them; any dimension up to 256, any alignment, float32 too (mla_fragments.cuh tells how): its keys
// and values come split (mla_expand_split.h), and a tile of queries is split here, once.
//
// A block takes a tile of queries of one head and walks over tiles of keys, up to the diagonal. A warp owns
// 16 or 32 queries: their logits, softmax and weighted sum of values stay in its registers, and the softmax's
// weights go from the first product's result registers to the second one's operand registers
// (FlashAttention-2, arXiv:2307.08691). Keys load while the last tile's values are multiplied, values
// while the keys are. Only tiles on the diagonal or at the end are masked.
#pragma once

#include "cuda/mla_expand_softmax.cuh"
#include "cuda/mla_fragments.cuh"

namespace warpgraph {

constexpr int kValueChunk = 4;  // times 16 columns are multiplied in one go

// How a launch cuts its work.
struct ExpandPlan {
  int warps;
  int keyColumns, valueColumns;  // head and rope part, padded to 16; padded to 64
  int headColumns;               // padded to a group; the rope part begins there
  int splitValueColumns;         // of split values in memory
  int64_t splitKeys;             // rows of a head of split keys and values
  int64_t queryTiles, items;
  bool qBy16, qRopeBy16, kBy16, kRopeBy16, vBy16;
};

template <typename T, int kTerms, int kRowTiles, int kKeyTile, int kValueTiles>
__global__ void __launch_bounds__(kRowTiles == 1 ? 256 : 128)
    mlaExpandKernel(MlaExpandedAttention attention, MlaSizes sizes, ExpandPlan plan) {
#if __CUDA_ARCH__ >= 800
  constexpr bool kSplit = std::is_same_v<T, float>;
  constexpr int kGroupBytes = kGroup * sizeof(T);
  constexpr int kKeyTiles = kKeyTile / 8;
  waitForInputs();
  if (attention.nonFinite != nullptr && *attention.nonFinite != 0) return;

  extern __shared__ __align__(16) char shared[];
  const int keyBytes = plan.keyColumns * int{sizeof(T)} + kTilePadding;
  const int valueBytes = plan.valueColumns * int{sizeof(T)} + kTilePadding;
  const int rows = plan.warps * kWarpRows * kRowTiles;
  char* const queryTile = shared;
  char* const keyTile = queryTile + rows * keyBytes;
  char* const valueTile = keyTile + kKeyTile * keyBytes;
  // Of split rows only: a query's and a key's scale, a value's exponent.
  auto* const queryScale = reinterpret_cast<float*>(valueTile + kKeyTile * valueBytes);
  float* const keyScale = queryScale + rows;
  float* const valueExponent = keyScale + kKeyTile;

  const auto headDim = static_cast<int>(sizes.headDim), valueDim = static_cast<int>(sizes.valueDim);
  const auto ropeDim = static_cast<int>(sizes.ropeDim);
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  const int quad = lane / 4, quadLane = lane % 4;
  const int loadStep = plan.warps * (kWarpSize / kRowLanes);
  const int loadFirst = threadIdx.x / kRowLanes;  // its lanes load rows loadFirst + i·loadStep
  const int warpRow = warp * kWarpRows * kRowTiles;

  const char* const a = queryTile + warpRow * keyBytes + leftOffset(keyBytes, kGroupBytes);
  const char* const bKeys = keyTile + rightOffset(keyBytes, kGroupBytes);
  const char* const bValues = valueTile + leftOffset(valueBytes, kGroupBytes);

  for (int64_t item = blockIdx.x; item < plan.items; item += gridDim.x) {
    // The tiles with the most keys first.
    const int64_t sequences = sizes.batch * sizes.heads;
    const int64_t firstQuery = (plan.queryTiles - 1 - item / sequences) * rows;
    const int64_t b = item % sequences / sizes.heads, h = item % sizes.heads;
    const Visible visible(attention.keys, sizes, b);
    const auto seenBy = [&](int64_t t) {  // keys of this chunk
      const int64_t seen = visible.to(min(t, sizes.numQueries - 1)) - attention.firstKey;
      return static_cast<int>(min(max(seen, int64_t{0}), attention.chunkKeys));
    };
    const int seen = seenBy(firstQuery + rows - 1);
    const int tiles = (seen + kKeyTile - 1) / kKeyTile;
    const int warpSeen = seenBy(firstQuery + warpRow);  // by all queries of the warp

    // Keys of this chunk that there are; rows past them are zeros.
    const auto keys =
        static_cast<int>(min(max(visible.length - attention.firstKey, int64_t{0}), attention.chunkKeys));
    const int64_t firstRow =
        kSplit ? (b * sizes.heads + h) * plan.splitKeys : b * attention.chunkKeys * sizes.heads + h;
    const T* const k = static_cast<const T*>(attention.k) + firstRow * (kSplit ? plan.keyColumns : headDim);
    const T* const v =
        static_cast<const T*>(attention.v) + firstRow * (kSplit ? plan.splitValueColumns : valueDim);
    const auto loadScales = [&](float* to, const float* from, int first) {
      constexpr int kVec = 4;
      if (threadIdx.x < kKeyTile / kVec) {
        copyAsync16(to + threadIdx.x * kVec, from + firstRow + first + threadIdx.x * kVec, true);
      }
    };
    const auto loadKeys = [&](int first) {
      if constexpr (kSplit) loadScales(keyScale, attention.keyScales, first);
#pragma unroll 1
      for (int row = loadFirst; row < kKeyTile; row += loadStep) {
        char* const to = keyTile + row * keyBytes;
        if constexpr (kSplit) {
          loadRow(to, k + int64_t{first + row} * plan.keyColumns, plan.keyColumns, plan.keyColumns, true,
                  true);
        } else {
          const bool valid = first + row < keys;
          const int s = valid ? first + row : 0;
          loadRow(to, k + s * (sizes.heads * sizes.headDim), headDim, plan.headColumns, valid, plan.kBy16);
          const int64_t ropeAt = valid && ropeDim > 0 ? keyRow(attention.keys, b, attention.firstKey + s) : 0;
          loadRow(to + plan.headColumns * int{sizeof(T)},
                  static_cast<const T*>(attention.keys.rope) + ropeAt * sizes.ropeDim, ropeDim,
                  plan.keyColumns - plan.headColumns, valid, plan.kRopeBy16);
        }
      }
    };
    const auto loadValues = [&](int first) {
      if constexpr (kSplit) loadScales(valueExponent, attention.valueExponents, first);
#pragma unroll 1
      for (int row = loadFirst; row < kKeyTile; row += loadStep) {
        char* const to = valueTile + row * valueBytes;
        if constexpr (kSplit) {
          const int columns = plan.splitValueColumns;
          loadRow(to, v + int64_t{first + row} * columns, columns, plan.valueColumns, true, true);
        } else {
          const bool valid = first + row < keys;
          const int s = valid ? first + row : 0;
          loadRow(to, v + s * (sizes.heads * sizes.valueDim), valueDim, plan.valueColumns, valid, plan.vBy16);
        }
      }
    };

    for (int row = loadFirst; row < rows; row += loadStep) {
      const int64_t t = firstQuery + row;
      const bool valid = t < sizes.numQueries;
      const int64_t at = valid ? (b * sizes.numQueries + t) * sizes.heads + h : 0;
      loadRow(queryTile + row * keyBytes, static_cast<const T*>(attention.q) + at * sizes.headDim, headDim,
              plan.headColumns, valid, plan.qBy16);
      loadRow(queryTile + row * keyBytes + plan.headColumns * int{sizeof(T)},
              static_cast<const T*>(attention.qRope) + at * sizes.ropeDim, ropeDim,
              plan.keyColumns - plan.headColumns, valid, plan.qRopeBy16);
    }
    copyAsyncCommit();
    if (tiles > 0) loadKeys(0);
    copyAsyncCommit();
    copyAsyncWait<1>();  // for the queries; keys go on coming
    if constexpr (kSplit) {
      __syncwarp();
      for (int row = warp * (kWarpSize / kRowLanes); row < rows; row += loadStep) {
        const int own = row + lane / kRowLanes;
        const RowScale split = splitRow<kTerms>(queryTile + own * keyBytes, plan.keyColumns);
        if (lane % kRowLanes == 0) queryScale[own] = split.scale;
      }
    }
    __syncthreads();

    float out[kRowTiles][kValueTiles][4];
    float most[kRowTiles][2], sum[kRowTiles][2], scale[kRowTiles][2];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int n = 0; n < kValueTiles; ++n) {
        for (float& value : out[r][n]) value = 0.0f;
      }
      for (int i = 0; i < 2; ++i) {
        most[r][i] = -INFINITY;
        sum[r][i] = 0.0f;
        scale[r][i] = sizes.scale * kLog2E;
        if constexpr (kSplit) scale[r][i] *= queryScale[warpRow + r * kWarpRows + i * 8 + quad];
      }
    }

    for (int tile = 0; tile < tiles; ++tile) {
      const int first = tile * kKeyTile;
      copyAsyncWait<0>();
      __syncthreads();
      loadValues(first);
      copyAsyncCommit();

      float logits[kRowTiles][kKeyTiles][4];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) {
          for (float& value : logits[r][n]) value = 0.0f;
        }
      }
      for (int step = 0; step < plan.keyColumns / 16; ++step) {
        Fragment<kTerms> left[kRowTiles];
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          loadFragment<kTerms>(left[r], a + r * kWarpRows * keyBytes + step * 2 * kGroupBytes);
        }
#pragma unroll
        for (int pair = 0; pair < kKeyTiles / 2; ++pair) {
          Fragment<kTerms> right;
          loadFragment<kTerms>(right, bKeys + pair * 16 * keyBytes + step * 2 * kGroupBytes);
          multiply<T, kTerms>(logits, pair, left, right);
        }
      }
      const bool masked = first + kKeyTile > warpSeen;
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) {
          float2 key{1.0f, 1.0f};
          if constexpr (kSplit) key = *reinterpret_cast<const float2*>(keyScale + n * 8 + quadLane * 2);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if constexpr (kSplit) logits[r][n][i] *= i % 2 == 0 ? key.x : key.y;
            logits[r][n][i] *= scale[r][i / 2];
          }
        }
      }
      if (masked) {
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int end = seenBy(firstQuery + warpRow + r * kWarpRows + i * 8 + quad) - first;
#pragma unroll
            for (int n = 0; n < kKeyTiles; ++n) {
              const int key = n * 8 + quadLane * 2;
              if (key >= end) logits[r][n][2 * i] = -INFINITY;
              if (key + 1 >= end) logits[r][n][2 * i + 1] = -INFINITY;
            }
          }
        }
      }
      copyAsyncWait<0>();
      __syncthreads();
      if (tile + 1 < tiles) loadKeys(first + kKeyTile);
      copyAsyncCommit();

      float decay[kRowTiles][2];
      Fragment<kTerms> weights[kKeyTile / 16][kRowTiles];
      bool decays = false;
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        decays |= softmaxStep<T, kTerms>(logits[r], valueExponent, r, most[r], sum[r], decay[r], weights);
      }
      if (!kSplit && __any_sync(kFullWarp, decays)) {
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
          for (int n = 0; n < kValueTiles; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) out[r][n][i] *= decay[r][i / 2];
          }
        }
      }

#pragma unroll
      for (int chunk = 0; chunk < kValueTiles / 2 / kValueChunk; ++chunk) {
        if (chunk * kValueChunk * 16 >= plan.valueColumns) break;
        // Tensor cores round sums towards zero: split values are summed over one tile only, and the tiles
        // here.
        float tileOut[kRowTiles][2 * kValueChunk][4];
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
          for (int n = 0; n < 2 * kValueChunk; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              tileOut[r][n][i] = kSplit ? 0.0f : out[r][chunk * 2 * kValueChunk + n][i];
            }
          }
        }
#pragma unroll
        for (int step = 0; step < kKeyTile / 16; ++step) {
#pragma unroll
          for (int pair = 0; pair < kValueChunk; ++pair) {
            Fragment<kTerms> right;
            loadFragmentTransposed<kTerms>(
                right, bValues + step * 16 * valueBytes + (chunk * kValueChunk + pair) * 2 * kGroupBytes);
            multiply<T, kTerms>(tileOut, pair, weights[step], right);
          }
        }
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
          for (int n = 0; n < 2 * kValueChunk; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              float& to = out[r][chunk * 2 * kValueChunk + n][i];
              to = kSplit ? to * decay[r][i / 2] + tileOut[r][n][i] : tileOut[r][n][i];
            }
          }
        }
      }
    }

#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int64_t t = firstQuery + warpRow + r * kWarpRows + i * 8 + quad;
        writeRow<T>(attention, sizes, b, t, h, out[r], i, most[r][i], sum[r][i]);
      }
    }
    __syncthreads();
  }
#endif
}

}  // namespace warpgraph
