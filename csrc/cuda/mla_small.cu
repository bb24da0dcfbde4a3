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
// Rows in shared memory are padded with zeros to whole 16-byte vectors, an odd number of them, so that lanes
// that read vectors of consecutive rows meet no bank conflicts. Products are exact float32.
#include "cuda/common.cuh"
#include "cuda/mla_keys.cuh"
#include "cuda/mla_small.h"
#include "cuda/vector.cuh"

namespace warpgraph {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kVectorBytes = 16;
constexpr int kMostQueriesPerWarp = 4;
constexpr int64_t kMostSharedBytes = 48 << 10;  // what every card grants without being asked
constexpr int64_t kMostProducts = 1 << 25;      // from there on tensor cores are worth their launches
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
  int keysAt, wUpKAt, wUpVAt, queriesAt, scratchAt, bytes;  // bytes from the start
  int tileQueries, tiles;
};

int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The stride of rows of whole vectors: an odd number of them.
int64_t oddVectors(int64_t bytes) {
  return (bytes / kVectorBytes) % 2 == 1 ? bytes : bytes + kVectorBytes;
}

// False when it does not fit.
bool layOut(DType dtype, const MlaSizes& sizes, const MlaKeys& keys, int queriesPerWarp, Layout* layout) {
  for (const int64_t size : {sizes.headDim, sizes.valueDim, sizes.rank, sizes.ropeDim, keys.numKeys}) {
    if (size > kMostSharedBytes) return false;
  }
  const auto element = static_cast<int64_t>(bytesOf(dtype));
  const auto width = [&](int64_t length) { return roundUp(length * element, kVectorBytes); };
  const int64_t keyBytes = oddVectors(width(sizes.rank) + width(sizes.ropeDim));
  const int64_t headBytes = oddVectors(width(sizes.headDim));
  const int64_t valueBytes = roundUp(sizes.valueDim * element, sizeof(int));
  const int64_t queryBytes = width(sizes.headDim) + width(sizes.ropeDim);
  layout->tileQueries =
      static_cast<int>(std::min(roundUp(sizes.numQueries, kWarps), int64_t{queriesPerWarp} * kWarps));
  const int64_t absorbed = (width(sizes.rank) + width(sizes.ropeDim)) / element;
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
  layout->headWidth = static_cast<int>(width(sizes.headDim) / element);
  layout->rankWidth = static_cast<int>(width(sizes.rank) / element);
  layout->ropeWidth = static_cast<int>(width(sizes.ropeDim) / element);
  layout->keyStride = static_cast<int>(keyBytes / element);
  layout->headStride = static_cast<int>(headBytes / element);
  layout->valueStride = static_cast<int>(valueBytes / element);
  layout->queryStride = static_cast<int>(queryBytes / element);
  layout->contextStart = static_cast<int>(absorbed);
  layout->weightsStart = static_cast<int>(absorbed + context);
  layout->scratch = static_cast<int>(scratch);
  layout->tiles = static_cast<int>((sizes.numQueries + layout->tileQueries - 1) / layout->tileQueries);
  return true;
}

// Copies four bytes to shared memory; they are there after waitForCopies.
__device__ void copyWord(unsigned* to, const unsigned* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
      "l"(from)
      : "memory");
#else
  *to = __ldg(from);
#endif
}

__device__ void waitForCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// A warp copies a row of `length` elements and writes zeros behind it up to `width`.
template <typename T>
__device__ void copyRow(T* to, const T* from, int length, int width, int lane) {
  constexpr int kPerWord = sizeof(unsigned) / sizeof(T);
  // Rows of an odd number of half elements lie across words.
  if (length % kPerWord == 0) {
    for (int i = lane; i < length / kPerWord; i += kWarpSize) {
      copyWord(reinterpret_cast<unsigned*>(to) + i, reinterpret_cast<const unsigned*>(from) + i);
    }
  } else {
    for (int i = lane; i < length; i += kWarpSize) to[i] = from[i];
  }
  for (int i = length + lane; i < width; i += kWarpSize) to[i] = fromFloat<T>(0.0f);
}

