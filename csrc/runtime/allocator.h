// The caching allocator: one per device and process, shared by all threads.
//
// A freed block stays with the stream that used it and is handed out again to that stream alone. The
// stream runs its work in order, so the next user's work comes after the last user's, and no call
// waits. Sizes are rounded up to classes an eighth of a power of two apart (512 bytes below 8 KiB, 2
// MiB above 32 MiB), so that nearly equal requests share blocks and little is wasted.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace warpgraph {

struct AllocatorFigures {
  int64_t buffers = 0;      // handed out and not yet freed
  int64_t bytes = 0;        // as requested
  int64_t cachedBytes = 0;  // kept for reuse
};

class Allocator {
 public:
  // The device's allocator. It lives until the process ends: a destructor would call CUDA after the driver
  // has gone.
  static Allocator& of(int device);

  // A block for work on `stream`. When the device is short of memory the cache is freed and the call tried
  // once more. The device must be current. Zero bytes give a null block.
  cudaError_t allocate(size_t bytes, cudaStream_t stream, void** block);

  // Takes the block back; work already queued on `stream` may still use it.
  void free(void* block, size_t bytes, cudaStream_t stream);

  // Gives all cached blocks back to the driver, waiting for the device.
  cudaError_t emptyCache();

  // Gives back the cached blocks of a stream that will not be used again.
  cudaError_t endStream(cudaStream_t stream);

  AllocatorFigures figures();

 private:
  // Cached blocks by size class, of one stream.
  using Blocks = std::unordered_map<size_t, std::vector<void*>>;

  cudaError_t freeBlocks(Blocks& blocks);
  cudaError_t emptyCacheLocked();

  std::mutex mutex_;
  std::unordered_map<cudaStream_t, Blocks> cache_;
  AllocatorFigures figures_;
};

}  // namespace warpgraph
