#include "runtime/allocator.h"

#include <algorithm>
#include <map>
#include <new>

namespace warpgraph {
namespace {

constexpr size_t kSmallestStep = 512;
constexpr size_t kLargestStep = size_t{1} << 21;
constexpr size_t kClassesPerStep = 16;

}  // namespace

SizeClass SizeClass::of(size_t bytes) {
  size_t step = kSmallestStep;
  size_t doublings = 0;
  while (step < kLargestStep && step * kClassesPerStep <= bytes) {
    step *= 2;
    ++doublings;
  }
  const size_t steps = (bytes + step - 1) / step;
  return {steps * step, doublings * kClassesPerStep + steps};
}

Allocator& Allocator::of(int device) {
  static std::mutex mutex;
  static auto& all = *new std::map<int, Allocator*>;
  const std::lock_guard<std::mutex> lock(mutex);
  Allocator*& allocator = all[device];
  if (allocator == nullptr) allocator = new Allocator(device);
  return *allocator;
}

std::shared_ptr<StreamCache> Allocator::startStream() {
  auto cache = std::make_shared<StreamCache>(*this);
  const std::lock_guard<std::mutex> lock(mutex_);
  caches_.push_back(cache.get());
  return cache;
}

cudaError_t Allocator::emptyCacheLocked() {
  cudaError_t result = cudaDeviceSynchronize();
  for (StreamCache* cache : caches_) {
    const cudaError_t error = cache->freeBlocks();
    if (error != cudaSuccess) result = error;
  }
  return result;
}

cudaError_t Allocator::emptyCache() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return emptyCacheLocked();
}

AllocatorFigures Allocator::figures() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return figures_;
}

cudaError_t StreamCache::allocate(size_t bytes, Block* block) {
  const std::lock_guard<std::mutex> lock(allocator_.mutex_);
  AllocatorFigures& figures = allocator_.figures_;
  *block = {nullptr, SizeClass::of(bytes)};
  const SizeClass& size = block->size;
  if (bytes > 0) {
    if (size.number < blocks_.size() && !blocks_[size.number].blocks.empty()) {
      std::vector<void*>& cached = blocks_[size.number].blocks;
      block->data = cached.back();
      cached.pop_back();
      figures.cachedBytes -= static_cast<int64_t>(size.bytes);
    } else {
      cudaError_t error = cudaSetDevice(allocator_.device_);
      if (error == cudaSuccess) error = cudaMalloc(&block->data, size.bytes);
      if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();  // the failure was handled: later calls must not find it
        error = allocator_.emptyCacheLocked();
        if (error == cudaSuccess) error = cudaMalloc(&block->data, size.bytes);
        // Nothing may be waited for while a stream records: then memory is short, whatever else is said.
        if (error == cudaErrorStreamCaptureUnsupported) error = cudaErrorMemoryAllocation;
      }
      if (error != cudaSuccess) {
        cudaGetLastError();
        return error;
      }
    }
  }
  figures.buffers += 1;
  figures.bytes += static_cast<int64_t>(bytes);
  return cudaSuccess;
}

void StreamCache::free(const Block& block, size_t bytes) {
  const std::lock_guard<std::mutex> lock(allocator_.mutex_);
  AllocatorFigures& figures = allocator_.figures_;
  figures.buffers -= 1;
  figures.bytes -= static_cast<int64_t>(bytes);
  if (block.data == nullptr) return;
  if (ended_) {
    cudaFree(block.data);  // this waits for the device
    return;
  }
  try {
    if (block.size.number >= blocks_.size()) blocks_.resize(block.size.number + 1);
    CachedBlocks& cached = blocks_[block.size.number];
    cached.bytes = block.size.bytes;
    cached.blocks.push_back(block.data);
    figures.cachedBytes += static_cast<int64_t>(block.size.bytes);
  } catch (const std::bad_alloc&) {
    cudaFree(block.data);  // no room to remember it
  }
}

cudaError_t StreamCache::freeBlocks() {
  cudaError_t result = cudaSuccess;
  for (CachedBlocks& cached : blocks_) {
    for (void* block : cached.blocks) {
      const cudaError_t error = cudaFree(block);
      if (error != cudaSuccess) result = error;
      allocator_.figures_.cachedBytes -= static_cast<int64_t>(cached.bytes);
    }
    cached.blocks.clear();
  }
  return result;
}

cudaError_t StreamCache::end() {
  const std::lock_guard<std::mutex> lock(allocator_.mutex_);
  ended_ = true;
  auto& caches = allocator_.caches_;
  caches.erase(std::remove(caches.begin(), caches.end(), this), caches.end());
  return freeBlocks();
}

}  // namespace warpgraph
