/* A device's memory in a worker process, as the host has it.
 *
 * A block has addresses in this process at which nothing can be read or written: they stand for the block, so
 * that two workers' blocks never have the same, and what takes them for memory of the CPU's ends at once
 * instead of reading something else. A table says which block an address is in. */
#define _GNU_SOURCE
#include "isolation.h"

#ifndef _WIN32
#include <string.h>
#include <sys/mman.h>

#include "abi.h"
#include "exceptions.h"
#include "heap.h"
#include "memory.h"
#include "status.h"
#include "value.h"

enum { PAGE = 4096 };

typedef struct RemoteMemory RemoteMemory;

struct RemoteMemory {
  OrtAllocator allocator;   /* the first: what slots of plans name */
  atomic_size_t references; /* whose it is, and each block */
  Remote* remote;
  uint32_t device;
  const OrtMemoryInfo* info;
  Mutex lock; /* of what follows */
  Condition is_free;
  bool is_busy; /* somebody speaks on the lane */
  /* The worker has gone, or did not answer in time. A thread of it may be on the lane until it has ended. */
  bool is_lost, was_late;
  Lane* lane; /* NULL: it was never opened */
  uint64_t* freed;
  size_t freed_count, freed_room; /* blocks that nobody has told the worker of yet */
};

typedef struct RemoteBlock {
  char* base;
  size_t reserved; /* addresses */
  uint64_t number;
  RemoteMemory* memory;
} RemoteBlock;

/* Every block there is, by address. */
static struct {
  Mutex lock;
  RemoteBlock* blocks;
  size_t count, room;
} known = {.lock = MUTEX_INIT};

