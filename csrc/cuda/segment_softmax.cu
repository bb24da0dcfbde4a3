// Segment softmax: out[e, h] = exp(x[e, h] − m) / Σ exp(x − m) over the edges of e's row, m their maximum.
//
// What makes it fast: scores of a row lie together, so a worker reads them as one stream, up to 16 bytes a
// lane, and keeps them in registers: read once, exponentiated once, written once (segment_softmax_row.cuh).
// Rows lie in the schedule in order of length (schedule.h), so each gets a worker that just holds it, of 4,
// 8, 16 or 32 lanes, or of several warps, and the workers of a warp go the same way; blocks of all lengths
// work on the same part of the graph at a time. Longer rows, and hubs, get a block each, which starts first
// and reads the row twice. Only a hub that would keep one block long
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

// Workers that keep a row in registers have 1 << kFewestLanesLog to 1 << kMostLanesLog lanes.
constexpr int kFewestLanesLog = 2;
constexpr int kMostLanesLog = 7;

// Items from firstItem to that of the next group, the longest first.
constexpr int kMostGroups = 10;
struct Group {
  unsigned firstBlock, firstItem;
  int lanesLog;  // of its workers
};

template <typename T>
struct SoftmaxArguments {
  Scores<T> of;
  Stats* partials;  // (numPieces, heads)
  const Item* items;
  const Hub* hubs;
  int64_t numHubs, numPieces;
  // The first blocks have a row each: the hubs, and rows that no worker keeps in registers.
  unsigned longBlocks;
  // The blocks after them: equal parts, within which groups' first blocks are counted; ⌊2^32 / partBlocks⌋ +
  // 1, 0 where there is one part.
  unsigned partBlocks, inversePartBlocks;
  Group groups[kMostGroups + 1];  // and where the last one ends
};

// The row of a block that has one of its own: a hub's, unless that has too many pieces, or one that is
// not kept in registers.
template <typename T>
__device__ Run rowOfBlock(const SoftmaxArguments<T>& arguments) {
  const auto numHubs = static_cast<unsigned>(arguments.numHubs);
  if (blockIdx.x >= numHubs) {
    const Item item = arguments.items[arguments.numPieces + blockIdx.x - numHubs];
    return {item.begin, item.length()};
  }
  const Hub hub = arguments.hubs[blockIdx.x];
  if (hub.numPieces > kMostPiecesPerBlock) return {0, 0};
  const int begin = arguments.items[hub.firstPiece].begin;
  const int end = arguments.items[hub.firstPiece + hub.numPieces - 1].end;
  return {begin, end - begin};
}

template <int kVec, typename T>
__device__ void softmaxRowOfBlock(const SoftmaxArguments<T>& arguments, float* shared) {
  const Run run = rowOfBlock(arguments);
  waitForInputs();
  softmaxLongRow<kVec>(arguments.of, run, shared);
}

// The row of a worker of block `block` of a group whose items end before `end`.
template <int kLanesLog, int kSteps, int kVec, typename T>
__device__ void softmaxRowOfWorker(const SoftmaxArguments<T>& arguments, unsigned firstItem, unsigned end,
                                   unsigned block, float* shared) {
  const unsigned index = firstItem + (block << (kThreadsLog - kLanesLog)) + (threadIdx.x >> kLanesLog);
  // A worker without an item goes the way of the others of its warp, with no edges.
  Item item{};
  if (index < end) item = arguments.items[index];
  waitForInputs();
  softmaxRow<kLanesLog, kSteps, kVec>(arguments.of, {item.begin, item.length()}, shared);
}

template <int kLanesLog, int kVec, typename T>
__device__ void softmaxGroup(const SoftmaxArguments<T>& arguments, const Group& group, unsigned end,
                             unsigned block, float* shared) {
  if constexpr (kLanesLog > kFewestLanesLog) {
    if (group.lanesLog < kLanesLog) {
      softmaxGroup<kLanesLog - 1, kVec>(arguments, group, end, block, shared);
      return;
    }
  }
  softmaxRowOfWorker<kLanesLog, kMostSteps, kVec>(arguments, group.firstItem, end, block, shared);
}