// Vectors of T's size at a, whatever its own type.
template <int kVec, typename A>
__device__ void readVector(const A* a, float (&values)[kVec]) {
  constexpr int kPart = kVectorBytes / sizeof(A) < kVec ? kVectorBytes / sizeof(A) : kVec;
#pragma unroll
  for (int i = 0; i < kVec; i += kPart) {
    float part[kPart];
    widen(*reinterpret_cast<const Vector<A, kPart>*>(a + i), part);
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
// Σ weights[i]·column[i·stride] over i < length; weights are aligned to four.
template <typename T>
__device__ float dotColumn(const float* weights, const T* column, int stride, int length) {
  float4 sums = {0.0f, 0.0f, 0.0f, 0.0f};
  int i = 0;
#pragma unroll 2
  for (; i + 4 <= length; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(weights + i);
    sums.x += four.x * toFloat(column[i * stride]);
    sums.y += four.y * toFloat(column[(i + 1) * stride]);
    sums.z += four.z * toFloat(column[(i + 2) * stride]);
    sums.w += four.w * toFloat(column[(i + 3) * stride]);
  }
  // Not padded: what stands behind the last key may be NaN.
  for (; i < length; ++i) sums.x += weights[i] * toFloat(column[i * stride]);
  return (sums.x + sums.y) + (sums.z + sums.w);
}

__device__ float warpMaximum(float value) {
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, offset));
  }
  return value;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    mlaSmallKernel(MlaAttention attention, MlaSizes sizes, Layout layout) {
  extern __shared__ __align__(kVectorBytes) unsigned char shared[];
  T* keys = reinterpret_cast<T*>(shared + layout.keysAt);
  T* wUpK = reinterpret_cast<T*>(shared + layout.wUpKAt);
  T* wUpV = reinterpret_cast<T*>(shared + layout.wUpVAt);
  T* queries = reinterpret_cast<T*>(shared + layout.queriesAt);
  const int lane = threadIdx.x % kWarpSize;
  const int warp = threadIdx.x / kWarpSize;
  const unsigned heads = static_cast<unsigned>(sizes.heads);
  const int tile = static_cast<int>(blockIdx.x % layout.tiles);
  const unsigned pair = blockIdx.x / layout.tiles;
  const int64_t head = pair % heads;
  const int64_t b = pair / heads;
  const int headDim = static_cast<int>(sizes.headDim);
  const int valueDim = static_cast<int>(sizes.valueDim);
  const int rank = static_cast<int>(sizes.rank);
  const int ropeDim = static_cast<int>(sizes.ropeDim);
  const int64_t firstQuery = int64_t{tile} * layout.tileQueries;
  const int count = static_cast<int>(min(int64_t{layout.tileQueries}, sizes.numQueries - firstQuery));
  // Query `firstQuery + t` of this head, as a row of (batch, numQueries, heads, …).
  const auto rowOf = [&](int t) { return (b * sizes.numQueries + firstQuery + t) * sizes.heads + head; };

  for (int r = warp; r < rank; r += kWarps) {
    const int64_t row = int64_t{r} * heads + head;
    copyRow(wUpK + r * layout.headStride, static_cast<const T*>(attention.wUpK) + row * headDim, headDim,
            layout.headWidth, lane);
    copyRow(wUpV + r * layout.valueStride, static_cast<const T*>(attention.wUpV) + row * valueDim, valueDim,
            0, lane);
  }
  for (int t = warp; t < count; t += kWarps) {
    T* to = queries + t * layout.queryStride;
    copyRow(to, static_cast<const T*>(attention.q) + rowOf(t) * headDim, headDim, layout.headWidth, lane);
    if (ropeDim == 0) continue;
    copyRow(to + layout.headWidth, static_cast<const T*>(attention.qRope) + rowOf(t) * ropeDim, ropeDim,
            layout.ropeWidth, lane);
  }
  const int64_t length = mlaLength(attention.keys, b);
  // The tile's last query sees most.
  const int tileSees = static_cast<int>(mlaSeen(sizes, length, firstQuery + count - 1));
  for (int s = warp; s < tileSees; s += kWarps) {
    const int64_t row = mlaRow(attention.keys, b, s);
    T* to = keys + s * layout.keyStride;
    copyRow(to, static_cast<const T*>(attention.keys.latent) + row * rank, rank, layout.rankWidth, lane);
    if (ropeDim == 0) continue;
    copyRow(to + layout.rankWidth, static_cast<const T*>(attention.keys.rope) + row * ropeDim, ropeDim,
            layout.ropeWidth, lane);
  }
  waitForCopies();
  __syncthreads();

  float* absorbed = reinterpret_cast<float*>(shared + layout.scratchAt) + warp * layout.scratch;
  float* context = absorbed + layout.contextStart;
  float* weights = absorbed + layout.weightsStart;
  for (int t = warp; t < count; t += kWarps) {
    const int sees = static_cast<int>(mlaSeen(sizes, length, firstQuery + t));
    const T* query = queries + t * layout.queryStride;
    for (int r = lane; r < layout.rankWidth; r += kWarpSize) {
      absorbed[r] = r < rank ? dotRows(query, wUpK + r * layout.headStride, layout.headWidth) : 0.0f;
    }
    for (int i = lane; i < layout.ropeWidth; i += kWarpSize) {
      absorbed[layout.rankWidth + i] = toFloat(query[layout.headWidth + i]);
    }
    __syncwarp();

    float max = -INFINITY;
    for (int s = lane; s < sees; s += kWarpSize) {
      const float dot = dotRows(absorbed, keys + s * layout.keyStride, layout.rankWidth + layout.ropeWidth);
      weights[s] = dot * sizes.scale * kLog2e;
      max = fmaxf(max, weights[s]);
    }
    max = warpMaximum(max);
    // While nothing but −∞ was seen any finite maximum leaves exp at 0; −∞ − −∞ would be NaN.
    const float base = max == -INFINITY ? 0.0f : max;
    float sum = 0.0f;
    for (int s = lane; s < sees; s += kWarpSize) {
      weights[s] = exp2f(weights[s] - base);
      sum += weights[s];
    }
    sum = warpSum(sum);
    __syncwarp();

    for (int r = lane; r < rank; r += kWarpSize) {
      context[r] = dotColumn(weights, keys + r, layout.keyStride, sees);
    }
    __syncwarp();
    T* out = static_cast<T*>(attention.out) + rowOf(t) * valueDim;
    for (int d = lane; d < valueDim; d += kWarpSize) {
      const float value = dotColumn(context, wUpV + d, layout.valueStride, rank);
      out[d] = fromFloat<T>(sum == 0.0f ? 0.0f : value / sum);
    }
    if (attention.lse != nullptr && lane == 0) {
      const float logSum = sum == 0.0f ? -INFINITY : (max + log2f(sum)) * kLn2;
      attention.lse[(b * sizes.heads + head) * sizes.numQueries + firstQuery + t] = logSum;
    }
    __syncwarp();
  }
}

}  // namespace