/* The index of the block that has an address, or SIZE_MAX. With the lock. */
static size_t block_at(const char* address) {
  size_t low = 0, high = known.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (known.blocks[middle].base <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return SIZE_MAX;
  const RemoteBlock* block = &known.blocks[low - 1];
  return (size_t)(address - block->base) < block->reserved ? low - 1 : SIZE_MAX;
}

static bool block_add(RemoteBlock block) {
  bool done = true;
  mutex_lock(&known.lock);
  if (known.count == known.room) {
    size_t room = known.room ? known.room * 2 : 64;
    RemoteBlock* blocks = host_realloc(known.blocks, room * sizeof *blocks);
    done = blocks != NULL;
    if (done) {
      known.blocks = blocks;
      known.room = room;
    }
  }
  if (done) {
    size_t at = known.count++;
    for (; at > 0 && known.blocks[at - 1].base > block.base; --at) known.blocks[at] = known.blocks[at - 1];
    known.blocks[at] = block;
  }
  mutex_unlock(&known.lock);
  return done;
}

static bool block_take(const void* base, RemoteBlock* block) {
  mutex_lock(&known.lock);
  size_t at = block_at(base);
  bool found = at != SIZE_MAX && known.blocks[at].base == base;
  if (found) {
    *block = known.blocks[at];
    --known.count;
    memmove(known.blocks + at, known.blocks + at + 1, (known.count - at) * sizeof *known.blocks);
    if (known.count == 0) {
      host_free(known.blocks);
      known.blocks = NULL;
      known.room = 0;
    }
  }
  mutex_unlock(&known.lock);
  return found;
}

bool remote_find(const void* data, size_t nbytes, RemotePlace* place) {
  mutex_lock(&known.lock);
  size_t at = block_at(data);
  bool found = at != SIZE_MAX;
  if (found) {
    const RemoteBlock* block = &known.blocks[at];
    size_t offset = (size_t)((const char*)data - block->base);
    found = nbytes <= block->reserved - offset;
    *place = (RemotePlace){block->memory, block->number, offset, block->memory->device};
  }
  mutex_unlock(&known.lock);
  return found;
}

bool ephost_remote_knows(const void* data) {
  RemotePlace place;
  return remote_find(data, 0, &place);
}

/* ---- what is said on the lane ---- */

/* One operation, by whoever has the lane. False: the worker did not answer, `timed_out` says whether in time.
 */
static bool ask(RemoteMemory* memory, LaneOperation operation, const uint64_t* arguments, bool* timed_out) {
  LaneBlock* block = memory->lane->block;
  block->operation = operation;
  memcpy(block->arguments, arguments, sizeof block->arguments);
  lane_pass(block, TURN_WORKER, &memory->lane->side);
  Waited waited = lane_wait(block, TURN_HOST, &memory->lane->side, remote_timeout(memory->remote));
  *timed_out = waited == WAITED_TIMEOUT;
  return waited == WAITED_TURN && *(volatile uint32_t*)&block->answer == ANSWER_DONE;
}

/* Takes the lane; false when nobody answers on it any more, `was_late` says whether for want of time. */
static bool lane_enter(RemoteMemory* memory, bool* was_late) {
  mutex_lock(&memory->lock);
  while (memory->is_busy) condition_wait(&memory->is_free, &memory->lock);
  memory->is_busy = !memory->is_lost;
  *was_late = memory->was_late;
  bool done = memory->is_busy;
  mutex_unlock(&memory->lock);
  return done;
}

/* Gives it back, once the worker has heard of all that was freed meanwhile: who frees does not wait. What
 * goes wrong then is the error of who asks next. */
static void lane_leave(RemoteMemory* memory, bool is_lost, bool was_late) {
  mutex_lock(&memory->lock);
  while (!is_lost && memory->freed_count) {
    uint64_t arguments[LANE_ARGUMENTS] = {memory->freed[--memory->freed_count]};
    mutex_unlock(&memory->lock);
    is_lost = !ask(memory, LANE_FREE, arguments, &was_late);
    mutex_lock(&memory->lock);
  }
  if (is_lost) {
    memory->is_lost = true;
    memory->was_late = was_late;
    memory->freed_count = 0;
  }
  memory->is_busy = false;
  condition_signal(&memory->is_free);
  mutex_unlock(&memory->lock);
}

/* `shape` NULL: the operation is about no tensor. */
static OrtStatus* operate(RemoteMemory* memory, LaneOperation operation, const uint64_t* arguments,
                          const OrtValue* shape, uint64_t* result, const char* what) {
  bool timed_out = false;
  OrtStatus* status = remote_check_owner(memory->remote);
  if (status != NULL) return status;
  atomic_fetch_add(&memory->references, 1);
  if (!lane_enter(memory, &timed_out)) {
    status = remote_fault(memory->remote, timed_out, what);
    ephost_remote_memory_release(memory);
    return status;
  }
  LaneBlock* block = memory->lane->block;
  if (shape != NULL) {
    block->element_type = (uint32_t)shape->element_type;
    block->rank = (uint32_t)shape->rank;
    if (shape->rank) memcpy(block->dims, shape->dims, shape->rank * sizeof *block->dims);
  }
  bool answered = ask(memory, operation, arguments, &timed_out);
  if (answered) {
    int32_t code = *(volatile int32_t*)&block->code;
    if (code != 0) status = lane_error(block, code);
    if (result != NULL) *result = *(volatile uint64_t*)&block->result;
  }
  lane_leave(memory, !answered, timed_out);
  if (!answered) status = remote_fault(memory->remote, timed_out, what);
  ephost_remote_memory_release(memory);
  return status;
}

/* ---- blocks ---- */

static OrtStatus* reserve(RemoteMemory* memory, uint64_t number, size_t nbytes, void** out) {
  size_t reserved = nbytes > SIZE_MAX - PAGE ? 0 : (nbytes ? nbytes + PAGE - 1 : PAGE) / PAGE * PAGE;
  void* base = reserved == 0 || host_allocation_fails()
                   ? MAP_FAILED
                   : mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return status_no_memory();
  atomic_fetch_add(&memory->references, 1);
  if (!block_add((RemoteBlock){base, reserved, number, memory})) {
    (void)munmap(base, reserved);
    ephost_remote_memory_release(memory);
    return status_no_memory();
  }
  *out = base;
  return NULL;
}

/* Has the worker free a block: at once, or as soon as the lane is free. */
static void forget(RemoteMemory* memory, uint64_t number) {
  OrtStatus* other = remote_check_owner(memory->remote);
  if (other != NULL) { /* a child's copy of the parent's */
    ephost_api.ReleaseStatus(other);
    return;
  }
  mutex_lock(&memory->lock);
  if (!memory->is_lost && memory->freed_count == memory->freed_room) {
    size_t room = memory->freed_room ? memory->freed_room * 2 : 16;
    uint64_t* freed = host_realloc(memory->freed, room * sizeof *freed);
    if (freed != NULL) {
      memory->freed = freed;
      memory->freed_room = room;
    }
  }
  bool is_kept = !memory->is_lost && memory->freed_count < memory->freed_room;
  if (is_kept) memory->freed[memory->freed_count++] = number;
  bool is_mine = is_kept && !memory->is_busy;
  if (is_mine) memory->is_busy = true;
  mutex_unlock(&memory->lock);
  if (is_mine) lane_leave(memory, false, false);
}

OrtStatus* ephost_remote_memory_alloc(RemoteMemory* memory, size_t nbytes, void** out) {
  uint64_t arguments[LANE_ARGUMENTS] = {memory->device, nbytes}, number = 0;
  *out = NULL;
  OrtStatus* status = operate(memory, LANE_ALLOCATE, arguments, NULL, &number, "allocate");
  if (status != NULL) return status;
  status = reserve(memory, number, nbytes, out);
  if (status != NULL) forget(memory, number);
  return status;
}

void ephost_remote_free(void* data) {
  RemoteBlock block;
  if (data == NULL || !block_take(data, &block)) return;
  (void)munmap(block.base, block.reserved);
  forget(block.memory, block.number);
  ephost_remote_memory_release(block.memory);
}

static void free_adopted(Buffer* buffer) { ephost_remote_free(buffer->data); }

Buffer* remote_adopt(RemoteMemory* memory, uint64_t number, size_t nbytes) {
  void* base = NULL;
  OrtStatus* status = reserve(memory, number, nbytes, &base);
  if (status != NULL) {
    ephost_api.ReleaseStatus(status);
    forget(memory, number);
    return NULL;
  }
  Buffer* buffer = buffer_adopt(base, nbytes, free_adopted, NULL);
  if (buffer == NULL) ephost_remote_free(base);
  return buffer;
}

/* ---- as the ABI has it ---- */

static void* ORT_API_CALL allocator_alloc(OrtAllocator* this_, size_t size) {
  void* data = NULL;
  OrtStatus* status = ephost_remote_memory_alloc((RemoteMemory*)this_, size, &data);
  if (status != NULL) ephost_keep_status(status);
  return data;
}

static void ORT_API_CALL allocator_free(OrtAllocator* this_, void* block) {
  (void)this_;
  ephost_remote_free(block);
}

static const OrtMemoryInfo* ORT_API_CALL allocator_info(const OrtAllocator* this_) {
  return ((const RemoteMemory*)(const void*)this_)->info;
}

const RemoteMemory* remote_memory_of(const OrtAllocator* allocator) {
  bool is_one = allocator != NULL && allocator->Alloc == allocator_alloc;
  return is_one ? (const RemoteMemory*)(const void*)allocator : NULL;
}

SharedPool* remote_memory_pool(const RemoteMemory* memory) { return remote_pool(memory->remote); }

uint32_t remote_memory_device(const RemoteMemory* memory) { return memory->device; }

bool remote_memory_has(const RemoteMemory* memory, const OrtValue* value) {
  RemotePlace place;
  return remote_find(value->data, value->nbytes, &place) &&
         remote_memory_pool(place.memory) == remote_memory_pool(memory);
}

OrtStatus* ephost_remote_memory_new(Remote* remote, uint32_t device, const OrtMemoryInfo* info,
                                    RemoteMemory** out) {
  RemoteMemory* memory = host_calloc(1, sizeof *memory);
  *out = NULL;
  if (memory == NULL) {
    ephost_remote_end(remote);
    return status_no_memory();
  }
  memory->allocator.version = EPHOST_API_VERSION_SERVED;
  memory->allocator.Alloc = allocator_alloc;
  memory->allocator.Free = allocator_free;
  memory->allocator.Info = allocator_info;
  memory->remote = remote;
  memory->device = device;
  memory->info = info;
  atomic_init(&memory->references, 1);
  mutex_init(&memory->lock);
  condition_init(&memory->is_free);
  OrtStatus* status = lane_open(remote, &memory->lane);
  if (status != NULL) {
    ephost_remote_memory_release(memory);
    return status;
  }
  *out = memory;
  return NULL;
}

void ephost_remote_memory_release(RemoteMemory* memory) {
  if (memory == NULL || atomic_fetch_sub(&memory->references, 1) != 1) return;
  if (memory->lane != NULL) lane_free(memory->remote, memory->lane);
  ephost_remote_end(memory->remote);
  host_free(memory->freed);
  condition_destroy(&memory->is_free);
  mutex_destroy(&memory->lock);
  host_free(memory);
}

OrtAllocator* ephost_remote_memory_allocator(RemoteMemory* memory) { return &memory->allocator; }

size_t ephost_remote_memory_blocks(RemoteMemory* memory) { return atomic_load(&memory->references) - 1; }

/* ---- an allocator of no one worker ---- */

typedef struct AnyAllocator {
  OrtAllocator base;
  void* handle;
  EphostRemoteAllocate allocate;
  const OrtMemoryInfo* info;
} AnyAllocator;

static void* ORT_API_CALL any_alloc(OrtAllocator* this_, size_t size) {
  const AnyAllocator* any = (const AnyAllocator*)(const void*)this_;
  void* data = NULL;
  OrtStatus* status = any->allocate(any->handle, size, &data);
  if (status != NULL) ephost_keep_status(status);
  return data;
}

static const OrtMemoryInfo* ORT_API_CALL any_info(const OrtAllocator* this_) {
  return ((const AnyAllocator*)(const void*)this_)->info;
}

OrtAllocator* ephost_remote_allocator_new(void* handle, EphostRemoteAllocate allocate,
                                          const OrtMemoryInfo* info) {
  AnyAllocator* any = host_calloc(1, sizeof *any);
  if (any == NULL) return NULL;
  any->base.version = EPHOST_API_VERSION_SERVED;
  any->base.Alloc = any_alloc;
  any->base.Free = allocator_free;
  any->base.Info = any_info;
  any->handle = handle;
  any->allocate = allocate;
  any->info = info;
  return &any->base;
}

void ephost_remote_allocator_free(OrtAllocator* allocator) { host_free(allocator); }

/* ---- copies ---- */

typedef struct RemoteTransfer {
  OrtDataTransferImpl base;
  const OrtMemoryInfo* info;
} RemoteTransfer;

static void ORT_API_CALL transfer_release(OrtDataTransferImpl* this_) { host_free(this_); }

/* Another number is another device of the same kind, which the same plugin offers. */
static bool is_alike(const OrtMemoryDevice* one, const OrtMemoryDevice* other) {
  return one->device_type == other->device_type && one->memory_type == other->memory_type &&
         one->vendor_id == other->vendor_id;
}

static bool ORT_API_CALL transfer_can_copy(const OrtDataTransferImpl* this_, const OrtMemoryDevice* source,
                                           const OrtMemoryDevice* target) {
  const OrtMemoryInfo* own = ((const RemoteTransfer*)(const void*)this_)->info;
  bool from = is_alike(source, &own->device), to = is_alike(target, &own->device);
  return (from && (to || target->device_type == OrtMemoryInfoDeviceType_CPU)) ||
         (to && source->device_type == OrtMemoryInfoDeviceType_CPU);
}

/* A tensor of the CPU's to or from a block, by way of memory that both processes map. */
static OrtStatus* cross(const RemotePlace* place, const OrtValue* shape, void* data, bool is_upload) {
  RemoteMemory* memory = (RemoteMemory*)(uintptr_t)place->memory;
  SharedPool* pool = remote_memory_pool(memory);
  uint64_t at = 0;
  if (shape->rank > LANE_RANK) {
    return status_new(ORT_INVALID_ARGUMENT, "a tensor of rank %zu cannot go to an isolated plugin",
                      shape->rank);
  }
  void* shared = pool_offset(pool, data, shape->nbytes, &at) ? NULL : pool_alloc(pool, shape->nbytes);
  if (shared != NULL) {
    (void)pool_offset(pool, shared, shape->nbytes, &at);
    if (is_upload) (void)shared_copy(NULL, shared, data, shape->nbytes, true);
  } else if (!pool_offset(pool, data, shape->nbytes, &at)) {
    return status_no_memory();
  }
  uint64_t arguments[LANE_ARGUMENTS] = {place->device, place->number, place->offset, at};
  OrtStatus* status =
      operate(memory, is_upload ? LANE_UPLOAD : LANE_DOWNLOAD, arguments, shape, NULL, "copy");
  if (status == NULL && shared != NULL && !is_upload) memcpy(data, shared, shape->nbytes);
  pool_free(pool, shared);
  return status;
}

static OrtStatus* copy_across(const RemotePlace* from, const RemotePlace* to, const OrtValue* shape) {
  if (from->memory == to->memory && shape->rank <= LANE_RANK) {
    uint64_t arguments[LANE_ARGUMENTS] = {from->device, from->number, from->offset, to->number, to->offset};
    return operate((RemoteMemory*)(uintptr_t)from->memory, LANE_COPY, arguments, shape, NULL, "copy");
  }
  void* between = cpu_alloc(shape->nbytes);
  if (between == NULL) return status_no_memory();
  OrtStatus* status = cross(from, shape, between, false);
  if (status == NULL) status = cross(to, shape, between, true);
  cpu_free(between);
  return status;
}

static OrtStatus* ORT_API_CALL transfer_copy(OrtDataTransferImpl* this_, const OrtValue** sources,
                                             OrtValue** targets, OrtSyncStream** streams, size_t count) {
  (void)this_, (void)streams; /* none can be made: copies are done on return */
  for (size_t i = 0; i < count; ++i) {
    const OrtValue *source = sources[i], *target = targets[i];
    bool from_cpu = memory_info_is_cpu(source->memory_info), to_cpu = memory_info_is_cpu(target->memory_info);
    RemotePlace from = {0}, to = {0};
    OrtStatus* status = NULL;
    if (source->nbytes == 0) continue;
    if ((from_cpu && to_cpu) || (!from_cpu && !remote_find(source->data, source->nbytes, &from)) ||
        (!to_cpu && !remote_find(target->data, target->nbytes, &to))) {
      return status_new(ORT_INVALID_ARGUMENT,
                        "CopyTensors: an address is in no memory of an isolated plugin's device");
    }
    if (!from_cpu && !to_cpu) {
      status = copy_across(&from, &to, source);
    } else if (to_cpu) {
      status = cross(&from, source, target->data, false);
    } else {
      status = cross(&to, source, source->data, true);
    }
    if (status != NULL) return status;
  }
  return NULL;
}

OrtDataTransferImpl* ephost_remote_transfer_new(const OrtMemoryInfo* info) {
  RemoteTransfer* transfer = host_calloc(1, sizeof *transfer);
  if (transfer == NULL) return NULL;
  transfer->base.ort_version_supported = EPHOST_API_VERSION_SERVED;
  transfer->base.Release = transfer_release;
  transfer->base.CanCopy = transfer_can_copy;
  transfer->base.CopyTensors = transfer_copy;
  transfer->info = info;
  return &transfer->base;
}
#else
bool remote_find(const void* data, size_t nbytes, RemotePlace* place) {
  (void)data, (void)nbytes, (void)place;
  return false;
}
const EphostRemoteMemory* remote_memory_of(const OrtAllocator* allocator) {
  (void)allocator;
  return NULL;
}
bool remote_memory_has(const EphostRemoteMemory* memory, const OrtValue* value) {
  (void)memory, (void)value;
  return false;
}
OrtStatus* ephost_remote_memory_new(EphostRemote* remote, uint32_t device, const OrtMemoryInfo* info,
                                    EphostRemoteMemory** out) {
  (void)remote, (void)device, (void)info, (void)out;
  return NULL;
}
void ephost_remote_memory_release(EphostRemoteMemory* memory) { (void)memory; }
OrtAllocator* ephost_remote_memory_allocator(EphostRemoteMemory* memory) {
  (void)memory;
  return NULL;
}
size_t ephost_remote_memory_blocks(EphostRemoteMemory* memory) {
  (void)memory;
  return 0;
}
OrtStatus* ephost_remote_memory_alloc(EphostRemoteMemory* memory, size_t nbytes, void** out) {
  (void)memory, (void)nbytes, (void)out;
  return NULL;
}
void ephost_remote_free(void* block) { (void)block; }
bool ephost_remote_knows(const void* data) {
  (void)data;
  return false;
}
OrtAllocator* ephost_remote_allocator_new(void* handle, EphostRemoteAllocate allocate,
                                          const OrtMemoryInfo* info) {
  (void)handle, (void)allocate, (void)info;
  return NULL;
}
void ephost_remote_allocator_free(OrtAllocator* allocator) { (void)allocator; }
OrtDataTransferImpl* ephost_remote_transfer_new(const OrtMemoryInfo* info) {
  (void)info;
  return NULL;
}
#endif
