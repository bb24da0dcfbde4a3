// The items of a graph's schedule (schedule.h), from its row pointer and the pieces that lib/ cut: a key per
// row, a sort, an item per row.
//
// Rows are sorted by length with CUB's radix sort, which is stable and comes with the CUDA toolkit (Adinets
// and Merrill, "Onesweep", arXiv:2206.01784). A key is how much a row is shorter than the longest that is not
// cut, 12 bits, two passes; rows that were cut come last and are left out.
#include "cuda/deal_rows.h"

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>

#include "cuda/common.cuh"
#include "cuda/empty.h"
#include "cuda/workspace.h"

namespace warpgraph {
namespace {

constexpr int kThreads = 256;
constexpr int kKeyBits = 12;
static_assert(kLongestRow + 1 < int64_t{1} << kKeyBits,
              "keys reach from 0 to the longest length and one more");

using Key = uint16_t;

struct SortWorkspace {
  Key *keys, *sortedKeys;  // (numRows) each
  int32_t *rows, *sortedRows;
  void* sort;
  size_t sortBytes, bytes;
};

cudaError_t sortRows(const SortWorkspace& workspace, size_t* sortBytes, int64_t numRows,
                     cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(workspace.sort, *sortBytes, workspace.keys, workspace.sortedKeys,
                                         workspace.rows, workspace.sortedRows, static_cast<int>(numRows), 0,
                                         kKeyBits, stream);
}

cudaError_t layOut(int64_t numRows, void* base, SortWorkspace* workspace) {
  *workspace = {};
  const cudaError_t error = sortRows(*workspace, &workspace->sortBytes, numRows, nullptr);
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
  keys[row] = static_cast<Key>(length > deal.longest ? deal.longest + 1 : deal.longest - length);
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

cudaError_t dealRowsWorkspaceBytes(int64_t numRows, size_t* bytes) {
  SortWorkspace workspace;
  const cudaError_t error = layOut(numRows, nullptr, &workspace);
  *bytes = workspace.bytes;
  return error;
}

cudaError_t launchDealRows(const RowDeal& deal, Item* items, void* base, const LaunchTarget& target) {
  if (deal.numRows > INT32_MAX || deal.longest > kLongestRow) return cudaErrorInvalidValue;
  if (deal.numRows == 0) return cudaSuccess;
  SortWorkspace workspace;
  cudaError_t error = layOut(deal.numRows, base, &workspace);
  if (error != cudaSuccess) return error;
  error = launchKernel(keyRowsKernel, blocksOf(deal.numRows), kThreads, target, deal, workspace.keys,
                       workspace.rows);
  if (error != cudaSuccess) return error;
  error = sortRows(workspace, &workspace.sortBytes, deal.numRows, target.stream);
  if (error != cudaSuccess) return error;
  error = launchKernel(writeItemsKernel, blocksOf(deal.numPieces + deal.numRows - deal.numHubs), kThreads,
                       target, deal, workspace.sortedRows, items);
  if (error != cudaSuccess) return error;
  // Ops read a graph's structure before they wait for the kernels before them (launch.cuh). This kernel is
  // launched the plain way, so it comes after the items are there, and no op can come before it.
  return launchEmpty(target.stream);
}

}  // namespace warpgraph
