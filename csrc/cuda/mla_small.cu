// Multi-head latent attention of small shapes in one launch: where each step takes a microsecond, launches
// and trips to global memory are all that costs.
//
// One block per (sequence, head, tile of queries) brings the latents that the tile sees, the head's slices of
// wUpK and wUpV and the queries to shared memory, all copies in flight at once. From there on each warp works
// for itself, a query at a time, and waits for no other: absorb the query (a lane per latent dimension),
// logits and softmax (a lane per key), weighted sum of the latents (a lane per dimension), projection to
// values (a lane per dimension). Absorbed, since the work then splits over queries; keys and values would be
// made by every tile anew.
//
// Copies are dealt to threads in chunks, as large as the row lengths allow: 16 bytes, 4, or a single half
// element. Rows in shared memory are padded with zeros to whole 16-byte vectors, an odd number of them, so
// that lanes that read vectors of consecutive rows meet no bank conflicts. Products are exact float32.
#include "cuda/common.cuh"
#include "cuda/launch.cuh"
#include "cuda/mla_keys.cuh"
#include "cuda/mla_small.h"
#include "cuda/mla_small_layout.h"
#include "cuda/mla_small_rows.cuh"

namespace warpgraph {
namespace {

using namespace mla_small;

constexpr int kThreads = kWarps * kWarpSize;
// Who copies what: keys, each of the two weights, and one warp the queries.
constexpr int kKeyWarps = 3;
constexpr int kWeightWarps = 2;
static_assert(kKeyWarps + 2 * kWeightWarps + 1 == kWarps, "every warp copies something");
constexpr int kMostQueriesPerWarp = 4;
constexpr int64_t kMostProducts = 1 << 24;  // from there on tensor cores are worth their launches
constexpr int64_t kMostGrid = 65535;        // blocks in y and z
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

template <typename T, int kChunk>
__global__ void __launch_bounds__(kThreads)
    mlaSmallKernel(MlaAttention attention, MlaSizes sizes, Layout layout) {
  extern __shared__ __align__(kVectorBytes) unsigned char shared[];
  T* keys = reinterpret_cast<T*>(shared + layout.keysAt);
  T* wUpK = reinterpret_cast<T*>(shared + layout.wUpKAt);
  T* wUpV = reinterpret_cast<T*>(shared + layout.wUpVAt);
  T* queries = reinterpret_cast<T*>(shared + layout.queriesAt);
  const int lane = threadIdx.x % kWarpSize;
  const int warp = threadIdx.x / kWarpSize;
  const int head = blockIdx.y;
  const int b = blockIdx.z;
  // No tensor but the latents' pool has 2³¹ elements: mlaSmallTakes sees to it.
  const int heads = static_cast<int>(sizes.heads);
  const int numQueries = static_cast<int>(sizes.numQueries);
  const int headDim = static_cast<int>(sizes.headDim);
  const int valueDim = static_cast<int>(sizes.valueDim);
  const int rank = static_cast<int>(sizes.rank);
  const int ropeDim = static_cast<int>(sizes.ropeDim);
  const int firstQuery = blockIdx.x * layout.tileQueries;
  const int count = min(layout.tileQueries, numQueries - firstQuery);
  // Of the tile's first query and this head, as a row of (batch, numQueries, heads, …).
  const int firstRow = (b * numQueries + firstQuery) * heads + head;
  waitForInputs();
  const int length = static_cast<int>(mlaLength(attention.keys, b));
  const int offset = sizes.causal && !sizes.hasQueryOffset ? length - numQueries : layout.queryOffset;
  const auto seenBy = [&](int t) { return min(max(firstQuery + t + 1 + offset, 0), length); };

  // Each tensor has warps of its own, so that no warp waits for the addresses of another's.
  const auto threadFrom = [&](int firstWarp) {
    return static_cast<int>(threadIdx.x) - firstWarp * kWarpSize;
  };
  if (warp < kKeyWarps) {
    // The tile's last query sees most.
    const int tileSees = seenBy(count - 1);
    const T* latents = static_cast<const T*>(attention.keys.latent);
    copyRows<kChunk>(threadFrom(0), kKeyWarps * kWarpSize, keys, layout.keyStride, tileSees, rank,
                     layout.rankWidth, layout.rankDivisor,
                     [&](int s) { return latents + mlaRow(attention.keys, b, s) * rank; });
    if (ropeDim > 0) {
      const T* ropes = static_cast<const T*>(attention.keys.rope);
      copyRows<kChunk>(threadFrom(0), kKeyWarps * kWarpSize, keys + layout.rankWidth, layout.keyStride,
                       tileSees, ropeDim, layout.ropeWidth, layout.ropeDivisor,
                       [&](int s) { return ropes + mlaRow(attention.keys, b, s) * ropeDim; });
    }
  } else if (warp < kKeyWarps + kWeightWarps) {
    const T* from = static_cast<const T*>(attention.wUpK) + head * headDim;
    copyRows<kChunk>(threadFrom(kKeyWarps), kWeightWarps * kWarpSize, wUpK, layout.headStride, rank, headDim,
                     layout.headWidth, layout.headDivisor, [&](int r) { return from + r * heads * headDim; });
  } else if (warp < kKeyWarps + 2 * kWeightWarps) {
    const T* from = static_cast<const T*>(attention.wUpV) + head * valueDim;
    copyRows<kChunk>(threadFrom(kKeyWarps + kWeightWarps), kWeightWarps * kWarpSize, wUpV, layout.valueStride,
                     rank, valueDim, valueDim, layout.valueDivisor,
                     [&](int r) { return from + r * heads * valueDim; });
  } else {
    const T* from = static_cast<const T*>(attention.q) + firstRow * headDim;
    copyRows<kChunk>(lane, kWarpSize, queries, layout.queryStride, count, headDim, layout.headWidth,
                     layout.headDivisor, [&](int t) { return from + t * heads * headDim; });
    if (ropeDim > 0) {
      const T* rope = static_cast<const T*>(attention.qRope) + firstRow * ropeDim;
      copyRows<kChunk>(lane, kWarpSize, queries + layout.headWidth, layout.queryStride, count, ropeDim,
                       layout.ropeWidth, layout.ropeDivisor,
                       [&](int t) { return rope + t * heads * ropeDim; });
    }
  }
  waitForCopies();
  __syncthreads();

  float* absorbed = reinterpret_cast<float*>(shared + layout.scratchAt) + warp * layout.scratch;
  float* context = absorbed + layout.contextStart;
  float* weights = absorbed + layout.weightsStart;
#pragma unroll 1
  for (int t = warp; t < count; t += kWarps) {
    const int sees = seenBy(t);
    const T* query = queries + t * layout.queryStride;
#pragma unroll 1
    for (int r = lane; r < layout.rankWidth; r += kWarpSize) {
      absorbed[r] = r < rank ? dotRows(query, wUpK + r * layout.headStride, layout.headWidth) : 0.0f;
    }
#pragma unroll 1
    for (int i = lane; i < layout.ropeWidth; i += kWarpSize) {
      absorbed[layout.rankWidth + i] = toFloat(query[layout.headWidth + i]);
    }
    __syncwarp();

    float highest = -INFINITY;
#pragma unroll 1
    for (int s = lane; s < sees; s += kWarpSize) {
      const float dot = dotRows(absorbed, keys + s * layout.keyStride, layout.rankWidth + layout.ropeWidth);
      weights[s] = dot * sizes.scale * kLog2e;
      highest = fmaxf(highest, weights[s]);
    }
    highest = warpMaximum(highest);
    // While nothing but −∞ was seen any finite maximum leaves exp at 0; −∞ − −∞ would be NaN.
    const float base = highest == -INFINITY ? 0.0f : highest;
#pragma unroll 1
    for (int s = lane; s < sees; s += kWarpSize) weights[s] = exp2f(weights[s] - base);
    __syncwarp();

    float sum = 0.0f;
    const int rankLanes = 1 << layout.rankLaneBits;
#pragma unroll 1
    for (int first = 0; first == 0 || first < rank; first += kColumns * rankLanes) {
      const int column = first + (lane & (rankLanes - 1)) * kColumns;
      // A lane past the row's end reads its start, to no avail.
      const float4 total = sumRows(weights, keys + (column < rank ? column : 0), layout.keyStride, sees,
                                   layout.rankLaneBits, lane, &sum);
      if (column < rank && lane < rankLanes) *reinterpret_cast<float4*>(context + column) = total;
    }
    __syncwarp();
    T* out = static_cast<T*>(attention.out) + (firstRow + t * heads) * valueDim;
    const float factor = sum == 0.0f ? 0.0f : __fdividef(1.0f, sum);
    const int valueLanes = 1 << layout.valueLaneBits;
#pragma unroll 1
    for (int first = 0; first < valueDim; first += kColumns * valueLanes) {
      const int column = first + (lane & (valueLanes - 1)) * kColumns;
      float unused;
      const float4 total = sumRows(context, wUpV + (column < valueDim ? column : 0), layout.valueStride, rank,
                                   layout.valueLaneBits, lane, &unused);
      if (lane >= valueLanes) continue;
      const float values[kColumns] = {total.x, total.y, total.z, total.w};
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        if (column + j < valueDim) out[column + j] = fromFloat<T>(sum == 0.0f ? 0.0f : values[j] * factor);
      }
    }
    if (attention.lse != nullptr && lane == 0) {
      const float logSum = sum == 0.0f ? -INFINITY : (highest + log2f(sum)) * kLn2;
      attention.lse[(b * heads + head) * numQueries + firstQuery + t] = logSum;
    }
    __syncwarp();
  }
}

template <typename T, typename Body>
cudaError_t dispatchChunk(int64_t chunk, Body body) {
  if (chunk == kVectorBytes) return body(std::integral_constant<int, kVectorBytes>{});
  if constexpr (sizeof(T) == 2) {
    if (chunk == 2) return body(std::integral_constant<int, 2>{});
  }
  return body(std::integral_constant<int, 4>{});
}

}  // namespace

