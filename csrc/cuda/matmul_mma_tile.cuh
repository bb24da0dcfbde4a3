// The tiles of the matrix product on warp-level tensor cores (matmul_mma.cuh): their sizes, and where their
// elements lie in shared memory.
#pragma once

#include <algorithm>

#include "cuda/common.cuh"

namespace warpgraph {
namespace matmul_mma {

constexpr int kPieceBytes = 16;
constexpr int kDepthBytes = 128;  // of a tile along k
constexpr int kDepthPieces = kDepthBytes / kPieceBytes;
constexpr int kStepBytes = 32;  // of one product along k: 16 halves or 8 floats
constexpr int kSteps = kDepthBytes / kStepBytes;

// The tile of a block: (kRows, kColumns) of C by kWarpRows × kWarpColumns warps. Few warps on a
// multiprocessor read a step's operands from shared memory while they multiply the step before; where there
// are many, of kBlocks blocks, they do without, since registers are short, and one warp multiplies while
// others read.
template <int kRowsOfTile, int kColumnsOfTile, int kWarpRowsOfTile, int kWarpColumnsOfTile, int kStagesMost,
          bool kReadsAheadOfTile, int kBlocksOfTile>
struct Tile {
  static constexpr int kRows = kRowsOfTile;
  static constexpr int kColumns = kColumnsOfTile;
  static constexpr int kWarpRows = kWarpRowsOfTile;
  static constexpr int kWarpColumns = kWarpColumnsOfTile;
  static constexpr int kStages = kStagesMost;
  static constexpr bool kReadsAhead = kReadsAheadOfTile;
  static constexpr int kBlocks = kBlocksOfTile;
  static constexpr int kThreads = kWarpRows * kWarpColumns * kWarpSize;
  // Of a warp's part, in matrices of 16 rows and of 8 columns.
  static constexpr int kRowMatrices = kRows / kWarpRows / 16;
  static constexpr int kColumnMatrices = kColumns / kWarpColumns / 8;
  static constexpr int kBytesOfA = kRows * kDepthBytes;
  static constexpr int kStageBytes = (kRows + kColumns) * kDepthBytes;
  // Where C is collected: rows are shifted by a piece so that they start in different banks.
  template <typename T>
  static constexpr int kPitchOfC = kColumns * static_cast<int>(sizeof(T)) + kPieceBytes;

  template <typename T>
  static size_t sharedBytes(int64_t k) {
    constexpr int64_t kDepth = kDepthBytes / sizeof(T);
    const int64_t stages = std::min((k + kDepth - 1) / kDepth, int64_t{kStages});
    return std::max(stages * kStageBytes, int64_t{kRows} * kPitchOfC<T>);
  }
};

#if __CUDA_ARCH__ >= 800

// Where piece `piece` of line `line` lies in shared memory. The lines lie along k (of A, and of B when
// transposed) or along n. The order within lines repeats every 8 lines.
__device__ inline int pieceAlongK(int line, int piece) {
  return line * kDepthBytes + (piece ^ line % 8) * kPieceBytes;
}
template <typename T, int kColumns>
__device__ int pieceAlongN(int line, int piece) {
  // Single floats are read from four neighbouring lines at two pieces each, matrices of halves from eight.
  const int turn = sizeof(T) == 4 ? line % 4 * 2 : line % 8;
  return line * kColumns * static_cast<int>(sizeof(T)) + (piece ^ turn) * kPieceBytes;
}

// Brings, element by element, a piece of which `count` elements exist; the others are zeros. Past L1, as
// pieces are copied: B may be read before this kernel has waited for anything (Matmul::bIsThere), and L1 may
// be older.
template <typename T>
__device__ void copyElements(char* shared, const T* from, int count) {
  constexpr int kElements = kPieceBytes / sizeof(T);
  alignas(kPieceBytes) T elements[kElements];
#pragma unroll
  for (int i = 0; i < kElements; ++i) elements[i] = i < count ? __ldcg(from + i) : fromFloat<T>(0.0f);
  *reinterpret_cast<uint4*>(shared) = *reinterpret_cast<const uint4*>(elements);
}

#endif  // __CUDA_ARCH__ >= 800

}  // namespace matmul_mma
}  // namespace warpgraph
