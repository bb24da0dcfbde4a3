// What a block of the matrix product on warp-level tensor cores does (matmul_mma.cuh): one tile of C after
// another. It copies tiles of A and B into the ring of buffers, multiplies them, and writes what they add up
// to.
#pragma once

#include "cuda/matmul_launch.h"
#include "cuda/matmul_mma_fragments.cuh"
#include "cuda/matmul_mma_tile.cuh"
#include "cuda/matmul_rows.cuh"

namespace warpgraph {
namespace matmul_mma {

// Whether rows can be accessed in pieces: they are aligned to them and consist of whole ones.
struct Vectors {
  bool a, b, c;
};

#if __CUDA_ARCH__ >= 800

template <typename T, bool kTransposed, bool kSplit, typename Shape>
class Block {
 public:
  __device__ Block(const Matmul& matmul, const Vectors& vectors, char* shared)
      : matmul_(matmul), vectors_(vectors), shared_(shared) {}

  // The tile of C of batch entry b that begins at (row, column).
  __device__ void compute(int64_t b, int64_t row, int64_t column) {
    const int64_t live = liveRows(matmul_, b) - row;
    live_ = static_cast<int>(min(max(live, int64_t{0}), int64_t{Shape::kRows}));
    columns_ = static_cast<int>(min(matmul_.n - column, int64_t{Shape::kColumns}));
    for (auto& matrices : sums_) {
      for (auto& matrix : matrices) {
        for (float& value : matrix) value = 0.0f;
      }
    }
    if (live_ > 0) {
      place(b, row, column);
      multiplyAll();
    }
    store(static_cast<T*>(matmul_.c) + b * matmul_.cBatch + row * matmul_.cRow + column,
          static_cast<int>(min(matmul_.m - row, int64_t{Shape::kRows})));
  }

 private:
  static constexpr int kElements = kPieceBytes / sizeof(T);  // of a piece
  static constexpr int kDepth = kDepthBytes / sizeof(T);
  // A thread copies the same piece of several lines of a tile, one per pass.
  static constexpr int kLinesPerPassOfA = Shape::kThreads / kDepthPieces;
  static constexpr int kPassesOfA = Shape::kRows / kLinesPerPassOfA;
  static constexpr int kPiecesOfB = kTransposed ? kDepthPieces : Shape::kColumns / kElements;
  static constexpr int kLinesOfB = kTransposed ? Shape::kColumns : kDepth;
  static constexpr int kLinesPerPassOfB = Shape::kThreads / kPiecesOfB;
  static constexpr int kPassesOfB = kLinesOfB / kLinesPerPassOfB;
  static constexpr int kLineBytesOfB = kPiecesOfB * kPieceBytes;
  static_assert(kLinesPerPassOfA % 8 == 0 && kLinesPerPassOfB % (kTransposed || sizeof(T) == 2 ? 8 : 4) == 0,
                "the order of pieces repeats");
  using Operand = Fragment<T, kSplit>;

  struct Registers {
    uint32_t a[Shape::kRowMatrices][4];
    uint32_t b[Shape::kColumnMatrices / 2][4];
  };

  // Finds what this thread copies of the first tile of A and of B.
  __device__ void place(int64_t b, int64_t row, int64_t column) {
    batch_ = b;
    row_ = row;
#pragma unroll
    for (int pass = 0; pass < kPassesOfA; ++pass) {
      a_[pass] = rowOfA(threadIdx.x / kDepthPieces + pass * kLinesPerPassOfA);
    }
    const int64_t lineOfB = threadIdx.x / kPiecesOfB;
    b_ = static_cast<const T*>(matmul_.b) + b * matmul_.bBatch + threadIdx.x % kPiecesOfB * kElements;
    b_ += kTransposed ? (column + lineOfB) * matmul_.bRow : column + lineOfB * matmul_.bRow;
  }

  // This thread's piece of a line of A's first tile.
  __device__ const T* rowOfA(int line) const {
    const int64_t stored = line < live_ ? storedRow(matmul_.pages, batch_, row_ + line) : 0;
    return firstOfA<T>(matmul_, batch_) + stored * matmul_.aRow + threadIdx.x % kDepthPieces * kElements;
  }

  // Starts to copy the next tile of A, of whose k `left` are left.
  __device__ void copyA(char* stage, int64_t left) {
    const int piece = threadIdx.x % kDepthPieces;
    const int line = threadIdx.x / kDepthPieces;
    const int count = depthOf(left) - piece * kElements;
    char* to = stage + pieceAlongK(line, piece);
    if (vectors_.a) {
#pragma unroll
      for (int pass = 0; pass < kPassesOfA; ++pass) {
        copyAsync16(to + pass * kLinesPerPassOfA * kDepthBytes, a_[pass],
                    count > 0 && line + pass * kLinesPerPassOfA < live_);
      }
#pragma unroll
      for (int pass = 0; pass < kPassesOfA; ++pass) a_[pass] += kDepth;
    } else {
#pragma unroll 1
      for (int pass = 0; pass < kPassesOfA; ++pass) {
        const int at = line + pass * kLinesPerPassOfA;
        copyElements(to + pass * kLinesPerPassOfA * kDepthBytes, rowOfA(at) + (matmul_.k - left),
                     at < live_ ? count : 0);
      }
    }
  }

