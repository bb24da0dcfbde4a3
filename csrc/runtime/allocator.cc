#include "runtime/allocator.h"

#include <algorithm>
#include <map>
#include <new>

namespace warpgraph {
namespace {

constexpr size_t kSmallestStep = 512;
constexpr size_t kLargestStep = size_t{1} << 21;

// The size of the class that a request falls into.
size_t classOf(size_t bytes) {
  size_t step = kSmallestStep;
  while (step < kLargestStep && step * 16 <= bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

}  // namespace

Allocator& Allocator::of(int device) {
  static std::mutex mutex;
  static auto& all = *new std::map<int, Allocator*>;
  const std::lock_guard<std::mutex> lock(mutex);
  Allocator*& allocator = all[device];
  if (allocator == nullptr) allocator = new Allocator;
  return *allocator;
}

cudaError_t Allocator::allocate(size_t bytes, cudaStream_t stream, void** block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t size = classOf(bytes);
  *block = nullptr;
  if (bytes > 0) {
    std::vector<void*>& cached = cache_[stream][size];
    if (!cached.empty()) {
      *block = cached.back();
      cached.pop_back();
      figures_.cachedBytes -= static_cast<int64_t>(size);
    } else {
      cudaError_t error = cudaMalloc(block, size);
      if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();  // the failure was handled: later calls must not find it
        error = emptyCacheLocked();
        if (error == cudaSuccess) error = cudaMalloc(block, size);
      }
      if (error != cudaSuccess) {
        cudaGetLastError();
        return error;
      }
    }
  }
  figures_.buffers += 1;
  figures_.bytes += static_cast<int64_t>(bytes);
  return cudaSuccess;
}

void Allocator::free(void* block, size_t bytes, cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  figures_.buffers -= 1;
  figures_.bytes -= static_cast<int64_t>(bytes);
  if (block == nullptr) return;
  const size_t size = classOf(bytes);
  try {
    cache_[stream][size].push_back(block);
    figures_.cachedBytes += static_cast<int64_t>(size);
  } catch (const std::bad_alloc&) {
    cudaFree(block);  // no room to remember it; this waits for the device
  }
}

cudaError_t Allocator::freeBlocks(Blocks& blocks) {
  cudaError_t result = cudaSuccess;
  for (auto& [size, list] : blocks) {
    for (void* block : list) {
      const cudaError_t error = cudaFree(block);
      if (error != cudaSuccess) result = error;
      figures_.cachedBytes -= static_cast<int64_t>(size);
    }
    list.clear();
  }
  return result;
}

cudaError_t Allocator::emptyCacheLocked() {
  cudaError_t result = cudaDeviceSynchronize();
  for (auto& [stream, blocks] : cache_) {
    const cudaError_t error = freeBlocks(blocks);
    if (error != cudaSuccess) result = error;
  }
  return result;
}

cudaError_t Allocator::emptyCache() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return emptyCacheLocked();
}

cudaError_t Allocator::endStream(cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = cache_.find(stream);
  if (entry == cache_.end()) return cudaSuccess;
  const cudaError_t result = freeBlocks(entry->second);
  cache_.erase(entry);
  return result;
}

AllocatorFigures Allocator::figures() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return figures_;
}

}  // namespace warpgraph
