// Descriptors of tensors in device memory, from which Hopper's copy engine fetches tiles.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/dtype.h"

namespace warpgraph {

// Describes a tensor of `rank` ≤ 5 axes, innermost first: sizes (rank), the bytes from one index to the next
// of every axis but the innermost in strideBytes (rank − 1), and the tile to fetch in box (rank). What a tile
// covers beyond the tensor arrives as zeros. The base and the strides are multiples of 16 bytes, strides are
// below 2^40, sizes from 1 to 2^32, the box at most 256 along an axis and, innermost, no longer than the
// swizzle's span. Goes to a kernel as `const __grid_constant__ CUtensorMap`.
cudaError_t encodeTiles(CUtensorMap* map, DType dtype, const void* base, int rank, const int64_t* sizes,
                        const int64_t* strideBytes, const int* box, CUtensorMapSwizzle swizzle);

}  // namespace warpgraph
