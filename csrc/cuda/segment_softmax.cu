// Segment softmax: out[e, h] = exp(x[e, h] − m) / Σ exp(x − m) over the edges of e's row, m their maximum.
//
// What makes it fast: scores of a row lie together, so a worker reads them as one stream, up to 16 bytes a
// lane, and keeps them in registers: read once, exponentiated once, written once (segment_softmax_row.cuh).
// Rows lie in the schedule in order of length (schedule.h), so each gets a worker that just holds it, of 4,
// 8, 16 or 32 lanes, or of several warps, and the workers of a warp go the same way; blocks of all lengths
// work on the same part of the graph at a time. Longer rows, and hubs, get a block each, which starts first
// and reads the row twice. Only a hub that would keep one block long after the others is done in pieces,
// which leave their maximum and sum in the workspace for a second launch to write out. Many heads are done in
// tiles, the grid's slow axes.
#include "cuda/segment_softmax.h"

#include "cuda/segment_softmax_kernels.cuh"

namespace warpgraph {
namespace {

using namespace softmax;

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
