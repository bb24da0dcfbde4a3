// Reads the arguments of one addon call. lib/ has checked what users can get wrong; this is the
// guard of memory safety: no pointer reaches a kernel that is not a live buffer of sufficient size
// for the sizes given. What the index arrays of a structure hold is trusted: lib/ has checked or made
// them.
#pragma once

#include <napi.h>

#include <cmath>
#include <memory>
#include <utility>

#include "binding/environment.h"
#include "cuda/dtype.h"

namespace warpgraph {

// Device memory for the length of one call: the stream orders the next user after this one.
class Workspace {
 public:
  explicit Workspace(std::shared_ptr<DeviceBuffer> buffer) : buffer_(std::move(buffer)) {}
  void* data() const { return buffer_ == nullptr ? nullptr : buffer_->data(); }

 private:
  std::shared_ptr<DeviceBuffer> buffer_;
};

// So many doubles in one ArrayBuffer, the only argument of functions that need many numbers: Node-API is then
// asked once and not for each. NaN stands for null, 0 and 1 for false and true.
struct InOneArray {
  size_t count;
};

class Arguments {
 public:
  // Throws a TypeError unless exactly `count` arguments came.
  Arguments(const Napi::CallbackInfo& info, const char* op, size_t count);
  // The same for numbers in one array; the index of an argument is then its place in it.
  Arguments(const Napi::CallbackInfo& info, const char* op, InOneArray numbers);

  Napi::Env env() const { return info_.Env(); }
  const char* op() const { return op_; }
  Environment& environment() const { return environment_; }

  // An integer of at most 2^53 − 1 either way.
  int64_t integer(size_t index) const;
  // An integer from 0 to 2^53 − 1.
  int64_t size(size_t index) const;
  // A number of features: fewer than 2^30, since kernels count a row's bytes in 32 bits.
  int64_t features(size_t index) const;
  double number(size_t index) const;
  bool boolean(size_t index) const;
  DType dtype(size_t index) const;
  Napi::TypedArray view(size_t index) const;
  // The index of a device; whether there is such a device CUDA tells.
  int deviceIndex(size_t index) const;
  bool isNull(size_t index) const {
    return numbers_ == nullptr ? info_[index].IsNull() : std::isnan(numbers_[index]);
  }
  // In at most one call of Node-API, which tells numbers from everything else by itself.
  bool isNumber(size_t index, double* value) const;

  // A live buffer.
  const std::shared_ptr<DeviceBuffer>& buffer(size_t index) const;

  // The data of a live buffer of at least this many elements, on the device of the call's first such buffer.
  template <typename T = void>
  T* data(size_t index, DType dtype, std::initializer_list<int64_t> shape) {
    return static_cast<T*>(data(index, bytesOf(dtype), shape));
  }

  // A live structure, on the device of the buffers.
  const Structure& structure(size_t index);
  // One that has column indices.
  const Structure& graph(size_t index);

  // Memory for intermediate results of this many elements, on the device of the buffers.
  Workspace workspace(size_t elementBytes, std::initializer_list<int64_t> shape);

  // The same for elements of so many bytes.
  void* data(size_t index, size_t elementBytes, std::initializer_list<int64_t> shape);

  // The device of the buffers, current in this thread.
  DeviceContext& device() const { return *device_; }
  const LaunchTarget& target() const { return device_->target(); }

  // Throws a DeviceError unless the launch succeeded.
  void check(cudaError_t error) { environment_.check(error, device_->device(), op_); }

  // A buffer is used: it must lie on the device of those before it, and a recording holds it from now on.
  void use(size_t index, const std::shared_ptr<DeviceBuffer>& buffer);

  [[noreturn]] void fail(size_t index, const char* expected) const;

 private:
  const Napi::CallbackInfo& info_;
  const char* const op_;
  Environment& environment_;
  const double* numbers_ = nullptr;  // those in one array, else null
  DeviceContext* device_ = nullptr;
};

// The bytes of a product of sizes; SIZE_MAX when it does not fit, which no buffer has.
size_t bytesFor(size_t elementBytes, std::initializer_list<int64_t> shape);

}  // namespace warpgraph
