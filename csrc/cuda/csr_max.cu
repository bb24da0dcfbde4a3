// Neighbour maximum: out[i, f] = max x[src, f] over the edges into i. NaN wins, the first NaN over later
// ones, and the winning edge is the lowest on ties. Of equal zeros either sign may come out.
//
// A reduction over neighbours by csr_reduce.cuh, whose head tells what makes it fast. A row's accumulator
// starts as (−∞, its first edge): a row of −∞ alone keeps that edge, and no identity value can win over a
// true one. Where a NaN has won, the accumulator does not know its edge, which would cost a comparison per
// edge and feature; the row is read once more for it before it is written.
#include "cuda/csr_max.h"
#include "cuda/csr_reduce_launch.cuh"

namespace warpgraph {
namespace {

template <bool kWithEdges>
struct Max {
  static constexpr bool kWeighted = false;
  static constexpr float kNeutral = -INFINITY;
  const int32_t* colIdx;
  float empty;
  int32_t* indices;

  template <int kVec>
  struct Accumulator {
    float value[kVec];
    int32_t edge[kWithEdges ? kVec : 1];
  };

  struct Edge {
    int source;
  };

  __device__ Edge load(uint32_t edge, bool exists) const { return {exists ? __ldcs(colIdx + edge) : -1}; }
  __device__ float weight(const Edge&) const { return 1.0f; }

  // Whether b replaces a: greater, or the first NaN.
  static __device__ bool wins(float b, float a) { return !(b <= a) && !isnan(a); }

  // Finds the edges of NaN that won, among all edges of the item. x is at the lane's first feature.
  template <typename T, int kVec>
  __device__ void settle(Accumulator<kVec>& max, const Item& item, const T* x, uint32_t features) const {
    if constexpr (kWithEdges) {
#pragma unroll
      for (int k = 0; k < kVec; ++k) {
        if (!isnan(max.value[k])) continue;
        int e = item.begin;
        while (!isnan(toFloat(x[uint64_t{static_cast<uint32_t>(colIdx[e])} * features + k]))) ++e;
        max.edge[k] = e;
      }
    }
  }

  template <int kVec>
  __device__ void start(Accumulator<kVec>& max, int edge) const {
    for (float& value : max.value) value = -INFINITY;
    for (int32_t& at : max.edge) at = edge;
  }
  // Loses against every edge.
  template <int kVec>
  __device__ void startEmpty(Accumulator<kVec>& max) const {
    start(max, INT32_MAX);
  }
  template <typename T, int kVec>
  __device__ void add(Accumulator<kVec>& max, const Vector<T, kVec>& row, float, int e) const {
    float values[kVec];
    widen(row, values);
    for (int k = 0; k < kVec; ++k) {
      if constexpr (kWithEdges) max.edge[k] = values[k] > max.value[k] ? e : max.edge[k];
      max.value[k] = maxKeepingNaN(max.value[k], values[k]);
    }
  }
  // Equal values, and two NaN, leave the win to the lower edge.
  template <int kVec>
  __device__ void combineOne(Accumulator<kVec>& max, int k, float value, int32_t edge) const {
    const bool equal = value == max.value[k] || (isnan(value) && isnan(max.value[k]));
    const bool lower = kWithEdges && equal && edge < max.edge[kWithEdges ? k : 0];
    if (!wins(value, max.value[k]) && !lower) return;
    max.value[k] = value;
    if constexpr (kWithEdges) max.edge[k] = edge;
  }
  template <int kVec>
  __device__ void combine(Accumulator<kVec>& max, const Accumulator<kVec>& other) const {
    for (int k = 0; k < kVec; ++k) combineOne(max, k, other.value[k], other.edge[kWithEdges ? k : 0]);
  }
  template <int kVec>
  __device__ void combineLanes(Accumulator<kVec>& max, unsigned mask, int offset) const {
    for (int k = 0; k < kVec; ++k) {
      const float value = __shfl_xor_sync(mask, max.value[k], offset);
      const int32_t edge = kWithEdges ? __shfl_xor_sync(mask, max.edge[k], offset) : 0;
      combineOne(max, k, value, edge);
    }
  }
  template <typename T, int kVec>
  __device__ void write(const Accumulator<kVec>& max, bool isEmpty, T* out, int64_t at) const {
    float values[kVec];
    for (int k = 0; k < kVec; ++k) values[k] = isEmpty ? empty : max.value[k];
    storeVectorOnce(out, values);
    if constexpr (kWithEdges) {
      int32_t edges[kVec];
      for (int k = 0; k < kVec; ++k) edges[k] = isEmpty ? -1 : max.edge[k];
      storeIndicesOnce(indices + at, edges);
    }
  }
  template <int kVec>
  __device__ void writePartial(const Accumulator<kVec>& max, float* values, int32_t* edges,
                               int64_t at) const {
    for (int k = 0; k < kVec; ++k) values[at + k] = max.value[k];
    if constexpr (kWithEdges) {
      for (int k = 0; k < kVec; ++k) edges[at + k] = max.edge[k];
    }
  }
  __device__ void addPartial(Accumulator<1>& max, const float* values, const int32_t* edges,
                             int64_t at) const {
    combineOne(max, 0, values[at], kWithEdges ? edges[at] : 0);
  }
};

}  // namespace

cudaError_t launchCsrMax(DType dtype, const int32_t* colIdx, const void* x, float empty, void* out,
                         int32_t* indices, int64_t numSrc, int64_t features, const Schedule& schedule,
                         void* workspace, const LaunchTarget& target) {
  auto* values = static_cast<float*>(workspace);
  void* edges = values + schedule.numPieces * features;
  return dispatchFloat(dtype, [&](auto element) {
    using T = decltype(element);
    const ReduceArguments<T> arguments{
        static_cast<const T*>(x),        static_cast<T*>(out), values, static_cast<int32_t*>(edges),
        static_cast<uint32_t>(features), Items{schedule}};
    return indices == nullptr ? launchReduce(arguments, numSrc, Max<false>{colIdx, empty, nullptr}, target)
                              : launchReduce(arguments, numSrc, Max<true>{colIdx, empty, indices}, target);
  });
}

}  // namespace warpgraph
