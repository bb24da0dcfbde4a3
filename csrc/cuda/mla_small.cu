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
#include "cuda/vector.cuh"

namespace warpgraph {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;
// Who copies what: keys, each of the two weights, and one warp the queries.
constexpr int kKeyWarps = 3;
constexpr int kWeightWarps = 2;
static_assert(kKeyWarps + 2 * kWeightWarps + 1 == kWarps, "every warp copies something");
constexpr int kVectorBytes = 16;
constexpr int kColumns = 4;  // that a lane sums at once
constexpr int kMostQueriesPerWarp = 4;
constexpr int64_t kMostSharedBytes = 48 << 10;  // what every card grants without being asked
constexpr int64_t kMostProducts = 1 << 24;      // from there on tensor cores are worth their launches
constexpr int64_t kMostGrid = 65535;            // blocks in y and z
constexpr int64_t kFar = 1 << 30;               // past all keys
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// Shared memory of a block. Widths are elements of the dtype in whole vectors, strides those of rows.
struct Layout {
  int headWidth, rankWidth, ropeWidth;
  int keyStride;    // a row: latent, then rope part
  int headStride;   // of wUpK's slice
  int valueStride;  // of wUpV's slice
  int queryStride;  // a row: query, then rotated part
  int contextStart, weightsStart,
      scratch;  // of a warp, in floats: the absorbed query, the sum of latents, the weights
  int keysAt, wUpKAt, wUpVAt, queriesAt, scratchAt, bytes;       // bytes from the start
  unsigned headDivisor, rankDivisor, valueDivisor, ropeDivisor;  // ⌈2³² / chunks of a row⌉, 0 for one
  int rankLaneBits, valueLaneBits;                               // logarithms of lanes side by side on a row
  int queryOffset;  // where it is given; past all keys when not causal
  int tileQueries, tiles;
};

int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The stride of rows of whole vectors: an odd number of them.
int64_t oddVectors(int64_t bytes) {
  return (bytes / kVectorBytes) % 2 == 1 ? bytes : bytes + kVectorBytes;
}

// The largest chunk that divides all rows.
int64_t chunkBytes(DType dtype, const MlaSizes& sizes) {
  const int64_t lengths = sizes.headDim | sizes.valueDim | sizes.rank | sizes.ropeDim;
  const int64_t bytes = lengths * static_cast<int64_t>(bytesOf(dtype));
  for (const int64_t chunk : {int64_t{kVectorBytes}, int64_t{4}}) {
    if (bytes % chunk == 0) return chunk;
  }
  return 2;
}

// The logarithm of how many lanes, side by side, read a row of this length, kColumns elements each.
int laneBitsFor(int64_t length) {
  int bits = 5;
  while (bits > 2 && (int64_t{kColumns} << (bits - 1)) >= length) --bits;
  return bits;
}

// Queries of a block, and blocks for all of them.
int tileQueries(const MlaSizes& sizes, int queriesPerWarp) {
  return static_cast<int>(std::min(roundUp(sizes.numQueries, kWarps), int64_t{queriesPerWarp} * kWarps));
}
int tilesOf(const MlaSizes& sizes, int tileQueries) {
  return static_cast<int>((sizes.numQueries + tileQueries - 1) / tileQueries);
}

// False when it does not fit.
bool layOut(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int queriesPerWarp, Layout* layout) {
  for (const int64_t size : {sizes.headDim, sizes.valueDim, sizes.rank, sizes.ropeDim, keys.numKeys}) {
    if (size > kMostSharedBytes) return false;
  }
  // Shifts, since this is done for each call and a division takes as long as all the rest of a line.
  const int elementBits = dtype == DType::kFloat32 ? 2 : 1;
  const auto width = [&](int64_t length) { return roundUp(length << elementBits, kVectorBytes); };
  const int64_t keyBytes = oddVectors(width(sizes.rank) + width(sizes.ropeDim));
  const int64_t headBytes = oddVectors(width(sizes.headDim));
  const int64_t valueBytes = width(sizes.valueDim);
  const int64_t queryBytes = width(sizes.headDim) + width(sizes.ropeDim);
  layout->tileQueries = tileQueries(sizes, queriesPerWarp);
  const int64_t absorbed = (width(sizes.rank) + width(sizes.ropeDim)) >> elementBits;
  const int64_t context = roundUp(sizes.rank, 4);
  const int64_t scratch = absorbed + context + roundUp(keys.numKeys, 4);
  int64_t at = 0;
  const auto take = [&](int64_t bytes) {
    const int64_t from = at;
    at = roundUp(at + bytes, kVectorBytes);
    return static_cast<int>(std::min(from, kMostSharedBytes));
  };
  layout->keysAt = take(keys.numKeys * keyBytes);
  layout->wUpKAt = take(sizes.rank * headBytes);
  layout->wUpVAt = take(sizes.rank * valueBytes);
  layout->queriesAt = take(layout->tileQueries * queryBytes);
  layout->scratchAt = take(kWarps * scratch * static_cast<int64_t>(sizeof(float)));
  if (at > kMostSharedBytes) return false;
  layout->bytes = static_cast<int>(at);
  layout->headWidth = static_cast<int>(width(sizes.headDim) >> elementBits);
  layout->rankWidth = static_cast<int>(width(sizes.rank) >> elementBits);
  layout->ropeWidth = static_cast<int>(width(sizes.ropeDim) >> elementBits);
  layout->keyStride = static_cast<int>(keyBytes >> elementBits);
  layout->headStride = static_cast<int>(headBytes >> elementBits);
  layout->valueStride = static_cast<int>(valueBytes >> elementBits);
  layout->queryStride = static_cast<int>(queryBytes >> elementBits);
  const auto chunk = static_cast<unsigned>(chunkBytes(dtype, sizes));
  const auto divisor = [&](int64_t length) {
    const unsigned perRow = (static_cast<unsigned>(length) << elementBits) / chunk;
    return perRow < 2 ? 0u : (0u - 1) / perRow + 1;
  };
  layout->headDivisor = divisor(sizes.headDim);
  layout->rankDivisor = divisor(sizes.rank);
  layout->valueDivisor = divisor(sizes.valueDim);
  layout->ropeDivisor = divisor(sizes.ropeDim);
  layout->queryOffset = static_cast<int>(sizes.causal ? std::clamp(sizes.queryOffset, -kFar, kFar) : kFar);
  layout->rankLaneBits = laneBitsFor(sizes.rank);
  layout->valueLaneBits = laneBitsFor(sizes.valueDim);
  layout->contextStart = static_cast<int>(absorbed);
  layout->weightsStart = static_cast<int>(absorbed + context);
  layout->scratch = static_cast<int>(scratch);
  layout->tiles = tilesOf(sizes, layout->tileQueries);
  return true;
}

// Copies a chunk to shared memory; it is there after waitForCopies.
template <int kChunk>
__device__ void copyChunk(void* to, const void* from) {
  if constexpr (kChunk == 2) {
    *static_cast<unsigned short*>(to) = __ldg(static_cast<const unsigned short*>(from));
  } else {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from), "n"(kChunk)
                 : "memory");
#else
    using Word = typename detail::Word<kChunk>::Type;
    *static_cast<Word*>(to) = __ldg(static_cast<const Word*>(from));
#endif
  }
}

