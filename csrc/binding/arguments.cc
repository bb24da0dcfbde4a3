#include "binding/arguments.h"

#include <string>

namespace warpgraph {

Arguments::Arguments(const Napi::CallbackInfo& info, const char* op, size_t count)
    : info_(info), op_(op), environment_(Environment::of(info.Env())) {
  if (info.Length() == count) return;
  throw Napi::TypeError::New(info.Env(), std::string(op) + ": takes " + std::to_string(count) +
                                             " arguments, got " + std::to_string(info.Length()));
}

Arguments::Arguments(const Napi::CallbackInfo& info, const char* op, InOneArray numbers)
    : Arguments(info, op, 1) {
  void* data;
  size_t bytes;
  const napi_status status = napi_get_arraybuffer_info(env(), info[0], &data, &bytes);
  if (status != napi_ok || bytes != numbers.count * sizeof(double)) {
    fail(0, ("an ArrayBuffer of " + std::to_string(numbers.count) + " doubles").c_str());
  }
  numbers_ = static_cast<const double*>(data);
}

void Arguments::fail(size_t index, const char* expected) const {
  throw Napi::TypeError::New(env(), std::string(op_) + (numbers_ == nullptr ? ": argument " : ": number ") +
                                        std::to_string(index) + " must be " + expected);
}

bool Arguments::isNumber(size_t index, double* value) const {
  if (numbers_ == nullptr) return napi_get_value_double(env(), info_[index], value) == napi_ok;
  *value = numbers_[index];
  return true;
}

int64_t Arguments::integer(size_t index) const {
  constexpr double kMost = 9007199254740991.0;
  double value;
  if (!isNumber(index, &value)) fail(index, "an integer");
  if (!(value >= -kMost && value <= kMost)) fail(index, "an integer");
  const auto whole = static_cast<int64_t>(value);
  if (static_cast<double>(whole) != value) fail(index, "an integer");
  return whole;
}

int64_t Arguments::size(size_t index) const {
  const int64_t value = integer(index);
  if (value < 0) fail(index, "a size");
  return value;
}

int64_t Arguments::features(size_t index) const {
  const int64_t features = size(index);
  constexpr int64_t kMost = (int64_t{1} << 30) - 1;
  if (features > kMost) fail(index, "fewer than 2^30 features");
  return features;
}

double Arguments::number(size_t index) const {
  double value;
  if (!isNumber(index, &value)) fail(index, "a number");
  return value;
}

bool Arguments::boolean(size_t index) const {
  if (numbers_ != nullptr) {
    const double value = numbers_[index];
    if (value != 0 && value != 1) fail(index, "0 or 1");
    return value == 1;
  }
  if (!info_[index].IsBoolean()) fail(index, "a boolean");
  return info_[index].As<Napi::Boolean>().Value();
}

DType Arguments::dtype(size_t index) const {
  const int64_t code = size(index);
  if (code >= kDTypeCount) fail(index, "a dtype");
  return static_cast<DType>(code);
}

int Arguments::deviceIndex(size_t index) const {
  const int64_t device = size(index);
  if (device > INT32_MAX) fail(index, "the index of a device");
  return static_cast<int>(device);
}

Napi::TypedArray Arguments::view(size_t index) const {
  if (!info_[index].IsTypedArray()) fail(index, "a typed array");
  return info_[index].As<Napi::TypedArray>();
}

const std::shared_ptr<DeviceBuffer>& Arguments::buffer(size_t index) const {
  double handle;
  if (!isNumber(index, &handle)) fail(index, "a buffer");
  const auto* found = environment_.buffers().find(handle);
  if (found == nullptr) fail(index, "a live buffer");
  return *found;
}

void Arguments::use(size_t index, const std::shared_ptr<DeviceBuffer>& buffer) {
  const DeviceContext& context = buffer->context();
  if (device_ == nullptr) device_ = &environment_.device(context.device(), op_);
  if (&context != device_) fail(index, "on the device of the other buffers");
  environment_.use(buffer);
}

void* Arguments::data(size_t index, size_t elementBytes, std::initializer_list<int64_t> shape) {
  const std::shared_ptr<DeviceBuffer>& found = buffer(index);
  if (found->bytes() < bytesFor(elementBytes, shape)) fail(index, "large enough for the sizes given");
  use(index, found);
  return found->data();
}

const Structure& Arguments::structure(size_t index) {
  const auto* found = environment_.structures().find(number(index));
  if (found == nullptr) fail(index, "a live structure");
  const Structure& structure = **found;
  use(index, structure.items);
  use(index, structure.hubs);
  if (structure.colIdx != nullptr) use(index, structure.colIdx);
  return structure;
}

const Structure& Arguments::graph(size_t index) {
  const Structure& found = structure(index);
  if (found.colIdx == nullptr) fail(index, "a structure with column indices");
  return found;
}

Workspace Arguments::workspace(size_t elementBytes, std::initializer_list<int64_t> shape) {
  const size_t bytes = bytesFor(elementBytes, shape);
  return Workspace(bytes == 0 ? nullptr : environment_.allocate(device(), bytes, op_));
}

size_t bytesFor(size_t elementBytes, std::initializer_list<int64_t> shape) {
  size_t bytes = elementBytes;
  for (const int64_t length : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(length), &bytes)) return SIZE_MAX;
  }
  return bytes;
}

}  // namespace warpgraph
