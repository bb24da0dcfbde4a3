// C[b] = A[b]·B[b] by warp-level matrix products (mma.sync), from compute capability 8.0 on: A (m, k), B (k,
// n), C (m, n).
//
// A block computes a tile of C. Tiles of A and B of 128 bytes along k go through a ring of buffers in shared
// memory, filled ahead by cp.async, so that loads are in flight while the tensor cores work: the multistage
// pipeline of CUTLASS (github.com/NVIDIA/cutlass, "Efficient GEMM in CUDA"). 16-byte pieces are permuted
// within their rows so that neither the copies nor ldmatrix meet bank conflicts. A small product has all of
// its k in flight at once.
//
// float32 is split into two TF32 numbers, and a product is big·big + big·small + small·big: what is left out
// is below 2^-21 of it. The tensor cores truncate where they add, so that long sums in them drift; they add
// the products of 8 k only, and float32 additions, rounded to nearest, do the rest (Ootomo and Yokota,
// arXiv:2203.03341).
//
// All tiles add along k in the same order with the same instructions, so the choice of the tile may depend on
// m and batch.
#pragma once

#include "cuda/common.cuh"
#include "cuda/matmul_launch.h"
#include "cuda/matmul_rows.cuh"
#include "cuda/mma.cuh"

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

// Whether rows can be accessed in pieces: they are aligned to them and consist of whole ones.
struct Vectors {
  bool a, b, c;
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

// Brings, element by element, a piece of which `count` elements exist; the others are zeros.
template <typename T>
__device__ void copyElements(char* shared, const T* from, int count) {
  constexpr int kElements = kPieceBytes / sizeof(T);
  alignas(kPieceBytes) T elements[kElements];
#pragma unroll
  for (int i = 0; i < kElements; ++i) elements[i] = i < count ? from[i] : fromFloat<T>(0.0f);
  *reinterpret_cast<uint4*>(shared) = *reinterpret_cast<const uint4*>(elements);
}

// An operand of a product: halves as they are, floats as one TF32 number or as two.
template <typename T, bool kSplit>
struct Fragment {
  uint32_t big[4];
  __device__ explicit Fragment(const uint32_t (&raw)[4]) {
    for (int i = 0; i < 4; ++i) big[i] = sizeof(T) == 4 ? toTf32(__uint_as_float(raw[i])) : raw[i];
  }
};
template <typename T>
struct Fragment<T, true> {
  uint32_t big[4], small[4];
  // splitTf32 in three instructions instead of seven: ties round away from zero as there, a NaN that this
  // rounding loses stays in `small`, and of `small` the tensor cores take the upper bits only, an error below
  // 2^-21 of the value.
  __device__ explicit Fragment(const uint32_t (&raw)[4]) {
    for (int i = 0; i < 4; ++i) {
      big[i] = (raw[i] + 0x1000u) & 0xffffe000u;
      small[i] = __float_as_uint(__uint_as_float(raw[i]) - __uint_as_float(big[i]));
    }
  }
};

// a·b: like mma1688, without a sum to begin from.
__device__ inline void firstMma1688(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %10, %10, %10};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}

