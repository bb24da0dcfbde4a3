// The numbers that the functions of multi-head latent attention take, in one array.
#pragma once

#include "binding/arguments.h"
#include "cuda/mla_attention.h"

namespace warpgraph {

// Places in the array of what the functions have in common. A function's own follow from kMlaOwn on.
enum MlaPlace : size_t {
  kMlaDType,
  kMlaOut,
  kMlaLse,
  kMlaLatent,
  kMlaRope,
  kMlaLengths,
  kMlaBlockTable,
  kMlaNumKeys,
  kMlaPageSize,
  kMlaNumPages,
  kMlaPagesPerSequence,
  kMlaBatch,
  kMlaNumQueries,
  kMlaHeads,
  kMlaRank,
  kMlaRopeDim,
  kMlaScale,
  kMlaCausal,
  kMlaQueryOffset,
  kMlaTf32,
  kMlaNumSplits,
  kMlaOwn,
};

// Sizes, without headDim and valueDim, and settings. numSplits goes into the plan.
MlaSizes mlaSizes(const Arguments& arguments, MlaPlan* plan);

// Keys in `dtype` for sizes.batch sequences of sizes.rank and sizes.ropeDim.
MlaKeys mlaKeys(Arguments& arguments, DType dtype, const MlaSizes& sizes);

// lse (batch, heads, numQueries), or null.
float* mlaLse(Arguments& arguments, const MlaSizes& sizes);

}  // namespace warpgraph
