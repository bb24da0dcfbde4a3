// Attention in the latents' space: out = softmax(scale·(qLatent·latent + qRope·rope))·latent, one latent per
// key for all heads. qLatent (batch, numQueries, heads, rank), latents (batch, numKeys, rank) or paged; rank
// up to 1024, any dimension, any alignment, float32 too (mla_fragments.cuh tells how).
//
// The (query, head) pairs of a sequence share its latents, so a block takes 16 or 32 of them as the rows of
// its matrix tile and walks over tiles of keys, which are loaded once and are both keys and values. For the
// logits the block's warps cut the tile by keys and by columns, the softmax runs one row in a few lanes,
// and for the weighted sum each warp owns columns of the latents, held in its registers. A sequence's keys
// are split over several blocks, whose partial results are merged by their log-sum-exp (Flash-Decoding).
#pragma once

#include "cuda/mla_fragments.cuh"

namespace warpgraph {

// 16 rows are held by up to 16 warps, and thus up to 1024 columns; 32 rows by 8 warps.
constexpr int threadsOf(int rowTiles) {
  return rowTiles == 1 ? 512 : 256;
}
constexpr int kMostKeys = 64;     // per tile
constexpr int kPairsPerWarp = 4;  // of 16 columns each, of the weighted sum

// How a launch cuts its work, and where its parts lie in shared memory.
struct AbsorbPlan {
  int warps, keyTile, stages;
  int latentColumns, columns;  // latents padded to a group, where the rope part begins; all, padded to 16
  int64_t rowTiles, splits, items;
  bool qBy16, qRopeBy16, latentBy16, ropeBy16;
  float* partialOut;  // (splits, batch, numQueries, heads, rank)
  float* partialLse;  // (splits, batch, heads, numQueries)
};

// Shared memory, in the order of its parts.
struct AbsorbLayout {
  int64_t queries, keys, logits, weights, queryScale, keyScale, keyExponent, decay, bytes;
};
__host__ __device__ inline AbsorbLayout absorbLayout(const AbsorbPlan& plan, int rows, size_t elementBytes) {
  AbsorbLayout layout{};
  int64_t at = 0;
  const auto take = [&](int64_t bytes) {
    const int64_t begin = at;
    at += bytes;
    return begin;
  };
  const int64_t tileRow = plan.columns * static_cast<int64_t>(elementBytes) + kTilePadding;
  layout.queries = take(rows * tileRow);
  layout.keys = take(plan.stages * plan.keyTile * tileRow);
  // One part of the logits per part of the columns.
  const int parts = plan.warps / (plan.keyTile / 16);
  layout.logits = take(int64_t{parts} * rows * (plan.keyTile + 8) * 4);
  layout.weights = take(rows * (plan.keyTile * static_cast<int64_t>(elementBytes) + kTilePadding));
  layout.queryScale = take(rows * 4);
  layout.keyScale = take(plan.stages * plan.keyTile * 4);
  layout.keyExponent = take(plan.stages * plan.keyTile * 4);
  layout.decay = take(rows * 4);
  layout.bytes = at;
  return layout;
}

template <typename T, int kRowTiles>
__global__ void __launch_bounds__(threadsOf(kRowTiles))
    mlaAbsorbKernel(MlaLatentAttention attention, MlaSizes sizes, AbsorbPlan plan) {
#if __CUDA_ARCH__ >= 800
  waitForInputs();
  constexpr bool kSplit = std::is_same_v<T, float>;
  constexpr int kTerms = kSplit ? 2 : 1;
  constexpr int kGroupBytes = kGroup * sizeof(T);
  constexpr int kRows = kRowTiles * kWarpRows;

  extern __shared__ __align__(16) char shared[];
  const AbsorbLayout layout = absorbLayout(plan, kRows, sizeof(T));
  const int tileRow = plan.columns * int{sizeof(T)} + kTilePadding;
  const int weightRow = plan.keyTile * int{sizeof(T)} + kTilePadding;
  const int logitRow = plan.keyTile + 8;
  char* const queryTile = shared + layout.queries;
  char* const keyTiles = shared + layout.keys;
  auto* const logits = reinterpret_cast<float*>(shared + layout.logits);  // (parts, kRows, logitRow)
  char* const weights = shared + layout.weights;
  auto* const queryScale = reinterpret_cast<float*>(shared + layout.queryScale);
  auto* const keyScale = reinterpret_cast<float*>(shared + layout.keyScale);
  auto* const keyExponent = reinterpret_cast<float*>(shared + layout.keyExponent);
  auto* const decay = reinterpret_cast<float*>(shared + layout.decay);

  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  const int quad = lane / 4, quadLane = lane % 4;
  const int loadStep = plan.warps * (kWarpSize / kRowLanes);
  const int loadFirst = threadIdx.x / kRowLanes;
  const int warpLoadFirst = warp * (kWarpSize / kRowLanes);

  // The warp's share of the logits: 16 keys, and every parts-th 16 columns.
  const int keyGroups = plan.keyTile / 16;
  const int parts = plan.warps / keyGroups;
  const int keyGroup = warp % keyGroups, part = warp / keyGroups;
  const int steps = plan.columns / 16;
  // The softmax's row of this thread, one of `rowLanes` that share it.
  const int rowLanes = blockDim.x / kRows;
  const int softmaxRow = threadIdx.x / rowLanes, rowLane = threadIdx.x % rowLanes;
  const int valuePairs = (static_cast<int>(sizes.rank) + 15) / 16;
  const int64_t sequenceRows = sizes.numQueries * sizes.heads;

  for (int64_t item = blockIdx.x; item < plan.items; item += gridDim.x) {
    const int64_t split = item % plan.splits;
    const int64_t firstRow = item / plan.splits % plan.rowTiles * kRows;
    const int64_t b = item / plan.splits / plan.rowTiles;
    const Visible visible(attention.keys, sizes, b);
    const int64_t lastRow = min(firstRow + kRows, sequenceRows) - 1;
    const int64_t seenByAll = visible.to(firstRow / sizes.heads);
    const int64_t seenByAny = visible.to(lastRow / sizes.heads);
    const int64_t tiles = (seenByAny + plan.keyTile - 1) / plan.keyTile;
    const auto firstTile = static_cast<int>(tiles * split / plan.splits);
    const auto endTile = static_cast<int>(tiles * (split + 1) / plan.splits);

    const auto loadKeys = [&](int tile, int stage) {
      char* const shared = keyTiles + stage * plan.keyTile * tileRow;
      for (int row = loadFirst; row < plan.keyTile; row += loadStep) {
        const int64_t s = int64_t{tile} * plan.keyTile + row;
        const bool valid = s < seenByAny;
        const int64_t at = valid ? keyRow(attention.keys, b, s) : 0;
        loadRow(shared + row * tileRow, static_cast<const T*>(attention.keys.latent) + at * sizes.rank,
                static_cast<int>(sizes.rank), plan.latentColumns, valid, plan.latentBy16);
        loadRow(shared + row * tileRow + plan.latentColumns * int{sizeof(T)},
                static_cast<const T*>(attention.keys.rope) + at * sizes.ropeDim,
                static_cast<int>(sizes.ropeDim), plan.columns - plan.latentColumns, valid, plan.ropeBy16);
      }
      copyAsyncCommit();
    };
    // Splits the rows that this thread's lanes have loaded.
    const auto splitRows = [&](char* tile, int rows, auto&& store) {
      if constexpr (kSplit) {
        __syncwarp();
        for (int row = warpLoadFirst; row < rows; row += loadStep) {
          const int own = row + lane / kRowLanes;
          const RowScale scale = splitRow<kTerms>(tile + own * tileRow, plan.columns);
          if (lane % kRowLanes == 0) store(own, scale);
        }
      }
    };

    for (int row = loadFirst; row < kRows; row += loadStep) {
      const bool valid = firstRow + row < sequenceRows;
      const int64_t at = valid ? b * sequenceRows + firstRow + row : 0;
      loadRow(queryTile + row * tileRow,
              static_cast<const T*>(attention.qLatent) + at * attention.qLatentStride,
              static_cast<int>(sizes.rank), plan.latentColumns, valid, plan.qBy16);
      loadRow(queryTile + row * tileRow + plan.latentColumns * int{sizeof(T)},
              static_cast<const T*>(attention.qRope) + at * attention.qRopeStride,
              static_cast<int>(sizes.ropeDim), plan.columns - plan.latentColumns, valid, plan.qRopeBy16);
    }
    copyAsyncCommit();
    if (firstTile < endTile) loadKeys(firstTile, 0);
    copyAsyncWait<1>();
    if (firstTile == endTile) copyAsyncWait<0>();
    splitRows(queryTile, kRows, [&](int row, RowScale scale) { queryScale[row] = scale.scale; });

    float out[kRowTiles][2 * kPairsPerWarp][4];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int n = 0; n < 2 * kPairsPerWarp; ++n) {
        for (float& value : out[r][n]) value = 0.0f;
      }
    }
    // Of the softmax's row: its maximum so far, this lane's part of the sum of weights, and what it sees.
    float most = -INFINITY, sum = 0.0f;
    const int64_t rowSees = visible.to(min(firstRow + softmaxRow, sequenceRows - 1) / sizes.heads);

