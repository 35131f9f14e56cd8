/* Memory infos, memory devices, the process-wide CPU allocator, and the allocator slots. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "abi.h"
#include "exceptions.h"
#include "forks.h"
#include "heap.h"
#include "key_values.h"
#include "lock.h"
#include "logger.h"
#include "memory.h"
#include "python.h"
#include "status.h"
#include "value.h"

/* ---- memory infos and devices -------------------------------------------------------------------------- */

static char cpu_name[] = "Cpu";
const OrtMemoryInfo ephost_cpu_memory_info = {
    .name = cpu_name,
    .allocator_type = OrtDeviceAllocator,
    .mem_type = OrtMemTypeDefault,
    .device = {.device_type = OrtMemoryInfoDeviceType_CPU, .memory_type = OrtDeviceMemoryType_DEFAULT},
};

static OrtMemoryInfo* memory_info_new(const char* name, OrtAllocatorType allocator_type, OrtMemType mem_type,
                                      const OrtMemoryDevice* device) {
  OrtMemoryInfo* info = host_malloc(sizeof(*info));
  char* name_copy = host_strdup(name);
  if (info == NULL || name_copy == NULL) {
    host_free(info);
    host_free(name_copy);
    return NULL;
  }
  *info = (OrtMemoryInfo){name_copy, allocator_type, mem_type, *device};
  handle_count(HANDLE_MEMORY_INFO, +1);
  return info;
}

OrtMemoryInfo* memory_info_copy(const OrtMemoryInfo* source) {
  return memory_info_new(source->name, source->allocator_type, source->mem_type, &source->device);
}

OrtMemoryInfo* ephost_memory_info_copy(const OrtMemoryInfo* info) { return memory_info_copy(info); }

void memory_info_free(OrtMemoryInfo* info) {
  if (info == NULL || info == &ephost_cpu_memory_info) return;
  handle_count(HANDLE_MEMORY_INFO, -1);
  host_free(info->name);
  host_free(info);
}

bool memory_device_equal(const OrtMemoryDevice* a, const OrtMemoryDevice* b) {
  return a->device_type == b->device_type && a->memory_type == b->memory_type &&
         a->vendor_id == b->vendor_id && a->device_id == b->device_id && a->alignment == b->alignment;
}

bool memory_info_equal(const OrtMemoryInfo* a, const OrtMemoryInfo* b) {
  return a == b || (a->mem_type == b->mem_type && a->allocator_type == b->allocator_type &&
                    memory_device_equal(&a->device, &b->device) && strcmp(a->name, b->name) == 0);
}

enum {
  VENDOR_AMD = 0x1002,
  VENDOR_NVIDIA = 0x10de,
  VENDOR_MICROSOFT = 0x1414,
  VENDOR_QUALCOMM = 0x5143,
  VENDOR_INTEL = 0x8086
};

/* What CreateMemoryInfo, which knows nothing but a name, takes each name of onnxruntime's own providers to
 * mean. */
static const struct {
  const char* name;
  const char* reported; /* what MemoryInfoGetName says */
  OrtMemoryInfoDeviceType device_type;
  OrtDeviceMemoryType memory_type;
  uint32_t vendor_id;
  bool one_device; /* every id means device 0 */
} named_memory[] = {
    {"Cpu", "Cpu", OrtMemoryInfoDeviceType_CPU, OrtDeviceMemoryType_DEFAULT, 0, true},
    {"Cuda", "Cuda", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, VENDOR_NVIDIA, false},
    {"CudaPinned", "CudaPinned", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_HOST_ACCESSIBLE,
     VENDOR_NVIDIA, false},
    {"Hip", "Hip", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, VENDOR_AMD, false},
    {"HipPinned", "HipPinned", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_HOST_ACCESSIBLE, VENDOR_AMD,
     false},
    {"DML", "DML", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, VENDOR_MICROSOFT, false},
    {"OpenVINO_GPU", "OpenVINO_GPU", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, VENDOR_INTEL,
     false},
    {"OpenVINO_RT_NPU", "OpenVINO_RT_NPU", OrtMemoryInfoDeviceType_NPU, OrtDeviceMemoryType_DEFAULT,
     VENDOR_INTEL, false},
    {"QnnHtpShared", "QnnHtpShared", OrtMemoryInfoDeviceType_CPU, OrtDeviceMemoryType_HOST_ACCESSIBLE,
     VENDOR_QUALCOMM, false},
    {"WebGPU_Buffer", "WebGPU_Buf", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0, false},
    {"WebGPU_Buf", "WebGPU_Buf", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0, false},
    {"WebNN_Tensor", "WebNN_Ten", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0, false},
    {"WebNN_Ten", "WebNN_Ten", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0, false},
};

OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateMemoryInfo)(const char* name, enum OrtAllocatorType type, int id,
                                                       enum OrtMemType mem_type, OrtMemoryInfo** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(name != NULL);
  for (size_t i = 0; i < sizeof(named_memory) / sizeof(named_memory[0]); i++) {
    if (strcmp(name, named_memory[i].name) != 0) continue;
    OrtMemoryDevice device = {named_memory[i].device_type, named_memory[i].memory_type,
                              named_memory[i].vendor_id, named_memory[i].one_device ? 0 : id, 0};
    *out = memory_info_new(named_memory[i].reported, type, mem_type, &device);
    return *out != NULL ? NULL : status_no_memory();
  }
  return status_new(ORT_INVALID_ARGUMENT,
                    "CreateMemoryInfo: \"%s\" is no name of a known device; CreateMemoryInfo_V2 takes any",
                    name);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi,
                             CreateMemoryInfo_V2)(const char* name, enum OrtMemoryInfoDeviceType device_type,
                                                  uint32_t vendor_id, int32_t device_id,
                                                  enum OrtDeviceMemoryType mem_type, size_t alignment,
                                                  enum OrtAllocatorType allocator_type, OrtMemoryInfo** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(name != NULL);
  REQUIRE_ARG((int)device_type >= OrtMemoryInfoDeviceType_CPU && device_type <= OrtMemoryInfoDeviceType_NPU);
  REQUIRE_ARG(mem_type == OrtDeviceMemoryType_DEFAULT || mem_type == OrtDeviceMemoryType_HOST_ACCESSIBLE);
  OrtMemoryDevice device = {device_type, mem_type, vendor_id, device_id, alignment};
  /* Host-accessible memory of a device is where its kernels leave outputs for the CPU. */
  OrtMemType kind = mem_type == OrtDeviceMemoryType_HOST_ACCESSIBLE ? OrtMemTypeCPUOutput : OrtMemTypeDefault;
  *out = memory_info_new(name, allocator_type, kind, &device);
  return *out != NULL ? NULL : status_no_memory();
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateCpuMemoryInfo)(enum OrtAllocatorType type,
                                                          enum OrtMemType mem_type, OrtMemoryInfo** out) {
  REQUIRE_ARG(out != NULL);
  *out = memory_info_new(cpu_name, type, mem_type, &ephost_cpu_memory_info.device);
  return *out != NULL ? NULL : status_no_memory();
}