// sum += a·b; the 8 columns of b begin at its register `at`.
template <typename T, bool kSplit>
__device__ void multiply(float (&sum)[4], const Fragment<T, kSplit>& a, const Fragment<T, kSplit>& b,
                         int at) {
  if constexpr (kSplit) {
    float product[4];
    firstMma1688(product, a.small, b.big[at], b.big[at + 1]);
    mma1688(product, a.big, b.small[at], b.small[at + 1]);
    mma1688(product, a.big, b.big[at], b.big[at + 1]);
    for (int i = 0; i < 4; ++i) sum[i] += product[i];
  } else if constexpr (sizeof(T) == 4) {
    mma1688(sum, a.big, b.big[at], b.big[at + 1]);
  } else {
    mma16816<T>(sum, a.big, b.big[at], b.big[at + 1]);
  }
}

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
    left_ = matmul_.k;
  }

  // This thread's piece of a line of A's first tile.
  __device__ const T* rowOfA(int line) const {
    const int64_t stored = line < live_ ? storedRow(matmul_.pages, batch_, row_ + line) : 0;
    return firstOfA<T>(matmul_, batch_) + stored * matmul_.aRow + threadIdx.x % kDepthPieces * kElements;
  }

  // Starts to copy the next tiles of A and B.
  __device__ void copy(char* stage) {
    const int depth = static_cast<int>(min(left_, int64_t{kDepth}));
    const int piece = threadIdx.x % kDepthPieces;
    const int line = threadIdx.x / kDepthPieces;
    const int countOfA = depth - piece * kElements;
    char* toA = stage + pieceAlongK(line, piece);
    if (vectors_.a) {
#pragma unroll
      for (int pass = 0; pass < kPassesOfA; ++pass) {
        copyAsync16(toA + pass * kLinesPerPassOfA * kDepthBytes, a_[pass],
                    countOfA > 0 && line + pass * kLinesPerPassOfA < live_);
      }
#pragma unroll
      for (int pass = 0; pass < kPassesOfA; ++pass) a_[pass] += kDepth;
    } else {
#pragma unroll 1
      for (int pass = 0; pass < kPassesOfA; ++pass) {
        const int at = line + pass * kLinesPerPassOfA;
        copyElements(toA + pass * kLinesPerPassOfA * kDepthBytes, rowOfA(at) + (matmul_.k - left_),
                     at < live_ ? countOfA : 0);
      }
    }

    const int pieceOfB = threadIdx.x % kPiecesOfB;
    const int lineOfB = threadIdx.x / kPiecesOfB;
    const int linesOfB = kTransposed ? columns_ : depth;
    const int countOfB = (kTransposed ? depth : columns_) - pieceOfB * kElements;
    const int64_t step = kLinesPerPassOfB * matmul_.bRow;
    char* toB =
        stage + Shape::kBytesOfA +
        (kTransposed ? pieceAlongK(lineOfB, pieceOfB) : pieceAlongN<T, Shape::kColumns>(lineOfB, pieceOfB));
    const T* from = b_;
    if (vectors_.b) {
#pragma unroll
      for (int pass = 0; pass < kPassesOfB; ++pass, from += step) {
        copyAsync16(toB + pass * kLinesPerPassOfB * kLineBytesOfB, from,
                    countOfB > 0 && lineOfB + pass * kLinesPerPassOfB < linesOfB);
      }
    } else {
#pragma unroll 1
      for (int pass = 0; pass < kPassesOfB; ++pass, from += step) {
        copyElements(toB + pass * kLinesPerPassOfB * kLineBytesOfB, from,
                     lineOfB + pass * kLinesPerPassOfB < linesOfB ? countOfB : 0);
      }
    }
    b_ += kTransposed ? int64_t{kDepth} : kDepth * matmul_.bRow;
    left_ -= kDepth;
  }

  __device__ void multiplyAll() {
    constexpr int kStages = Shape::kStages;
    const int64_t tiles = (matmul_.k + kDepth - 1) / kDepth;
    char* free = shared_;
#pragma unroll 1
    for (int index = 0; index < kStages - 1; ++index) {
      if (index < tiles) copy(free);
      copyAsyncCommit();
      free += Shape::kStageBytes;
    }
    // Waits for a tile, and for all warps to be done with the one before.
    const auto await = [] {
      copyAsyncWait<kStages - 2>();
      __syncthreads();
    };
    const auto copyLater = [&](int64_t index) {
      if (index + kStages - 1 < tiles) copy(free);
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
  int64_t left_;  // of k to be copied
  int live_;      // rows of the tile that are not zeros
  int columns_;   // of the tile that exist
  float sums_[Shape::kRowMatrices][Shape::kColumnMatrices][4];
};

#endif  // __CUDA_ARCH__ >= 800

template <typename T, bool kTransposed, bool kSplit, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    matmulKernel(const Matmul matmul, const Vectors vectors) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(128) char shared[];
  // In this order: a kernel that comes early after this one may take all that was written before for done.
  waitForPrevious();
  allowNext();
  Block<T, kTransposed, kSplit, Shape> block(matmul, vectors, shared);
  for (int64_t b = blockIdx.z; b < matmul.batch; b += gridDim.z) {
    for (int64_t y = blockIdx.y; y * Shape::kRows < matmul.m; y += gridDim.y) {
      for (int64_t x = blockIdx.x; x * Shape::kColumns < matmul.n; x += gridDim.x) {
        block.compute(b, y * Shape::kRows, x * Shape::kColumns);
      }
    }
  }
#endif
}

