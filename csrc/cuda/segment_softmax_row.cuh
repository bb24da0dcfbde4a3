// Segment softmax of one row by one worker: kLanes lanes of a warp, or several warps.
//
// Lanes: `perEdge` lanes, a power of two, hold the heads of one edge, kVec each, the last ones idle when the
// heads do not fill them; `slots` edges are held at a time. A lane takes up to kMostSteps of them: the more
// edges of a row lie in one lane, the less is spent on where they are and on meeting the others. The maximum
// ignores NaN, which then reaches the sum and so the whole segment-head. A segment of −∞ alone keeps the sum
// at 0: zeros.
#pragma once

#include "cuda/common.cuh"
#include "cuda/vector.cuh"

namespace warpgraph {

constexpr int kSoftmaxThreadsLog = 8;
constexpr int kSoftmaxThreads = 1 << kSoftmaxThreadsLog;
constexpr int kMostSteps = 8;
constexpr int kMostPerEdgeLog = 3;
constexpr int kMostHeads = 4 << kMostPerEdgeLog;  // of a tile
constexpr int kSharedFloats = kSoftmaxThreads / kWarpSize * kMostHeads;

// What the heads of a tile are read from and written to.
template <typename T>
struct Scores {
  const T* scores;
  T* out;
  int64_t heads;
  int perEdgeLog;
};

// e^x in two instructions: its relative error, some 2^-22 plus |x|·2^-24, is far below what a weight e^x / Σ
// shows.
__device__ inline float exponential(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 1.4426950408889634f));
  return result;
}

// 1/sum, to 1 unit in the last place; 0 for the sum of no weights. A sum that is not 0 is at least 1.
__device__ inline float factorOf(float sum) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(sum));
  return sum == 0.0f ? 0.0f : result;
}

// −∞ − −∞ would be NaN: while nothing but −∞ was seen, any finite base leaves exp at 0.
__device__ inline float baseOf(float max) {
  return max == -INFINITY ? 0.0f : max;
}

// A run of edges that one worker takes.
struct Run {
  int begin, length;
};

// A lane's part of a run: kVec heads of every slots-th edge.
struct Part {
  int64_t head;
  int64_t first, stride;  // in elements: its first edge, and from one to the next
  int edges;
  bool isFirstSlot;
};

template <int kLanesLog, int kVec, typename T>
__device__ Part partOf(const Scores<T>& of, const Run& run) {
  const int lane = threadIdx.x % (1 << kLanesLog);
  const int laneOfEdge = lane & ((1 << of.perEdgeLog) - 1);
  const int slot = lane >> of.perEdgeLog;
  const int slotsLog = kLanesLog - of.perEdgeLog;
  const unsigned tile = blockIdx.z * gridDim.y + blockIdx.y;
  Part part;
  part.head = ((int64_t{tile} << of.perEdgeLog) + laneOfEdge) * kVec;
  part.first = static_cast<unsigned>(run.begin + slot) * of.heads + part.head;
  part.stride = of.heads << slotsLog;
  const bool active = part.head < of.heads;
  part.edges = active ? (run.length - slot + (1 << slotsLog) - 1) >> slotsLog : 0;
  part.isFirstSlot = active && slot == 0;
  return part;
}

// All lanes of a worker of more than a warp have come here, and see what the others have stored.
template <int kLanes>
__device__ void workerBarrier() {
  if constexpr (kLanes == kSoftmaxThreads) {
    __syncthreads();
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.x / kLanes), "n"(kLanes) : "memory");
  }
}

struct MaxOf {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct SumOf {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// Combines the values of all slots with `op`, in all lanes of the worker that hold the same heads. The slots
// of one warp meet in shuffles, the warps of a worker in shared memory. All lanes of a warp take part.
template <int kLanes, int kVec, typename Op>
__device__ void overSlots(float (&values)[kVec], int perEdge, float* shared, Op op) {
  constexpr int kInWarp = kLanes < kWarpSize ? kLanes : kWarpSize;
#pragma unroll
  for (int offset = kInWarp / 2; offset > 0; offset /= 2) {
    if (offset < perEdge) break;
    for (float& value : values) value = op(value, __shfl_xor_sync(kFullWarp, value, offset));
  }
  if constexpr (kLanes > kWarpSize) {
    constexpr int kWarps = kLanes / kWarpSize;
    const int lane = threadIdx.x % kWarpSize;
    const int mine = lane & (perEdge - 1);
    float* ofWorker = shared + threadIdx.x / kLanes * kWarps * kMostHeads;
    workerBarrier<kLanes>();  // the values before these were read
    if (lane < perEdge) {
      for (int k = 0; k < kVec; ++k)
        ofWorker[threadIdx.x % kLanes / kWarpSize * kMostHeads + mine * kVec + k] = values[k];
    }
    workerBarrier<kLanes>();
    for (int k = 0; k < kVec; ++k) {
      values[k] = ofWorker[mine * kVec + k];
      for (int warp = 1; warp < kWarps; ++warp)
        values[k] = op(values[k], ofWorker[warp * kMostHeads + mine * kVec + k]);
    }
  }
}

// A row whose scores the registers of a worker hold: of at most kSteps·slots edges.
template <int kLanesLog, int kSteps, int kVec, typename T>
__device__ void softmaxRow(const Scores<T>& of, const Run& run, float* shared) {
  constexpr int kLanes = 1 << kLanesLog;
  const int perEdge = 1 << of.perEdgeLog;
  const Part part = partOf<kLanesLog, kVec>(of, run);

  // All reads are on their way before the first is used. Evict-first, they leave more of what an op before
  // this one wrote in L2: that pays where most of it fits, with half types, and costs as much where it does
  // not.
  const T* scores = of.scores + part.first;
  Vector<T, kVec> read[kSteps];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (step < part.edges) {
      read[step] = sizeof(T) == 4 ? loadVector<kVec>(scores) : loadVectorOnce<kVec>(scores);
    }
    scores += part.stride;
  }
  float max[kVec];
  for (float& value : max) value = -INFINITY;
  float kept[kSteps][kVec];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (step >= part.edges) break;
    widen(read[step], kept[step]);
    for (int k = 0; k < kVec; ++k) max[k] = fmaxf(max[k], kept[step][k]);
  }
  overSlots<kLanes>(max, perEdge, shared, MaxOf{});

