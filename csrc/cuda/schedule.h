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

// What one worker takes: edges edgeBegin … edgeEnd − 1. Either whole rows rowBegin … rowEnd − 1 with all
// their edges, or, with rowEnd = −1 − h, a piece of row rowBegin, which is hub h.
struct alignas(16) Item {
  int32_t rowBegin, rowEnd, edgeBegin, edgeEnd;
  WARPGRAPH_DEVICE bool isPiece() const { return rowEnd < 0; }
  WARPGRAPH_DEVICE int hub() const { return -1 - rowEnd; }
  WARPGRAPH_DEVICE int length() const { return edgeEnd - edgeBegin; }
};

// A row that was cut: its pieces are firstPiece … firstPiece + numPieces − 1, in the order of their edges.
struct alignas(16) Hub {
  int32_t row, firstPiece, numPieces, unused;
};

// Pieces come first among the items, so that item p is piece p.
struct Schedule {
  const Item* items;
  const Hub* hubs;
  int64_t numItems, numHubs, numPieces;
};

}  // namespace warpgraph