template <typename T, bool kTransposed, bool kSplit, typename Shape>
cudaError_t launchShape(const Matmul& matmul, const Vectors& vectors, const LaunchTarget& target) {
  const auto kernel = matmulKernel<T, kTransposed, kSplit, Shape>;
  const size_t bytes = Shape::template sharedBytes<T>(matmul.k);
  // Always the same, since all threads of the process share the attribute.
  const auto most = static_cast<int>(Shape::template sharedBytes<T>(INT32_MAX));
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  if (error != cudaSuccess) return error;
  const dim3 grid(blocksFor(matmul.n, Shape::kColumns), blocksOfAxis(matmul.m, Shape::kRows),
                  blocksOfAxis(matmul.batch, 1));
  return launchKernelWithShared(kernel, grid, Shape::kThreads, bytes, target, matmul, vectors);
}

// The largest tile of which there are enough to keep every multiprocessor busy. 96 KB of shared memory are
// what every card has.
template <typename T, bool kTransposed, bool kSplit>
cudaError_t launchTransposed(const Matmul& matmul, const Vectors& vectors, const LaunchTarget& target) {
  const auto isBusy = [&](int64_t rows, int64_t columns) {
    const int64_t tiles = (matmul.m + rows - 1) / rows * ((matmul.n + columns - 1) / columns);
    return tiles * matmul.batch >= target.limits.multiprocessors * 3 / 4;
  };
  if (matmul.m > 64 && isBusy(128, 128)) {
    using Tall =
        std::conditional_t<kSplit, Tile<128, 64, 4, 2, 3, false, 2>, Tile<128, 128, 2, 4, 3, false, 2>>;
    return launchShape<T, kTransposed, kSplit, Tall>(matmul, vectors, target);
  }
  if (matmul.m > 32 && isBusy(64, 64)) {
    return launchShape<T, kTransposed, kSplit, Tile<64, 64, 2, 2, 6, true, 2>>(matmul, vectors, target);
  }
  // With a short k and many tiles memory is the limit: wide tiles read A less often.
  if (matmul.k <= 256 && matmul.n >= 128 && isBusy(32, 128)) {
    return launchShape<T, kTransposed, kSplit, Tile<32, 128, 1, 4, 4, false, 4>>(matmul, vectors, target);
  }
  return launchShape<T, kTransposed, kSplit, Tile<32, 64, 2, 2, 8, true, 2>>(matmul, vectors, target);
}

// Sizes are or-ed together: they are powers of two in the lower bits.
template <typename T>
bool isAligned(const void* pointer, int64_t sizes) {
  return reinterpret_cast<uintptr_t>(pointer) % kPieceBytes == 0 && sizes * sizeof(T) % kPieceBytes == 0;
}

template <typename T, bool kSplit>
cudaError_t launch(const Matmul& matmul, const LaunchTarget& target) {
  const bool isGathered = matmul.pages.blockTable != nullptr;
  const Vectors vectors{
      isAligned<T>(matmul.a, matmul.aRow | (isGathered ? 0 : matmul.aBatch) | matmul.k),
      isAligned<T>(matmul.b, matmul.bRow | matmul.bBatch | (matmul.bTransposed ? matmul.k : matmul.n)),
      isAligned<T>(matmul.c, matmul.cRow | matmul.cBatch | matmul.n),
  };
  return matmul.bTransposed ? launchTransposed<T, true, kSplit>(matmul, vectors, target)
                            : launchTransposed<T, false, kSplit>(matmul, vectors, target);
}

}  // namespace matmul_mma
}  // namespace warpgraph
