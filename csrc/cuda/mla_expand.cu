// Flash attention with keys and values of their own per head: out = softmax(scale·(q·k + qRope·kRope))·v.
// q (batch, numQueries, heads, headDim), k (batch, chunkKeys, heads, headDim), v (…, valueDim), rope parts
// beside them; any dimension up to 256, any alignment, float32 too (mla_tile.cuh tells how).
//
// A block takes a tile of queries of one head and walks over tiles of keys, up to the diagonal. A warp owns
// 16 or 32 queries: their logits, softmax and weighted sum of values stay in its registers, and the softmax's
// weights go from the first product's result registers to the second one's operand registers
// (FlashAttention-2, arXiv:2307.08691). Keys load while the last tile's values are multiplied, values
// while the keys are. Only tiles on the diagonal or at the end are masked.
#include <iterator>

#include "cuda/mla_expand.h"
#include "cuda/mla_tile.cuh"

namespace warpgraph {
namespace {

constexpr int kValueChunk = 4;  // pairs of 8 columns, multiplied together: 64 columns

// How a launch cuts its work.
struct ExpandPlan {
  int warps;
  int keyColumns, valueColumns;  // head and rope part, padded to 16; padded to 64
  int headColumns;               // padded to a group; the rope part begins there
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
  const int loadFirst =
      threadIdx.x / kRowLanes;  // rows that this thread's lanes load: loadFirst + i·loadStep
  const int warpLoadFirst = warp * (kWarpSize / kRowLanes);
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
    const T* const k =
        static_cast<const T*>(attention.k) + (b * attention.chunkKeys * sizes.heads + h) * sizes.headDim;
    const T* const v =
        static_cast<const T*>(attention.v) + (b * attention.chunkKeys * sizes.heads + h) * sizes.valueDim;
    const auto loadKeys = [&](int first) {
#pragma unroll 1
      for (int row = loadFirst; row < kKeyTile; row += loadStep) {
        const bool valid = first + row < keys;
        const int s = valid ? first + row : 0;
        char* const to = keyTile + row * keyBytes;
        loadRow(to, k + s * (sizes.heads * sizes.headDim), headDim, plan.headColumns, valid, plan.kBy16);
        const int64_t ropeAt = valid && ropeDim > 0 ? keyRow(attention.keys, b, attention.firstKey + s) : 0;
        loadRow(to + plan.headColumns * int{sizeof(T)},
                static_cast<const T*>(attention.keys.rope) + ropeAt * sizes.ropeDim, ropeDim,
                plan.keyColumns - plan.headColumns, valid, plan.kRopeBy16);
      }
      copyAsyncCommit();
    };
    const auto loadValues = [&](int first) {
#pragma unroll 1
      for (int row = loadFirst; row < kKeyTile; row += loadStep) {
        const bool valid = first + row < keys;
        const int s = valid ? first + row : 0;
        loadRow(valueTile + row * valueBytes, v + s * (sizes.heads * sizes.valueDim), valueDim,
                plan.valueColumns, valid, plan.vBy16);
      }
      copyAsyncCommit();
    };
    // Waits for this thread's copies and splits the rows they brought.
    const auto arrive = [&](char* tile, int tileRows, int bytesPerRow, int columns, auto&& store) {
      copyAsyncWait<0>();
      if constexpr (kSplit) {
        __syncwarp();
        for (int row = warpLoadFirst; row < tileRows; row += loadStep) {
          const int own = row + lane / kRowLanes;
          const RowScale scale = splitRow<kTerms>(tile + own * bytesPerRow, columns);
          if (lane % kRowLanes == 0) store(own, scale);
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
    arrive(queryTile, rows, keyBytes, plan.keyColumns,
           [&](int row, RowScale scale) { queryScale[row] = scale.scale; });
    if (tiles > 0) loadKeys(0);
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
      arrive(keyTile, kKeyTile, keyBytes, plan.keyColumns,
             [&](int row, RowScale rowScale) { keyScale[row] = rowScale.scale; });
      __syncthreads();
      loadValues(first);

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
      arrive(valueTile, kKeyTile, valueBytes, plan.valueColumns,
             [&](int row, RowScale rowScale) { valueExponent[row] = rowScale.exponent; });
      __syncthreads();
      if (tile + 1 < tiles) loadKeys(first + kKeyTile);

      // Online softmax. For split values the maximum is that of weight × value: the weights that the product
      // sees are those of rows that were divided by their scale.
      float decay[kRowTiles][2];
      Fragment<kTerms> weights[kKeyTile / 16][kRowTiles];
      bool decays = false;
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        float2 exponent[kSplit ? kKeyTiles : 1];
        float tileMost[2] = {most[r][0], most[r][1]};
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) {
          if constexpr (kSplit) {
            exponent[n] = *reinterpret_cast<const float2*>(valueExponent + n * 8 + quadLane * 2);
          }
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float value = logits[r][n][i];
            if constexpr (kSplit) value += i % 2 == 0 ? exponent[n].x : exponent[n].y;
            tileMost[i / 2] = fmaxf(tileMost[i / 2], value);
          }
        }
        float base[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          tileMost[i] = fmaxf(tileMost[i], __shfl_xor_sync(kFullWarp, tileMost[i], 1));
          tileMost[i] = fmaxf(tileMost[i], __shfl_xor_sync(kFullWarp, tileMost[i], 2));
          // While nothing but −∞ was seen any finite base leaves exp at 0; −∞ − −∞ would be NaN.
          base[i] = tileMost[i] == -INFINITY ? 0.0f : tileMost[i];
          decay[r][i] = exp2Fast(most[r][i] - base[i]);
          decays |= decay[r][i] != 1.0f;
          most[r][i] = tileMost[i];
          sum[r][i] *= decay[r][i];
        }
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) {
          float weight[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float shifted = logits[r][n][i] - base[i / 2];
            weight[i] = exp2Fast(shifted);
            sum[r][i / 2] += weight[i];
            if constexpr (kSplit) {
              weight[i] =
                  exp2Fast(shifted + (i % 2 == 0 ? exponent[n].x : exponent[n].y)) * (1 << kSplitBits);
            }
          }
          Fragment<kTerms>& fragment = weights[n / 2][r];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int at = n % 2 * 2 + i;
            splitPair<T, kTerms>(weight[2 * i], weight[2 * i + 1], fragment[0][at], fragment[kTerms - 1][at]);
          }
        }
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
        float total = sum[r][i];
        total += __shfl_xor_sync(kFullWarp, total, 1);
        total += __shfl_xor_sync(kFullWarp, total, 2);
        const int64_t t = firstQuery + warpRow + r * kWarpRows + i * 8 + quad;
        const bool valid = t < sizes.numQueries;
        float lse = total == 0.0f ? -INFINITY : (most[r][i] + log2f(total)) * kLn2;
        float weight = total == 0.0f ? 0.0f : 1.0f / total, oldWeight = 0.0f;
        if constexpr (kSplit) weight *= 1.0f / (int64_t{1} << 2 * kSplitBits);
        const int64_t lseAt = (b * sizes.heads + h) * sizes.numQueries + t;
        if (!attention.first && valid) {
          const float old = attention.lse[lseAt];
          const float greater = maxKeepingNaN(old, lse);
          if (greater != -INFINITY) {
            const float now = expf(lse - greater), before = expf(old - greater);
            weight *= now / (now + before);
            oldWeight = before / (now + before);
            lse = greater + logf(now + before);
          }
        }
        __syncwarp();
        if (valid && attention.lse != nullptr && quadLane == 0) attention.lse[lseAt] = lse;
        if (!valid) continue;
        const int64_t outAt = ((b * sizes.numQueries + t) * sizes.heads + h) * sizes.valueDim;
#pragma unroll
        for (int n = 0; n < kValueTiles; ++n) {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const int column = n * 8 + quadLane * 2 + j;
            if (column >= sizes.valueDim) continue;
            float value = out[r][n][2 * i + j] * weight;
            if (!attention.first) value += oldWeight * attention.running[outAt + column];
            if (attention.last) {
              static_cast<T*>(attention.out)[outAt + column] = fromFloat<T>(value);
            } else {
              attention.running[outAt + column] = value;
            }
          }
        }
      }
    }
    __syncthreads();
  }
