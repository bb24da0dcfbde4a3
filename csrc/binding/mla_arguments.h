// The arguments that the functions of multi-head latent attention have in common; typings/addon.d.ts names
// them.
#pragma once

#include "binding/arguments.h"
#include "cuda/mla_attention.h"

namespace warpgraph {

// Where they are: a function's own inputs come first, then keys, out, lse, dtype, sizes and settings.
struct MlaPlaces {
  size_t keys;            // eight of them
  bool hasProjections;    // whether there are headDim and valueDim among the sizes
  size_t out = keys + 8;  // lse is next
  size_t dtype = keys + 10;
  size_t sizes = keys + 11;
  size_t settings = sizes + (hasProjections ? 7 : 5);
  size_t end = settings + 5;

  constexpr MlaPlaces(size_t inputs, bool projections) : keys(inputs), hasProjections(projections) {}
};

// Sizes and settings. numSplits goes into the plan.
MlaSizes mlaSizes(const Arguments& arguments, const MlaPlaces& places, MlaPlan* plan);

// Keys in `dtype` for sizes.batch sequences of sizes.rank and sizes.ropeDim.
MlaKeys mlaKeys(Arguments& arguments, const MlaPlaces& places, DType dtype, const MlaSizes& sizes);

// lse (batch, heads, numQueries), or null.
float* mlaLse(Arguments& arguments, const MlaPlaces& places, const MlaSizes& sizes);

}  // namespace warpgraph
