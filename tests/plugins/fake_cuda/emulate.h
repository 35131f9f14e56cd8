/* Runs CUDA kernels on a CPU, from their source: kernels/kernel.h includes this where EPHOST_EMULATE is
 * defined.
 *
 * A launch runs its blocks one after the other on one thread of the CPU. The threads of a block run one after
 * the other too (KERNEL), or as fibers that switch at each barrier and shuffle (COOPERATIVE_KERNEL). What
 * this shows is that a kernel's indexing and arithmetic are right; of races between warps, speed and rounding
 * of the GPU's own functions it shows nothing. */
#ifndef EPHOST_TESTS_EMULATE_H_
#define EPHOST_TESTS_EMULATE_H_

#include <vector_types.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

namespace emulate {

struct Place {
  uint3 thread, block;
  dim3 threads, blocks;
};
extern Place place;

/* Waits for all threads of the block, or of the warp; errors when the kernel is not cooperative. */
void block_barrier();
void warp_barrier();
/* Hands `size` bytes to the other lanes and takes what the lane numbered `lane` handed over. */
void exchange(void* value, size_t size, unsigned lane);

struct Entry {
  const char* name;
  bool cooperative;
  /* Copies the arguments of a launch; calling the result runs one thread. */
  std::function<std::function<void()>(void** arguments)> bind;
};
void add(Entry entry);
const Entry* find(const char* name);
void launch(const Entry& entry, const std::function<void()>& thread, dim3 blocks, dim3 threads);

template <typename... Parameters, size_t... Index>
std::function<void()> bind_to(void (*kernel)(Parameters...), void** arguments,
                              std::index_sequence<Index...>) {
  std::tuple<std::decay_t<Parameters>...> values(
      *static_cast<std::decay_t<Parameters>*>(arguments[Index])...);
  return [kernel, values] { std::apply(kernel, values); };
}

template <typename... Parameters>
bool add_kernel(const char* name, bool cooperative, void (*kernel)(Parameters...)) {
  add({name, cooperative, [kernel](void** arguments) {
         return bind_to(kernel, arguments, std::index_sequence_for<Parameters...>());
       }});
  return true;
}

template <typename T>
T shuffle(T value, unsigned lane) {
  exchange(&value, sizeof value, lane);
  return value;
}

inline unsigned lane() {
  return (place.thread.x + place.threads.x * (place.thread.y + place.threads.y * place.thread.z)) % 32;
}

}  // namespace emulate

#define threadIdx (emulate::place.thread)
#define blockIdx (emulate::place.block)
#define blockDim (emulate::place.threads)
#define gridDim (emulate::place.blocks)

#define EMULATED(name, cooperative, ...)                                                               \
  static void name(__VA_ARGS__);                                                                       \
  [[maybe_unused]] static const bool name##_is_known = emulate::add_kernel(#name, cooperative, &name); \
  static void name(__VA_ARGS__)
#define KERNEL(name, ...) EMULATED(name, false, __VA_ARGS__)
#define COOPERATIVE_KERNEL(name, threads, ...) EMULATED(name, true, __VA_ARGS__)
#define SHARED static
#define DEVICE inline
#define CONSTANT const

#define __syncthreads() emulate::block_barrier()
#define __syncwarp() emulate::warp_barrier()
#define __shfl_xor_sync(mask, value, by) emulate::shuffle(value, emulate::lane() ^ (by))
#define __shfl_sync(mask, value, from) emulate::shuffle(value, from)
#define __ldg(address) (*(address))

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }

#endif
