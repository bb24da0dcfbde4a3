// Reads in flight of one environment, each a promise: the waiting thread copies, this environment's thread
// resolves.
#pragma once

#include <napi.h>

#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "runtime/device_buffer.h"
#include "runtime/readback.h"

namespace warpgraph {

class PendingReads {
 public:
  explicit PendingReads(Napi::Env env) : env_(env) {}

  // Copies the buffer's first bytes into the view once the work queued so far is done. Buffer and view are
  // held meanwhile, and the process is kept alive.
  Napi::Promise start(std::shared_ptr<DeviceBuffer> buffer, Napi::TypedArray into, size_t bytes);

  // Ends the waiting thread; promises still pending stay so.
  void shutDown();

 private:
  struct Read;
  static void finish(Napi::Env env, Napi::Function, PendingReads* reads, Read* read);
  using Bridge = Napi::TypedThreadSafeFunction<PendingReads, Read, &PendingReads::finish>;

  void startThread();

  const Napi::Env env_;
  // Reads that the bridge refused because its environment is ending: freed by shutDown(), on the
  // environment's thread.
  std::mutex refusedMutex_;
  std::vector<std::unique_ptr<ReadRequest>> refused_;
  Bridge bridge_;
  std::unique_ptr<Readback> readback_;  // made with the first read
  std::set<Read*> inFlight_;            // between start() and finish()
};

}  // namespace warpgraph
