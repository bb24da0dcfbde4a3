// A block of device memory.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/device_context.h"

namespace warpgraph {

// It lives as long as its handle or a hold on it, for example by a read in flight.
class DeviceBuffer {
 public:
  DeviceBuffer(DeviceContext& context, const Block& block, size_t bytes)
      : context_(context), cache_(context.cache()), block_(block), bytes_(bytes) {}
  // A read that was in flight when its environment ended may outlive the context, but never the cache.
  ~DeviceBuffer() { cache_->free(block_, bytes_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  DeviceContext& context() const { return context_; }
  void* data() const { return block_.data; }
  size_t bytes() const { return bytes_; }

 private:
  DeviceContext& context_;
  const std::shared_ptr<StreamCache> cache_;
  const Block block_;
  const size_t bytes_;
};

}  // namespace warpgraph