bool mlaSmallTakes(DType dtype, const MlaSizes& sizes, const MlaKeys& keys) {
  if (sizes.batch > kMostGrid || sizes.heads > kMostGrid) return false;
  // In double: products of sizes may exceed 64 bits.
  const double rows = double(sizes.batch) * double(sizes.heads) * double(sizes.numQueries);
  const double perRow = double(sizes.rank + 1) * double(sizes.headDim + sizes.valueDim) +
                        double(keys.numKeys + 1) * double(2 * sizes.rank + sizes.ropeDim);
  Layout layout;
  return rows * (perRow + 1) <= double(kMostProducts) && layOut(dtype, sizes, keys, 1, &layout);
}

cudaError_t launchMlaSmall(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                           const LaunchTarget& target) {
  Layout layout = {};
  // Several queries per warp where the card is full anyway: what they share is then brought in less often.
  const int64_t pairs = sizes.batch * sizes.heads;
  for (int perWarp = kMostQueriesPerWarp; perWarp > 0; perWarp /= 2) {
    const int tiles = tilesOf(sizes, tileQueries(sizes, perWarp));
    const bool isFull = pairs * tiles >= 2 * target.limits.multiprocessors;
    if ((isFull || perWarp == 1) && layOut(dtype, sizes, attention.keys, perWarp, &layout)) break;
  }
  const dim3 grid(static_cast<unsigned>(layout.tiles), static_cast<unsigned>(sizes.heads),
                  static_cast<unsigned>(sizes.batch));
  return dispatchFloat(dtype, [&](auto element) {
    using T = decltype(element);
    return dispatchChunk<T>(chunkBytes(dtype, sizes), [&](auto chunk) {
      return launchKernelWithShared(mlaSmallKernel<T, decltype(chunk)::value>, grid, kThreads, layout.bytes,
                                    target, attention, sizes, layout);
    });
  });
}

}  // namespace warpgraph