    for (int tile = firstTile; tile < endTile; ++tile) {
      const int stage = plan.stages == 2 ? (tile - firstTile) % 2 : 0;
      char* const keyTile = keyTiles + stage * plan.keyTile * tileRow;
      float* const tileScale = keyScale + stage * plan.keyTile;
      float* const tileExponent = keyExponent + stage * plan.keyTile;
      const int64_t firstKey = int64_t{tile} * plan.keyTile;
      copyAsyncWait<0>();
      splitRows(keyTile, plan.keyTile, [&](int row, RowScale scale) {
        tileScale[row] = scale.scale;
        tileExponent[row] = scale.exponent;
      });
      __syncthreads();
      if (plan.stages == 2 && tile + 1 < endTile) loadKeys(tile + 1, 1 - stage);

      {
        float acc[kRowTiles][2][4] = {};
        const char* const a = queryTile + leftOffset(tileRow, kGroupBytes);
        const char* const k = keyTile + keyGroup * 16 * tileRow + rightOffset(tileRow, kGroupBytes);
#pragma unroll 2
        for (int step = part; step < steps; step += parts) {
          Fragment<kTerms> left[kRowTiles], right;
#pragma unroll
          for (int r = 0; r < kRowTiles; ++r) {
            loadFragment<kTerms>(left[r], a + r * kWarpRows * tileRow + step * 2 * kGroupBytes);
          }
          loadFragment<kTerms>(right, k + step * 2 * kGroupBytes);
          multiply<T, kTerms>(acc, 0, left, right);
        }
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
          for (int n = 0; n < 2; ++n) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              const int row = part * kRows + r * kWarpRows + i * 8 + quad;
              *reinterpret_cast<float2*>(logits + row * logitRow + keyGroup * 16 + n * 8 + quadLane * 2) =
                  make_float2(acc[r][n][2 * i], acc[r][n][2 * i + 1]);
            }
          }
        }
      }

      // Values that only some rows see must not reach the others: 0·NaN is NaN. A split row holds none.
      bool nonFinite = false;
      if (!kSplit && seenByAll < min(firstKey + plan.keyTile, seenByAny)) {
        __syncthreads();
        for (int row = loadFirst; row < plan.keyTile; row += loadStep) {
          auto* const values = reinterpret_cast<T*>(keyTile + row * tileRow);
          for (int c = threadIdx.x % kRowLanes; c < sizes.rank; c += kRowLanes) {
            if (fabsf(toFloat(values[c])) < INFINITY) continue;
            values[c] = fromFloat<T>(0.0f);
            nonFinite = true;
          }
        }
        nonFinite = __syncthreads_or(nonFinite);
      } else {
        __syncthreads();
      }

      {
        float x[kMostKeys / 8], exponent[kMostKeys / 8];
        const float scale = sizes.scale * kLog2E * (kSplit ? queryScale[softmaxRow] : 1.0f);
        float tileMost = most;
#pragma unroll
        for (int i = 0; i < kMostKeys / 8; ++i) {
          const int key = i * rowLanes + rowLane;
          x[i] = -INFINITY;
          exponent[i] = 0.0f;
          if (key >= plan.keyTile) continue;
          float logit = 0.0f;
          for (int p = 0; p < parts; ++p) logit += logits[(p * kRows + softmaxRow) * logitRow + key];
          if constexpr (kSplit) {
            logit *= tileScale[key];
            exponent[i] = tileExponent[key];
          }
          logit *= scale;
          if (nonFinite && !(fabsf(logit) < INFINITY)) logit = NAN;
          if (firstKey + key < rowSees) x[i] = logit;
          tileMost = fmaxf(tileMost, x[i] + exponent[i]);
        }
        for (int offset = rowLanes / 2; offset > 0; offset /= 2) {
          tileMost = fmaxf(tileMost, __shfl_xor_sync(kFullWarp, tileMost, offset));
        }
        // While nothing but −∞ was seen any finite base leaves exp at 0; −∞ − −∞ would be NaN.
        const float base = tileMost == -INFINITY ? 0.0f : tileMost;
        const float rowDecay = exp2Fast(most - base);
        most = tileMost;
        sum *= rowDecay;
        if (rowLane == 0) decay[softmaxRow] = rowDecay;
#pragma unroll
        for (int i = 0; i < kMostKeys / 8; ++i) {
          const int key = i * rowLanes + rowLane;
          if (key >= plan.keyTile) continue;
          const float shifted = x[i] - base;
          float weight = exp2Fast(shifted);
          sum += weight;
          auto* const to = reinterpret_cast<typename ProductOf<T>::Type*>(
              weights + softmaxRow * weightRow + key / kGroup * kGroupBytes + key % kGroup * 2);
          if constexpr (kSplit) {
            weight = exp2Fast(shifted + exponent[i]) * (1 << kSplitBits);
            to[kGroup] = __float2half_rn(weight - __half2float(__float2half_rn(weight)));
          }
          to[0] = fromFloat<typename ProductOf<T>::Type>(weight);
        }
      }
      __syncthreads();

      float rowDecay[kRowTiles][2];
      bool decays = false;
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          rowDecay[r][i] = decay[r * kWarpRows + i * 8 + quad];
          decays |= rowDecay[r][i] != 1.0f;
        }
      }
      if (!kSplit && __any_sync(kFullWarp, decays)) {
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
          for (int n = 0; n < 2 * kPairsPerWarp; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) out[r][n][i] *= rowDecay[r][i / 2];
          }
        }
      }
      // Tensor cores round sums towards zero: split values are summed over one tile only, and the tiles here.
      float tileOut[kRowTiles][2 * kPairsPerWarp][4];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
        for (int n = 0; n < 2 * kPairsPerWarp; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) tileOut[r][n][i] = kSplit ? 0.0f : out[r][n][i];
        }
      }
      const char* const a = weights + leftOffset(weightRow, kGroupBytes);
      const char* const v = keyTile + warp * 2 * kGroupBytes + leftOffset(tileRow, kGroupBytes);
      for (int step = 0; step < keyGroups; ++step) {
        Fragment<kTerms> left[kRowTiles];
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          loadFragment<kTerms>(left[r], a + r * kWarpRows * weightRow + step * 2 * kGroupBytes);
        }