// Rows of a group lie in the order of the graph, and each part takes the next blocks of every group: rows
// that share bytes of memory come at about the same time, though their lengths differ.
template <typename T, int kVec>
__global__ void __launch_bounds__(kThreads, kBlocks)
    segmentSoftmaxKernel(const SoftmaxArguments<T> arguments) {
  __shared__ float shared[kSharedFloats];
  if (blockIdx.x < arguments.longBlocks) {
    softmaxRowOfBlock<kVec>(arguments, shared);
    return;
  }
  const unsigned block = blockIdx.x - arguments.longBlocks;
  const unsigned part = __umulhi(block, arguments.inversePartBlocks);
  const unsigned inPart = block - part * arguments.partBlocks;
  Group group = arguments.groups[kMostGroups - 1];
  Group next = arguments.groups[kMostGroups];
#pragma unroll
  for (int g = kMostGroups - 1; g > 0; --g) {
    if (inPart >= arguments.groups[g].firstBlock) break;
    group = arguments.groups[g - 1];
    next = arguments.groups[g];
  }
  const unsigned blocksOfPart = next.firstBlock - group.firstBlock;
  softmaxGroup<kMostLanesLog, kVec>(arguments, group, next.firstItem,
                                    part * blocksOfPart + inPart - group.firstBlock, shared);
}

// Rows too few to fill the card: spread over more lanes, with as few edges in each. What counts here is how
// soon a block knows its rows, so a group is all rows of one kind of worker, those of 1 << kMostLanesLog
// lanes first.
constexpr int kFewSteps = 2;

template <int kLanesLog, int kVec, typename T>
__device__ void softmaxFew(const SoftmaxArguments<T>& arguments, float* shared) {
  constexpr int kGroup = kMostLanesLog - kLanesLog;
  if constexpr (kLanesLog > kFewestLanesLog) {
    if (blockIdx.x >= arguments.groups[kGroup + 1].firstBlock) {
      softmaxFew<kLanesLog - 1, kVec>(arguments, shared);
      return;
    }
  }
  // The longest are not spread further: better more edges in a lane than to read them twice.
  softmaxRowOfWorker<kLanesLog, kLanesLog == kMostLanesLog ? kMostSteps : kFewSteps, kVec>(
      arguments, arguments.groups[kGroup].firstItem, arguments.groups[kGroup + 1].firstItem,
      blockIdx.x - arguments.groups[kGroup].firstBlock, shared);
}