  // The same of B.
  __device__ void copyB(char* stage, int64_t left) {
    const int depth = depthOf(left);
    const int piece = threadIdx.x % kPiecesOfB;
    const int line = threadIdx.x / kPiecesOfB;
    const int lines = kTransposed ? columns_ : depth;
    const int count = (kTransposed ? depth : columns_) - piece * kElements;
    const int64_t step = kLinesPerPassOfB * matmul_.bRow;
    char* to = stage + Shape::kBytesOfA +
               (kTransposed ? pieceAlongK(line, piece) : pieceAlongN<T, Shape::kColumns>(line, piece));
    const T* from = b_;
    if (vectors_.b) {
#pragma unroll
      for (int pass = 0; pass < kPassesOfB; ++pass, from += step) {
        copyAsync16(to + pass * kLinesPerPassOfB * kLineBytesOfB, from,
                    count > 0 && line + pass * kLinesPerPassOfB < lines);
      }
    } else {
#pragma unroll 1
      for (int pass = 0; pass < kPassesOfB; ++pass, from += step) {
        copyElements(to + pass * kLinesPerPassOfB * kLineBytesOfB, from,
                     line + pass * kLinesPerPassOfB < lines ? count : 0);
      }
    }
    b_ += kTransposed ? int64_t{kDepth} : kDepth * matmul_.bRow;
  }

  static __device__ int depthOf(int64_t left) { return static_cast<int>(min(left, int64_t{kDepth})); }

  __device__ void multiplyAll() {
    constexpr int kStages = Shape::kStages;
    const int64_t tiles = (matmul_.k + kDepth - 1) / kDepth;
    const auto leftFrom = [&](int64_t index) { return matmul_.k - index * kDepth; };
    const int first = static_cast<int>(min(tiles, int64_t{kStages - 1}));  // tiles that begin at once
    // One loop for B alone and for what is left, since code that runs for the first time is slow.
#pragma unroll 1
    for (int i = matmul_.bIsThere ? -first : 0; i < kStages - 1; ++i) {
      if (matmul_.bIsThere && i == 0) {
        waitForPrevious();
        allowNext();
      }
      const int index = i < 0 ? i + first : i;
      char* stage = shared_ + index * Shape::kStageBytes;
      if (i >= 0 && index < first) copyA(stage, leftFrom(index));
      if (i < 0 || (!matmul_.bIsThere && index < first)) copyB(stage, leftFrom(index));
      if (i >= 0) copyAsyncCommit();
    }
    char* free = shared_ + (kStages - 1) * Shape::kStageBytes;
    // Waits for a tile, and for all warps to be done with the one before.
    const auto await = [] {
      copyAsyncWait<kStages - 2>();
      __syncthreads();
    };
    const auto copyLater = [&](int64_t index) {
      const int64_t later = index + kStages - 1;
      if (later < tiles) {
        copyA(free, leftFrom(later));
        copyB(free, leftFrom(later));
      }
      copyAsyncCommit();
      free = next(free);
    };
    const char* stage = shared_;
    if constexpr (Shape::kReadsAhead) {
      Registers registers[2];
      if (tiles > 0) {
        await();
        load(registers[0], stage, 0);
      }
#pragma unroll 1
      for (int64_t index = 0; index < tiles; ++index) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          if (step < kSteps - 1) {
            load(registers[(step + 1) % 2], stage, step + 1);
          } else if (index < tiles - 1) {
            await();
            stage = next(stage);
            load(registers[0], stage, 0);
          }
          if (step == 0) copyLater(index);
          multiplyStep(registers[step % 2]);
        }
      }
    } else {
#pragma unroll 1
      for (int64_t index = 0; index < tiles; ++index, stage = next(stage)) {
        await();
        copyLater(index);
#pragma unroll 1
        for (int step = 0; step < kSteps; ++step) {
          Registers registers;
          load(registers, stage, step);
          multiplyStep(registers);
        }
      }
    }
    copyAsyncWait<0>();
    __syncthreads();
  }

  // The stage after this one in the ring.
  template <typename Pointer>
  __device__ Pointer next(Pointer stage) const {
    const bool isLast = stage == shared_ + (Shape::kStages - 1) * Shape::kStageBytes;
    return isLast ? shared_ : stage + Shape::kStageBytes;
  }

  __device__ void multiplyStep(const Registers& registers) {
    static_assert(Shape::kRowMatrices <= 4, "fragments of A are kept for all columns");
    const auto fragmentOfA = [&](int i) { return Operand(registers.a[i < Shape::kRowMatrices ? i : 0]); };
    const Operand a[4] = {fragmentOfA(0), fragmentOfA(1), fragmentOfA(2), fragmentOfA(3)};
#pragma unroll
    for (int j = 0; j < Shape::kColumnMatrices / 2; ++j) {
      const Operand b(registers.b[j]);
#pragma unroll
      for (int i = 0; i < Shape::kRowMatrices; ++i) {
        multiply(sums_[i][j * 2], a[i], b, 0);
        multiply(sums_[i][j * 2 + 1], a[i], b, 2);
      }
    }
  }