#pragma unroll
        for (int p = 0; p < kPairsPerWarp; ++p) {
          if (p * plan.warps + warp >= valuePairs) break;
          Fragment<kTerms> right;
          loadFragmentTransposed<kTerms>(right, v + step * 16 * tileRow + p * plan.warps * 2 * kGroupBytes);
          multiply<T, kTerms>(tileOut, p, left, right);
        }
      }
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
        for (int n = 0; n < 2 * kPairsPerWarp; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            out[r][n][i] = kSplit ? out[r][n][i] * rowDecay[r][i / 2] + tileOut[r][n][i] : tileOut[r][n][i];
          }
        }
      }
      if (plan.stages == 1 && tile + 1 < endTile) {
        __syncthreads();
        loadKeys(tile + 1, 0);
      }
    }

    // The softmax's threads hand each row's factor to the threads that hold its columns.
    __syncthreads();
    const bool partial = plan.splits > 1;
    {
      for (int offset = rowLanes / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
      if (rowLane == 0) {
        decay[softmaxRow] =
            sum == 0.0f ? 0.0f : 1.0f / sum * (kSplit ? 1.0f / (int64_t{1} << 2 * kSplitBits) : 1.0f);
        float* const lse = partial ? plan.partialLse : attention.lse;
        const int64_t row = firstRow + softmaxRow;
        if (lse != nullptr && row < sequenceRows) {
          lse[((split * sizes.batch + b) * sizes.heads + row % sizes.heads) * sizes.numQueries +
              row / sizes.heads] = sum == 0.0f ? -INFINITY : (most + log2f(sum)) * kLn2;
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int local = r * kWarpRows + i * 8 + quad;
        const int64_t row = b * sequenceRows + firstRow + local;
        if (firstRow + local >= sequenceRows) continue;
        const float factor = decay[local];
#pragma unroll
        for (int n = 0; n < 2 * kPairsPerWarp; ++n) {
          const int column = (n / 2 * plan.warps + warp) * 16 + n % 2 * 8 + quadLane * 2;
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            if (column + j >= sizes.rank) continue;
            const float value = out[r][n][2 * i + j] * factor;
            if (partial) {
              plan.partialOut[(split * sizes.batch * sequenceRows + row) * sizes.rank + column + j] = value;
            } else {
              static_cast<T*>(attention.out)[row * sizes.rank + column + j] = fromFloat<T>(value);
            }
          }
        }
      }
    }
    __syncthreads();
  }
#endif
}

}  // namespace warpgraph
