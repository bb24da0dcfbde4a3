#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/dtype.h"
#include "cuda/launch_target.h"
#include "cuda/schedule.h"

namespace warpgraph {

// An edge, read at once.
struct alignas(8) WeightedEdge {
  int32_t source;
  float weight;
};

// edges[e] = (colIdx[e], 1/√(dstDegrees[i]·srcDegrees[colIdx[e]])) for the edges e of each row i; a degree of
// 0 is a factor of 0, a negative one NaN. colIdx and edges (E), dstDegrees (N), srcDegrees (S).
cudaError_t launchGcnWeights(const int32_t* colIdx, const float* dstDegrees, const float* srcDegrees,
                             WeightedEdge* edges, const Schedule& schedule, const LaunchTarget& target);

// out[i] = Σ weight·x[source] over row i's edges. x (numSrc, features) and out (N, features) in dtype;
// features < 2^30. workspace holds (numPieces, features) float32.
cudaError_t launchGcnAggregate(DType dtype, const WeightedEdge* edges, const void* x, void* out,
                               int64_t numSrc, int64_t features, const Schedule& schedule, void* workspace,
                               const LaunchTarget& target);

}  // namespace warpgraph
