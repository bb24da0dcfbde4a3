// What JavaScript names by handles. A handle is a number that names a slot and the slot's generation, so a
// handle that was released, or made up, is told from a live one and never dereferenced.
//
// A table belongs to one environment and is used by its thread alone.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace warpgraph {

using Handle = double;

// Pointer: an owning one (std::unique_ptr, std::shared_ptr).
template <typename Pointer>
class HandleTable {
 public:
  // A negative handle when there is no room.
  Handle add(Pointer pointer) {
    uint32_t index;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      if (slots_.size() == kSlots) return -1;
      index = static_cast<uint32_t>(slots_.size());
      slots_.emplace_back();
    }
    slots_[index].pointer = std::move(pointer);
    return static_cast<double>(slots_[index].generation * kSlots + index);
  }

  // Null when the handle names nothing live.
  const Pointer* find(Handle handle) const {
    if (!(handle >= 0 && handle < static_cast<double>(kSlots * kGenerations))) return nullptr;
    const auto number = static_cast<uint64_t>(handle);
    const uint64_t index = number % kSlots;
    if (index >= slots_.size() || static_cast<double>(number) != handle) return nullptr;
    const Slot& slot = slots_[index];
    return slot.pointer && slot.generation == number / kSlots ? &slot.pointer : nullptr;
  }

  // False when the handle names nothing live.
  bool release(Handle handle) {
    if (find(handle) == nullptr) return false;
    const auto index = static_cast<uint32_t>(static_cast<uint64_t>(handle) % kSlots);
    Slot& slot = slots_[index];
    slot.pointer.reset();
    slot.generation = (slot.generation + 1) % kGenerations;
    free_.push_back(index);
    return true;
  }

  void clear() {
    slots_.clear();
    free_.clear();
  }

 private:
  // Slot and generation share the 53 bits that a JavaScript number holds exactly.
  static constexpr uint64_t kSlots = uint64_t{1} << 26;
  static constexpr uint32_t kGenerations = uint32_t{1} << 26;

  struct Slot {
    Pointer pointer;
    uint32_t generation = 0;
  };

  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace warpgraph
