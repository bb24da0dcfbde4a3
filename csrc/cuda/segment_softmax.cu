// Segment softmax: out[e, h] = exp(x[e, h] − m) / Σ exp(x − m) over the edges of e's row, m their maximum.
//
// What makes it fast: scores of a row lie together, so a worker reads them as one stream, up to 16 bytes a
// lane, and keeps them in registers: read once, exponentiated once, written once (segment_softmax_row.cuh).
// Rows lie in the schedule in order of length (schedule.h), so each gets a worker that just holds it, of 4,
// 8, 16 or 32 lanes, or of several warps, and the workers of a warp go the same way. Longer rows, and hubs,
// get a block each, which starts first and reads the row twice. Only a hub that would keep one block long
// after the others is done in pieces, which leave their maximum and sum in the workspace for a second launch
// to write out. Many heads are done in tiles, the grid's slow axes.
#include "cuda/common.cuh"
#include "cuda/segment_softmax.h"
#include "cuda/segment_softmax_row.cuh"

namespace warpgraph {
namespace {

constexpr int kThreadsLog = kSoftmaxThreadsLog;
constexpr int kThreads = kSoftmaxThreads;
constexpr int kBlocks = 4;  // per multiprocessor

// A hub of more pieces is done piece by piece; one of fewer as a single row.
constexpr int kMostPiecesPerBlock = 32;

// What is known of the scores of a piece: their maximum and Σ exp(x − base(max)).
struct Stats {
  float max, sum;
};
static_assert(sizeof(Stats) == kSoftmaxPartialBytes, "what the workspace is made for");

__device__ Stats merge(const Stats& a, const Stats& b) {
  const float max = fmaxf(a.max, b.max);
  const float base = baseOf(max);
  // A side that saw nothing has the sum 0 and the maximum −∞: exp(−∞ − base) = 0.
  return {max, a.sum * exponential(a.max - base) + b.sum * exponential(b.max - base)};
}

// Which blocks take which items: a class per size of worker, after the hubs. The first class takes the rows
// that the workers of the second do not hold.
constexpr int kClasses = 7;
constexpr int kLanesLogOf[kClasses] = {kThreadsLog, 7, 6, 5, 4, 3, 2};

template <typename T>
struct SoftmaxArguments {
  Scores<T> of;
  Stats* partials;  // (numPieces, heads)
  const Item* items;
  const Hub* hubs;
  int64_t numPieces;
  unsigned firstBlock[kClasses + 1];  // of each class; the hubs' blocks come before
  unsigned firstItem[kClasses + 1];
};

// The row of a block that has one of its own: a hub's, unless that has too many pieces, or one of the first
// class.
template <typename T>
__device__ Run rowOfBlock(const SoftmaxArguments<T>& arguments) {
  if (blockIdx.x >= arguments.firstBlock[0]) {
    const Item item = arguments.items[arguments.firstItem[0] + blockIdx.x - arguments.firstBlock[0]];
    return {item.begin, item.length()};
  }
  const Hub hub = arguments.hubs[blockIdx.x];
  if (hub.numPieces > kMostPiecesPerBlock) return {0, 0};
  const int begin = arguments.items[hub.firstPiece].begin;
  const int end = arguments.items[hub.firstPiece + hub.numPieces - 1].end;
  return {begin, end - begin};
}

template <int kClass, int kVec, typename T>
__device__ void softmaxClass(const SoftmaxArguments<T>& arguments, float* shared) {
  constexpr int kLanesLog = kLanesLogOf[kClass];
  if (kClass + 1 < kClasses && blockIdx.x >= arguments.firstBlock[kClass + 1]) {
    softmaxClass<kClass + 1 < kClasses ? kClass + 1 : kClass, kVec>(arguments, shared);
    return;
  }
  const unsigned index = arguments.firstItem[kClass] +
                         ((blockIdx.x - arguments.firstBlock[kClass]) << (kThreadsLog - kLanesLog)) +
                         (threadIdx.x >> kLanesLog);
  // A worker without an item goes the way of the others of its warp, with no edges.
  Item item{};
  if (index < arguments.firstItem[kClass + 1]) item = arguments.items[index];
  waitForInputs();
  softmaxRow<kLanesLog, kVec>(arguments.of, {item.begin, item.length()}, shared);
}

template <typename T, int kVec>
__global__ void __launch_bounds__(kThreads, kBlocks)
    segmentSoftmaxKernel(const SoftmaxArguments<T> arguments) {
  __shared__ float shared[kSharedFloats];
  if (blockIdx.x < arguments.firstBlock[1]) {
    const Run run = rowOfBlock(arguments);
    waitForInputs();
    softmaxLongRow<kVec>(arguments.of, run, shared);
  } else {
    softmaxClass<1, kVec>(arguments, shared);
  }
}

// Maximum and sum of each piece of the hubs that are done in pieces.
template <typename T, int kVec>
__global__ void __launch_bounds__(kThreads) pieceSoftmaxKernel(const SoftmaxArguments<T> arguments) {
  __shared__ float shared[kSharedFloats];
  waitForInputs();
  for (int64_t piece = blockIdx.x; piece < arguments.numPieces; piece += gridDim.x) {
    const Item item = arguments.items[piece];
    if (arguments.hubs[item.hub].numPieces <= kMostPiecesPerBlock) continue;
    const Part part = partOf<kThreadsLog, kVec>(arguments.of, {item.begin, item.length()});
    float max[kVec];
    float sum[kVec];
    statsOfRun(arguments.of, part, shared, max, sum);
    if (!part.isFirstSlot) continue;
    Stats* partials = arguments.partials + piece * arguments.of.heads + part.head;
    for (int k = 0; k < kVec; ++k) partials[k] = {max[k], sum[k]};
  }
}

// Writes them out: a block per piece, which first merges the maxima and sums of all pieces of its row.
constexpr int kHeadsAtOnce = 128;

template <typename T>
__global__ void __launch_bounds__(kThreads) hubSoftmaxKernel(const SoftmaxArguments<T> arguments) {
  constexpr int kWarps = kThreads / kWarpSize;
  __shared__ Stats stats[kHeadsAtOnce];
  const int lane = threadIdx.x % kWarpSize;
  const int warp = threadIdx.x / kWarpSize;
  const int64_t heads = arguments.of.heads;
  waitForInputs();
  for (int64_t piece = blockIdx.x; piece < arguments.numPieces; piece += gridDim.x) {
    const Item item = arguments.items[piece];
    const Hub hub = arguments.hubs[item.hub];
    if (hub.numPieces <= kMostPiecesPerBlock) continue;
    for (int64_t tile = 0; tile < heads; tile += kHeadsAtOnce) {
      const unsigned count = static_cast<unsigned>(min(int64_t{kHeadsAtOnce}, heads - tile));
      for (unsigned h = warp; h < count; h += kWarps) {
        Stats all{-INFINITY, 0.0f};
        for (int p = lane; p < hub.numPieces; p += kWarpSize) {
          all = merge(all, arguments.partials[(int64_t{hub.firstPiece} + p) * heads + tile + h]);
        }
        for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
          const Stats other{__shfl_xor_sync(kFullWarp, all.max, offset),
                            __shfl_xor_sync(kFullWarp, all.sum, offset)};
          all = merge(all, other);
        }
        if (lane == 0) stats[h] = {baseOf(all.max), factorOf(all.sum)};
      }
      __syncthreads();
      const unsigned elements = static_cast<unsigned>(item.length()) * count;  // below 2^21·2^7
      for (unsigned i = threadIdx.x; i < elements; i += kThreads) {
        const unsigned h = i % count;
        const int64_t at = (item.begin + int64_t{i / count}) * heads + tile + h;
        const float weight = exponential(toFloat(arguments.of.scores[at]) - stats[h].max) * stats[h].sum;
        arguments.of.out[at] = fromFloat<T>(weight);
      }
      __syncthreads();
    }
  }
}

template <typename T, int kVec>
cudaError_t launch(SoftmaxArguments<T> arguments, const Schedule& schedule, const LaunchTarget& target) {
  int& perEdgeLog = arguments.of.perEdgeLog;
  const int64_t headVectors = arguments.of.heads / kVec;
  while (perEdgeLog < kMostPerEdgeLog && int64_t{1} << perEdgeLog < headVectors) ++perEdgeLog;
  const int64_t tiles = ((headVectors - 1) >> perEdgeLog) + 1;
  // A class takes the rows that the next one's workers do not hold. Rows too few to fill the card are spread
  // over more lanes, but not read twice for that.
  const bool few = schedule.numItems < int64_t{kWarpSize} * target.limits.multiprocessors;
  unsigned blocks = static_cast<unsigned>(schedule.numHubs);
  int64_t item = schedule.numPieces;
  for (int c = 0; c < kClasses; ++c) {
    const bool isLast = c + 1 == kClasses;
    const int64_t slots = isLast ? 0 : (int64_t{1} << kLanesLogOf[c + 1]) >> perEdgeLog;
    const int64_t held = slots * (few && c > 0 ? kSteps / 4 : kSteps);
    const int64_t end = isLast ? schedule.numItems : std::max(item, schedule.longerThan(held));
    arguments.firstBlock[c] = blocks;
    arguments.firstItem[c] = static_cast<unsigned>(item);
    const int64_t perBlock = kThreads >> kLanesLogOf[c];
    blocks += static_cast<unsigned>((end - item + perBlock - 1) / perBlock);
    item = end;
  }
  arguments.firstBlock[kClasses] = blocks;
  arguments.firstItem[kClasses] = static_cast<unsigned>(item);
  constexpr int64_t kMostOfAxis = 65535;
  const auto tilesY = static_cast<unsigned>(std::min(tiles, kMostOfAxis));
  const auto tilesZ = static_cast<unsigned>((tiles - 1) / kMostOfAxis + 1);
  const cudaError_t error =
      launchKernel(segmentSoftmaxKernel<T, kVec>, dim3(blocks, tilesY, tilesZ), kThreads, target, arguments);
  if (error != cudaSuccess || softmaxPartials(schedule) == 0) return error;
  const auto pieces = static_cast<unsigned>(std::min(schedule.numPieces, kMostBlocks));
  const cudaError_t pieceError =
      launchKernel(pieceSoftmaxKernel<T, kVec>, dim3(pieces, tilesY, tilesZ), kThreads, target, arguments);
  if (pieceError != cudaSuccess) return pieceError;
  return launchKernel(hubSoftmaxKernel<T>, pieces, kThreads, target, arguments);
}

}  // namespace