bool mlaSmallTakes(DType dtype, const MlaSizes& sizes, const MlaKeys& keys) {
  Layout layout;
  if (!layOut(dtype, sizes, keys, 1, &layout)) return false;
  // In double: products of sizes may exceed 64 bits.
  const double rows = double(sizes.batch) * double(sizes.heads) * double(sizes.numQueries);
  const double perRow = double(sizes.rank) * double(sizes.headDim + sizes.valueDim) +
                        double(keys.numKeys) * double(2 * sizes.rank + sizes.ropeDim);
  return rows * std::max(perRow, 1.0) <= double(kMostProducts);
}

cudaError_t launchMlaSmall(DType dtype, const MlaAttention& attention, const MlaSizes& sizes,
                           int numMultiprocessors, cudaStream_t stream) {
  Layout layout;
  layOut(dtype, sizes, attention.keys, 1, &layout);
  // Several queries per warp where the card is full anyway: what they share is then brought in less often.
  const int64_t pairs = sizes.batch * sizes.heads;
  for (int perWarp = kMostQueriesPerWarp; perWarp > 1; perWarp /= 2) {
    Layout wider;
    if (layOut(dtype, sizes, attention.keys, perWarp, &wider) &&
        pairs * wider.tiles >= 2 * numMultiprocessors) {
      layout = wider;
      break;
    }
  }
  return dispatchFloat(dtype, [&](auto element) {
    using T = decltype(element);
    const auto blocks = static_cast<unsigned>(pairs * layout.tiles);
    mlaSmallKernel<T><<<blocks, kThreads, layout.bytes, stream>>>(attention, sizes, layout);
    return cudaGetLastError();
  });
}

}  // namespace warpgraph
