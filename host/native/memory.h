/* Memory infos and devices, and the CPU allocator. */
#ifndef EPHOST_NATIVE_MEMORY_H_
#define EPHOST_NATIVE_MEMORY_H_

#include "abi.h"

struct OrtMemoryDevice {
  OrtMemoryInfoDeviceType device_type;
  OrtDeviceMemoryType memory_type;
  uint32_t vendor_id;
  int32_t device_id;
  size_t alignment;
};

struct OrtMemoryInfo {
  char* name;
  OrtAllocatorType allocator_type;
  OrtMemType mem_type;
  OrtMemoryDevice device;
};

extern const OrtMemoryInfo ephost_cpu_memory_info; /* name "Cpu", the default CPU memory; never released */
OrtMemoryInfo* memory_info_copy(const OrtMemoryInfo* source); /* NULL without memory */
void memory_info_free(OrtMemoryInfo* info);                   /* NULL is fine, and so is the CPU's */
bool memory_device_equal(const OrtMemoryDevice* a, const OrtMemoryDevice* b);
bool memory_info_equal(const OrtMemoryInfo* a, const OrtMemoryInfo* b);
static inline bool memory_info_is_cpu(const OrtMemoryInfo* info) {
  return info->device.device_type == OrtMemoryInfoDeviceType_CPU ||
         info->device.memory_type == OrtDeviceMemoryType_HOST_ACCESSIBLE;
}

/* The process-wide CPU allocator: 64-byte aligned, with a per-size cache of freed blocks (bounded by a limit
 * that ephost_set_cpu_cache_limit sets), counting what it holds for GetStats. Thread-safe. */
OrtAllocator* ephost_cpu_allocator(void);
void ephost_set_cpu_cache_limit(size_t bytes);
void* cpu_alloc(size_t nbytes); /* NULL without memory; nbytes 0 gives a unique non-NULL pointer */
void cpu_free(void* block);
void ephost_trim_cpu_cache(void); /* give cached blocks back to the system */

#endif
