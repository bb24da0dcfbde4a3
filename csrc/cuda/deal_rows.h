// Deals a graph's rows to workers: writes the items of a schedule.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/launch_target.h"
#include "cuda/schedule.h"

namespace warpgraph {

// The longest row that is not cut: a row's length and one more number must fit the sort's keys.
constexpr int64_t kLongestRow = 4094;

struct RowDeal {
  const int32_t* rowPtr;  // (numRows + 1)
  int64_t numRows;
  const Item* pieces;  // (numPieces): of the rows of more than `longest` edges, numHubs of them
  int64_t numPieces, numHubs;
  int64_t longest;  // at most kLongestRow
};

// Bytes of device memory for what is computed in between.
cudaError_t dealRowsWorkspaceBytes(int64_t numRows, int64_t longest, size_t* bytes);

// items (numPieces + numRows - numHubs): the pieces; then the other rows, the longest first, those of 0, 1,
// 2, up to 4, 8, 16, 24, 32 … edges in their order. At most 2^31 - 1 rows.
cudaError_t launchDealRows(const RowDeal& deal, Item* items, void* workspace, const LaunchTarget& target);

}  // namespace warpgraph