#endif
}

using ExpandKernel = void (*)(MlaExpandedAttention, MlaSizes, ExpandPlan);

// Tile shapes, best first. Split operands take twice the registers and the shared memory.
struct ExpandVariant {
  int rowTiles, warps, keyTile, mostValues;
};
constexpr ExpandVariant kHalfVariants[] = {{2, 4, 64, 128}, {1, 4, 64, 256}, {1, 4, 16, 256}};
constexpr ExpandVariant kSplitVariants[] = {
    {1, 8, 64, 128}, {1, 4, 64, 128}, {1, 4, 32, 256}, {1, 4, 16, 256}};
constexpr int kMostColumns = 256;
// Longer sequences than any card holds; key numbers within a chunk are ints.
constexpr int64_t kMostSequence = int64_t{1} << 30;

int64_t expandSharedBytes(const ExpandPlan& plan, const ExpandVariant& variant, size_t elementBytes) {
  const int64_t rows = variant.warps * kWarpRows * variant.rowTiles;
  return (rows + variant.keyTile) * rowBytes(plan.keyColumns, elementBytes) +
         variant.keyTile * rowBytes(plan.valueColumns, elementBytes) +
         (rows + 2 * variant.keyTile) * static_cast<int64_t>(sizeof(float));
}

// The best variant that fits the current device; null when none does.
const ExpandVariant* chooseExpand(DType dtype, const MlaSizes& sizes, ExpandPlan& plan) {
  if (std::max({sizes.headDim, sizes.valueDim, sizes.ropeDim}) > kMostColumns) return nullptr;
  plan.headColumns = static_cast<int>(padTo(sizes.headDim, kGroup));
  plan.keyColumns = static_cast<int>(padTo(plan.headColumns + sizes.ropeDim, 16));
  plan.valueColumns = static_cast<int>(padTo(sizes.valueDim, 64));
  const int64_t limit = sharedMemoryLimit();
  const auto fits = [&](const ExpandVariant& variant) {
    return sizes.valueDim <= variant.mostValues &&
           (sizes.numQueries > 64 || variant.warps * variant.rowTiles == 4) &&
           expandSharedBytes(plan, variant, bytesOf(dtype)) <= limit;
  };
  const auto first = [&](const auto& variants) {
    const auto* found = std::find_if(std::begin(variants), std::end(variants), fits);
    return found == std::end(variants) ? nullptr : found;
  };
  return dtype == DType::kFloat32 ? first(kSplitVariants) : first(kHalfVariants);
}

