// Hopper's own instructions (compute capability 9.0, built as sm_90a) but for the matrix product, which
// wgmma.cuh has: barriers in shared memory, bulk tensor copies, matrix stores and the registers of a
// warpgroup. PTX ISA 9.0, sections on mbarrier, bar, cp.async.bulk.tensor, stmatrix and setmaxnreg.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/mma.cuh"

namespace warpgraph {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define WARPGRAPH_HOPPER 1
#endif

// ---- barriers in shared memory ----

__device__ inline void barrierInit(uint64_t* barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(barrier)), "r"(arrivals));
}
// Makes initialised barriers visible to the copy engine; a block barrier has to follow.
__device__ inline void barrierInitFence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void barrierExpect(uint64_t* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}
__device__ inline void barrierArrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sharedAddress(barrier)) : "memory");
}
// Waits until the phase with this parity (0 first, then 1, 0, …) is complete.
__device__ inline void barrierWait(uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}\n" ::"r"(
          sharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

// A barrier of some of the block's threads, whole warps; ids 1 to 15 (0 is __syncthreads). Who only arrives
// does not wait.
__device__ inline void namedBarrierSync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void namedBarrierArrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// Whether the predicate holds in any of the threads.
__device__ inline bool namedBarrierOr(int id, int threads, bool predicate) {
  int any;
  asm volatile(
      "{\n.reg .pred p, q;\nsetp.ne.b32 p, %3, 0;\nbar.red.or.pred q, %1, %2, p;\nselp.b32 %0, 1, 0, q;\n}\n"
      : "=r"(any)
      : "r"(id), "r"(threads), "r"(static_cast<int>(predicate))
      : "memory");
  return any != 0;
}

// ---- clusters: blocks that run at once and reach each other's shared memory ----

__device__ inline unsigned clusterRank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// __syncthreads() of all the cluster's blocks, after barrierInitFence(): a release by this one would wait for
// what was written to global memory.
__device__ inline void clusterSync() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// What lies at this place in the shared memory of the cluster's block `rank`.
__device__ inline unsigned peerAddress(const void* shared, unsigned rank) {
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(sharedAddress(shared)), "r"(rank));
  return address;
}
// Stores there, and tells the peer's barrier, which expects the bytes.
__device__ inline void storePeer(unsigned address, float value, unsigned barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(address),
      "r"(__float_as_uint(value)), "r"(barrier)
      : "memory");
}
// The same of multiples of 16 bytes from this block's shared memory.
__device__ inline void copyToPeer(unsigned address, const void* shared, unsigned bytes, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          address),
      "r"(sharedAddress(shared)), "r"(bytes), "r"(barrier)
      : "memory");
}
// barrierWait() where peers store.
__device__ inline void barrierWaitPeer(uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}\n" ::
          "r"(sharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

// ---- bulk tensor copies, global to shared memory ----

__device__ inline void copyTile(void* shared, const CUtensorMap* map, uint64_t* barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
      "[%2];" ::"r"(sharedAddress(shared)),
      "l"(map), "r"(sharedAddress(barrier)), "r"(x), "r"(y)
      : "memory");
}
__device__ inline void copyTile(void* shared, const CUtensorMap* map, uint64_t* barrier, int x, int y,
                                int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(sharedAddress(shared)),
      "l"(map), "r"(sharedAddress(barrier)), "r"(x), "r"(y), "r"(z)
      : "memory");
}
__device__ inline void copyTile(void* shared, const CUtensorMap* map, uint64_t* barrier, int x, int y, int z,
                                int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(sharedAddress(shared)),
      "l"(map), "r"(sharedAddress(barrier)), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}
// From shared to global memory; what a tile covers beyond the tensor is not written. The thread that copies
// also commits and waits.
__device__ inline void storeTile(const CUtensorMap* map, const void* shared, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(sharedAddress(shared)), "r"(x), "r"(y), "r"(z)
               : "memory");
}
__device__ inline void storeCommit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until shared memory was read; the writes may still be under way.
__device__ inline void storeWaitRead() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// What it brings into L2 is the first to go.
__device__ inline void copyTileEvictFirst(void* shared, const CUtensorMap* map, uint64_t* barrier, int x,
                                          int y, int z) {
  asm volatile(
      "{\n.reg .b64 policy;\ncreatepolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5}], [%2], policy;\n}\n" ::"r"(sharedAddress(shared)),
      "l"(map), "r"(sharedAddress(barrier)), "r"(x), "r"(y), "r"(z)
      : "memory");
}
__device__ inline void prefetchMap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// Before the copy engine or the tensor cores read what this thread stored into shared memory.
__device__ inline void proxyFence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#if WARPGRAPH_HOPPER

// ---- matrix stores ----

// Stores four 8×8 matrices of 16-bit elements; lane i gives the address of row i % 8 of matrix i / 8, and
// holds of row i / 4 of each matrix the columns 2·(i % 4) and the next. Transposed: of column i / 4, the
// rows.
__device__ inline void storeMatrices(void* shared, const uint32_t (&r)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(sharedAddress(shared)),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
}
__device__ inline void storeMatricesTransposed(void* shared, const uint32_t (&r)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(sharedAddress(shared)),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
}

// ---- registers of a warpgroup ----

template <int kRegisters>
__device__ inline void takeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void giveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

#endif  // WARPGRAPH_HOPPER

}  // namespace warpgraph
