#include "binding/structure.h"

#include <array>
#include <utility>

#include "binding/arguments.h"
#include "binding/functions.h"
#include "cuda/deal_rows.h"

namespace warpgraph {
namespace {

constexpr size_t kCounts = 4 + kNumLengths;
constexpr int64_t kIntsPerEntry = 4;
static_assert(sizeof(Item) == kIntsPerEntry * sizeof(int32_t) && sizeof(Hub) == sizeof(Item),
              "as lib/ lays them");

// The counts of a schedule, in the order of typings/addon.d.ts.
Schedule readCounts(const Arguments& arguments, size_t index) {
  const Napi::TypedArray view = arguments.view(index);
  if (view.TypedArrayType() != napi_int32_array || view.ElementLength() != kCounts) {
    arguments.fail(index, "an Int32Array of a schedule's counts");
  }
  const auto counts = view.As<Napi::Int32Array>();
  Schedule schedule{};
  schedule.numItems = counts[0];
  schedule.numHubs = counts[1];
  schedule.numPieces = counts[2];
  schedule.largestHub = counts[3];
  int64_t most = schedule.numItems;
  for (size_t k = 0; k < kNumLengths; ++k) {
    const int64_t longer = counts[4 + k];
    if (longer > most || longer < schedule.numPieces) arguments.fail(index, "counts that fall");
    schedule.longer[k] = most = longer;
  }
  const bool fits = 0 <= schedule.numHubs && schedule.numHubs <= schedule.numPieces &&
                    0 <= schedule.largestHub && schedule.largestHub <= schedule.numPieces;
  if (!fits) arguments.fail(index, "counts of hubs that fit its pieces");
  return schedule;
}

}  // namespace

void dealRows(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "csr", 7);
  RowDeal deal = {};
  deal.numRows = arguments.size(3);
  deal.numHubs = arguments.size(4);
  deal.numPieces = arguments.size(5);
  deal.longest = arguments.size(6);
  if (deal.numRows > INT32_MAX) arguments.fail(3, "fewer than 2^31 rows");
  if (deal.numHubs > deal.numRows || deal.numHubs > deal.numPieces)
    arguments.fail(4, "hubs that have rows and pieces");
  if (deal.longest > kLongestRow) arguments.fail(6, "a length that is sorted by");
  deal.rowPtr = arguments.data<const int32_t>(0, DType::kInt32, {deal.numRows + 1});
  const int64_t numCut = deal.numHubs + deal.numPieces;
  deal.pieces = arguments.data<const Item>(1, DType::kInt32, {numCut, kIntsPerEntry}) + deal.numHubs;
  const int64_t numItems = deal.numPieces + deal.numRows - deal.numHubs;
  auto* items = arguments.data<Item>(2, DType::kInt32, {numItems, kIntsPerEntry});
  if (numItems == 0) return;
  size_t bytes = 0;
  arguments.check(dealRowsWorkspaceBytes(deal.numRows, deal.longest, &bytes));
  const Workspace workspace = arguments.workspace(1, {static_cast<int64_t>(bytes)});
  arguments.check(launchDealRows(deal, items, workspace.data(), arguments.target()));
}

Napi::Value createStructure(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "csr", 7);
  auto structure = std::make_unique<Structure>();
  structure->numRows = arguments.size(0);
  structure->numEdges = arguments.size(1);
  structure->numSrc = arguments.size(2);
  Schedule& schedule = structure->schedule = readCounts(arguments, 6);
  schedule.items = arguments.data<const Item>(4, DType::kInt32, {schedule.numItems, kIntsPerEntry});
  schedule.hubs = arguments.data<const Hub>(5, DType::kInt32, {schedule.numHubs, kIntsPerEntry});
  structure->items = arguments.buffer(4);
  structure->hubs = arguments.buffer(5);
  if (!arguments.isNull(3)) {
    arguments.data(3, DType::kInt32, {structure->numEdges});
    structure->colIdx = arguments.buffer(3);
  }
  Environment& environment = arguments.environment();
  return environment.adopt(environment.structures(), std::move(structure));
}

void releaseStructure(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, "csr", 1);
  if (!arguments.environment().structures().release(arguments.number(0))) {
    arguments.fail(0, "a live structure");
  }
}

}  // namespace warpgraph
