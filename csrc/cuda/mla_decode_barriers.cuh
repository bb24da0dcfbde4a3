// How the warps of Hopper's decode kernels wait for each other: groups of them at named barriers, and at
// barriers in shared memory where one lane arrives for its warp.
//
// Racecheck follows neither, see bench/racecheck_barriers.cu. Compiled with WARPGRAPH_RACECHECK, all threads
// arrive, at barriers in shared memory, in the same places, so that the tool sees who hands what to whom.
// Decoding takes longer then.
#pragma once

#include "cuda/hopper.cuh"
#include "cuda/mla_decode_share.cuh"

namespace warpgraph {
namespace decode {

#ifndef WARPGRAPH_RACECHECK

constexpr unsigned kArrivalsOfWarp = 1;
constexpr size_t kBytesOfGroups = 0;

// Says how many threads come to a group's barrier; one thread, before a barrier of the block.
__device__ inline void groupInit(int, int) {}
__device__ inline void groupArrive(int id, int threads) {
  namedBarrierArrive(id, threads);
}
__device__ inline void groupSync(int id, int threads) {
  namedBarrierSync(id, threads);
}
// Whether the predicate holds in any of the group's threads.
__device__ inline bool groupOr(int id, int threads, bool predicate) {
  return namedBarrierOr(id, threads, predicate);
}
// One lane arrives for its warp; the caller has seen to it that all lanes are done.
__device__ inline void warpArrive(uint64_t* barrier, int lane) {
  if (lane == 0) barrierArrive(barrier);
}
// The same at the barriers at(0) to at(kCount - 1).
template <int kCount, typename BarrierAt>
__device__ inline void warpArriveEach(const BarrierAt& at, int lane) {
  if (lane < kCount) barrierArrive(at(lane));
}

#else

constexpr unsigned kArrivalsOfWarp = kWarpSize;
constexpr size_t kBytesOfGroups = 8 * sizeof(uint64_t);  // ids 0 to 7, at the end of the shared memory

__device__ inline uint64_t* groupBarrier(int id) {
  extern __shared__ __align__(1024) char dynamicShared[];
  return reinterpret_cast<uint64_t*>(dynamicShared + kMostShared - kBytesOfGroups) + id;
}
__device__ inline void groupInit(int id, int threads) {
  barrierInit(groupBarrier(id), static_cast<unsigned>(threads));
}
__device__ inline void groupArrive(int id, int) {
  barrierArrive(groupBarrier(id));
}
__device__ inline void groupSync(int id, int) {
  asm volatile(
      "{\n.reg .pred done;\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\nagain:\n"
      "mbarrier.try_wait.shared::cta.b64 done, [%0], state;\n@!done bra again;\n}\n" ::"r"(
          sharedAddress(groupBarrier(id)))
      : "memory");
}
// Only a named barrier collects a predicate; those around it are there to be followed.
__device__ inline bool groupOr(int id, int threads, bool predicate) {
  groupSync(id, threads);
  const bool any = namedBarrierOr(id, threads, predicate);
  groupSync(id, threads);
  return any;
}
__device__ inline void warpArrive(uint64_t* barrier, int) {
  barrierArrive(barrier);
}
template <int kCount, typename BarrierAt>
__device__ inline void warpArriveEach(const BarrierAt& at, int) {
  for (int i = 0; i < kCount; ++i) barrierArrive(at(i));
}

#endif

// The dynamic shared memory with which to launch a block that needs `bytes` of it.
constexpr size_t launchedSharedBytes(size_t bytes) {
  return kBytesOfGroups == 0 ? bytes : kMostShared;
}

// A barrier at which warps arrive.
__device__ inline void warpsInit(uint64_t* barrier, unsigned warps) {
  barrierInit(barrier, warps * kArrivalsOfWarp);
}

}  // namespace decode
}  // namespace warpgraph
