/* A stand-in for the CUDA driver, for testing hosts and plugins/cuda on machines without a GPU.
 *
 * It exports those functions of libcuda.so.1 that plugins/cuda uses. Its devices are make-believe:
 *
 * - Device memory is memory of this process that may not be touched: whoever reads or writes it other than
 * through the driver crashes. Fresh memory is filled with 0xA5.
 * - Streams are lazy: what is queued happens when somebody waits for it, not before, so a missing wait shows
 * as wrong data. Copies from pageable memory take the bytes at once, from page-locked memory late, as the
 * driver's do.
 * - Memory that is used before its allocation in stream order, or after it was freed, is an illegal address.
 * - Kernels are those of plugins/cuda/kernels, compiled for the CPU (emulate.h); the images that are loaded
 * are only looked at for being images.
 *
 * FAKE_CUDA in the environment describes the machine: devices=2 memory=64M capability=61 version=12040
 * init=CODE (cuInit's result) slow_recording=1; "capability=90,61" are those of two devices. fake_cuda_set
 * changes while it runs: fail=FUNCTION:CODE:SKIP (CODE 0 takes that back) (one call, after SKIP others),
 * fault=KERNEL:CODE (when that kernel runs, the device is lost), lose=CODE (now). cuda_report tells what
 * happened. */
#include <cuda.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "emulate.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

/* ---- The machine --------------------------------------------------------------------------------------- */

std::recursive_mutex lock;
#define LOCK const std::lock_guard<std::recursive_mutex> hold(lock)

std::map<std::string, std::string> words(const char* text) {
  std::map<std::string, std::string> found;
  std::string rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const std::string word = rest.substr(0, rest.find(' '));
    rest.erase(0, word.size() + 1);
    const size_t equals = word.find('=');
    if (!word.empty()) {
      found[word.substr(0, equals)] = equals == std::string::npos ? "1" : word.substr(equals + 1);
    }
  }
  return found;
}

size_t number(const std::string& text, size_t otherwise) {
  if (text.empty()) {
    return otherwise;
  }
  char* end = nullptr;
  const size_t value = std::strtoull(text.c_str(), &end, 10);
  return value << (*end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0);
}

std::string setting(const char* key) {
  static const std::map<std::string, std::string> all = words(std::getenv("FAKE_CUDA"));
  const auto found = all.find(key);
  return found == all.end() ? "" : found->second;
}

std::map<std::string, long> counts;
std::vector<std::string> launched;

struct Failure {
  int code;
  long skip;
};
std::map<std::string, Failure> failures; /* of functions, once */
std::map<std::string, int> faults;       /* of kernels */

constexpr size_t kPage = 4096;
constexpr size_t kRegion = size_t(8) << 30; /* addresses for each device */

struct Block {
  size_t bytes, pages;
  bool allocated = false; /* in stream order */
};

struct Device {
  char* base = nullptr;
  size_t limit = 0, used = 0;
  std::map<char*, Block> blocks;
  std::map<char*, size_t> holes; /* free addresses: start, bytes */
  int contexts = 0;
};
std::vector<Device> devices;
int lost = 0; /* the code that every call gets */
int draining = 0;
std::atomic<int> recordings{0}; /* that are under way */

struct Event;
struct Stream;

struct Point { /* a place in a stream that an event was recorded at */
  Stream* stream;
  bool done = false;
};

struct Op {
  std::function<void()> run;
  std::shared_ptr<Point> waits_for;
};

struct Stream {
  int device;
  std::deque<Op> queue;
  bool destroyed = false, capturing = false;
  std::thread::id capturer;
  std::vector<Op> captured;
};

struct Event {
  std::shared_ptr<Point> point;
};

struct Graph {
  std::vector<Op> ops;
};

struct MemPool {
  int device;
  size_t limit, used = 0, freed_late = 0;
};

struct Context {
  int device;
};
std::vector<Context> contexts; /* the primary ones */
thread_local std::vector<Context*> current;
std::map<char*, size_t> pinned;
std::set<Stream*> streams; /* also those destroyed with work left */
std::set<Event*> events;

