// Device buffers by handle. A handle is a number that JavaScript holds; it names a slot and the slot's
// generation, so a handle that was released, or made up, is told from a live one and never dereferenced.
//
// A table belongs to one environment and is used by its thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device_context.h"

namespace warpgraph {

// A block of device memory. It lives as long as its handle or a hold on it, for example by a read in flight.
class DeviceBuffer {
 public:
  DeviceBuffer(DeviceContext& context, void* data, size_t bytes)
      : context_(context),
        allocator_(context.allocator()),
        stream_(context.stream()),
        data_(data),
        bytes_(bytes) {}
  // A read that was in flight when its environment ended may outlive the context, but never the allocator.
  ~DeviceBuffer() { allocator_.free(data_, bytes_, stream_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  DeviceContext& context() const { return context_; }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  DeviceContext& context_;
  Allocator& allocator_;
  const cudaStream_t stream_;
  void* const data_;
  const size_t bytes_;
};

using Handle = double;

class BufferTable {
 public:
  Handle add(std::shared_ptr<DeviceBuffer> buffer);

  // Null when the handle names no live buffer.
  std::shared_ptr<DeviceBuffer>* find(Handle handle);

  // False when the handle names no live buffer.
  bool release(Handle handle);

  void clear();

 private:
  struct Slot {
    std::shared_ptr<DeviceBuffer> buffer;
    uint32_t generation = 0;
  };

  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace warpgraph