template <typename T>
ExpandKernel expandKernel(const ExpandVariant& variant, bool tf32) {
  if constexpr (std::is_same_v<T, float>) {
    if (variant.keyTile == 64)
      return tf32 ? mlaExpandKernel<T, 1, 1, 64, 16> : mlaExpandKernel<T, 2, 1, 64, 16>;
    return variant.keyTile == 32 ? mlaExpandKernel<T, 2, 1, 32, 32> : mlaExpandKernel<T, 2, 1, 16, 32>;
  } else {
    if (variant.rowTiles == 2) return mlaExpandKernel<T, 1, 2, 64, 16>;
    return variant.keyTile == 64 ? mlaExpandKernel<T, 1, 1, 64, 32> : mlaExpandKernel<T, 1, 1, 16, 32>;
  }
}

}  // namespace

bool mlaExpandTakes(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int computeCapability) {
  ExpandPlan plan{};
  return computeCapability >= 80 && keys.numKeys <= kMostSequence &&
         chooseExpand(dtype, sizes, plan) != nullptr;
}

cudaError_t launchMlaExpand(DType dtype, const MlaExpandedAttention& attention, const MlaSizes& sizes,
                            cudaStream_t stream) {
  if (sizes.batch == 0 || sizes.numQueries == 0 || sizes.heads == 0) return cudaSuccess;
  ExpandPlan plan{};
  const ExpandVariant* variant = chooseExpand(dtype, sizes, plan);
  if (variant == nullptr) return cudaErrorInvalidValue;
  const int64_t rows = variant->warps * kWarpRows * variant->rowTiles;
  plan.warps = variant->warps;
  plan.queryTiles = (sizes.numQueries + rows - 1) / rows;
  plan.items = plan.queryTiles * sizes.batch * sizes.heads;
  const size_t bytes = bytesOf(dtype);
  plan.qBy16 = copiesBy16(attention.q, sizes.headDim, sizes.headDim, bytes);
  plan.qRopeBy16 = copiesBy16(attention.qRope, sizes.ropeDim, sizes.ropeDim, bytes);
  plan.kBy16 = copiesBy16(attention.k, sizes.headDim, sizes.headDim, bytes);
  plan.kRopeBy16 = copiesBy16(attention.keys.rope, sizes.ropeDim, sizes.ropeDim, bytes);
  plan.vBy16 = copiesBy16(attention.v, sizes.valueDim, sizes.valueDim, bytes);
  const auto sharedBytes = static_cast<int>(expandSharedBytes(plan, *variant, bytes));
  return dispatchFloat(dtype, [&](auto element) {
    const ExpandKernel kernel = expandKernel<decltype(element)>(*variant, sizes.tf32);
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sharedBytes);
    if (error != cudaSuccess) return error;
    kernel<<<static_cast<unsigned>(std::min(plan.items, kMostGrid)), plan.warps * kWarpSize, sharedBytes,
             stream>>>(attention, sizes, plan);
    return cudaGetLastError();
  });
}

}  // namespace warpgraph