  float sum[kVec];
  for (float& value : sum) value = 0.0f;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (step >= part.edges) break;
    for (int k = 0; k < kVec; ++k) kept[step][k] = exponential(kept[step][k] - baseOf(max[k]));
    for (int k = 0; k < kVec; ++k) sum[k] += kept[step][k];
  }
  overSlots<kLanes>(sum, perEdge, shared, SumOf{});

  float factor[kVec];
  for (int k = 0; k < kVec; ++k) factor[k] = factorOf(sum[k]);
  T* out = of.out + part.first;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (step >= part.edges) break;
    for (int k = 0; k < kVec; ++k) kept[step][k] *= factor[k];
    storeVectorOnce(out, kept[step]);
    out += part.stride;
  }
}

// A longer run is walked by a block, kMostSteps edges of a lane at a time. Their reads stay in cache: they
// come again. Moves `scores` on.
template <int kVec, typename T>
__device__ void readSteps(const T*& scores, int64_t stride, int left, Vector<T, kVec> (&read)[kMostSteps]) {
#pragma unroll
  for (int step = 0; step < kMostSteps; ++step) {
    if (step < left) read[step] = loadVector<kVec>(scores);
    scores += stride;
  }
}

// Its maximum and sum, in all lanes that hold the same heads. They are found in one go: when the maximum
// grows, the sum is scaled to it (the online softmax of Milakov and Gimelshein, arXiv:1805.02867).
template <int kVec, typename T>
__device__ void statsOfRun(const Scores<T>& of, const Part& part, float* shared, float (&max)[kVec],
                           float (&sum)[kVec]) {
  const int perEdge = 1 << of.perEdgeLog;
  const T* scores = of.scores + part.first;
  float mine[kVec];  // the maximum of this lane's edges
  for (float& value : mine) value = -INFINITY;
  for (float& value : sum) value = 0.0f;
  for (int left = part.edges; left > 0; left -= kMostSteps) {
    Vector<T, kVec> read[kMostSteps];
    readSteps(scores, part.stride, left, read);
    float before[kVec];
    for (int k = 0; k < kVec; ++k) before[k] = mine[k];
    float values[kVec];
#pragma unroll
    for (int step = 0; step < kMostSteps; ++step) {
      if (step >= left) break;
      widen(read[step], values);
      for (int k = 0; k < kVec; ++k) mine[k] = fmaxf(mine[k], values[k]);
    }
    for (int k = 0; k < kVec; ++k) sum[k] *= exponential(before[k] - baseOf(mine[k]));
#pragma unroll
    for (int step = 0; step < kMostSteps; ++step) {
      if (step >= left) break;
      widen(read[step], values);
      for (int k = 0; k < kVec; ++k) sum[k] += exponential(values[k] - baseOf(mine[k]));
    }
  }
  for (int k = 0; k < kVec; ++k) max[k] = mine[k];
  overSlots<kSoftmaxThreads>(max, perEdge, shared, MaxOf{});
  for (int k = 0; k < kVec; ++k) sum[k] *= exponential(mine[k] - baseOf(max[k]));
  overSlots<kSoftmaxThreads>(sum, perEdge, shared, SumOf{});
}

// A row that is read a second time to be written.
template <int kVec, typename T>
__device__ void softmaxLongRow(const Scores<T>& of, const Run& run, float* shared) {
  const Part part = partOf<kSoftmaxThreadsLog, kVec>(of, run);
  float max[kVec];
  float sum[kVec];
  statsOfRun(of, part, shared, max, sum);
  float base[kVec];
  float factor[kVec];
  for (int k = 0; k < kVec; ++k) base[k] = baseOf(max[k]);
  for (int k = 0; k < kVec; ++k) factor[k] = factorOf(sum[k]);
  const T* scores = of.scores + part.first;
  T* out = of.out + part.first;
  for (int left = part.edges; left > 0; left -= kMostSteps) {
    Vector<T, kVec> read[kMostSteps];
    readSteps(scores, part.stride, left, read);
#pragma unroll
    for (int step = 0; step < kMostSteps; ++step) {
      if (step >= left) break;
      float values[kVec];
      widen(read[step], values);
      for (int k = 0; k < kVec; ++k) values[k] = exponential(values[k] - base[k]) * factor[k];
      storeVectorOnce(out, values);
      out += part.stride;
    }
  }
}

}  // namespace warpgraph
