#include "cuda/cast.h"

#include "binding/arguments.h"
#include "binding/functions.h"

namespace warpgraph {

void cast(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "cast", 5);
  const DType inputDType = arguments.dtype(1);
  const DType outDType = arguments.dtype(3);
  const int64_t length = arguments.size(4);
  const void* input = arguments.data(0, inputDType, {length});
  void* out = arguments.data(2, outDType, {length});
  arguments.check(launchCast(inputDType, input, outDType, out, length, arguments.target()));
}

}  // namespace warpgraph
