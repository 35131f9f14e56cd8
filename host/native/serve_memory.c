/* A device's memory in a worker process, for the host: its blocks have numbers, and are allocated, freed and
 * copied as lanes ask for it. */
#define _GNU_SOURCE
#include "isolation.h"

#ifndef _WIN32
#include <string.h>

#include "abi.h"
#include "exceptions.h"
#include "heap.h"
#include "memory.h"
#include "status.h"
#include "value.h"

typedef struct ServedDevice {
  OrtAllocator* allocator;
  OrtDataTransferImpl* transfer;
  const OrtMemoryInfo* info; /* NULL: nobody has asked for this device's memory */
} ServedDevice;

/* A device stays where it is once it is there: who has looked for it needs no lock. */
enum { MOST_DEVICES = 256 };

static struct {
  Mutex lock;
  ServedDevice devices[MOST_DEVICES];
  Buffer** blocks; /* by number - 1; NULL: the number is free */
  size_t count;
  size_t first_free; /* no number below it is */
} served = {.lock = MUTEX_INIT};

bool ephost_serve_memory(uint32_t device, OrtAllocator* allocator, OrtDataTransferImpl* transfer,
                         const OrtMemoryInfo* info) {
  if (device >= MOST_DEVICES) return false;
  mutex_lock(&served.lock);
  served.devices[device] = (ServedDevice){allocator, transfer, info};
  mutex_unlock(&served.lock);
  return true;
}

static OrtStatus* find_device(uint32_t device, ServedDevice* found) {
  if (device < MOST_DEVICES) {
    mutex_lock(&served.lock);
    *found = served.devices[device];
    mutex_unlock(&served.lock);
    if (found->info != NULL) return NULL;
  }
  return status_new(ORT_FAIL, "an isolated plugin was asked for the memory of device %u, which it has not",
                    device);
}

const OrtMemoryInfo* served_memory(uint32_t device) {
  ServedDevice found = {.info = NULL};
  OrtStatus* status = find_device(device, &found);
  if (status == NULL) return found.info;
  ephost_api.ReleaseStatus(status);
  return NULL;
}

/* ---- blocks ---- */

uint64_t served_keep(Buffer* block) {
  uint64_t number = 0;
  mutex_lock(&served.lock);
  size_t at = served.first_free;
  while (at < served.count && served.blocks[at] != NULL) ++at;
  if (at == served.count) {
    size_t count = served.count ? served.count * 2 : 16;
    Buffer** blocks = host_realloc(served.blocks, count * sizeof(Buffer*));
    if (blocks != NULL) {
      for (size_t i = served.count; i < count; ++i) blocks[i] = NULL;
      served.blocks = blocks;
      served.count = count;
    }
  }
  if (at < served.count) {
    served.blocks[at] = block;
    served.first_free = at + 1;
    number = at + 1;
  }
  mutex_unlock(&served.lock);
  return number;
}

Buffer* served_block(uint64_t number) {
  Buffer* block = NULL;
  mutex_lock(&served.lock);
  if (number > 0 && number <= served.count) block = served.blocks[number - 1];
  if (block != NULL) buffer_retain(block);
  mutex_unlock(&served.lock);
  return block;
}

void served_drop(uint64_t number) {
  Buffer* block = NULL;
  mutex_lock(&served.lock);
  if (number > 0 && number <= served.count) {
    block = served.blocks[number - 1];
    served.blocks[number - 1] = NULL;
    if (number - 1 < served.first_free) served.first_free = number - 1;
  }
  mutex_unlock(&served.lock);
  buffer_release(block);
}

OrtStatus* served_new(uint32_t device, size_t nbytes, uint64_t* number) {
  ServedDevice own = {.info = NULL};
  OrtStatus* status = find_device(device, &own);
  if (status != NULL) return status;
  Buffer* block = buffer_from_allocator(own.allocator, nbytes, NULL);
  if (block == NULL) {
    char state[ALLOCATOR_STATE];
    return outcome(status_new(ORT_FAIL, "no %zu bytes of %s memory%s", nbytes, own.info->name,
                              allocator_state(own.allocator, state)));
  }
  *number = served_keep(block);
  if (*number != 0) return NULL;
  buffer_release(block);
  return status_no_memory();
}

