#pragma once

#include <cstddef>
#include <cstdint>

namespace warpgraph {

// Lays parts of a call's workspace out one behind the other, each aligned for the copy engine. With a null
// base it only counts: the same layout function tells the size and then the places.
class WorkspaceLayout {
 public:
  explicit WorkspaceLayout(void* base) : base_(static_cast<char*>(base)) {}

  template <typename T = void>
  T* take(int64_t bytes) {
    constexpr size_t kAlignment = 256;
    char* part = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(part);
  }

  size_t bytes() const { return used_; }

 private:
  char* const base_;
  size_t used_ = 0;
};

}  // namespace warpgraph