void start() {
  static bool started = false;
  if (started) {
    return;
  }
  started = true;
  const size_t count = number(setting("devices"), 1);
  for (size_t i = 0; i < count; ++i) {
    Device device;
    void* base = mmap(nullptr, kRegion, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
      std::perror("fake_cuda: mmap");
      std::abort();
    }
    device.base = static_cast<char*>(base);
    device.limit = number(setting("memory"), size_t(1) << 30);
    device.holes[device.base] = kRegion;
    devices.push_back(device);
  }
  contexts.resize(count);
  for (size_t i = 0; i < count; ++i) {
    contexts[i].device = static_cast<int>(i);
  }
}

/* ---- Work ---------------------------------------------------------------------------------------------- */

void protect(bool open) {
  for (Device& device : devices) {
    for (auto& block : device.blocks) {
      if (block.second.allocated) {
        (void)mprotect(block.first, block.second.pages, open ? PROT_READ | PROT_WRITE : PROT_NONE);
      }
    }
  }
}

void drain(Stream* stream, const Point* until) {
  if (draining++ == 0) {
    protect(true);
  }
  while (!stream->queue.empty() && lost == 0 && (until == nullptr || !until->done)) {
    Op op = std::move(stream->queue.front());
    stream->queue.pop_front();
    if (op.waits_for != nullptr && !op.waits_for->done) {
      drain(op.waits_for->stream, op.waits_for.get());
    }
    if (op.run) {
      op.run();
    }
  }
  if (--draining == 0) {
    protect(false);
  }
}

/* Whether [data, data + bytes) is in memory that is allocated by now. */
bool is_live(const char* data, size_t bytes) {
  for (const Device& device : devices) {
    for (const auto& block : device.blocks) {
      if (data >= block.first && data + bytes <= block.first + block.second.bytes) {
        return block.second.allocated;
      }
    }
  }
  return false;
}

bool is_device_address(const char* data) {
  for (const Device& device : devices) {
    if (data >= device.base && data < device.base + kRegion) {
      return true;
    }
  }
  return false;
}

bool is_pinned(const char* data, size_t bytes) {
  for (const auto& block : pinned) {
    if (data >= block.first && data + bytes <= block.first + block.second) {
      return true;
    }
  }
  return false;
}

void copy_now(char* to, const char* from, size_t bytes) {
  if ((is_device_address(to) && !is_live(to, bytes)) || (is_device_address(from) && !is_live(from, bytes))) {
    lost = CUDA_ERROR_ILLEGAL_ADDRESS;
    return;
  }
  std::memmove(to, from, bytes);
}

/* What a call answers before it does anything. */
CUresult enter(const char* function, bool in_context) {
  start();
  ++counts[function];
  if (lost != 0) {
    return static_cast<CUresult>(lost);
  }
  const auto failure = failures.find(function);
  if (failure != failures.end() && failure->second.skip-- <= 0) {
    const int code = failure->second.code;
    failures.erase(failure);
    return static_cast<CUresult>(code);
  }
  if (in_context && current.empty()) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  return CUDA_SUCCESS;
}

#define ENTER(in_context)                                 \
  LOCK;                                                   \
  {                                                       \
    const CUresult entered = enter(__func__, in_context); \
    if (entered != CUDA_SUCCESS) return entered;          \
  }
#define REQUIRE(condition) \
  if (!(condition)) return CUDA_ERROR_INVALID_VALUE

Stream* of(CUstream stream) {
  Stream* own = reinterpret_cast<Stream*>(stream);
  return streams.count(own) != 0 && !own->destroyed ? own : nullptr;
}

Event* of(CUevent event) {
  Event* own = reinterpret_cast<Event*>(event);
  return events.count(own) != 0 ? own : nullptr;
}

/* What another thread queues on a stream that is being recorded would become part of the recording: a fault.
 */
