// GCN propagation: out[i, f] = Σ x[src, f] / √(deg[i]·deg[src]) over the edges into i, in float32.
//
// The factors depend on graph and degrees alone, so they are computed once per edge and kept with the graph;
// the sum is then the weighted reduction over neighbours of csr_reduce.cuh, whose head tells what makes it
// fast. Reading a weight costs 4 bytes in a stream, where gathering srcDegrees[src] would cost a 32-byte
// sector per edge. It lies beside the edge's source: a row's edges begin and end amid sectors once, not in
// two arrays.
#include "cuda/csr_reduce_launch.cuh"
#include "cuda/empty.h"
#include "cuda/gcn_aggregate.h"

namespace warpgraph {
namespace {

struct WeightedSum {
  static constexpr bool kWeighted = true;
  static constexpr float kNeutral = 0.0f;
  const WeightedEdge* edges;

  template <int kVec>
  struct Accumulator {
    float value[kVec];
  };

  using Edge = WeightedEdge;

  // Where there is no edge, −0·0 = −0 is added, which changes no sum, −0 neither.
  __device__ Edge load(uint32_t edge, bool exists) const {
    if (!exists) return {-1, -0.0f};
    const int2 read = __ldcs(reinterpret_cast<const int2*>(edges) + edge);
    return {read.x, __int_as_float(read.y)};
  }
  __device__ float weight(const Edge& edge) const { return edge.weight; }

  template <int kVec>
  __device__ void start(Accumulator<kVec>& sum, int) const {
    startEmpty(sum);
  }
  template <int kVec>
  __device__ void startEmpty(Accumulator<kVec>& sum) const {
    for (float& value : sum.value) value = 0.0f;
  }
  template <typename T, int kVec>
  __device__ void add(Accumulator<kVec>& sum, const Vector<T, kVec>& row, float weight, int) const {
    float values[kVec];
    widen(row, values);
    for (int k = 0; k < kVec; ++k) sum.value[k] = fmaf(weight, values[k], sum.value[k]);
  }
  template <int kVec>
  __device__ void combine(Accumulator<kVec>& sum, const Accumulator<kVec>& other) const {
    for (int k = 0; k < kVec; ++k) sum.value[k] += other.value[k];
  }
  template <int kVec>
  __device__ void combineLanes(Accumulator<kVec>& sum, unsigned mask, int offset) const {
    for (float& value : sum.value) value += __shfl_xor_sync(mask, value, offset);
  }
  template <typename T, int kVec>
  __device__ void settle(Accumulator<kVec>&, const Item&, const T*, uint32_t) const {}
  template <typename T, int kVec>
  __device__ void write(const Accumulator<kVec>& sum, bool, T* out, int64_t) const {
    storeVectorOnce(out, sum.value);
  }
  template <int kVec>
  __device__ void writePartial(const Accumulator<kVec>& sum, float* values, int32_t*, int64_t at) const {
    for (int k = 0; k < kVec; ++k) values[at + k] = sum.value[k];
  }
  __device__ void addPartial(Accumulator<1>& sum, const float* values, const int32_t*, int64_t at) const {
    sum.value[0] += values[at];
  }
};

// 1/√degree; a degree of 0 is a factor of 0, a negative one NaN. In double precision, since it is computed
// once and a product of two must not overflow before it is rounded.
__device__ double inverseRoot(double degree) {
  return degree == 0.0 ? 0.0 : 1.0 / sqrt(degree);
}

// 8 lanes per item, sharing its edges.
constexpr int kWeightLanes = 8;

__global__ void __launch_bounds__(kReduceThreads)
    gcnWeightsKernel(const int32_t* __restrict__ colIdx, const float* __restrict__ dstDegrees,
                     const float* __restrict__ srcDegrees, WeightedEdge* __restrict__ edges, Items items) {
  waitForInputs();
  const int64_t index = (int64_t{blockIdx.x} * kReduceThreads + threadIdx.x) / kWeightLanes;
  if (index >= items.numItems) return;
  const Item item = items.items[index];
  const double dstFactor = inverseRoot(dstDegrees[item.row]);
  for (int64_t e = int64_t{item.begin} + threadIdx.x % kWeightLanes; e < item.end; e += kWeightLanes) {
    const int32_t source = colIdx[e];
    edges[e] = {source, static_cast<float>(dstFactor * inverseRoot(srcDegrees[source]))};
  }
}

}  // namespace

cudaError_t launchGcnWeights(const int32_t* colIdx, const float* dstDegrees, const float* srcDegrees,
                             WeightedEdge* edges, const Schedule& schedule, const LaunchTarget& target) {
  if (schedule.numItems == 0) return cudaSuccess;
  constexpr int kWorkers = kReduceThreads / kWeightLanes;
  const auto blocks = static_cast<unsigned>((schedule.numItems + kWorkers - 1) / kWorkers);
  const cudaError_t error = launchKernel(gcnWeightsKernel, blocks, kReduceThreads, target, colIdx, dstDegrees,
                                         srcDegrees, edges, Items{schedule});
  if (error != cudaSuccess) return error;
  // Edges are read like a graph's structure, before waiting for the kernels before (launch.cuh): after a
  // kernel that is launched the plain way, they are there.
  return launchEmpty(target.stream);
}

cudaError_t launchGcnAggregate(DType dtype, const WeightedEdge* edges, const void* x, void* out,
                               int64_t numSrc, int64_t features, const Schedule& schedule, void* workspace,
                               const LaunchTarget& target) {
  return dispatchFloat(dtype, [&](auto element) {
    using T = decltype(element);
    const ReduceArguments<T> arguments{static_cast<const T*>(x),        static_cast<T*>(out),
                                       static_cast<float*>(workspace),  nullptr,
                                       static_cast<uint32_t>(features), Items{schedule}};
    return launchReduce(arguments, numSrc, WeightedSum{edges}, target);
  });
}

}  // namespace warpgraph
