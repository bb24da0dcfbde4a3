// A graph's structure on one device: what ops on graphs read besides their tensors.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/schedule.h"
#include "runtime/device_buffer.h"

namespace warpgraph {

struct Structure {
  int64_t numRows, numEdges, numSrc;
  std::shared_ptr<DeviceBuffer> colIdx;  // (numEdges) int32; null for segments, which have no sources
  std::shared_ptr<DeviceBuffer> items, hubs;
  Schedule schedule;

  const int32_t* sources() const { return static_cast<const int32_t*>(colIdx->data()); }
};

}  // namespace warpgraph