/* 0 for equal, -1 for different. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, CompareMemoryInfo)(const OrtMemoryInfo* info1,
                                                        const OrtMemoryInfo* info2, int* out) {
  REQUIRE_ARG(out != NULL);
  *out = -1;
  REQUIRE_ARG(info1 != NULL && info2 != NULL);
  if (memory_info_equal(info1, info2)) *out = 0;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, MemoryInfoGetName)(const OrtMemoryInfo* ptr, const char** out) {
  REQUIRE_ARG(out != NULL);
  *out = "";
  REQUIRE_ARG(ptr != NULL);
  *out = ptr->name;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, MemoryInfoGetId)(const OrtMemoryInfo* ptr, int* out) {
  REQUIRE_ARG(out != NULL);
  *out = 0;
  REQUIRE_ARG(ptr != NULL);
  *out = ptr->device.device_id;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, MemoryInfoGetMemType)(const OrtMemoryInfo* ptr, OrtMemType* out) {
  REQUIRE_ARG(out != NULL);
  *out = OrtMemTypeDefault;
  REQUIRE_ARG(ptr != NULL);
  *out = ptr->mem_type;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, MemoryInfoGetType)(const OrtMemoryInfo* ptr, OrtAllocatorType* out) {
  REQUIRE_ARG(out != NULL);
  *out = OrtInvalidAllocator;
  REQUIRE_ARG(ptr != NULL);
  *out = ptr->allocator_type;
  return NULL;
}

void ORT_API_CALL SLOT(OrtApi, MemoryInfoGetDeviceType)(const OrtMemoryInfo* ptr,
                                                        OrtMemoryInfoDeviceType* out) {
  if (out != NULL) *out = ptr != NULL ? ptr->device.device_type : OrtMemoryInfoDeviceType_CPU;
}

OrtDeviceMemoryType ORT_API_CALL SLOT(OrtApi, MemoryInfoGetDeviceMemType)(const OrtMemoryInfo* ptr) {
  return ptr != NULL ? ptr->device.memory_type : OrtDeviceMemoryType_DEFAULT;
}

uint32_t ORT_API_CALL SLOT(OrtApi, MemoryInfoGetVendorId)(const OrtMemoryInfo* ptr) {
  return ptr != NULL ? ptr->device.vendor_id : 0;
}

void ORT_API_CALL SLOT(OrtApi, ReleaseMemoryInfo)(OrtMemoryInfo* input) { memory_info_free(input); }

const OrtMemoryDevice* ORT_API_CALL SLOT(OrtEpApi,
                                         MemoryInfo_GetMemoryDevice)(const OrtMemoryInfo* memory_info) {
  return memory_info != NULL ? &memory_info->device : NULL;
}

bool ORT_API_CALL SLOT(OrtEpApi, MemoryDevice_AreEqual)(const OrtMemoryDevice* a, const OrtMemoryDevice* b) {
  return a != NULL && b != NULL && (a == b || memory_device_equal(a, b));
}

OrtMemoryInfoDeviceType ORT_API_CALL SLOT(OrtEpApi,
                                          MemoryDevice_GetDeviceType)(const OrtMemoryDevice* memory_device) {
  return memory_device != NULL ? memory_device->device_type : OrtMemoryInfoDeviceType_CPU;
}

OrtDeviceMemoryType ORT_API_CALL SLOT(OrtEpApi,
                                      MemoryDevice_GetMemoryType)(const OrtMemoryDevice* memory_device) {
  return memory_device != NULL ? memory_device->memory_type : OrtDeviceMemoryType_DEFAULT;
}

uint32_t ORT_API_CALL SLOT(OrtEpApi, MemoryDevice_GetVendorId)(const OrtMemoryDevice* memory_device) {
  return memory_device != NULL ? memory_device->vendor_id : 0;
}

uint32_t ORT_API_CALL SLOT(OrtEpApi, MemoryDevice_GetDeviceId)(const OrtMemoryDevice* memory_device) {
  return memory_device != NULL ? (uint32_t)memory_device->device_id : 0;
}

/* ---- the CPU allocator --------------------------------------------------------------------------------- */

/* Blocks are 64-byte aligned, each behind a header of 64 bytes. Sizes are rounded up to a class, of which
 * there are eight between two powers of two (so at most an eighth is lost); a freed block waits in its
 * class's list for the next request. A list that another thread is at is passed over, so nobody ever waits.
 */
enum { ALIGNMENT = 64, CLASSES_PER_DOUBLING = 8, SMALLEST_SHIFT = 6, LARGEST_SHIFT = 46 };
enum { CLASS_COUNT = (LARGEST_SHIFT - SMALLEST_SHIFT) * CLASSES_PER_DOUBLING };

/* A marker in the header tells a live block from a freed one and from what never was a block of ours. */
#define BLOCK_LIVE UINT64_C(0x6c6976652d626c6b)
#define BLOCK_FREE UINT64_C(0x667265652d626c6b)

