// The caching allocator: one per device and process, shared by all threads, with a cache per stream.
//
// A freed block stays with the stream that used it and is handed out again to that stream alone. The
// stream runs its work in order, so the next user's work comes after the last user's, and no call
// waits. Sizes are rounded up to classes an eighth of a power of two apart (512 bytes below 8 KiB, 2
// MiB above 32 MiB), so that nearly equal requests share blocks and little is wasted.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace warpgraph {

struct AllocatorFigures {
  int64_t buffers = 0;      // handed out and not yet freed
  int64_t bytes = 0;        // as requested
  int64_t cachedBytes = 0;  // kept for reuse
};

// A class of sizes, and its number.
struct SizeClass {
  size_t bytes, number;
  static SizeClass of(size_t bytes);
};

struct Block {
  void* data;
  SizeClass size;
};

class StreamCache;

class Allocator {
 public:
  // The device's allocator. It lives until the process ends: a destructor would call CUDA after the driver
  // has gone.
  static Allocator& of(int device);

  // A cache for a new stream.
  std::shared_ptr<StreamCache> startStream();

  // Gives all cached blocks back to the driver, waiting for the device.
  cudaError_t emptyCache();

  AllocatorFigures figures();

 private:
  friend class StreamCache;

  cudaError_t emptyCacheLocked();

  std::mutex mutex_;
  std::vector<StreamCache*> caches_;
  AllocatorFigures figures_;
};

// The blocks of one stream. It lives as long as a block of it is in use.
class StreamCache {
 public:
  explicit StreamCache(Allocator& allocator) : allocator_(allocator) {}

  // A block for work on the stream. When the device is short of memory the cache is freed and the call tried
  // once more. The device must be current. Zero bytes give a null block.
  cudaError_t allocate(size_t bytes, Block* block);

  // Takes the block back; work already queued on the stream may still use it.
  void free(const Block& block, size_t bytes);

  // The stream will not be used again: gives its blocks back, those still in use when they are freed.
  cudaError_t end();

 private:
  friend class Allocator;

  struct CachedBlocks {
    size_t bytes = 0;  // of each
    std::vector<void*> blocks;
  };

  cudaError_t freeBlocks();

  Allocator& allocator_;
  std::vector<CachedBlocks> blocks_;  // by the number of their size class
  bool ended_ = false;
};

}  // namespace warpgraph