  // Reads a step's operands; a matrix of ldmatrix is 8 lines of 16 bytes, whatever they hold.
  __device__ void load(Registers& registers, const char* stage, int step) const {
    const int warp = threadIdx.x / kWarpSize;
    const int lane = threadIdx.x % kWarpSize;
    const int row = warp / Shape::kWarpColumns * Shape::kRowMatrices * 16;
#pragma unroll
    for (int i = 0; i < Shape::kRowMatrices; ++i) {
      loadMatrices(registers.a[i], stage + pieceAlongK(row + i * 16 + lane % 16, step * 2 + lane / 16));
    }
    const int column = warp % Shape::kWarpColumns * Shape::kColumnMatrices * 8;
#pragma unroll
    for (int j = 0; j < Shape::kColumnMatrices / 2; ++j) {
      loadB(registers.b[j], stage + Shape::kBytesOfA, column + j * 16, step, lane);
    }
  }

  // (one step, 16) of B: two registers for each 8 columns.
  static __device__ void loadB(uint32_t (&b)[4], const char* stage, int column, int step, int lane) {
    if constexpr (kTransposed) {
      const int line = column + lane % 8 + lane / 16 * 8;
      loadMatrices(b, stage + pieceAlongK(line, step * 2 + lane / 8 % 2));
    } else if constexpr (sizeof(T) == 2) {
      const int piece = column / kElements + lane / 16;
      loadMatricesTransposed(b, stage + pieceAlongN<T, Shape::kColumns>(step * 16 + lane % 16, piece));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int line = step * 8 + lane % 4 + i % 2 * 4;
        const int at = column + i / 2 * 8 + lane / 4;
        const int piece = pieceAlongN<T, Shape::kColumns>(line, at / kElements);
        b[i] = *reinterpret_cast<const uint32_t*>(stage + piece + at % kElements * sizeof(T));
      }
    }
  }

  // Collects the tile in shared memory, and writes it from there in long rows.
  __device__ void store(T* c, int rows) {
    constexpr int kPitch = Shape::template kPitchOfC<T>;
    const int lane = threadIdx.x % kWarpSize;
    const int warp = threadIdx.x / kWarpSize;
    const int row = warp / Shape::kWarpColumns * Shape::kRowMatrices * 16 + lane / 4;
    const int column = warp % Shape::kWarpColumns * Shape::kColumnMatrices * 8 + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < Shape::kRowMatrices; ++i) {
#pragma unroll
      for (int j = 0; j < Shape::kColumnMatrices; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int at = row + i * 16 + half * 8;
          const bool isLive = at < live_;
          alignas(8) const T pair[2] = {fromFloat<T>(isLive ? sums_[i][j][half * 2] : 0.0f),
                                        fromFloat<T>(isLive ? sums_[i][j][half * 2 + 1] : 0.0f)};
          using Word = std::conditional_t<sizeof(T) == 2, uint32_t, uint2>;
          char* to = shared_ + at * kPitch + (column + j * 8) * sizeof(T);
          *reinterpret_cast<Word*>(to) = *reinterpret_cast<const Word*>(pair);
        }
      }
    }
    __syncthreads();
    constexpr int kPieces = Shape::kColumns / kElements;
    for (int at = threadIdx.x; at < rows * kPieces; at += Shape::kThreads) {
      const int piece = at % kPieces;
      const int count = columns_ - piece * kElements;
      if (count <= 0) continue;
      storePiece(c + at / kPieces * matmul_.cRow + piece * kElements,
                 shared_ + at / kPieces * kPitch + piece * kPieceBytes, count);
    }
    __syncthreads();
  }

  __device__ void storePiece(T* to, const char* shared, int count) const {
    alignas(kPieceBytes) T elements[kElements];
    *reinterpret_cast<uint4*>(elements) = *reinterpret_cast<const uint4*>(shared);
    if (vectors_.c) {
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(elements);
    } else {
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        if (i < count) to[i] = elements[i];
      }
    }
    if (matmul_.nonFinite == nullptr) return;
    bool isFinite = true;
#pragma unroll
    for (int i = 0; i < kElements; ++i) isFinite = isFinite && (i >= count || isfinite(toFloat(elements[i])));
    if (!isFinite) *matmul_.nonFinite = 1;
  }

  const Matmul& matmul_;
  const Vectors& vectors_;
  char* const shared_;
  const T* a_[kPassesOfA];
  const T* b_;
  int64_t batch_, row_;
  int live_;     // rows of the tile that are not zeros
  int columns_;  // of the tile that exist
  float sums_[Shape::kRowMatrices][Shape::kColumnMatrices][4];
};

#endif  // __CUDA_ARCH__ >= 800

}  // namespace matmul_mma
}  // namespace warpgraph