__device__ void waitForCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Some warps of the block, `threads` of which this is thread `thread`, copy `count` rows of `length`
// elements, each from where rowOf(row) says, and write zeros behind them up to `width`. `divisor` is ⌈2³² /
// chunks of a row⌉, or 0 for one.
template <int kChunk, typename T, typename RowOf>
__device__ void copyRows(int thread, int threads, T* to, int stride, int count, int length, int width,
                         unsigned divisor, RowOf rowOf) {
  constexpr int kPerChunk = kChunk / sizeof(T);
  const int perRow = length / kPerChunk;
#pragma unroll 1
  for (int i = thread; i < count * perRow; i += threads) {
    const int row = divisor == 0 ? i : static_cast<int>(__umulhi(i, divisor));
    const int column = (i - row * perRow) * kPerChunk;
    copyChunk<kChunk>(to + row * stride + column, rowOf(row) + column);
  }
  if constexpr (kChunk < kVectorBytes) {
    const int tail = width - length;
#pragma unroll 1
    for (int i = thread; i < count * tail; i += threads) {
      to[i / tail * stride + length + i % tail] = fromFloat<T>(0.0f);
    }
  }
}

// Vectors of T's size at a, whatever its own type.
template <int kVec, typename A>
__device__ void readVector(const A* a, float (&values)[kVec]) {
  constexpr int kPart = kVectorBytes / sizeof(A) < kVec ? kVectorBytes / sizeof(A) : kVec;
#pragma unroll
  for (int i = 0; i < kVec; i += kPart) {
    float part[kPart];
    using Word = typename Vector<A, kPart>::Word;
    widen(Vector<A, kPart>{*reinterpret_cast<const Word*>(a + i)}, part);
#pragma unroll
    for (int j = 0; j < kPart; ++j) values[i + j] = part[j];
  }
}

// Σ a[i]·b[i] over a whole number of vectors.
template <typename A, typename T>
__device__ float dotRows(const A* a, const T* b, int width) {
  constexpr int kVec = kVectorBytes / sizeof(T);
  float sums[4] = {};
#pragma unroll 2
  for (int i = 0; i < width; i += kVec) {
    float left[kVec], right[kVec];
    readVector(a + i, left);
    readVector(b + i, right);
#pragma unroll
    for (int j = 0; j < kVec; ++j) sums[j % 4] += left[j] * right[j];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Σ weights[i]·rows[i·stride] over i < length, for kColumns columns; and Σ weights[i] into *sum. 1 <<
// laneBits lanes lie side by side on a row, so that the warp reads several rows at once; the sums over all
// rows are in every lane.
template <typename T>
__device__ float4 sumRows(const float* weights, const T* rows, int stride, int length, int laneBits, int lane,
                          float* sum) {
  float4 total = {0.0f, 0.0f, 0.0f, 0.0f};
  float weightSum = 0.0f;
#pragma unroll 4
  for (int i = lane >> laneBits; i < length; i += kWarpSize >> laneBits) {
    float four[kColumns];
    readVector(rows + i * stride, four);
    const float weight = weights[i];
    total.x += weight * four[0];
    total.y += weight * four[1];
    total.z += weight * four[2];
    total.w += weight * four[3];
    weightSum += weight;
  }
#pragma unroll 1
  for (int offset = 1 << laneBits; offset < kWarpSize; offset *= 2) {
    total.x += __shfl_xor_sync(kFullWarp, total.x, offset);
    total.y += __shfl_xor_sync(kFullWarp, total.y, offset);
    total.z += __shfl_xor_sync(kFullWarp, total.z, offset);
    total.w += __shfl_xor_sync(kFullWarp, total.w, offset);
    weightSum += __shfl_xor_sync(kFullWarp, weightSum, offset);
  }
  *sum = weightSum;
  return total;
}

__device__ float warpMaximum(float value) {
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, offset));
  }
  return value;
}

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
  Layout layout;
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
