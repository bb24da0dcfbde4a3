#include "cuda/tensor_map.h"

#include "cuda/driver.h"

namespace warpgraph {
namespace {

CUtensorMapDataType dataTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::kBfloat16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::kInt32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case DType::kFloat32:
      break;
  }
  return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

}  // namespace

cudaError_t encodeTiles(CUtensorMap* map, DType dtype, const void* base, int rank, const int64_t* sizes,
                        const int64_t* strideBytes, const int* box, CUtensorMapSwizzle swizzle) {
  constexpr int kMostAxes = 5;
  static const auto encode = findDriverFunction<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  if (encode == nullptr) return cudaErrorNotSupported;
  if (rank < 1 || rank > kMostAxes) return cudaErrorInvalidValue;
  cuuint64_t extents[kMostAxes], strides[kMostAxes];
  cuuint32_t tile[kMostAxes], steps[kMostAxes];
  for (int axis = 0; axis < rank; ++axis) {
    extents[axis] = static_cast<cuuint64_t>(sizes[axis]);
    if (axis + 1 < rank) strides[axis] = static_cast<cuuint64_t>(strideBytes[axis]);
    tile[axis] = static_cast<cuuint32_t>(box[axis]);
    steps[axis] = 1;
  }
  // Not promoted to 256 bytes: the other half of such a line belongs to the neighbouring box, which is
  // fetched at the same time.
  const CUresult result =
      encode(map, dataTypeOf(dtype), static_cast<cuuint32_t>(rank), const_cast<void*>(base), extents, strides,
             tile, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace warpgraph
