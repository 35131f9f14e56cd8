/* A plugin with a device of its own, for testing hosts. It never ships, and the device is make-believe.
 *
 * The device's memory is the CPU's with every bit inverted: whoever reads or writes it without the plugin's
 * data transfer gets garbage. Kernels (Add and Mul of float32, the second operand of the same shape or one
 * number) refuse tensors that are not in blocks of the EP's own allocator. That of StringConcat computes
 * where the host has its strings. Work on streams is queued until somebody waits, so a host that does not
 * wait reads garbage too.
 *
 * DEVICE_PLUGIN in the environment is a list of words, read when the library is registered; the table below
 * says what each does. `device_plugin_counts` tells what the host has called so far. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "../../../plugins/common/registry.h"
#include "../faults.h"

/* ---- What is counted ----------------------------------------------------------------------------------- */

#define COUNTS(COUNT)           \
  COUNT(allocators)             \
  COUNT(allocators_released)    \
  COUNT(blocks)                 \
  COUNT(blocks_freed)           \
  COUNT(weights)                \
  COUNT(in_place)               \
  COUNT(on_stream)              \
  COUNT(reserved)               \
  COUNT(transfers)              \
  COUNT(transfers_released)     \
  COUNT(uploads)                \
  COUNT(uploaded)               \
  COUNT(downloads)              \
  COUNT(downloaded)             \
  COUNT(kernels)                \
  COUNT(kernels_released)       \
  COUNT(computed)               \
  COUNT(streams)                \
  COUNT(streams_released)       \
  COUNT(notifications)          \
  COUNT(notifications_released) \
  COUNT(activated)              \
  COUNT(waited)                 \
  COUNT(queued)                 \
  COUNT(eps)                    \
  COUNT(eps_released)

enum {
#define AS_ENUM(name) N_##name,
  COUNTS(AS_ENUM)
#undef AS_ENUM
      NUM_COUNTS
};

static atomic_long counts[NUM_COUNTS];

static void count(int what, long by) { atomic_fetch_add(&counts[what], by); }

/* "name=number" for each count, separated by blanks; valid until the next call. */
EPHOST_PLUGIN_EXPORT const char* device_plugin_counts(void);
EPHOST_PLUGIN_EXPORT const char* device_plugin_counts(void) {
  static const char* const names[] = {
#define AS_NAME(name) #name,
      COUNTS(AS_NAME)
#undef AS_NAME
  };
  static char text[64 * NUM_COUNTS];
  size_t used = 0;
  for (size_t i = 0; i < NUM_COUNTS; ++i) {
    used += (size_t)snprintf(text + used, sizeof text - used, "%s=%ld ", names[i], atomic_load(&counts[i]));
  }
  return text;
}

/* ---- Modes --------------------------------------------------------------------------------------------- */

/* streams            work goes on streams
 * alloc_on_stream    the allocator takes a stream; with streams, how often it gets one is counted
 * in_place           kernels may write their output over the first input; how often they do is counted
 * weight_memory      there is an allocator for what is only read, whose blocks are counted as weights, too
 * null_weights       that allocator's CreateAllocator succeeds with NULL
 * host_memory        there is memory that the CPU reads and writes, too
 * nvidia             the device says that it is NVIDIA's
 * no_allocator       the factory has no CreateAllocator
 * null_allocator     CreateAllocator succeeds with NULL
 * allocator_fails    CreateAllocator returns an error
 * full               the allocator has no memory
 * no_release         the factory's ReleaseAllocator is NULL
 * no_free            the allocator's Free is NULL
 * null_info          the allocator's Info gives NULL
 * null_notification  CreateNotification of a stream succeeds with NULL
 * no_handle          a stream's GetHandle is NULL
 * null_transfer      CreateDataTransfer succeeds with NULL
 * cannot_copy        CanCopy says no
 * copy_fails         CopyTensors returns an error */
static bool mode(const char* word) {
  const char* text = getenv("DEVICE_PLUGIN");
  const size_t length = strlen(word);
  while (text != NULL && *text != '\0') {
    const size_t n = strcspn(text, " ");
    if (n == length && memcmp(text, word, n) == 0) {
      return true;
    }
    text += n + (text[n] == ' ');
  }
  return false;
}

/* ---- The device ---------------------------------------------------------------------------------------- */

typedef struct Block {
  struct Block* next;
  size_t size;
  unsigned char* data;
} Block;