typedef struct BlockHeader {
  uint64_t marker;
  size_t class_index;
  size_t nbytes;              /* of the class: what the block can hold */
  void* system_block;         /* what malloc gave */
  struct BlockHeader* cached; /* the next in the class's list */
} BlockHeader;
_Static_assert(sizeof(BlockHeader) <= ALIGNMENT, "a header fits before the aligned block");

static struct SizeClass {
  SpinLock lock;
  BlockHeader* first;
} classes[CLASS_COUNT];

void memory_hold(bool hold) {
  for (size_t i = 0; i < CLASS_COUNT; i++) spin_hold(&classes[i].lock, hold);
}

static atomic_size_t cache_limit = (size_t)256 << 20;
static struct {
  atomic_size_t in_use; /* by callers, in bytes of their classes */
  atomic_size_t max_in_use;
  atomic_size_t cached;
  atomic_size_t max_alloc_size;
  atomic_size_t allocations;
  atomic_size_t cache_hits;
} counters;

/* Counters order nothing: a block is handed on under its class's lock, or by malloc. */
static void count(atomic_size_t* counter, size_t amount) {
  atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

static void raise_to(atomic_size_t* maximum, size_t value) {
  size_t seen = atomic_load_explicit(maximum, memory_order_relaxed);
  while (seen < value && !atomic_compare_exchange_weak_explicit(maximum, &seen, value, memory_order_relaxed,
                                                                memory_order_relaxed)) {
  }
}

/* The smallest class that holds nbytes and, in *rounded, what it holds; CLASS_COUNT when none does. */
static size_t size_class(size_t nbytes, size_t* rounded) {
  if (nbytes <= (size_t)1 << SMALLEST_SHIFT) {
    *rounded = (size_t)1 << SMALLEST_SHIFT;
    return 0;
  }
  if (nbytes > (size_t)1 << (LARGEST_SHIFT - 1)) return CLASS_COUNT;
  unsigned shift = SMALLEST_SHIFT; /* 1 << shift < nbytes <= 2 << shift */
  while ((nbytes - 1) >> (shift + 1) != 0) shift++;
  size_t step = ((size_t)1 << shift) / CLASSES_PER_DOUBLING;
  size_t steps = (nbytes - ((size_t)1 << shift) + step - 1) / step; /* 1 to 8 */
  *rounded = ((size_t)1 << shift) + steps * step;
  return (size_t)(shift - SMALLEST_SHIFT) * CLASSES_PER_DOUBLING + steps;
}

static BlockHeader* take_cached(size_t class_index) {
  struct SizeClass* class = &classes[class_index];
  if (!spin_try_lock(&class->lock)) return NULL;
  BlockHeader* header = class->first;
  if (header != NULL) class->first = header->cached;
  spin_unlock(&class->lock);
  return header;
}

/* A large block that nobody has used before costs a fault for each of its pages: large ones are few. */
static void ask_for_large_pages(char* memory, size_t nbytes) {
#ifdef MADV_HUGEPAGE
  enum { PAGE = 1 << 16, WORTH_IT = 8 << 20 }; /* Pages may be as large as that anyway. */
  if (nbytes < WORTH_IT) return;
  size_t before = (size_t)(-(uintptr_t)memory & (uintptr_t)(PAGE - 1));
  size_t whole = (nbytes - before) & ~(size_t)(PAGE - 1);
  (void)madvise(memory + before, whole, MADV_HUGEPAGE); /* It is advice: without it all works as well. */
#else
  (void)memory;
  (void)nbytes;
#endif
}

static BlockHeader* new_block(size_t class_index, size_t nbytes) {
  char* system_block = host_allocation_fails() ? NULL : malloc(nbytes + (size_t)2 * ALIGNMENT);
  if (system_block == NULL) return NULL;
  ask_for_large_pages(system_block, nbytes);
  uintptr_t start = ((uintptr_t)system_block + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
  BlockHeader* header = (BlockHeader*)start;
  header->class_index = class_index;
  header->nbytes = nbytes;
  header->system_block = system_block;
  return header;
}

void* cpu_alloc(size_t nbytes) {
  size_t rounded = 0;
  size_t class_index = size_class(nbytes, &rounded);
  if (class_index >= CLASS_COUNT) return NULL;
  BlockHeader* header = take_cached(class_index);
  if (header != NULL) {
    atomic_fetch_sub_explicit(&counters.cached, rounded, memory_order_relaxed);
    count(&counters.cache_hits, 1);
  } else {
    header = new_block(class_index, rounded);
    if (header == NULL) return NULL;
  }
  header->marker = BLOCK_LIVE;
  count(&counters.allocations, 1);
  raise_to(&counters.max_alloc_size, rounded);
  raise_to(&counters.max_in_use,
           atomic_fetch_add_explicit(&counters.in_use, rounded, memory_order_relaxed) + rounded);
  return (char*)header + ALIGNMENT;
}

void cpu_free(void* block) {
  if (block == NULL) return;
  BlockHeader* header = (BlockHeader*)(void*)((char*)block - ALIGNMENT);
  if ((uintptr_t)block % ALIGNMENT != 0 || header->marker != BLOCK_LIVE) {
    host_log(ORT_LOGGING_LEVEL_ERROR, "the CPU allocator was asked to free %p, which it has not given out",
             block);
    return;
  }
  size_t nbytes = header->nbytes;
  header->marker = BLOCK_FREE;
  atomic_fetch_sub_explicit(&counters.in_use, nbytes, memory_order_relaxed);
  size_t limit = atomic_load_explicit(&cache_limit, memory_order_relaxed);
  size_t before = atomic_fetch_add_explicit(&counters.cached, nbytes, memory_order_relaxed);
  struct SizeClass* class = &classes[header->class_index];
  if (nbytes > limit || before > limit - nbytes || !spin_try_lock(&class->lock)) {
    atomic_fetch_sub_explicit(&counters.cached, nbytes, memory_order_relaxed);
    free(header->system_block);
    return;
  }
  header->cached = class->first;
  class->first = header;
  spin_unlock(&class->lock);
}

void ephost_trim_cpu_cache(void) {
  for (size_t i = 0; i < CLASS_COUNT; i++) {
    spin_lock(&classes[i].lock);
    BlockHeader* header = classes[i].first;
    classes[i].first = NULL;
    spin_unlock(&classes[i].lock);
    while (header != NULL) {
      BlockHeader* next = header->cached;
      atomic_fetch_sub_explicit(&counters.cached, header->nbytes, memory_order_relaxed);
      free(header->system_block);
      header = next;
    }
  }
}

void ephost_set_cpu_cache_limit(size_t bytes) {
  atomic_store(&cache_limit, bytes);
  if (atomic_load(&counters.cached) > bytes) ephost_trim_cpu_cache();
}

static void* ORT_API_CALL cpu_allocator_alloc(OrtAllocator* this_, size_t size) {
  (void)this_;
  return cpu_alloc(size);
}

static void ORT_API_CALL cpu_allocator_free(OrtAllocator* this_, void* p) {
  (void)this_;
  cpu_free(p);
}

static const OrtMemoryInfo* ORT_API_CALL cpu_allocator_info(const OrtAllocator* this_) {
  (void)this_;
  return &ephost_cpu_memory_info;
}

static void* ORT_API_CALL cpu_allocator_alloc_on_stream(OrtAllocator* this_, size_t size,
                                                        OrtSyncStream* stream) {
  (void)stream; /* the CPU's memory is in nobody's queue */
  return cpu_allocator_alloc(this_, size);
}

static OrtStatus* ORT_API_CALL cpu_allocator_shrink(OrtAllocator* this_) {
  (void)this_;
  ephost_trim_cpu_cache();
  return NULL;
}

/* The keys are those of onnxruntime's arena, and two for the cache. All are counts or bytes. */
static OrtStatus* ORT_API_CALL cpu_allocator_stats(const OrtAllocator* this_, OrtKeyValuePairs** out) {
  (void)this_;
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  size_t in_use = atomic_load(&counters.in_use);
  size_t cached = atomic_load(&counters.cached);
  const struct {
    const char* key;
    size_t value;
  } stats[] = {
      {"Limit", 0}, /* none */
      {"InUse", in_use},
      {"TotalAllocated", in_use + cached},
      {"MaxInUse", atomic_load(&counters.max_in_use)},
      {"NumAllocs", atomic_load(&counters.allocations)},
      {"MaxAllocSize", atomic_load(&counters.max_alloc_size)},
      {"Cached", cached},
      {"NumCacheHits", atomic_load(&counters.cache_hits)},
  };
  OrtKeyValuePairs* pairs = key_values_new();
  if (pairs == NULL) return status_no_memory();
  for (size_t i = 0; i < sizeof(stats) / sizeof(stats[0]); i++) {
    char text[24];
    (void)snprintf(text, sizeof(text), "%zu", stats[i].value);
    if (!key_values_set(pairs, stats[i].key, text)) {
      key_values_free(pairs);
      return status_no_memory();
    }
  }
  *out = pairs;
  return NULL;
}

static OrtAllocator cpu_allocator = {
    .version = EPHOST_API_VERSION_SERVED,
    .Alloc = cpu_allocator_alloc,
    .Free = cpu_allocator_free,
    .Info = cpu_allocator_info,
    .Reserve = cpu_allocator_alloc,
    .GetStats = cpu_allocator_stats,
    .AllocOnStream = cpu_allocator_alloc_on_stream,
    .Shrink = cpu_allocator_shrink,
};

OrtAllocator* ephost_cpu_allocator(void) { return &cpu_allocator; }

/* ---- slots that take any allocator --------------------------------------------------------------------- */

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetAllocatorWithDefaultOptions)(OrtAllocator** out) {
  REQUIRE_ARG(out != NULL);
  *out = &cpu_allocator;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, AllocatorAlloc)(OrtAllocator* ort_allocator, size_t size, void** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(ort_allocator != NULL && ort_allocator->Alloc != NULL);
  *out = GUARDED(OrtAllocator, Alloc)(ort_allocator, size);
  if (*out == NULL && size > 0)
    return outcome(status_new(ORT_FAIL, "AllocatorAlloc: the allocator gave no %zu bytes", size));
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, AllocatorFree)(OrtAllocator* ort_allocator, void* p) {
  REQUIRE_ARG(ort_allocator != NULL && ort_allocator->Free != NULL);
  GUARDED(OrtAllocator, Free)(ort_allocator, p);
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, AllocatorGetInfo)(const OrtAllocator* ort_allocator,
                                                       const struct OrtMemoryInfo** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(ort_allocator != NULL && ort_allocator->Info != NULL);
  *out = GUARDED(OrtAllocator, Info)(ort_allocator);
  return outcome(NULL);
}

const char* allocator_state(const OrtAllocator* allocator, char text[ALLOCATOR_STATE]) {
  const char* const* keys = NULL;
  const char* const* values = NULL;
  size_t count = 0, used = 0;
  OrtKeyValuePairs* pairs = NULL;
  text[0] = '\0';
  if (allocator == NULL || VERSIONED_MEMBER(OrtAllocator, allocator, GetStats) == NULL) return text;
  OrtStatus* status = GUARDED(OrtAllocator, GetStats)(allocator, &pairs);
  if (status != NULL || pairs == NULL) {
    ephost_api.ReleaseStatus(status);
    return text;
  }
  ephost_api.GetKeyValuePairs(pairs, &keys, &values, &count);
  for (size_t i = 0; i < count; ++i) {
    int length =
        snprintf(text + used, ALLOCATOR_STATE - used, "%s%s=%s", i == 0 ? " (" : ", ", keys[i], values[i]);
    if (length < 0 || (size_t)length >= ALLOCATOR_STATE - used - 1) break; /* the rest does not fit */
    used += (size_t)length;
  }
  ephost_api.ReleaseKeyValuePairs(pairs);
  if (used > 0) {
    text[used] = ')';
    text[used + 1] = '\0';
  }
  return text;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, AllocatorGetStats)(const OrtAllocator* ort_allocator,
                                                        OrtKeyValuePairs** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(ort_allocator != NULL);
  if (VERSIONED_MEMBER(OrtAllocator, ort_allocator, GetStats) == NULL) {
    return status_new(ORT_NOT_IMPLEMENTED, "AllocatorGetStats: this allocator keeps no statistics");
  }
  return GUARDED(OrtAllocator, GetStats)(ort_allocator, out);
}

/* Every allocator that the host hands out is lent: the CPU's lives as long as the process, a plugin's belongs
 * to the environment, which gives it back to its factory. So there is nothing to free. */
void ORT_API_CALL SLOT(OrtApi, ReleaseAllocator)(OrtAllocator* input) { (void)input; }

/* ---- arena settings ------------------------------------------------------------------------------------ */

/* What an application asks of an arena. The CPU allocator has nothing to set by it; a plugin's factory gets
 * such settings as allocator options. */
struct OrtArenaCfg {
  OrtKeyValuePairs* settings;
};

static OrtStatus* arena_config_new(const char* const* keys, const size_t* values, size_t count_of_keys,
                                   OrtArenaCfg** out) {
  OrtArenaCfg* config = host_calloc(1, sizeof(*config));
  if (config == NULL) return status_no_memory();
  handle_count(HANDLE_OTHER, +1);
  config->settings = key_values_new();
  bool stored = config->settings != NULL;
  for (size_t i = 0; stored && i < count_of_keys; i++) {
    char text[24];
    (void)snprintf(text, sizeof(text), "%zu", values[i]);
    stored = key_values_set(config->settings, keys[i], text);
  }
  if (!stored) {
    SLOT(OrtApi, ReleaseArenaCfg)(config);
    return status_no_memory();
  }
  *out = config;
  return NULL;
}

/* -1 leaves a setting to the host, as in onnxruntime. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateArenaCfg)(size_t max_mem, int arena_extend_strategy,
                                                     int initial_chunk_size_bytes,
                                                     int max_dead_bytes_per_chunk, OrtArenaCfg** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  const char* keys[4] = {"max_mem"};
  size_t values[4] = {max_mem};
  size_t used = 1;
  const struct {
    const char* key;
    int value;
  } settings[] = {{"arena_extend_strategy", arena_extend_strategy},
                  {"initial_chunk_size_bytes", initial_chunk_size_bytes},
                  {"max_dead_bytes_per_chunk", max_dead_bytes_per_chunk}};
  for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
    if (settings[i].value < 0) continue;
    keys[used] = settings[i].key;
    values[used++] = (size_t)settings[i].value;
  }
  return arena_config_new(keys, values, used, out);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateArenaCfgV2)(const char* const* arena_config_keys,
                                                       const size_t* arena_config_values, size_t num_keys,
                                                       OrtArenaCfg** out) {
  static const char* const known[] = {"max_mem",
                                      "arena_extend_strategy",
                                      "initial_chunk_size_bytes",
                                      "max_dead_bytes_per_chunk",
                                      "initial_growth_chunk_size_bytes",
                                      "max_power_of_two_extend_bytes",
                                      "use_cuda_mempool",
                                      "cuda_mempool_release_threshold",
                                      "cuda_mempool_bytes_to_keep_on_shrink"};
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(num_keys == 0 || (arena_config_keys != NULL && arena_config_values != NULL));
  for (size_t i = 0; i < num_keys; i++) {
    REQUIRE_ARG(arena_config_keys[i] != NULL);
    size_t k = 0;
    while (k < sizeof(known) / sizeof(known[0]) && strcmp(known[k], arena_config_keys[i]) != 0) k++;
    if (k == sizeof(known) / sizeof(known[0])) {
      return status_new(ORT_INVALID_ARGUMENT, "CreateArenaCfgV2: no arena setting has the name \"%s\"",
                        arena_config_keys[i]);
    }
  }
  return arena_config_new(arena_config_keys, arena_config_values, num_keys, out);
}

void ORT_API_CALL SLOT(OrtApi, ReleaseArenaCfg)(OrtArenaCfg* input) {
  if (input == NULL) return;
  key_values_free(input->settings);
  handle_count(HANDLE_OTHER, -1);
  host_free(input);
}

const OrtMemoryInfo* ephost_get_cpu_memory_info(void) { return &ephost_cpu_memory_info; }
