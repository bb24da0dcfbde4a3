// Threads of a block write shared memory, others read it, and they hand it to and fro, in four ways. None has
// a race. Racecheck of CUDA 13.0 finds
//   none in byMbarrier, where every thread arrives;
//   7,440 in byElectedLanes, where one lane arrives for its warp, behind __syncwarp();
//   3,584 in byNamedBarrier, though that is the example of producers and consumers in the PTX manual's section
//     on bar: it does not take a read before bar.arrive for done when the other side's bar.sync returns;
//   none or some hundreds in byGroups, run by run: it loses count where groups of warps have named barriers of
//     their own besides one that they share, though all who come to a barrier wait there.
// Built with WARPGRAPH_RACECHECK, the decode kernels have the first in place of the others. It sees what a
// cp.async.bulk writes to shared memory, but not what wgmma reads there.
//
//   nvcc -std=c++17 -arch=sm_90a bench/racecheck_barriers.cu -o /tmp/handover
//   compute-sanitizer --tool racecheck /tmp/handover
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

constexpr int kHalf = 128, kRounds = 8;

__device__ uint32_t sharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
__device__ void init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(sharedAddress(barrier)), "r"(arrivals));
}
__device__ void arrive(uint64_t* barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(sharedAddress(barrier))
               : "memory");
}
__device__ void wait(uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra again; }" ::"r"(sharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

__global__ void byMbarrier(float* out) {
  __shared__ float tile[kHalf];
  __shared__ uint64_t full, empty;
  const int thread = threadIdx.x;
  if (thread == 0) {
    init(&full, kHalf);
    init(&empty, kHalf);
  }
  __syncthreads();
  float sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (thread < kHalf) {
      wait(&empty, round % 2 ^ 1);
      tile[thread] = static_cast<float>(round + thread);
      arrive(&full);
    } else {
      wait(&full, round % 2);
      sum += tile[thread * 7 % kHalf];
      arrive(&empty);
    }
  }
  out[thread] = sum;
}

// One lane arrives for its warp, once all lanes have come.
__device__ void arriveAsWarp(uint64_t* barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(barrier);
}

__global__ void byElectedLanes(float* out) {
  __shared__ float tile[kHalf];
  __shared__ uint64_t full, empty;
  const int thread = threadIdx.x;
  if (thread == 0) {
    init(&full, kHalf / 32);
    init(&empty, kHalf / 32);
  }
  __syncthreads();
  float sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (thread < kHalf) {
      wait(&empty, round % 2 ^ 1);
      tile[thread] = static_cast<float>(round + thread);
      arriveAsWarp(&full);
    } else {
      wait(&full, round % 2);
      sum += tile[thread * 7 % kHalf];
      arriveAsWarp(&empty);
    }
  }
  out[thread] = sum;
}

__global__ void byNamedBarrier(float* out) {
  __shared__ float tile[kHalf];
  const int thread = threadIdx.x;
  float sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (thread < kHalf) {
      tile[thread] = static_cast<float>(round + thread);
      asm volatile("bar.arrive 1, 256;" ::: "memory");
      asm volatile("bar.sync 2, 256;" ::: "memory");
    } else {
      asm volatile("bar.sync 1, 256;" ::: "memory");
      sum += tile[thread * 7 % kHalf];
      asm volatile("bar.arrive 2, 256;" ::: "memory");
    }
  }
  out[thread] = sum;
}

__device__ void meet(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Each half exchanges sums within itself, one half more often than the other, and then they exchange theirs.
__global__ void byGroups(float* out) {
  __shared__ float own[2][kHalf], both[2][kHalf];
  const int half = threadIdx.x / kHalf, thread = threadIdx.x % kHalf;
  float sum = static_cast<float>(threadIdx.x);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 2 + half; ++i) {
      own[half][thread] = sum;
      meet(1 + half, kHalf);
      sum += own[half][thread ^ 37];
      meet(1 + half, kHalf);
    }
    both[half][thread] = sum;
    meet(3, 2 * kHalf);
    sum += both[1 - half][thread];
    meet(3, 2 * kHalf);
  }
  out[threadIdx.x] = sum;
}

int main() {
  float* out;
  cudaMalloc(&out, 2 * kHalf * sizeof(float));
  byMbarrier<<<1, 2 * kHalf>>>(out);
  byElectedLanes<<<1, 2 * kHalf>>>(out);
  byNamedBarrier<<<1, 2 * kHalf>>>(out);
  byGroups<<<1, 2 * kHalf>>>(out);
  std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
