#include "cuda/matmul.h"

#include "binding/arguments.h"
#include "binding/functions.h"

namespace warpgraph {
namespace {

// An axis of a strided matrix: the elements from one index to the next.
struct Axis {
  int64_t size, stride;
};

// The elements from a strided matrix's first to its last; −1 when there are too many to count. Rows are
// contiguous and `length` long.
int64_t extentOf(std::initializer_list<Axis> axes, int64_t length) {
  int64_t last = length;
  for (const Axis axis : axes) {
    int64_t offset;
    if (axis.size == 0 || length == 0) return 0;
    if (__builtin_mul_overflow(axis.size - 1, axis.stride, &offset)) return -1;
    if (__builtin_add_overflow(last, offset, &last)) return -1;
  }
  return last;
}

}  // namespace

void matmul(const Napi::CallbackInfo& info) {
  Arguments arguments(info, "matmul", 25);
  const DType dtype = arguments.dtype(3);
  if (dtype == DType::kInt32) arguments.fail(3, "a float dtype");
  Matmul matmul = {};
  matmul.batch = arguments.size(4);
  matmul.m = arguments.size(5);
  matmul.n = arguments.size(6);
  matmul.k = arguments.size(7);
  matmul.aRow = arguments.size(8);
  matmul.aBatch = arguments.size(9);
  matmul.bRow = arguments.size(10);
  matmul.bBatch = arguments.size(11);
  matmul.bTransposed = arguments.boolean(12);
  matmul.cRow = arguments.size(13);
  matmul.cBatch = arguments.size(14);
  matmul.tf32 = arguments.boolean(15);
  matmul.large = arguments.boolean(16);
  const auto matrix = [&](size_t index, std::initializer_list<Axis> axes, int64_t length) {
    const int64_t extent = extentOf(axes, length);
    if (extent < 0) arguments.fail(index, "large enough for the sizes given");
    return arguments.data(index, dtype, {extent});
  };
  if (arguments.isNull(17)) {
    matmul.a = matrix(0, {{matmul.batch, matmul.aBatch}, {matmul.m, matmul.aRow}}, matmul.k);
  } else {
    matmul.pages.pagesPerSequence = arguments.size(18);
    matmul.pages.pageSize = arguments.size(19);
    matmul.pages.numPages = arguments.size(20);
    matmul.pages.firstRow = arguments.size(21);
    if (matmul.pages.pageSize == 0) arguments.fail(19, "at least 1");
    int64_t rows;
    if (__builtin_mul_overflow(matmul.pages.numPages, matmul.pages.pageSize, &rows) ||
        __builtin_mul_overflow(matmul.pages.pagesPerSequence, matmul.pages.pageSize, &rows)) {
      arguments.fail(19, "a page size that the sizes given allow");
    }
    matmul.a = matrix(0, {{matmul.pages.numPages * matmul.pages.pageSize, matmul.aRow}}, matmul.k);
    matmul.pages.blockTable =
        arguments.data<const int32_t>(17, DType::kInt32, {matmul.batch, matmul.pages.pagesPerSequence});
  }
  matmul.b = matmul.bTransposed
                 ? matrix(1, {{matmul.batch, matmul.bBatch}, {matmul.n, matmul.bRow}}, matmul.k)
                 : matrix(1, {{matmul.batch, matmul.bBatch}, {matmul.k, matmul.bRow}}, matmul.n);
  // Strides of 0 would let elements share a place, and a short buffer take any number of them.
  arguments.data(2, dtype, {matmul.batch, matmul.m, matmul.n});
  matmul.c = matrix(2, {{matmul.batch, matmul.cBatch}, {matmul.m, matmul.cRow}}, matmul.n);
  if (!arguments.isNull(22)) {
    matmul.rowLimits = arguments.data<const int32_t>(22, DType::kInt32, {matmul.batch});
    matmul.rowLimitOffset = arguments.size(23);
  }
  if (!arguments.isNull(24)) matmul.nonFinite = arguments.data<int>(24, DType::kInt32, {1});
  arguments.check(launchMatmul(dtype, matmul, arguments.target()));
}

}  // namespace warpgraph