typedef struct DeviceFactory {
  Factory factory;
  char* name; /* the name of registration, so that one library can be several EPs */
  OrtMemoryInfo* memory;
  OrtMemoryInfo* host_memory;   /* NULL when it has none */
  OrtMemoryInfo* weight_memory; /* likewise */
  OrtKernelRegistry* registry;
  struct KernelState* states;
  Block* blocks;
  Block* host_blocks;
} DeviceFactory;

/* One piece of queued work: out[i] = a[i] op b[i * b_step]; op '<' and '>' are copies to and from the device,
 * where '<' owns `a`. */
typedef struct Work {
  struct Work* next;
  char op;
  unsigned char* out;
  const unsigned char *a, *b;
  size_t n, b_step; /* n: elements, bytes for a copy */
} Work;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of blocks and of the queue */
static Work *queue_first, *queue_last;

static float on_device(const unsigned char* data, size_t index) {
  unsigned char bytes[sizeof(float)];
  float value;
  for (size_t i = 0; i < sizeof bytes; ++i) {
    bytes[i] = (unsigned char)~data[index * sizeof value + i];
  }
  memcpy(&value, bytes, sizeof value);
  return value;
}

static void invert(unsigned char* to, const unsigned char* from, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    to[i] = (unsigned char)~from[i];
  }
}

static void work_now(const Work* work) {
  if (work->op == '<' || work->op == '>') {
    invert(work->out, work->a, work->n);
    return;
  }
  for (size_t i = 0; i < work->n; ++i) {
    const float a = on_device(work->a, i), b = on_device(work->b, i * work->b_step);
    const float value = work->op == '+' ? a + b : a * b;
    unsigned char bytes[sizeof value];
    memcpy(bytes, &value, sizeof value);
    invert(work->out + i * sizeof value, bytes, sizeof value);
  }
}

/* Does all that is queued; call with the lock held. */
static void drain(void) {
  while (queue_first != NULL) {
    Work* work = queue_first;
    queue_first = work->next;
    work_now(work);
    if (work->op == '<') {
      free((void*)(uintptr_t)work->a);
    }
    free(work);
  }
  queue_last = NULL;
}

static void drain_locked(void) {
  pthread_mutex_lock(&lock);
  drain();
  pthread_mutex_unlock(&lock);
}

/* Does the work, on a stream later. False without memory. */
static bool submit(Work work, bool on_stream) {
  pthread_mutex_lock(&lock);
  bool ok = true;
  if (!on_stream) {
    drain();
    work_now(&work);
  } else {
    Work* later = (Work*)malloc(sizeof *later);
    unsigned char* staged = work.op == '<' ? (unsigned char*)malloc(work.n + 1) : NULL;
    ok = later != NULL && (staged != NULL || work.op != '<');
    if (ok) {
      if (staged != NULL) {
        memcpy(staged, work.a, work.n);
        work.a = staged;
      }
      work.next = NULL;
      *later = work;
      *(queue_last != NULL ? &queue_last->next : &queue_first) = later;
      queue_last = later;
      count(N_queued, 1);
    } else {
      free(staged);
      free(later);
    }
  }
  pthread_mutex_unlock(&lock);
  return ok;
}

