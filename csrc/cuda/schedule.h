// How a graph's edges are dealt to workers. Planned once per graph by lib/backends/cuda/schedule.ts, which
// says how, and written by deal_rows.cu.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpgraph {

#ifdef __CUDACC__
#define WARPGRAPH_DEVICE __host__ __device__
#else
#define WARPGRAPH_DEVICE
#endif

// What one worker takes: edges begin … end − 1, all of a row's or, when hub is not negative, a piece of that
// hub's.
struct alignas(16) Item {
  int32_t row, begin, end, hub;
  WARPGRAPH_DEVICE bool isPiece() const { return hub >= 0; }
  WARPGRAPH_DEVICE int length() const { return end - begin; }
};

// A row that was cut: its pieces are firstPiece … firstPiece + numPieces − 1, in the order of their edges.
struct alignas(16) Hub {
  int32_t row, firstPiece, numPieces, unused;
};

// Lengths at which items are counted. The rows of a graph's schedule lie in order of length to within 8
// edges, and no two on different sides of one of these are out of order.
constexpr int64_t kLengths[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 128, 256, 512, 1024, 2048};
constexpr size_t kNumLengths = sizeof(kLengths) / sizeof(kLengths[0]);

// Aggregations give longer rows to blocks of their own, which start first.
constexpr int64_t kShortRow = 32;

// Pieces come first among the items, so that item p is piece p; then whole rows, the longest first, those of
// nearly one length in the order of the graph (deal_rows.cu).
struct Schedule {
  const Item* items;
  const Hub* hubs;
  int64_t numItems, numHubs, numPieces;
  int64_t largestHub;           // pieces of the hub that has most
  int64_t longer[kNumLengths];  // longer[k]: pieces, and rows of more than kLengths[k] edges

  // How many of the items are pieces, or rows of more than `length` edges: the first ones. `length` is
  // rounded down to one of kLengths.
  int64_t longerThan(int64_t length) const {
    if (length < 1) return numItems;
    size_t k = 0;
    while (k + 1 < kNumLengths && kLengths[k + 1] <= length) ++k;
    return longer[k];
  }
};

}  // namespace warpgraph
