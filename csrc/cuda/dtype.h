// Element types, shared by launchers and the binding.
#pragma once

#include <cstddef>

namespace warpgraph {

// The numbers are the `code`s of lib/dtype.ts.
enum class DType : int { kFloat32 = 0, kFloat16 = 1, kBfloat16 = 2, kInt32 = 3 };

constexpr int kDTypeCount = 4;

constexpr size_t bytesOf(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16 ? 2 : 4;
}

}  // namespace warpgraph