int64_t softmaxPartials(const Schedule& schedule) {
  return schedule.largestHub > kMostPiecesPerBlock ? schedule.numPieces : 0;
}

cudaError_t launchSegmentSoftmax(DType dtype, const void* scores, void* out, int64_t heads,
                                 const Schedule& schedule, void* workspace, const LaunchTarget& target) {
  if (schedule.numItems == 0 || heads == 0) return cudaSuccess;
  return dispatchFloat(dtype, [&](auto element) {
    using T = decltype(element);
    constexpr int kWidest = 4;  // of half types too: more would not fit in registers
    SoftmaxArguments<T> arguments{};
    arguments.of.scores = static_cast<const T*>(scores);
    arguments.of.out = static_cast<T*>(out);
    arguments.partials = static_cast<Stats*>(workspace);
    arguments.of.heads = heads;
    arguments.items = schedule.items;
    arguments.hubs = schedule.hubs;
    arguments.numPieces = schedule.numPieces;
    // An edge's scores start at a multiple of the heads: only a vector that divides them is aligned
    // everywhere.
    if (heads % kWidest == 0) return launch<T, kWidest>(arguments, schedule, target);
    if (heads % 2 == 0) return launch<T, 2>(arguments, schedule, target);
    return launch<T, 1>(arguments, schedule, target);
  });
}

}  // namespace warpgraph
