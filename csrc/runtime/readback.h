// Copies device memory to the host without anybody waiting: one thread per environment waits for the work
// that a request was queued behind, copies, and reports.
#pragma once

#include <cuda_runtime_api.h>
#include <semaphore.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace warpgraph {

// One copy. Whoever submits it keeps source and destination alive until it is reported.
struct ReadRequest {
  virtual ~ReadRequest() = default;

  int device = 0;
  cudaEvent_t ready = nullptr;  // recorded after the work that computes the source; the request destroys it
  const void* source = nullptr;
  void* destination = nullptr;
  size_t bytes = 0;
  cudaError_t result = cudaSuccess;  // set before the report
};

class Readback {
 public:
  // `report` is called on the waiting thread.
  explicit Readback(std::function<void(std::unique_ptr<ReadRequest>)> report);
  // Drops what was not copied, unreported. stop() was called.
  ~Readback();

  // Finishes the copy under way and joins the thread. Nothing is submitted afterwards.
  void stop();

  void submit(std::unique_ptr<ReadRequest> request);

 private:
  void run();
  // The next request, waiting for one; null when it is time to stop.
  std::unique_ptr<ReadRequest> next();
  cudaError_t copy(const ReadRequest& request);

  const std::function<void(std::unique_ptr<ReadRequest>)> report_;
  // One post per request, and one to stop. A condition variable would do, but GCC 12's needs a newer
  // libstdc++ than the systems that the prebuilt addon is for.
  sem_t posted_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<ReadRequest>> queue_;
  bool stopping_ = false;
  std::map<int, cudaStream_t> streams_;  // of the waiting thread alone, by device
  std::thread thread_;
};

}  // namespace warpgraph
