// The kernels of segment softmax, see segment_softmax.cu: rows by workers that hold them, rows too few to
// fill the card, and hubs in pieces.
#pragma once

#include "cuda/common.cuh"
#include "cuda/segment_softmax.h"
#include "cuda/segment_softmax_row.cuh"

namespace warpgraph {
namespace softmax {

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

__device__ inline Stats merge(const Stats& a, const Stats& b) {
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

}  // namespace softmax
}  // namespace warpgraph
