#include "runtime/buffer_table.h"

#include <utility>

namespace warpgraph {
namespace {

// Slot and generation share the 53 bits that a JavaScript number holds exactly.
constexpr uint64_t kSlotBits = 26;
constexpr uint64_t kSlots = uint64_t{1} << kSlotBits;
constexpr uint32_t kGenerations = uint32_t{1} << 26;

}  // namespace

Handle BufferTable::add(std::shared_ptr<DeviceBuffer> buffer) {
  uint32_t index;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    if (slots_.size() == kSlots) return -1;
    index = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  }
  Slot& slot = slots_[index];
  slot.buffer = std::move(buffer);
  return static_cast<double>(slot.generation * kSlots + index);
}

std::shared_ptr<DeviceBuffer>* BufferTable::find(Handle handle) {
  if (!(handle >= 0 && handle < static_cast<double>(kSlots * kGenerations))) return nullptr;
  const uint64_t number = static_cast<uint64_t>(handle);
  const uint64_t index = number % kSlots;
  if (index >= slots_.size() || static_cast<double>(number) != handle) return nullptr;
  Slot& slot = slots_[index];
  return slot.buffer && slot.generation == number / kSlots ? &slot.buffer : nullptr;
}

bool BufferTable::release(Handle handle) {
  std::shared_ptr<DeviceBuffer>* buffer = find(handle);
  if (buffer == nullptr) return false;
  buffer->reset();
  const uint32_t index = static_cast<uint32_t>(static_cast<uint64_t>(handle) % kSlots);
  slots_[index].generation = (slots_[index].generation + 1) % kGenerations;
  free_.push_back(index);
  return true;
}

void BufferTable::clear() {
  slots_.clear();
  free_.clear();
}

}  // namespace warpgraph
