/* What a plugin's structs have to have, and what its functions have to answer. */
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"

typedef struct Required {
  const char* kind;
  uint32_t since;
  const char* member;
  size_t offset;
} Required;

#define NEEDS(struct, since, member) \
  { #struct, since, #member, offsetof(struct, member) }
static const Required required[] = {
    NEEDS(OrtEpFactory, 22, GetName),
    NEEDS(OrtEpFactory, 22, GetVendor),
    NEEDS(OrtEpFactory, 22, GetSupportedDevices),
    NEEDS(OrtEpFactory, 22, CreateEp),
    NEEDS(OrtEpFactory, 22, ReleaseEp),
    NEEDS(OrtEp, 22, GetName),
    NEEDS(OrtEp, 23, GetCapability),
    NEEDS(OrtNodeComputeInfo, 23, CreateState),
    NEEDS(OrtNodeComputeInfo, 23, Compute),
    NEEDS(OrtNodeComputeInfo, 23, ReleaseState),
    NEEDS(OrtKernelImpl, 24, Compute),
    NEEDS(OrtKernelImpl, 24, Release),
    NEEDS(OrtAllocator, 1, Alloc),
    NEEDS(OrtAllocator, 1, Free),
    NEEDS(OrtAllocator, 1, Info),
    NEEDS(OrtDataTransferImpl, 23, Release),
    NEEDS(OrtDataTransferImpl, 23, CanCopy),
    NEEDS(OrtDataTransferImpl, 23, CopyTensors),
    NEEDS(OrtSyncStreamImpl, 23, Release),
    NEEDS(OrtSyncStreamImpl, 23, GetHandle),
    NEEDS(OrtSyncStreamImpl, 23, CreateNotification),
    NEEDS(OrtSyncStreamImpl, 23, Flush),
    NEEDS(OrtSyncNotificationImpl, 23, Release),
    NEEDS(OrtSyncNotificationImpl, 23, Activate),
    NEEDS(OrtSyncNotificationImpl, 23, WaitOnDevice),
    NEEDS(OrtSyncNotificationImpl, 23, WaitOnHost),
    NEEDS(OrtEpProfilerImpl, 25, Release),
    NEEDS(OrtEpProfilerImpl, 25, StartProfiling),
    NEEDS(OrtEpProfilerImpl, 25, EndProfiling),
    NEEDS(OrtLoopKernelHelper, 24, Release),
    NEEDS(OrtLoopKernelHelper, 24, ConcatOutput),
    NEEDS(OrtScanKernelHelper, 24, Release),
    NEEDS(OrtScanKernelHelper, 24, Transpose),
};
static const struct {
  const char* kind;
  uint32_t first;
} first_versions[] = {
    {"OrtEpFactory", 22},
    {"OrtEp", 22},
    {"OrtNodeComputeInfo", 23},
    {"OrtDataTransferImpl", 23},
    {"OrtSyncStreamImpl", 23},
    {"OrtKernelImpl", 24},
    {"OrtSyncNotificationImpl", 23},
    {"OrtEpProfilerImpl", 25},
};
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static bool is_set(const void* object, size_t offset) {
  void* member;
  memcpy(&member, (const char*)object + offset, sizeof member);
  return member != NULL;
}

static void check_ep_members(const OrtEp* ep, uint32_t version) {
  bool compiles = version >= 23 && ep->Compile != NULL;
  if (version >= 23 && !compiles && (version < 24 || ep->GetKernelRegistry == NULL)) {
    found(EPV_VER_002, NULL, "an OrtEp of version %u has neither Compile nor GetKernelRegistry", version);
  } else if (compiles && ep->ReleaseNodeComputeInfos == NULL) {
    found(EPV_VER_002, NULL, "an OrtEp of version %u has Compile and no ReleaseNodeComputeInfos", version);
  }
}

static void check_factory_members(const OrtEpFactory* factory, uint32_t version) {
  if (version >= 23 && factory->CreateAllocator != NULL && factory->ReleaseAllocator == NULL) {
    found(EPV_VER_002, NULL, "an OrtEpFactory of version %u has CreateAllocator and no ReleaseAllocator",
          version);
  }
}

void check_struct(const char* kind, const void* object, uint32_t version) {
  for (size_t i = 0; i < COUNT_OF(first_versions); ++i) {
    if (strcmp(kind, first_versions[i].kind) == 0 && version < first_versions[i].first) {
      found(EPV_VER_003, NULL, "an %s says version %u, and there is none before %u", kind, version,
            first_versions[i].first);
      return;
    }
  }
  for (size_t i = 0; i < COUNT_OF(required); ++i) {
    const Required* one = &required[i];
    if (strcmp(kind, one->kind) == 0 && version >= one->since && !is_set(object, one->offset)) {
      found(EPV_VER_002, NULL, "an %s of version %u has no %s", kind, version, one->member);
    }
  }
  if (strcmp(kind, "OrtEp") == 0) check_ep_members(object, version);
  if (strcmp(kind, "OrtEpFactory") == 0) check_factory_members(object, version);
  /* What a Compute queues on a stream is written when it has returned: to the host's memory then. */
  if (strcmp(kind, "OrtSyncStreamImpl") == 0) checks_bounds = checks_reads = false;
}

void check_called_after_release(const void* object, const char* function) {
  found(EPV_OWN_007, NULL, "%s is called on %p after its release", function, object);
}

void check_text(const char* text) {
  if (text == NULL || text[0] == '\0') {
    found(EPV_ANS_001, NULL, "%s gives %s", function_name(innermost->function),
          text == NULL ? "NULL" : "an empty text");
  }
}

static char factory_names[16][128]; /* of all factories of the library */
static size_t factory_name_count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void check_factory_name(const char* name) {
  check_text(name);
  if (name == NULL) return;
  pthread_mutex_lock(&mutex);
  size_t at = 0;
  while (at < factory_name_count && strncmp(factory_names[at], name, sizeof factory_names[0] - 1) != 0) ++at;
  if (at == factory_name_count && at < COUNT_OF(factory_names)) {
    (void)snprintf(factory_names[factory_name_count++], sizeof factory_names[0], "%s", name);
  }
  pthread_mutex_unlock(&mutex);
}

void check_ep_name(const OrtEp* ep, const char* name) {
  check_text(name);
  if (name == NULL) return;
  session_named(object_session(ep), name);
  pthread_mutex_lock(&mutex);
  bool good = factory_name_count == 0 || factory_name_count == COUNT_OF(factory_names);
  for (size_t i = 0; i < factory_name_count && !good; ++i) {
    good = strncmp(factory_names[i], name, sizeof factory_names[0] - 1) == 0;
  }
  pthread_mutex_unlock(&mutex);
  if (!good) {
    found(EPV_ANS_004, NULL, "the EP calls itself '%s', and its factory '%s'", name, factory_names[0]);
  }
}

void check_ep_of(const OrtEp* ep) {
  if (!object_is_known(ep)) return;
  const OrtEp* original = original_of(ep, "OrtEp.GetName");
  if (original->GetName != NULL) check_ep_name(ep, original->GetName(ep));
}

void check_made(const char* what, const void* object) {
  if (object == NULL) {
    found(EPV_ANS_002, NULL, "%s succeeds and leaves %s NULL", function_name(innermost->function), what);
  }
}

void check_once(const void* object, const void* const* before, size_t count) {
  for (size_t i = 0; object != NULL && i < count; ++i) {
    if (before[i] != object) continue;
    found(EPV_ANS_006, NULL, "%s gives %p twice, as number %zu and %zu", function_name(innermost->function),
          object, i + 1, count + 1);
    return;
  }
}

void check_room(const char* what, size_t count, size_t room) {
  if (count > room) {
    found(EPV_ANS_003, NULL, "%s says that it wrote %zu %s, where there is room for %zu",
          function_name(innermost->function), count, what, room);
  }
}

void check_status_code(OrtErrorCode code) {
  if (code == ORT_OK) found(EPV_ARG_004, NULL, "CreateStatus is called with ORT_OK");
}

/* ---- allocators ---- */

typedef struct Block {
  struct Block* next;
  const void* allocator;
  const void* memory;
} Block;

typedef struct Aligned {
  struct Aligned* next;
  const void* info; /* or allocator */
  size_t alignment;
} Aligned;

enum { BUCKETS = 4096 };
static Block* blocks[BUCKETS];
static Aligned* aligned; /* a handful: memories of devices, and their allocators */

static Block** bucket_of(const void* memory) {
  return &blocks[((uint64_t)(uintptr_t)memory * 0x9E3779B97F4A7C15U >> 40) % BUCKETS];
}

static Aligned* find_aligned(const void* what) {
  Aligned* at = aligned;
  while (at != NULL && at->info != what) at = at->next;
  return at;
}

/* With the lock. */
static void note_alignment(const void* what, size_t alignment) {
  Aligned* at = find_aligned(what);
  if (at == NULL && (at = calloc(1, sizeof *at)) != NULL) {
    *at = (Aligned){aligned, what, 0};
    aligned = at;
  }
  if (at != NULL) at->alignment = alignment;
}

void memory_info_made(const OrtMemoryInfo* info, enum OrtMemoryInfoDeviceType device, size_t alignment) {
  pthread_mutex_lock(&mutex);
  /* Elsewhere what an allocator gives may be a handle of the device's. */
  note_alignment(info, device == OrtMemoryInfoDeviceType_CPU ? alignment : 0);
  pthread_mutex_unlock(&mutex);
}

void allocator_made(const OrtAllocator* allocator, const OrtMemoryInfo* info) {
  pthread_mutex_lock(&mutex);
  const Aligned* of_info = find_aligned(info);
  note_alignment(allocator, of_info != NULL ? of_info->alignment : 0);
  pthread_mutex_unlock(&mutex);
}

void allocator_released(const OrtAllocator* allocator) {
  if (object_is_known(allocator)) return; /* others have it still */
  pthread_mutex_lock(&mutex);
  for (size_t i = 0; i < BUCKETS; ++i) {
    for (Block** at = &blocks[i]; *at != NULL;) {
      Block* block = *at;
      if (block->allocator == allocator) {
        *at = block->next;
        free(block);
      } else {
        at = &block->next;
      }
    }
  }
  pthread_mutex_unlock(&mutex);
}

void check_allocated(const OrtAllocator* allocator, const void* memory, size_t size) {
  if (memory == NULL || size == 0) return;
  pthread_mutex_lock(&mutex);
  Block** bucket = bucket_of(memory);
  Block* block = *bucket;
  while (block != NULL && (block->memory != memory || block->allocator != allocator)) block = block->next;
  bool is_twice = block != NULL;
  if (!is_twice && (block = malloc(sizeof *block)) != NULL) {
    *block = (Block){*bucket, allocator, memory};
    *bucket = block;
  }
  const Aligned* known = find_aligned(allocator);
  size_t alignment = known != NULL ? known->alignment : 0;
  pthread_mutex_unlock(&mutex);
  if (is_twice) {
    found(EPV_ALLOC_001, NULL, "the allocator %p gives %p, which it gave before and which is not freed",
          (const void*)allocator, memory);
  }
  if (alignment > 1 && (uintptr_t)memory % alignment != 0) {
    found(EPV_ALLOC_002, NULL, "the allocator %p gives %p, and its memory info says an alignment of %zu",
          (const void*)allocator, memory, alignment);
  }
}

void check_freed(const OrtAllocator* allocator, const void* memory) {
  pthread_mutex_lock(&mutex);
  for (Block** at = bucket_of(memory); *at != NULL; at = &(*at)->next) {
    Block* block = *at;
    if (block->memory == memory && block->allocator == allocator) {
      *at = block->next;
      free(block);
      break;
    }
  }
  pthread_mutex_unlock(&mutex);
}

void check_location(const OrtMemoryInfo* info) {
  if (info == NULL) found(EPV_ALLOC_003, NULL, "an allocator's Info gives NULL");
}

/* ---- streams and transfers ---- */

void check_stream_aware(const OrtEpFactory* factory, bool says_so) {
  if (!says_so || !object_is_known(factory)) return;
  const OrtEpFactory* original = original_of(factory, "OrtEpFactory.IsStreamAware");
  if (original->CreateSyncStreamForDevice == NULL) {
    found(EPV_STREAM_001, NULL, "IsStreamAware says yes, and CreateSyncStreamForDevice is NULL");
  }
}

void check_copied(OrtDataTransferImpl* transfer, const OrtValue* const* from, OrtValue* const* to,
                  size_t count, const OrtStatus* status) {
  if (status == NULL || real_OrtApi->GetErrorCode(status) != ORT_NOT_IMPLEMENTED) return;
  const OrtEpApi* api = host_version() >= 23 ? real_OrtApi->GetEpApi() : NULL;
  if (api == NULL) return;
  const OrtDataTransferImpl* original = original_of(transfer, "OrtDataTransferImpl.CanCopy");
  for (size_t i = 0; i < count; ++i) {
    const OrtMemoryDevice* source = api->Value_GetMemoryDevice(from[i]);
    const OrtMemoryDevice* target = api->Value_GetMemoryDevice(to[i]);
    if (source == NULL || target == NULL || original->CanCopy == NULL) return;
    if (!original->CanCopy(transfer, source, target)) return; /* the host did not ask */
  }
  if (count != 0) {
    found(EPV_XFER_001, NULL, "CanCopy says yes to what CopyTensors refuses: %s",
          real_OrtApi->GetErrorMessage(status));
  }
}
