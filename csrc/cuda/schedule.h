// How a graph's edges are dealt to workers. Made once per graph by lib/backends/cuda/schedule.ts, which says
// how.
#pragma once

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

// Pieces come first among the items, so that item p is piece p; then whole rows, the longest first. The first
// numLong items are pieces and rows of more than kShortRow edges.
struct Schedule {
  const Item* items;
  const Hub* hubs;
  int64_t numItems, numHubs, numPieces, numLong;
};

constexpr int kShortRow = 32;

}  // namespace warpgraph