static bool in_memory_of(const DeviceFactory* factory, const void* data, size_t size) {
  const unsigned char* begin = (const unsigned char*)data;
  bool found = false;
  pthread_mutex_lock(&lock);
  for (const Block* block = factory->blocks; block != NULL && !found; block = block->next) {
    found = begin >= block->data && begin + size <= block->data + block->size;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

/* ---- Allocator ----------------------------------------------------------------------------------------- */

typedef struct Allocator {
  OrtAllocator base;
  const OrtMemoryInfo* memory;
  Block** blocks;
  bool of_weights;
} Allocator;

static void* ORT_API_CALL alloc_block(OrtAllocator* this_ptr, size_t size) {
  fault("Alloc");
  Block** blocks = ((Allocator*)this_ptr)->blocks;
  Block* block = mode("full") ? NULL : (Block*)malloc(sizeof *block);
  if (block == NULL || (block->data = (unsigned char*)malloc(size + 1)) == NULL) {
    free(block);
    return NULL;
  }
  memset(block->data, 0x5A, size + 1);
  block->size = size;
  pthread_mutex_lock(&lock);
  block->next = *blocks;
  *blocks = block;
  pthread_mutex_unlock(&lock);
  count(N_blocks, 1);
  count(N_weights, ((Allocator*)this_ptr)->of_weights);
  return block->data;
}

static void* ORT_API_CALL reserve_block(OrtAllocator* this_ptr, size_t size) {
  count(N_reserved, 1);
  return alloc_block(this_ptr, size);
}

static void* ORT_API_CALL alloc_on_stream(OrtAllocator* this_ptr, size_t size, OrtSyncStream* stream) {
  count(N_on_stream, stream != NULL);
  return alloc_block(this_ptr, size);
}

/* Freeing waits for the work that may use the block, as an allocator that knows no streams has to. */
static void ORT_API_CALL free_block(OrtAllocator* this_ptr, void* data) {
  fault("Free");
  if (data == NULL) {
    return;
  }
  pthread_mutex_lock(&lock);
  drain();
  Block** link = ((Allocator*)this_ptr)->blocks;
  while (*link != NULL && (*link)->data != data) {
    link = &(*link)->next;
  }
  Block* block = *link;
  if (block == NULL) { /* memory of somebody else: nothing good can come after this */
    (void)fprintf(stderr, "device_plugin: Free of a block that is not ours\n");
    abort();
  }
  *link = block->next;
  pthread_mutex_unlock(&lock);
  count(N_blocks_freed, 1);
  free(block->data);
  free(block);
}

static const OrtMemoryInfo* ORT_API_CALL allocator_info(const OrtAllocator* this_ptr) {
  return mode("null_info") ? NULL : ((const Allocator*)this_ptr)->memory;
}

/* "key=value" for each option of the allocator that was made last, separated by blanks. */
static char allocator_options[512];

EPHOST_PLUGIN_EXPORT const char* device_plugin_allocator_options(void);
EPHOST_PLUGIN_EXPORT const char* device_plugin_allocator_options(void) { return allocator_options; }

static void remember_options(const OrtApi* api, const OrtKeyValuePairs* options) {
  const char* const* keys = NULL;
  const char* const* values = NULL;
  size_t number = 0, used = 0;
  allocator_options[0] = '\0';
  if (options != NULL) {
    api->GetKeyValuePairs(options, &keys, &values, &number);
  }
  for (size_t i = 0; i < number && used < sizeof allocator_options; ++i) {
    used += (size_t)snprintf(allocator_options + used, sizeof allocator_options - used, "%s=%s ", keys[i],
                             values[i]);
  }
}

static OrtStatus* ORT_API_CALL create_allocator(OrtEpFactory* this_ptr, const OrtMemoryInfo* memory_info,
                                                const OrtKeyValuePairs* options, OrtAllocator** out) {
  fault("CreateAllocator");
  DeviceFactory* factory = (DeviceFactory*)this_ptr;
  const OrtEpApi* ep_api = factory->factory.ep_api;
  OrtAllocatorType type = OrtInvalidAllocator;
  *out = NULL;
  remember_options(factory->factory.api, options);
  if (memory_info != factory->memory && memory_info != factory->host_memory &&
      memory_info != factory->weight_memory) {
    return factory->factory.api->CreateStatus(ORT_INVALID_ARGUMENT, "that is no memory info of this plugin");
  }
  TRY(factory->factory.api->MemoryInfoGetType(memory_info, &type));
  const bool of_weights = type == OrtReadOnlyAllocator;
  if (mode(of_weights ? "null_weights" : "null_allocator")) {
    return NULL;
  }
  if (mode("allocator_fails")) {
    return factory->factory.api->CreateStatus(ORT_EP_FAIL, "the device is on holiday");
  }
  Allocator* allocator = (Allocator*)calloc(1, sizeof *allocator);
  if (allocator == NULL) {
    return out_of_memory(factory->factory.api);
  }
  allocator->base.version = API_VERSION;
  allocator->base.Alloc = alloc_block;
  allocator->base.Reserve = reserve_block;
  allocator->base.AllocOnStream = mode("alloc_on_stream") ? alloc_on_stream : NULL;
  allocator->base.Free = mode("no_free") ? NULL : free_block;
  allocator->base.Info = allocator_info;
  const bool on_host = ep_api->MemoryDevice_GetMemoryType(ep_api->MemoryInfo_GetMemoryDevice(memory_info)) ==
                       OrtDeviceMemoryType_HOST_ACCESSIBLE;
  allocator->memory = on_host ? factory->host_memory : of_weights ? factory->weight_memory : factory->memory;
  allocator->of_weights = of_weights;
  allocator->blocks = on_host ? &factory->host_blocks : &factory->blocks;
  count(N_allocators, 1);
  *out = &allocator->base;
  return NULL;
}

static void ORT_API_CALL release_allocator(OrtEpFactory* this_ptr, OrtAllocator* allocator) {
  fault("ReleaseAllocator");
  (void)this_ptr;
  count(N_allocators_released, allocator != NULL);
  free(allocator);
}

/* ---- Data transfer ------------------------------------------------------------------------------------- */

typedef struct Transfer {
  OrtDataTransferImpl base;
  const DeviceFactory* factory;
} Transfer;

static bool is_ours(const DeviceFactory* factory, const OrtMemoryDevice* device) {
  const OrtEpApi* ep_api = factory->factory.ep_api;
  return ep_api->MemoryDevice_AreEqual(device, ep_api->MemoryInfo_GetMemoryDevice(factory->memory));
}

static bool is_cpu(const DeviceFactory* factory, const OrtMemoryDevice* device) {
  return factory->factory.ep_api->MemoryDevice_GetDeviceType(device) == OrtMemoryInfoDeviceType_CPU;
}

static bool ORT_API_CALL can_copy(const OrtDataTransferImpl* this_ptr, const OrtMemoryDevice* from,
                                  const OrtMemoryDevice* to) {
  fault("CanCopy");
  const DeviceFactory* factory = ((const Transfer*)this_ptr)->factory;
  return !mode("cannot_copy") &&
         ((is_cpu(factory, from) && is_ours(factory, to)) || (is_ours(factory, from) && is_cpu(factory, to)));
}

/* The tensor's memory and its size, which has to be in one of our blocks when it is on our device. */
static OrtStatus* get_data(const DeviceFactory* factory, const OrtValue* value, bool device,
                           unsigned char** data, size_t* size) {
  const OrtApi* api = factory->factory.api;
  const void* memory = NULL;
  TRY(api->GetTensorData(value, &memory));
  TRY(api->GetTensorSizeInBytes(value, size));
  *data = (unsigned char*)(uintptr_t)memory;
  if (*size > 0 && in_memory_of(factory, memory, *size) != device) {
    return api->CreateStatus(ORT_EP_FAIL, device ? "a tensor is not in the device's memory"
                                                 : "a tensor of the CPU is in the device's memory");
  }
  return NULL;
}

static OrtStatus* copy_one(const DeviceFactory* factory, const OrtValue* source, OrtValue* target,
                           bool on_stream) {
  const OrtEpApi* ep_api = factory->factory.ep_api;
  const bool down = is_ours(factory, ep_api->Value_GetMemoryDevice(source));
  unsigned char *from = NULL, *to = NULL;
  size_t size = 0, room = 0;
  TRY(get_data(factory, source, down, &from, &size));
  TRY(get_data(factory, target, !down, &to, &room));
  if (size != room) {
    return factory->factory.api->CreateStatus(ORT_EP_FAIL, "the sizes of a copy differ");
  }
  count(down ? N_downloaded : N_uploaded, 1);
  if (!submit((Work){NULL, down ? '>' : '<', to, from, NULL, size, 0}, on_stream)) {
    return out_of_memory(factory->factory.api);
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL copy_tensors(OrtDataTransferImpl* this_ptr, const OrtValue** sources,
                                            OrtValue** targets, OrtSyncStream** streams, size_t num) {
  fault("CopyTensors");
  const DeviceFactory* factory = ((const Transfer*)this_ptr)->factory;
  if (mode("copy_fails")) {
    return factory->factory.api->CreateStatus(ORT_EP_FAIL, "the cable is out");
  }
  if (num > 0) {
    const OrtMemoryDevice* source = factory->factory.ep_api->Value_GetMemoryDevice(sources[0]);
    count(is_ours(factory, source) ? N_downloads : N_uploads, 1);
  }
  for (size_t i = 0; i < num; ++i) {
    TRY(copy_one(factory, sources[i], targets[i], streams != NULL && streams[i] != NULL));
  }
  return NULL;
}

static void ORT_API_CALL release_transfer(OrtDataTransferImpl* this_ptr) {
  fault("ReleaseTransfer");
  count(N_transfers_released, 1);
  free(this_ptr);
}

static OrtStatus* ORT_API_CALL create_transfer(OrtEpFactory* this_ptr, OrtDataTransferImpl** out) {
  fault("CreateDataTransfer");
  const DeviceFactory* factory = (const DeviceFactory*)this_ptr;
  *out = NULL;
  if (mode("null_transfer")) {
    return NULL;
  }
  Transfer* transfer = (Transfer*)calloc(1, sizeof *transfer);
  if (transfer == NULL) {
    return out_of_memory(factory->factory.api);
  }
  transfer->base.ort_version_supported = API_VERSION;
  transfer->base.Release = release_transfer;
  transfer->base.CanCopy = can_copy;
  transfer->base.CopyTensors = copy_tensors;
  transfer->factory = factory;
  count(N_transfers, 1);
  *out = &transfer->base;
  return NULL;
}

/* ---- Streams ------------------------------------------------------------------------------------------- */

static void ORT_API_CALL release_notification(OrtSyncNotificationImpl* this_ptr) {
  count(N_notifications_released, 1);
  free(this_ptr);
}

static OrtStatus* ORT_API_CALL activate(OrtSyncNotificationImpl* this_ptr) {
  (void)this_ptr;
  count(N_activated, 1);
  return NULL;
}

static OrtStatus* ORT_API_CALL wait_on_device(OrtSyncNotificationImpl* this_ptr, OrtSyncStream* consumer) {
  (void)this_ptr, (void)consumer; /* there is one queue for all streams: what comes later is done later */
  return NULL;
}

static OrtStatus* ORT_API_CALL wait_on_host(OrtSyncNotificationImpl* this_ptr) {
  fault("WaitOnHost");
  (void)this_ptr;
  drain_locked();
  count(N_waited, 1);
  return NULL;
}

typedef struct Stream {
  OrtSyncStreamImpl base;
  const OrtApi* api;
} Stream;

static void ORT_API_CALL release_stream(OrtSyncStreamImpl* this_ptr) {
  fault("ReleaseStream");
  drain_locked();
  count(N_streams_released, 1);
  free(this_ptr);
}

static void* ORT_API_CALL stream_handle(OrtSyncStreamImpl* this_ptr) { return this_ptr; }

static OrtStatus* ORT_API_CALL create_notification(OrtSyncStreamImpl* this_ptr,
                                                   OrtSyncNotificationImpl** out) {
  fault("CreateNotification");
  if (mode("null_notification")) {
    *out = NULL;
    return NULL;
  }
  OrtSyncNotificationImpl* notification = (OrtSyncNotificationImpl*)calloc(1, sizeof *notification);
  *out = notification;
  if (notification == NULL) {
    return out_of_memory(((Stream*)this_ptr)->api);
  }
  notification->ort_version_supported = API_VERSION;
  notification->Release = release_notification;
  notification->Activate = activate;
  notification->WaitOnDevice = wait_on_device;
  notification->WaitOnHost = wait_on_host;
  count(N_notifications, 1);
  return NULL;
}

static OrtStatus* ORT_API_CALL flush(OrtSyncStreamImpl* this_ptr) {
  fault("Flush");
  (void)this_ptr;
  drain_locked();
  return NULL;
}

static OrtStatus* ORT_API_CALL run_ended(OrtSyncStreamImpl* this_ptr) {
  fault("OnSessionRunEnd");
  (void)this_ptr;
  return NULL;
}

static bool ORT_API_CALL is_stream_aware(const OrtEpFactory* this_ptr) {
  fault("IsStreamAware");
  (void)this_ptr;
  return mode("streams");
}

static OrtStatus* ORT_API_CALL create_stream(OrtEpFactory* this_ptr, const OrtMemoryDevice* device,
                                             const OrtKeyValuePairs* options, OrtSyncStreamImpl** out) {
  fault("CreateSyncStreamForDevice");
  const OrtApi* api = ((const DeviceFactory*)this_ptr)->factory.api;
  (void)device, (void)options;
  Stream* stream = (Stream*)calloc(1, sizeof *stream);
  *out = stream == NULL ? NULL : &stream->base;
  if (stream == NULL) {
    return out_of_memory(api);
  }
  stream->api = api;
  stream->base.ort_version_supported = API_VERSION;
  stream->base.Release = release_stream;
  stream->base.GetHandle = mode("no_handle") ? NULL : stream_handle;
  stream->base.CreateNotification = create_notification;
  stream->base.Flush = flush;
  stream->base.OnSessionRunEnd = run_ended;
  count(N_streams, 1);
  return NULL;
}

/* ---- Kernels ------------------------------------------------------------------------------------------- */

typedef struct KernelState {
  const DeviceFactory* factory;
  const char* type;
  int since_first, since_last;
  char op; /* '+', '*'; 's': StringConcat; '<' and '>': onnxruntime's own operators for copies to and fro */
} KernelState;

static const KernelState kKernels[] = {
    {NULL, "Add", 7, 13, '+'},           {NULL, "Add", 14, 14, '+'},
    {NULL, "Mul", 7, 13, '*'},           {NULL, "Mul", 14, 14, '*'},
    {NULL, "MemcpyFromHost", 1, 1, '<'}, {NULL, "MemcpyToHost", 1, 1, '>'},
    {NULL, "StringConcat", 20, 20, 's'},
};
enum { NUM_KERNELS = sizeof kKernels / sizeof kKernels[0] };

typedef struct Kernel {
  OrtKernelImpl base;
  const KernelState* state;
} Kernel;

typedef struct Operand {
  const OrtValue* value;
  unsigned char* data;
  const int64_t* dims;
  size_t rank, size;
} Operand;

static OrtStatus* get_operand(const DeviceFactory* factory, const OrtKernelContext* context, size_t index,
                              bool device, Operand* operand) {
  const OrtApi* api = factory->factory.api;
  ONNXTensorElementDataType type;
  TRY(api->KernelContext_GetInput(context, index, &operand->value));
  TRY(api->GetTensorElementTypeAndShapeDataReference(operand->value, &type, &operand->dims, &operand->rank));
  return get_data(factory, operand->value, device, &operand->data, &operand->size);
}

/* Each text of the first tensor with the one at its place in the second behind it; both short. */
static OrtStatus* concat_strings(const OrtApi* api, OrtKernelContext* context) {
  const OrtValue* values[2] = {NULL, NULL};
  OrtValue* out = NULL;
  ONNXTensorElementDataType type;
  const int64_t* dims = NULL;
  size_t rank = 0, elements = 1;
  for (size_t k = 0; k < 2; ++k) {
    TRY(api->KernelContext_GetInput(context, k, &values[k]));
  }
  TRY(api->GetTensorElementTypeAndShapeDataReference(values[0], &type, &dims, &rank));
  TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &out));
  for (size_t i = 0; i < rank; ++i) {
    elements *= (size_t)dims[i];
  }
  for (size_t i = 0; i < elements; ++i) {
    char text[256];
    size_t used = 0;
    for (size_t k = 0; k < 2; ++k) {
      size_t length = 0;
      TRY(api->GetStringTensorElementLength(values[k], i, &length));
      if (used + length >= sizeof text) {
        return api->CreateStatus(ORT_INVALID_ARGUMENT, "device_plugin: a text is too long");
      }
      TRY(api->GetStringTensorElement(values[k], length, i, text + used));
      used += length;
    }
    text[used] = '\0';
    TRY(api->FillStringTensorElement(out, text, i));
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL compute(OrtKernelImpl* this_ptr, OrtKernelContext* context) {
  fault("Compute");
  const KernelState* state = ((const Kernel*)this_ptr)->state;
  const DeviceFactory* factory = state->factory;
  const OrtApi* api = factory->factory.api;
  if (state->op == 's') {
    count(N_computed, 1);
    return concat_strings(api, context);
  }
  Operand a, b = {0};
  OrtValue* value = NULL;
  unsigned char* out = NULL;
  size_t size = 0;
  void* stream = NULL;
  const bool copies = state->op == '<' || state->op == '>';
  TRY(get_operand(factory, context, 0, state->op != '<', &a));
  TRY(api->KernelContext_GetOutput(context, 0, a.dims, a.rank, &value));
  if (copies) {
    TRY(copy_one(factory, a.value, value, false));
    return NULL;
  }
  TRY(get_operand(factory, context, 1, true, &b));
  TRY(get_data(factory, value, true, &out, &size));
  if (b.size != a.size && b.size != sizeof(float)) {
    return api->CreateStatus(ORT_INVALID_ARGUMENT, "device_plugin: the shapes do not fit");
  }
  TRY(api->KernelContext_GetGPUComputeStream(context, &stream));
  if (mode("streams") != (stream != NULL)) {
    return api->CreateStatus(ORT_EP_FAIL, stream != NULL ? "an unexpected stream" : "there is no stream");
  }
  const size_t step = b.size == a.size;
  count(N_in_place, out == a.data && a.size > 0);
  if (!submit((Work){NULL, state->op, out, a.data, b.data, a.size / sizeof(float), step}, stream != NULL)) {
    return out_of_memory(api);
  }
  count(N_computed, 1);
  return NULL;
}

static void ORT_API_CALL release_kernel(OrtKernelImpl* this_ptr) {
  fault("ReleaseKernel");
  count(N_kernels_released, 1);
  free(this_ptr);
}

static OrtStatus* ORT_API_CALL create_kernel(void* state, const OrtKernelInfo* info, OrtKernelImpl** out) {
  fault("CreateKernel");
  (void)info;
  Kernel* kernel = (Kernel*)calloc(1, sizeof *kernel);
  if (kernel == NULL) {
    return out_of_memory(((const KernelState*)state)->factory->factory.api);
  }
  kernel->base.ort_version_supported = API_VERSION;
  kernel->base.Compute = compute;
  kernel->base.Release = release_kernel;
  kernel->state = (const KernelState*)state;
  count(N_kernels, 1);
  *out = &kernel->base;
  return NULL;
}

/* ---- The EP -------------------------------------------------------------------------------------------- */

typedef struct Ep {
  OrtEp base;
  const DeviceFactory* factory;
} Ep;

static const char* ORT_API_CALL ep_name(const OrtEp* this_ptr) {
  return ((const Ep*)this_ptr)->factory->name;
}

/* Claims what there is a kernel for. A node whose name starts with the name of another EP is left to it. */
static OrtStatus* claim(const void* owner, OrtEpGraphSupportInfo* support, const OrtNode* node) {
  const DeviceFactory* factory = (const DeviceFactory*)owner;
  const OrtKernelDef* definition = NULL;
  const char* name = NULL;
  TRY(factory->factory.api->Node_GetName(node, &name));
  const char* colon = strchr(name, ':');
  if (colon != NULL && (strlen(factory->name) != (size_t)(colon - name) ||
                        strncmp(name, factory->name, (size_t)(colon - name)) != 0)) {
    return NULL;
  }
  TRY(factory->factory.ep_api->EpGraphSupportInfo_LookUpKernel(support, node, &definition));
  return definition == NULL ? NULL : factory->factory.ep_api->EpGraphSupportInfo_AddSingleNode(support, node);
}

static OrtStatus* ORT_API_CALL ep_get_capability(OrtEp* this_ptr, const OrtGraph* graph,
                                                 OrtEpGraphSupportInfo* support) {
  const DeviceFactory* factory = ((const Ep*)this_ptr)->factory;
  return claim_each(factory->factory.api, graph, support, claim, factory);
}

static OrtStatus* ORT_API_CALL ep_get_kernel_registry(OrtEp* this_ptr, const OrtKernelRegistry** registry) {
  *registry = ((const Ep*)this_ptr)->factory->registry;
  return NULL;
}

static OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* this_ptr, const OrtHardwareDevice* const* devices,
                                         const OrtKeyValuePairs* const* ep_metadata, size_t num_devices,
                                         const OrtSessionOptions* session_options, const OrtLogger* logger,
                                         OrtEp** out) {
  const DeviceFactory* factory = (const DeviceFactory*)this_ptr;
  (void)devices, (void)ep_metadata, (void)num_devices, (void)session_options, (void)logger;
  Ep* ep = (Ep*)calloc(1, sizeof *ep);
  if (ep == NULL) {
    return out_of_memory(factory->factory.api);
  }
  ep->base.ort_version_supported = API_VERSION;
  ep->base.GetName = ep_name;
  ep->base.GetCapability = ep_get_capability;
  ep->base.GetKernelRegistry = ep_get_kernel_registry;
  ep->factory = factory;
  count(N_eps, 1);
  *out = &ep->base;
  return NULL;
}

static void ORT_API_CALL release_ep(OrtEpFactory* this_ptr, OrtEp* ep) {
  (void)this_ptr;
  count(N_eps_released, 1);
  free(ep);
}

static OrtStatus* ORT_API_CALL supported_devices(OrtEpFactory* this_ptr,
                                                 const OrtHardwareDevice* const* devices, size_t num_devices,
                                                 OrtEpDevice** ep_devices, size_t max_ep_devices,
                                                 size_t* num_ep_devices) {
  DeviceFactory* factory = (DeviceFactory*)this_ptr;
  TRY(factory_devices(this_ptr, devices, num_devices, ep_devices, max_ep_devices, num_ep_devices));
  for (size_t i = 0; i < *num_ep_devices; ++i) {
    OrtStatus* status = factory->factory.ep_api->EpDevice_AddAllocatorInfo(ep_devices[i], factory->memory);
    if (status == NULL && factory->host_memory != NULL) {
      status = factory->factory.ep_api->EpDevice_AddAllocatorInfo(ep_devices[i], factory->host_memory);
    }
    if (status == NULL && factory->weight_memory != NULL) {
      status = factory->factory.ep_api->EpDevice_AddAllocatorInfo(ep_devices[i], factory->weight_memory);
    }
    if (status != NULL) {
      for (size_t k = 0; k < *num_ep_devices; ++k) {
        factory->factory.ep_api->ReleaseEpDevice(ep_devices[k]);
      }
      *num_ep_devices = 0;
      return status;
    }
  }
  return NULL;
}

/* ---- The two exported functions ------------------------------------------------------------------------ */

EPHOST_PLUGIN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  DeviceFactory* own = (DeviceFactory*)factory;
  if (own->registry != NULL) {
    own->factory.ep_api->ReleaseKernelRegistry(own->registry);
  }
  if (own->memory != NULL) {
    own->factory.api->ReleaseMemoryInfo(own->memory);
  }
  if (own->host_memory != NULL) {
    own->factory.api->ReleaseMemoryInfo(own->host_memory);
  }
  if (own->weight_memory != NULL) {
    own->factory.api->ReleaseMemoryInfo(own->weight_memory);
  }
  free(own->states);
  free(own->name);
  free(own);
  return NULL;
}

static OrtStatus* fill_factory(DeviceFactory* own, const char* name) {
  static atomic_int made;
  const OrtApi* api = own->factory.api;
  own->name = strdup(name);
  own->states = (KernelState*)calloc(NUM_KERNELS, sizeof *own->states);
  if (own->name == NULL || own->states == NULL) {
    return out_of_memory(api);
  }
  own->factory.ep_name = own->name;
  own->factory.base.GetSupportedDevices = supported_devices;
  own->factory.base.CreateEp = create_ep;
  own->factory.base.ReleaseEp = release_ep;
  own->factory.base.CreateAllocator = mode("no_allocator") ? NULL : create_allocator;
  own->factory.base.ReleaseAllocator = mode("no_release") ? NULL : release_allocator;
  own->factory.base.CreateDataTransfer = create_transfer;
  own->factory.base.IsStreamAware = is_stream_aware;
  own->factory.base.CreateSyncStreamForDevice = mode("streamless") ? NULL : create_stream;
  const uint32_t vendor = mode("nvidia") ? 0x10DE : 0x1234;
  const int device_id = atomic_fetch_add(&made, 1);
  TRY(api->CreateMemoryInfo_V2("make_believe", OrtMemoryInfoDeviceType_GPU, vendor, device_id,
                               OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator, &own->memory));
  if (mode("host_memory")) {
    TRY(api->CreateMemoryInfo_V2("make_believe_host", OrtMemoryInfoDeviceType_GPU, vendor, device_id,
                                 OrtDeviceMemoryType_HOST_ACCESSIBLE, 0, OrtDeviceAllocator,
                                 &own->host_memory));
  }
  if (mode("weight_memory")) {
    TRY(api->CreateMemoryInfo_V2("make_believe", OrtMemoryInfoDeviceType_GPU, vendor, device_id,
                                 OrtDeviceMemoryType_DEFAULT, 0, OrtReadOnlyAllocator, &own->weight_memory));
  }
  TRY(own->factory.ep_api->CreateKernelRegistry(&own->registry));
  for (size_t i = 0; i < NUM_KERNELS; ++i) {
    own->states[i] = kKernels[i];
    own->states[i].factory = own;
    const KernelState* state = &own->states[i];
    const KernelRow row = {.type = state->type,
                           .domain = "",
                           .since_first = state->since_first,
                           .since_last = state->since_last,
                           .type_parameter = state->op == 's' ? NULL : "T",
                           .reusable_inputs = mode("in_place") && strchr("<>", state->op) == NULL,
                           .cpu_input = state->op == '<',
                           .cpu_output = state->op == '>'};
    TRY(register_kernel(own->factory.ep_api, own->registry, own->name, &row, create_kernel, &own->states[i]));
  }
  return NULL;
}

EPHOST_PLUGIN_EXPORT OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* ort_api_base,
                                                  const OrtLogger* default_logger, OrtEpFactory** factories,
                                                  size_t max_factories, size_t* num_factories) {
  (void)default_logger;
  *num_factories = 0;
  const OrtApi* api = ort_api_base->GetApi(API_VERSION);
  if (api == NULL || max_factories < 1) {
    return host_too_old(ort_api_base);
  }
  DeviceFactory* own = (DeviceFactory*)calloc(1, sizeof *own);
  if (own == NULL) {
    return out_of_memory(api);
  }
  factory_init(&own->factory, api, "");
  OrtStatus* status = fill_factory(own, registered_name);
  if (status != NULL) {
    ReleaseEpFactory(&own->factory.base);
    return status;
  }
  factories[0] = &own->factory.base;
  *num_factories = 1;
  return NULL;
}
