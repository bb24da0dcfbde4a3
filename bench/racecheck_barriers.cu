// Half of a block's threads write shared memory, the other half reads it, and they hand it to and fro.
// Neither way has a race. Racecheck of CUDA 13.0 finds none in byMbarrier, where every thread arrives, and
// 3,584 in byNamedBarrier, though that is the example of producers and consumers in the PTX manual's section
// on bar: it does not take a read before bar.arrive for done when the other side's bar.sync returns.
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

int main() {
  float* out;
  cudaMalloc(&out, 2 * kHalf * sizeof(float));
  byMbarrier<<<1, 2 * kHalf>>>(out);
  byNamedBarrier<<<1, 2 * kHalf>>>(out);
  std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