/* ---- copies ---- */

static OrtStatus* transfer_once(const ServedDevice* own, const OrtValue* source, OrtValue* target) {
  return outcome(GUARDED(OrtDataTransferImpl, CopyTensors)(own->transfer, &source, &target, NULL, 1));
}

OrtStatus* served_copy(uint32_t device, const OrtValue* source, OrtValue* target) {
  ServedDevice own = {.info = NULL};
  OrtStatus* status = find_device(device, &own);
  if (status != NULL) return status;
  bool is_on_device = !memory_info_is_cpu(source->memory_info) && !memory_info_is_cpu(target->memory_info);
  if (!is_on_device || GUARDED(OrtDataTransferImpl, CanCopy)(own.transfer, &source->memory_info->device,
                                                             &target->memory_info->device)) {
    return transfer_once(&own, source, target);
  }
  OrtValue between = {.type = ONNX_TYPE_UNKNOWN};
  if (!value_alloc_tensor(&between, source->element_type, source->dims, source->rank, NULL)) {
    return status_no_memory();
  }
  status = transfer_once(&own, source, &between);
  if (status == NULL) status = transfer_once(&own, &between, target);
  value_clear(&between);
  return status;
}

/* A tensor of the shape that the lane says: over a block, or over memory of the pool. */
static OrtStatus* init_block(OrtValue* value, const LaneBlock* lane, uint64_t number, uint64_t offset,
                             const OrtMemoryInfo* info) {
  Buffer* block = served_block(number);
  if (block == NULL) {
    return status_new(ORT_FAIL,
                      "an isolated plugin was asked for a block of its device's memory that it "
                      "does not have");
  }
  if (lane->rank > LANE_RANK || !value_init_tensor(value, (ONNXTensorElementDataType)(int)lane->element_type,
                                                   lane->dims, lane->rank, block, NULL, info)) {
    buffer_release(block);
    return status_no_memory();
  }
  value->data = (char*)value->data + offset;
  return NULL;
}

static OrtStatus* copy_asked(SharedPool* pool, LaneBlock* lane) {
  const uint64_t* arguments = lane->arguments;
  uint32_t device = (uint32_t)arguments[0];
  ServedDevice own = {.info = NULL};
  OrtValue here = {.type = ONNX_TYPE_UNKNOWN}, other = {.type = ONNX_TYPE_UNKNOWN};
  OrtStatus* status = find_device(device, &own);
  if (status == NULL) status = init_block(&here, lane, arguments[1], arguments[2], own.info);
  if (status == NULL && lane->operation == LANE_COPY) {
    status = init_block(&other, lane, arguments[3], arguments[4], own.info);
  } else if (status == NULL) {
    void* data = pool_at(pool, arguments[3], here.nbytes);
    bool done = data != NULL && value_init_tensor(&other, here.element_type, here.dims, here.rank, NULL, data,
                                                  &ephost_cpu_memory_info);
    if (!done) status = status_no_memory();
  }
  if (status == NULL) {
    status = lane->operation == LANE_UPLOAD ? served_copy(device, &other, &here)
                                            : served_copy(device, &here, &other);
  }
  value_clear(&here);
  value_clear(&other);
  return status;
}

OrtStatus* served_operation(SharedPool* pool, LaneBlock* lane) {
  switch ((LaneOperation)lane->operation) {
    case LANE_ALLOCATE:
      lane->result = 0;
      return served_new((uint32_t)lane->arguments[0], (size_t)lane->arguments[1], &lane->result);
    case LANE_FREE:
      served_drop(lane->arguments[0]);
      return NULL;
    case LANE_UPLOAD:
    case LANE_DOWNLOAD:
    case LANE_COPY:
      return copy_asked(pool, lane);
    case LANE_RUN:
      break;
  }
  return status_new(ORT_FAIL, "an isolated plugin was asked for what there is not: operation %u",
                    lane->operation);
}
#else
bool ephost_serve_memory(uint32_t device, OrtAllocator* allocator, OrtDataTransferImpl* transfer,
                         const OrtMemoryInfo* info) {
  (void)device, (void)allocator, (void)transfer, (void)info;
  return false;
}
#endif