template <typename T, int kVec>
__global__ void __launch_bounds__(kThreads, kBlocks) fewSoftmaxKernel(const SoftmaxArguments<T> arguments) {
  __shared__ float shared[kSharedFloats];
  if (blockIdx.x < arguments.longBlocks) {
    softmaxRowOfBlock<kVec>(arguments, shared);
  } else {
    softmaxFew<kMostLanesLog, kVec>(arguments, shared);
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

// Edges whose scores a worker of 1 << lanesLog lanes keeps.
template <typename T>
int64_t held(const Scores<T>& of, int lanesLog, int steps) {
  return (int64_t{1} << lanesLog >> of.perEdgeLog) * steps;
}

// Blocks that take `items` rows with workers of 1 << lanesLog lanes.
int64_t blocksOf(int64_t items, int lanesLog) {
  return (items + (kThreads >> lanesLog) - 1) >> (kThreadsLog - lanesLog);
}

// The groups of fewSoftmaxKernel: a group's workers hold what the next group's do not. Returns the number of
// blocks.
template <typename T>
unsigned planFew(SoftmaxArguments<T>& arguments, const Schedule& schedule, int64_t item) {
  unsigned blocks = arguments.longBlocks;
  for (int lanesLog = kMostLanesLog; lanesLog >= kFewestLanesLog; --lanesLog) {
    const bool isLast = lanesLog == kFewestLanesLog;
    const int64_t end =
        isLast ? schedule.numItems
               : std::max(item, schedule.longerThan(held(arguments.of, lanesLog - 1, kFewSteps)));
    arguments.groups[kMostLanesLog - lanesLog] = {blocks, static_cast<unsigned>(item), lanesLog};
    blocks += static_cast<unsigned>(blocksOf(end - item, lanesLog));
    item = end;
  }
  arguments.groups[kMostLanesLog - kFewestLanesLog + 1] = {blocks, static_cast<unsigned>(item), 0};
  return blocks;
}

// The groups of segmentSoftmaxKernel, the rows of up to 8, 16, 24, 32 … edges as kLengths has them, and its
// parts. Returns the number of blocks.
template <typename T>
unsigned planParts(SoftmaxArguments<T>& arguments, const Schedule& schedule, int64_t item) {
  constexpr size_t kShortest = 3;
  static_assert(kLengths[kShortest] == kMostSteps, "any worker holds so many edges");
  int64_t blocksOfGroup[kMostGroups] = {};
  int64_t blocks = 0;
  int group = 0;
  int lanesLog = kMostLanesLog;
  for (size_t k = kNumLengths - 1; k >= kShortest; --k) {
    if (kLengths[k] > held(arguments.of, kMostLanesLog, kMostSteps)) continue;
    while (lanesLog > kFewestLanesLog && kLengths[k] <= held(arguments.of, lanesLog - 1, kMostSteps)) {
      --lanesLog;
    }
    const int64_t end = k == kShortest ? schedule.numItems : std::max(item, schedule.longer[k - 1]);
    arguments.groups[group] = {0, static_cast<unsigned>(item), lanesLog};
    blocks += blocksOfGroup[group] = blocksOf(end - item, lanesLog);
    item = end;
    ++group;
  }
  for (; group <= kMostGroups; ++group) arguments.groups[group].firstItem = static_cast<unsigned>(item);
  // A part is about what the card holds at a time, and has many more blocks than it has groups: of each the
  // last block may be without rows.
  constexpr int64_t kPartBlocks = 256;
  constexpr int64_t kMostPartedBlocks = 1 << 23;  // below that, dividing by multiplying is exact
  const int64_t parts = blocks < kMostPartedBlocks ? std::max(blocks / kPartBlocks, int64_t{1}) : 1;
  unsigned inPart = 0;
  for (int g = 0; g < kMostGroups; ++g) {
    arguments.groups[g].firstBlock = inPart;
    inPart += static_cast<unsigned>((blocksOfGroup[g] + parts - 1) / parts);
  }
  arguments.groups[kMostGroups].firstBlock = inPart;
  arguments.partBlocks = inPart;
  arguments.inversePartBlocks = parts == 1 ? 0 : static_cast<unsigned>((int64_t{1} << 32) / inPart + 1);
  return arguments.longBlocks + static_cast<unsigned>(parts) * inPart;
}

template <typename T, int kVec>
cudaError_t launch(SoftmaxArguments<T> arguments, const Schedule& schedule, const LaunchTarget& target) {
  int& perEdgeLog = arguments.of.perEdgeLog;
  const int64_t headVectors = arguments.of.heads / kVec;
  while (perEdgeLog < kMostPerEdgeLog && int64_t{1} << perEdgeLog < headVectors) ++perEdgeLog;
  const int64_t tiles = ((headVectors - 1) >> perEdgeLog) + 1;
  const int64_t longest = held(arguments.of, kMostLanesLog, kMostSteps);
  const int64_t firstItem = std::max(schedule.numPieces, schedule.longerThan(longest));
  arguments.longBlocks = static_cast<unsigned>(schedule.numHubs + firstItem - schedule.numPieces);
  const bool few = schedule.numItems < int64_t{kWarpSize} * target.limits.multiprocessors;
  const unsigned blocks =
      few ? planFew(arguments, schedule, firstItem) : planParts(arguments, schedule, firstItem);
  constexpr int64_t kMostOfAxis = 65535;
  const auto tilesY = static_cast<unsigned>(std::min(tiles, kMostOfAxis));
  const auto tilesZ = static_cast<unsigned>((tiles - 1) / kMostOfAxis + 1);
  const cudaError_t error = launchKernel(few ? fewSoftmaxKernel<T, kVec> : segmentSoftmaxKernel<T, kVec>,
                                         dim3(blocks, tilesY, tilesZ), kThreads, target, arguments);
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
    arguments.numHubs = schedule.numHubs;
    arguments.numPieces = schedule.numPieces;
    // An edge's scores start at a multiple of the heads: only a vector that divides them is aligned
    // everywhere.
    if (heads % kWidest == 0) return launch<T, kWidest>(arguments, schedule, target);
    if (heads % 2 == 0) return launch<T, 2>(arguments, schedule, target);
    return launch<T, 1>(arguments, schedule, target);
  });
}

}  // namespace warpgraph
