// The items of a graph's schedule (schedule.h), from its row pointer and the pieces that lib/ cut: a key per
// row, a sort, an item per row.
//
// Rows are sorted by rank of length with CUB's radix sort, which is stable and comes with the CUDA toolkit
// (Adinets and Merrill, "Onesweep", arXiv:2206.01784). Up to 8 edges a rank is the lengths to a power of two,
// beyond it is 8 lengths: workers take edges by eights or fours, and rows of a rank lie in the order of the
// graph, so that what their neighbours share of a line of memory is mostly read at about the same time. A key
// is how much a row's rank is below that of the longest row that is not cut; rows that were cut come last and
// are left out.
#include "cuda/deal_rows.h"

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>

#include "cuda/common.cuh"
#include "cuda/empty.h"
#include "cuda/workspace.h"

namespace warpgraph {
namespace {

constexpr int kThreads = 256;

using Key = uint16_t;

__host__ __device__ int rankOf(int64_t length) {
  if (length > 8) return static_cast<int>(length + 7) / 8 + 3;
  int rank = 0;
  for (int longest = 0; longest < length; longest = longest == 0 ? 1 : 2 * longest) ++rank;
  return rank;
}

// Keys reach from 0 to the rank of the longest row and one more.
int keyBits(int64_t longest) {
  int bits = 1;
  while (rankOf(longest) + 1 >= 1 << bits) ++bits;
  return bits;
}

struct SortWorkspace {
  Key *keys, *sortedKeys;  // (numRows) each
  int32_t *rows, *sortedRows;
  void* sort;
  size_t sortBytes, bytes;
};

cudaError_t sortRows(const SortWorkspace& workspace, size_t* sortBytes, int64_t numRows, int64_t longest,
                     cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(workspace.sort, *sortBytes, workspace.keys, workspace.sortedKeys,
                                         workspace.rows, workspace.sortedRows, static_cast<int>(numRows), 0,
                                         keyBits(longest), stream);
}

cudaError_t layOut(int64_t numRows, int64_t longest, void* base, SortWorkspace* workspace) {
  *workspace = {};
  const cudaError_t error = sortRows(*workspace, &workspace->sortBytes, numRows, longest, nullptr);
  if (error != cudaSuccess) return error;
  WorkspaceLayout layout(base);
  workspace->keys = static_cast<Key*>(layout.take(numRows * sizeof(Key)));
  workspace->sortedKeys = static_cast<Key*>(layout.take(numRows * sizeof(Key)));
  workspace->rows = static_cast<int32_t*>(layout.take(numRows * sizeof(int32_t)));
  workspace->sortedRows = static_cast<int32_t*>(layout.take(numRows * sizeof(int32_t)));
  workspace->sort = layout.take(static_cast<int64_t>(workspace->sortBytes));
  workspace->bytes = layout.bytes();
  return cudaSuccess;
}

__global__ void __launch_bounds__(kThreads) keyRowsKernel(const RowDeal deal, Key* keys, int32_t* rows) {
  waitForInputs();
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= deal.numRows) return;
  const int64_t length = int64_t{deal.rowPtr[row + 1]} - deal.rowPtr[row];
  const int mostRank = rankOf(deal.longest);
  keys[row] = static_cast<Key>(length > deal.longest ? mostRank + 1 : mostRank - rankOf(length));
  rows[row] = static_cast<int32_t>(row);
}

__global__ void __launch_bounds__(kThreads)
    writeItemsKernel(const RowDeal deal, const int32_t* sortedRows, Item* items) {
  waitForInputs();
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= deal.numPieces + deal.numRows - deal.numHubs) return;
  if (at < deal.numPieces) {
    items[at] = deal.pieces[at];
    return;
  }
  const int32_t row = sortedRows[at - deal.numPieces];
  items[at] = {row, deal.rowPtr[row], deal.rowPtr[row + 1], -1};
}

dim3 blocksOf(int64_t threads) {
  return dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads));
}

}  // namespace

cudaError_t dealRowsWorkspaceBytes(int64_t numRows, int64_t longest, size_t* bytes) {
  SortWorkspace workspace;
  const cudaError_t error = layOut(numRows, longest, nullptr, &workspace);
  *bytes = workspace.bytes;
  return error;
}

cudaError_t launchDealRows(const RowDeal& deal, Item* items, void* base, const LaunchTarget& target) {
  if (deal.numRows > INT32_MAX || deal.longest > kLongestRow) return cudaErrorInvalidValue;
  if (deal.numRows == 0) return cudaSuccess;
  SortWorkspace workspace;
  cudaError_t error = layOut(deal.numRows, deal.longest, base, &workspace);
  if (error != cudaSuccess) return error;
  error = launchKernel(keyRowsKernel, blocksOf(deal.numRows), kThreads, target, deal, workspace.keys,
                       workspace.rows);
  if (error != cudaSuccess) return error;
  error = sortRows(workspace, &workspace.sortBytes, deal.numRows, deal.longest, target.stream);
  if (error != cudaSuccess) return error;
  error = launchKernel(writeItemsKernel, blocksOf(deal.numPieces + deal.numRows - deal.numHubs), kThreads,
                       target, deal, workspace.sortedRows, items);
  if (error != cudaSuccess) return error;
  // Ops read a graph's structure before they wait for the kernels before them (launch.cuh). This kernel is
  // launched the plain way, so it comes after the items are there, and no op can come before it.
  return launchEmpty(target.stream);
}

}  // namespace warpgraph
