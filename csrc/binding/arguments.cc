#include "binding/arguments.h"

#include <cmath>
#include <string>

namespace warpgraph {

Arguments::Arguments(const Napi::CallbackInfo& info, const char* op, size_t count)
    : info_(info), op_(op), environment_(Environment::of(info.Env())) {
  if (info.Length() == count) return;
  throw Napi::TypeError::New(info.Env(), std::string(op) + ": takes " + std::to_string(count) +
                                             " arguments, got " + std::to_string(info.Length()));
}

void Arguments::fail(size_t index, const char* expected) const {
  throw Napi::TypeError::New(
      env(), std::string(op_) + ": argument " + std::to_string(index) + " must be " + expected);
}

int64_t Arguments::size(size_t index) const {
  constexpr double kMost = 9007199254740991.0;
  if (!info_[index].IsNumber()) fail(index, "a size");
  const double value = info_[index].As<Napi::Number>().DoubleValue();
  if (!(value >= 0 && value <= kMost && value == std::floor(value))) fail(index, "a size");
  return static_cast<int64_t>(value);
}

float Arguments::number(size_t index) const {
  if (!info_[index].IsNumber()) fail(index, "a number");
  return info_[index].As<Napi::Number>().FloatValue();
}

bool Arguments::boolean(size_t index) const {
  if (!info_[index].IsBoolean()) fail(index, "a boolean");
  return info_[index].As<Napi::Boolean>().Value();
}

DType Arguments::dtype(size_t index) const {
  const int64_t code = size(index);
  if (code >= kDTypeCount) fail(index, "a dtype");
  return static_cast<DType>(code);
}

Napi::TypedArray Arguments::view(size_t index) const {
  if (!info_[index].IsTypedArray()) fail(index, "a typed array");
  return info_[index].As<Napi::TypedArray>();
}

const std::shared_ptr<DeviceBuffer>& Arguments::buffer(size_t index) const {
  if (!info_[index].IsNumber()) fail(index, "a buffer");
  const auto* found = environment_.buffers().find(info_[index].As<Napi::Number>().DoubleValue());
  if (found == nullptr) fail(index, "a live buffer");
  return *found;
}

void* Arguments::checkedData(size_t index, size_t elementBytes, std::initializer_list<int64_t> shape) {
  const DeviceBuffer& found = *buffer(index);
  if (device_ == nullptr) device_ = &environment_.device(found.context().device(), op_);
  if (&found.context() != device_) fail(index, "on the device of the other buffers");
  if (found.bytes() < bytesFor(elementBytes, shape)) fail(index, "large enough for the sizes given");
  return found.data();
}

DeviceContext& Arguments::device() {
  return *device_;
}

size_t bytesFor(size_t elementBytes, std::initializer_list<int64_t> shape) {
  size_t bytes = elementBytes;
  for (const int64_t length : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(length), &bytes)) return SIZE_MAX;
  }
  return bytes;
}

}  // namespace warpgraph