void check_capturer(const Stream* stream) {
  if (stream->capturing && stream->capturer != std::this_thread::get_id()) {
    lost = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
}

void queue(Stream* stream, std::function<void()> run, std::shared_ptr<Point> waits_for = nullptr) {
  check_capturer(stream);
  Op op{std::move(run), std::move(waits_for)};
  if (stream->capturing) {
    stream->captured.push_back(std::move(op));
  } else {
    stream->queue.push_back(std::move(op));
  }
}

/* Finds addresses for a block, with an untouchable page after it. NULL when the device is full. */
char* place_block(Device& device, size_t bytes) {
  const size_t pages = (bytes + kPage - 1) / kPage * kPage;
  if (device.used + bytes > device.limit) {
    return nullptr;
  }
  for (auto hole = device.holes.begin(); hole != device.holes.end(); ++hole) {
    if (hole->second >= pages + kPage) {
      char* data = hole->first;
      const size_t rest = hole->second - pages - kPage;
      device.holes.erase(hole);
      if (rest > 0) {
        device.holes[data + pages + kPage] = rest;
      }
      device.used += bytes;
      device.blocks[data] = Block{bytes, pages};
      return data;
    }
  }
  return nullptr;
}

void free_block(Device& device, char* data) {
  const auto block = device.blocks.find(data);
  device.used -= block->second.bytes;
  const size_t room = block->second.pages + kPage;
  device.blocks.erase(block);
  (void)mmap(data, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  auto hole = device.holes.emplace(data, room).first;
  const auto next = std::next(hole);
  if (next != device.holes.end() && hole->first + hole->second == next->first) {
    hole->second += next->second;
    device.holes.erase(next);
  }
  if (hole != device.holes.begin()) {
    const auto previous = std::prev(hole);
    if (previous->first + previous->second == hole->first) {
      previous->second += hole->second;
      device.holes.erase(hole);
    }
  }
}

Device* device_of(const char* data) {
  for (Device& device : devices) {
    if (device.blocks.count(const_cast<char*>(data)) != 0) {
      return &device;
    }
  }
  return nullptr;
}

}  // namespace

/* ---- For tests ----------------------------------------------------------------------------------------- */

EXPORT void fake_cuda_set(const char* text) {
  LOCK;
  for (const auto& word : words(text)) {
    const std::string& value = word.second;
    const std::string name = value.substr(0, value.find(':'));
    const std::string rest = value.size() > name.size() ? value.substr(name.size() + 1) : "";
    if (word.first == "fail") {
      const size_t colon = rest.find(':');
      failures.erase(name);
      if (std::atoi(rest.c_str()) == 0) {
        continue;
      }
      failures[name] = {std::atoi(rest.c_str()),
                        colon == std::string::npos ? 0 : std::atol(rest.c_str() + colon + 1)};
    } else if (word.first == "fault") {
      faults[name] = std::atoi(rest.c_str());
    } else if (word.first == "lose") {
      lost = std::atoi(value.c_str());
    }
  }
}

/* "name=number" for what exists and for each function's calls, then "launch=kernel" for each launch so far.
 */
EXPORT const char* cuda_report() {
  LOCK;
  static std::string text;
  size_t blocks = 0, bytes = 0, live = 0;
  int retained = 0;
  for (const Device& device : devices) {
    blocks += device.blocks.size();
    bytes += device.used;
    retained += device.contexts;
  }
  for (const Stream* stream : streams) {
    live += !stream->destroyed;
  }
  text = "blocks=" + std::to_string(blocks) + " bytes=" + std::to_string(bytes) +
         " streams=" + std::to_string(live) + " events=" + std::to_string(events.size()) +
         " pinned=" + std::to_string(pinned.size()) + " contexts=" + std::to_string(retained);
  for (const auto& count : counts) {
    text += " " + count.first + "=" + std::to_string(count.second);
  }
  for (const std::string& name : launched) {
    text += " launch=" + name;
  }
  return text.c_str();
}

/* ---- For other make-believe libraries ---- */

/* f(data) happens when the stream comes to it, once or, recorded, more often; end(data) after the last time.
 */
EXPORT void fake_cuda_enqueue(CUstream stream, const char* name, void (*f)(void*), void* data,
                              void (*end)(void*)) {
  LOCK;
  Stream* own = of(stream);
  if (own == nullptr) {
    (void)std::fprintf(stderr, "fake_cuda: %s on a stream that is not there\n", name);
    std::abort();
  }
  launched.push_back(name);
  const std::shared_ptr<void> held(data, end);
  queue(own, [f, held] { f(held.get()); });
}

/* ---- Devices ------------------------------------------------------------------------------------------- */

EXPORT CUresult CUDAAPI cuInit(unsigned) {
  ENTER(false);
  return static_cast<CUresult>(number(setting("init"), CUDA_SUCCESS));
}

EXPORT CUresult CUDAAPI cuDriverGetVersion(int* version) {
  *version = static_cast<int>(number(setting("version"), CUDA_VERSION));
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuGetErrorName(CUresult error, const char** text) {
  static const std::map<int, const char*> kNames = {{1, "CUDA_ERROR_INVALID_VALUE"},
                                                    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                    {100, "CUDA_ERROR_NO_DEVICE"},
                                                    {201, "CUDA_ERROR_INVALID_CONTEXT"},
                                                    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                    {719, "CUDA_ERROR_LAUNCH_FAILED"},
                                                    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}};
  const auto found = kNames.find(error);
  *text = found == kNames.end() ? nullptr : found->second;
  return found == kNames.end() ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuGetErrorString(CUresult error, const char** text) {
  *text = "make-believe";
  return error == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetCount(int* count) {
  ENTER(false);
  *count = static_cast<int>(devices.size());
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  ENTER(false);
  REQUIRE(ordinal >= 0 && static_cast<size_t>(ordinal) < devices.size());
  *device = ordinal;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetName(char* name, int length, CUdevice device) {
  ENTER(false);
  (void)std::snprintf(name, static_cast<size_t>(length), "Fake GPU %c", 'A' + device);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  ENTER(false);
  *bytes = devices[static_cast<size_t>(device)].limit;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  ENTER(false);
  int capability = static_cast<int>(number(setting("capability"), 90));
  const size_t comma = setting("capability").find(',');
  if (device > 0 && comma != std::string::npos) {
    capability = std::atoi(setting("capability").c_str() + comma + 1);
  }
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = capability / 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = capability % 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
      *value = 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 2;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

EXPORT CUresult CUDAAPI cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  ENTER(false);
  (void)std::snprintf(text, static_cast<size_t>(length), "0000:%02X:00.0", 0x1A + device);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  ENTER(false);
  std::memset(uuid->bytes, device + 1, sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) {
  ENTER(false);
  *can = 1;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  ENTER(false);
  ++devices[static_cast<size_t>(device)].contexts;
  *context = reinterpret_cast<CUcontext>(&contexts[static_cast<size_t>(device)]);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  LOCK;
  --devices[static_cast<size_t>(device)].contexts;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) {
  LOCK;
  current.push_back(reinterpret_cast<Context*>(context));
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxPopCurrent(CUcontext* context) {
  LOCK;
  if (current.empty()) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *context = reinterpret_cast<CUcontext>(current.back());
  current.pop_back();
  return CUDA_SUCCESS;
}

/* ---- Memory -------------------------------------------------------------------------------------------- */

EXPORT CUresult CUDAAPI cuMemGetInfo(size_t* free_bytes, size_t* total) {
  ENTER(true);
  const Device& device = devices[static_cast<size_t>(current.back()->device)];
  *total = device.limit;
  *free_bytes = device.limit - device.used;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  ENTER(false);
  REQUIRE(properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE);
  REQUIRE(properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED);
  *pool = reinterpret_cast<CUmemoryPool>(new MemPool{properties->location.id, properties->maxSize});
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool) {
  LOCK;
  delete reinterpret_cast<MemPool*>(pool);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) {
  ENTER(false);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute, void*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

EXPORT CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool, const CUmemAccessDesc*, size_t) {
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool, size_t) {
  ENTER(false);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                                CUstream stream) {
  ENTER(true);
  Stream* own = of(stream);
  REQUIRE(own != nullptr && bytes > 0);
  MemPool* from = reinterpret_cast<MemPool*>(pool);
  const size_t which = static_cast<size_t>(from->device);
  char* data = place_block(devices[which], bytes);
  if (data == nullptr) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  queue(own, [data, which] {
    Block& block = devices[which].blocks.at(data);
    block.allocated = true;
    (void)mprotect(data, block.pages, PROT_READ | PROT_WRITE);
    std::memset(data, 0xA5, block.pages);
  });
  *address = reinterpret_cast<CUdeviceptr>(data);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  ENTER(true);
  char* data = reinterpret_cast<char*>(address);
  Stream* own = of(stream);
  REQUIRE(own != nullptr && device_of(data) != nullptr);
  queue(own, [data] {
    Device* device = device_of(data);
    if (device == nullptr || !device->blocks[data].allocated) {
      lost = CUDA_ERROR_ILLEGAL_ADDRESS;
      return;
    }
    free_block(*device, data);
  });
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  ENTER(true);
  char* data = static_cast<char*>(std::malloc(bytes));
  if (data == nullptr) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::memset(data, 0xA5, bytes);
  pinned[data] = bytes;
  *address = data;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemFreeHost(void* address) {
  LOCK;
  REQUIRE(pinned.erase(static_cast<char*>(address)) == 1);
  for (Stream* stream : streams) {
    drain(stream, nullptr); /* the driver waits too */
  }
  std::free(address);
  return CUDA_SUCCESS;
}

/* ---- Copies -------------------------------------------------------------------------------------------- */

EXPORT CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  ENTER(true);
  Stream* own = of(stream);
  char* target = reinterpret_cast<char*>(to);
  const char* source = static_cast<const char*>(from);
  REQUIRE(own != nullptr && is_device_address(target) && !is_device_address(source));
  if (is_pinned(source, bytes)) {
    queue(own, [=] { copy_now(target, source, bytes); });
  } else {
    const auto staged = std::make_shared<std::vector<char>>(source, source + bytes);
    queue(own, [=] { copy_now(target, staged->data(), bytes); });
  }
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ENTER(true);
  Stream* own = of(stream);
  char* target = static_cast<char*>(to);
  const char* source = reinterpret_cast<const char*>(from);
  REQUIRE(own != nullptr && is_device_address(source) && !is_device_address(target));
  queue(own, [=] { copy_now(target, source, bytes); });
  if (!is_pinned(target, bytes)) {
    ++counts["waits_of_copies"]; /* to pageable memory the driver returns when the copy is done */
    drain(own, nullptr);
  }
  return static_cast<CUresult>(lost);
}

EXPORT CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ENTER(true);
  Stream* own = of(stream);
  char *target = reinterpret_cast<char*>(to), *source = reinterpret_cast<char*>(from);
  REQUIRE(own != nullptr && is_device_address(source) && is_device_address(target));
  queue(own, [=] { copy_now(target, source, bytes); });
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here,
                                          size_t bytes, CUstream stream) {
  ENTER(true);
  Stream* own = of(stream);
  char *target = reinterpret_cast<char*>(to), *source = reinterpret_cast<char*>(from);
  const size_t target_device = static_cast<size_t>(reinterpret_cast<Context*>(there)->device);
  const size_t source_device = static_cast<size_t>(reinterpret_cast<Context*>(here)->device);
  const auto in = [](const char* data, size_t which) {
    return data >= devices[which].base && data < devices[which].base + kRegion;
  };
  REQUIRE(own != nullptr && in(target, target_device) && in(source, source_device));
  queue(own, [=] { copy_now(target, source, bytes); });
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  ENTER(true);
  Stream* own = of(stream);
  char* target = reinterpret_cast<char*>(to);
  REQUIRE(own != nullptr && is_device_address(target));
  queue(own, [=] {
    if (is_live(target, bytes)) {
      std::memset(target, value, bytes);
    } else {
      lost = CUDA_ERROR_ILLEGAL_ADDRESS;
    }
  });
  return CUDA_SUCCESS;
}

/* ---- Streams and events -------------------------------------------------------------------------------- */

EXPORT CUresult CUDAAPI cuStreamCreate(CUstream* stream, unsigned) {
  ENTER(true);
  Stream* own = new Stream{current.back()->device, {}, false, false, {}, {}};
  streams.insert(own);
  *stream = reinterpret_cast<CUstream>(own);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
  LOCK;
  Stream* own = of(stream);
  REQUIRE(own != nullptr);
  own->destroyed = true; /* what is queued still happens when somebody waits for it */
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
  ENTER(true);
  Stream* own = of(stream);
  REQUIRE(own != nullptr && !own->capturing);
  drain(own, nullptr);
  return static_cast<CUresult>(lost);
}

EXPORT CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  ENTER(true);
  Stream* own = of(stream);
  Event* of_event = of(event);
  REQUIRE(own != nullptr && of_event != nullptr);
  if (of_event->point != nullptr) {
    queue(own, nullptr, of_event->point);
  }
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuEventCreate(CUevent* event, unsigned) {
  ENTER(true);
  Event* own = new Event;
  events.insert(own);
  *event = reinterpret_cast<CUevent>(own);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuEventDestroy(CUevent event) {
  LOCK;
  Event* own = of(event);
  REQUIRE(own != nullptr);
  events.erase(own);
  delete own;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) {
  ENTER(true);
  Stream* own = of(stream);
  Event* of_event = of(event);
  REQUIRE(own != nullptr && of_event != nullptr);
  check_capturer(own);
  if (own->capturing) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* of what events in recordings are for, nothing is needed
                                                     here */
  }
  const auto point = std::make_shared<Point>();
  point->stream = own;
  of_event->point = point;
  queue(own, [point] { point->done = true; });
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuEventQuery(CUevent event) {
  ENTER(true);
  Event* own = of(event);
  REQUIRE(own != nullptr);
  return own->point == nullptr || own->point->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult CUDAAPI cuEventSynchronize(CUevent event) {
  ENTER(true);
  Event* own = of(event);
  REQUIRE(own != nullptr);
  if (own->point != nullptr && !own->point->done) {
    drain(own->point->stream, own->point.get());
  }
  return static_cast<CUresult>(lost);
}

/* ---- Kernels ------------------------------------------------------------------------------------------- */

EXPORT CUresult CUDAAPI cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**,
                                          unsigned, CUlibraryOption*, void**, unsigned) {
  ENTER(true);
  unsigned magic = 0;
  std::memcpy(&magic, code, sizeof magic);
  if (magic != 0xBA55ED50) { /* of a fat binary */
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *library = reinterpret_cast<CUlibrary>(new int(0));
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuLibraryUnload(CUlibrary library) {
  LOCK;
  delete reinterpret_cast<int*>(library);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
  ENTER(false);
  const emulate::Entry* entry = emulate::find(name);
  *kernel = reinterpret_cast<CUkernel>(const_cast<emulate::Entry*>(entry));
  return entry == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z,
                                       unsigned threads_x, unsigned threads_y, unsigned threads_z,
                                       unsigned shared, CUstream stream, void** parameters, void** extra) {
  if (recordings > 0 && number(setting("slow_recording"), 0) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  ENTER(true);
  Stream* own = of(stream);
  REQUIRE(own != nullptr && function != nullptr && extra == nullptr && shared == 0);
  REQUIRE(x > 0 && y > 0 && z > 0 && y <= 65535 && z <= 65535 && x <= 0x7fffffff);
  REQUIRE(threads_x > 0 && threads_y > 0 && threads_z > 0 && threads_x * threads_y * threads_z <= 1024);
  const emulate::Entry* entry = reinterpret_cast<const emulate::Entry*>(function);
  const std::function<void()> thread = entry->bind(parameters);
  launched.push_back(entry->name);
  queue(own, [=] {
    const auto fault = faults.find(entry->name);
    if (fault != faults.end()) {
      lost = fault->second;
      return;
    }
    emulate::launch(*entry, thread, dim3(x, y, z), dim3(threads_x, threads_y, threads_z));
  });
  return CUDA_SUCCESS;
}

/* ---- Recordings ---------------------------------------------------------------------------------------- */

EXPORT CUresult CUDAAPI cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  ENTER(true);
  Stream* own = of(stream);
  REQUIRE(own != nullptr && !own->capturing);
  own->capturing = true;
  own->capturer = std::this_thread::get_id();
  ++recordings;
  own->captured.clear();
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  bool was = false;
  {
    LOCK;
    Stream* of_it = of(stream);
    was = of_it != nullptr && of_it->capturing;
    if (was) {
      of_it->capturing = false; /* also where the call fails */
      --recordings;
    }
  }
  ENTER(true);
  Stream* own = of(stream);
  REQUIRE(was);
  *graph = reinterpret_cast<CUgraph>(new Graph{own->captured});
  own->captured.clear();
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  ENTER(true);
  Stream* own = of(stream);
  REQUIRE(own != nullptr);
  *status = own->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  ENTER(true);
  *exec = reinterpret_cast<CUgraphExec>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  ENTER(true);
  Stream* own = of(stream);
  REQUIRE(own != nullptr);
  for (const Op& op : reinterpret_cast<Graph*>(exec)->ops) {
    own->queue.push_back(op);
  }
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec) {
  LOCK;
  delete reinterpret_cast<Graph*>(exec);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  LOCK;
  delete reinterpret_cast<Graph*>(graph);
  return CUDA_SUCCESS;
}
