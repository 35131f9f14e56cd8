/* What the host gets of a device besides sessions: allocators, copies and streams. */
#include <algorithm>
#include <cstring>

#include "cuda/factory.h"
#include "cuda/memory.h"
#include "cuda/options.h"

namespace ephost::cuda {

namespace {

const Factory& self(const OrtEpFactory* base) { return *reinterpret_cast<const Factory*>(base); }

/* ---- Allocators ---------------------------------------------------------------------------------------- */

/* Of a device's memory or of page-locked memory. Alloc has no way to say why it fails, so that goes to the
 * log; GetStats tells a host that asks. */
struct Allocator {
  OrtAllocator base = {};
  const Factory* factory = nullptr;
  Device* device = nullptr;
  const OrtMemoryInfo* info = nullptr;
  std::unique_ptr<Pool> own_pool; /* where there is a limit of its own */
  Pool* pool = nullptr;           /* NULL: page-locked memory */
};

Allocator& self(OrtAllocator* base) { return *reinterpret_cast<Allocator*>(base); }

void* allocate(Allocator& allocator, size_t size, Stream* stream) {
  try {
    const Scope scope(*allocator.device);
    if (allocator.pool == nullptr) {
      return allocator.device->pinned().allocate(size);
    }
    const CUdeviceptr address = allocator.pool->allocate(size, stream);
    if (address == 0) {
      allocator.factory->log(ORT_LOGGING_LEVEL_ERROR, "cuda: " + allocator.device->label() +
                                                          " has no room for " + size_text(size) + ": " +
                                                          allocator.pool->state());
    }
    return reinterpret_cast<void*>(address);
  } catch (const std::exception& error) {
    allocator.factory->log(ORT_LOGGING_LEVEL_ERROR, error.what());
    return nullptr;
  }
}

void* ORT_API_CALL alloc(OrtAllocator* base, size_t size) { return allocate(self(base), size, nullptr); }

void* ORT_API_CALL alloc_on_stream(OrtAllocator* base, size_t size, OrtSyncStream* stream) {
  Allocator& allocator = self(base);
  Stream* queue = nullptr;
  if (stream != nullptr) {
    void* handle = allocator.factory->api.ort->SyncStream_GetHandle(stream);
    queue = allocator.device->find(reinterpret_cast<CUstream>(handle));
  }
  return allocate(allocator, size, queue);
}

void ORT_API_CALL free_block(OrtAllocator* base, void* address) {
  Allocator& allocator = self(base);
  if (address == nullptr) {
    return;
  }
  try {
    const Scope scope(*allocator.device, std::nothrow);
    if (allocator.pool == nullptr) {
      allocator.device->pinned().release(address);
    } else {
      allocator.pool->release(reinterpret_cast<CUdeviceptr>(address));
    }
  } catch (const std::exception& error) {
    allocator.factory->log(ORT_LOGGING_LEVEL_ERROR, error.what());
  }
}

const OrtMemoryInfo* ORT_API_CALL allocator_info(const OrtAllocator* base) {
  return reinterpret_cast<const Allocator*>(base)->info;
}

/* Under the names that onnxruntime's own allocators use. */
OrtStatus* ORT_API_CALL get_stats(const OrtAllocator* base, OrtKeyValuePairs** out) {
  const Allocator& allocator = *reinterpret_cast<const Allocator*>(base);
  const Api& api = allocator.factory->api;
  *out = nullptr;
  return guard(api, [&] {
    OrtKeyValuePairs* pairs = nullptr;
    api.ort->CreateKeyValuePairs(&pairs);
    const PoolAccount account = allocator.pool->account();
    const auto add = [&](const char* key, uint64_t value) {
      api.ort->AddKeyValuePair(pairs, key, std::to_string(value).c_str());
    };
    add("Limit", account.limit == 0 ? allocator.device->memory() : account.limit);
    add("InUse", account.in_use);
    add("MaxInUse", account.most_in_use);
    add("MaxAllocSize", account.largest);
    add("NumAllocs", account.allocations);
    add("NumRefused", account.refused);
    *out = pairs;
  });
}

OrtStatus* ORT_API_CALL shrink(OrtAllocator* base) {
  Allocator& allocator = self(base);
  return guard(allocator.factory->api, [&] {
    const Scope scope(*allocator.device);
    if (allocator.pool == nullptr) {
      allocator.device->pinned().trim();
    } else {
      allocator.pool->trim();
    }
  });
}

OrtStatus* ORT_API_CALL create_allocator(OrtEpFactory* base, const OrtMemoryInfo* info,
                                         const OrtKeyValuePairs* options, OrtAllocator** out) {
  const Factory& factory = self(base);
  *out = nullptr;
  return guard(factory.api, [&] {
    const char* limit = options == nullptr ? nullptr : factory.api.ort->GetKeyValue(options, kMemoryLimit);
    *out = make_allocator(factory, info, limit == nullptr ? 0 : read_size(kMemoryLimit, limit));
  });
}

void ORT_API_CALL release_allocator(OrtEpFactory*, OrtAllocator* allocator) {
  if (allocator == nullptr) {
    return;
  }
  Allocator* own = &self(allocator);
  const Scope scope(*own->device, std::nothrow);
  if (own->own_pool != nullptr) {
    (void)own->device->driver().cuStreamSynchronize(own->device->lane_for_memory());
  }
  delete own;
}

/* ---- Copies -------------------------------------------------------------------------------------------- */

enum class Place { kElsewhere, kHost, kPinned, kDevice };

struct Transfer {
  OrtDataTransferImpl base = {};
  const Factory* factory = nullptr;
};

Place place_of(const Factory& factory, const OrtMemoryDevice* memory, uint32_t* number) {
  const OrtEpApi* api = factory.api.ep;
  *number = api->MemoryDevice_GetDeviceId(memory);
  if (api->MemoryDevice_GetDeviceType(memory) == OrtMemoryInfoDeviceType_CPU) {
    return Place::kHost;
  }
  if (api->MemoryDevice_GetDeviceType(memory) != OrtMemoryInfoDeviceType_GPU ||
      api->MemoryDevice_GetVendorId(memory) != kNvidia) {
    return Place::kElsewhere;
  }
  for (const DeviceMemory& mine : factory.devices) {
    if (static_cast<uint32_t>(mine.device->ordinal()) == *number) {
      return api->MemoryDevice_GetMemoryType(memory) == OrtDeviceMemoryType_HOST_ACCESSIBLE ? Place::kPinned
                                                                                            : Place::kDevice;
    }
  }
  return Place::kElsewhere;
}

bool ORT_API_CALL can_copy(const OrtDataTransferImpl* base, const OrtMemoryDevice* from,
                           const OrtMemoryDevice* to) {
  const Factory& factory = *reinterpret_cast<const Transfer*>(base)->factory;
  uint32_t number = 0;
  const Place source = place_of(factory, from, &number), target = place_of(factory, to, &number);
  if (source == Place::kElsewhere || target == Place::kElsewhere) {
    return false;
  }
  return source != Place::kHost || target != Place::kHost;
}

struct Tensor {
  Place place = Place::kElsewhere;
  uint32_t number = 0;
  void* data = nullptr;
  size_t bytes = 0;
};

Tensor tensor_of(const Factory& factory, const OrtValue* value) {
  const Api& api = factory.api;
  Tensor tensor;
  const void* data = nullptr;
  tensor.place = place_of(factory, factory.api.ep->Value_GetMemoryDevice(value), &tensor.number);
  api.check(api.ort->GetTensorData(value, &data));
  api.check(api.ort->GetTensorSizeInBytes(value, &tensor.bytes));
  tensor.data = const_cast<void*>(data);
  return tensor;
}

/* Queues one copy; the device whose stream it is must be current. */
void queue_copy(Device& device, const Factory& factory, const Tensor& from, const Tensor& to,
                CUstream stream) {
  const Driver& driver = device.driver();
  const auto source = reinterpret_cast<CUdeviceptr>(from.data),
             target = reinterpret_cast<CUdeviceptr>(to.data);
  const std::string what = "copy " + size_text(from.bytes);
  if (from.place == Place::kDevice && to.place == Place::kDevice) {
    if (from.number == to.number) {
      device.check(driver.cuMemcpyDtoDAsync(target, source, from.bytes, stream), what + " on the device");
    } else {
      device.check(driver.cuMemcpyPeerAsync(target, factory.device(to.number).context(), source,
                                            factory.device(from.number).context(), from.bytes, stream),
                   what + " to another device");
    }
  } else if (from.place == Place::kDevice) {
    device.check(driver.cuMemcpyDtoHAsync(to.data, source, from.bytes, stream), what + " from the device");
  } else {
    device.check(driver.cuMemcpyHtoDAsync(target, from.data, from.bytes, stream), what + " to the device");
  }
}

/* From one GPU to another: after all that is queued on either so far. Without a stream, done on return. */
void copy_across(const Factory& factory, Device& source, Device& target, const Tensor& from, const Tensor& to,
                 Stream* stream, CUstream handle) {
  const Driver& driver = source.driver();
  const Scope scope(target);
  Stream* theirs = stream == nullptr && handle != nullptr ? target.find(handle) : nullptr;
  CUstream queue = stream != nullptr ? handle : theirs != nullptr ? handle : source.lane_for_copies();
  Device& other = theirs != nullptr ? source : target; /* the one that `queue` does not belong to */
  CUevent before = nullptr;
  {
    const Scope there(other);
    source.check(driver.cuEventCreate(&before, CU_EVENT_DISABLE_TIMING), "make an event");
    const CUresult result = driver.cuEventRecord(before, other.lane_for_copies());
    const CUresult waits = result == CUDA_SUCCESS ? driver.cuStreamWaitEvent(queue, before, 0) : result;
    (void)driver.cuEventDestroy(before); /* which happens when it is no longer waited for */
    source.check(waits, "have a stream wait for another device");
  }
  queue_copy(source, factory, from, to, queue);
  if (stream != nullptr || theirs != nullptr) {
    (stream != nullptr ? stream : theirs)->mark();
  } else {
    source.check(driver.cuStreamSynchronize(queue), "finish a copy");
  }
}

OrtStatus* ORT_API_CALL copy_tensors(OrtDataTransferImpl* base, const OrtValue** sources, OrtValue** targets,
                                     OrtSyncStream** streams, size_t num) {
  const Factory& factory = *reinterpret_cast<const Transfer*>(base)->factory;
  return guard(factory.api, [&] {
    std::vector<Device*> to_finish; /* whose lane has copies that must be done when we return */
    for (size_t i = 0; i < num; ++i) {
      const Tensor from = tensor_of(factory, sources[i]), to = tensor_of(factory, targets[i]);
      if (from.bytes != to.bytes) {
        invalid("cuda: a copy of " + std::to_string(from.bytes) + " bytes to a tensor of " +
                std::to_string(to.bytes));
      }
      if (from.bytes == 0) {
        continue;
      }
      if (from.place == Place::kElsewhere || to.place == Place::kElsewhere) {
        invalid("cuda: a copy from or to memory that is neither the CPU's nor a GPU's of ours");
      }
      void* handle = streams == nullptr || streams[i] == nullptr
                         ? nullptr
                         : factory.api.ort->SyncStream_GetHandle(streams[i]);
      if (from.place != Place::kDevice && to.place != Place::kDevice) { /* both in memory of the host */
        Device& device = factory.device(from.place == Place::kPinned ? from.number : to.number);
        const Scope scope(device);
        device.synchronize();
        std::memcpy(to.data, from.data, from.bytes);
        continue;
      }
      Device& device = factory.device(from.place == Place::kDevice ? from.number : to.number);
      const Scope scope(device);
      Stream* stream = handle == nullptr ? nullptr : device.find(reinterpret_cast<CUstream>(handle));
      if (from.place == Place::kDevice && to.place == Place::kDevice && from.number != to.number) {
        copy_across(factory, device, factory.device(to.number), from, to, stream,
                    reinterpret_cast<CUstream>(handle));
        continue;
      }
      if (stream != nullptr) {
        queue_copy(device, factory, from, to, stream->handle());
        stream->mark();
        continue;
      }
      const CUstream lane = device.lane_for_copies();
      queue_copy(device, factory, from, to, lane);
      if (std::find(to_finish.begin(), to_finish.end(), &device) == to_finish.end()) {
        to_finish.push_back(&device);
      }
    }
    for (Device* device : to_finish) {
      const Scope scope(*device);
      device->check(device->driver().cuStreamSynchronize(device->lane_for_copies()), "finish a copy");
    }
  });
}

void ORT_API_CALL release_transfer(OrtDataTransferImpl* base) { delete reinterpret_cast<Transfer*>(base); }

OrtStatus* ORT_API_CALL create_transfer(OrtEpFactory* base, OrtDataTransferImpl** out) {
  const Factory& factory = self(base);
  *out = nullptr;
  if (factory.devices.empty()) {
    return nullptr;
  }
  return guard(factory.api, [&] {
    auto* transfer = new Transfer;
    transfer->base.ort_version_supported = kApiVersion;
    transfer->base.Release = release_transfer;
    transfer->base.CanCopy = can_copy;
    transfer->base.CopyTensors = copy_tensors;
    transfer->factory = &factory;
    *out = &transfer->base;
  });
}

/* ---- Streams ------------------------------------------------------------------------------------------- */

struct HostStream {
  OrtSyncStreamImpl base = {};
  Api api;
  std::unique_ptr<Stream> stream;
};

struct Notification {
  OrtSyncNotificationImpl base = {};
  Api api;
  Stream* stream = nullptr;
  CUevent event = nullptr;
};

HostStream& self(OrtSyncStreamImpl* base) { return *reinterpret_cast<HostStream*>(base); }
Notification& self(OrtSyncNotificationImpl* base) { return *reinterpret_cast<Notification*>(base); }

void ORT_API_CALL release_notification(OrtSyncNotificationImpl* base) {
  Notification& notification = self(base);
  {
    Device& device = notification.stream->device();
    const Scope scope(device, std::nothrow);
    (void)device.driver().cuEventDestroy(notification.event);
  }
  delete &notification;
}

OrtStatus* ORT_API_CALL activate(OrtSyncNotificationImpl* base) {
  Notification& notification = self(base);
  return guard(notification.api, [&] {
    Device& device = notification.stream->device();
    const Scope scope(device);
    device.check(device.driver().cuEventRecord(notification.event, notification.stream->handle()),
                 "mark a point in a stream");
  });
}

OrtStatus* ORT_API_CALL wait_on_device(OrtSyncNotificationImpl* base, OrtSyncStream* consumer) {
  Notification& notification = self(base);
  return guard(notification.api, [&] {
    Device& device = notification.stream->device();
    const Scope scope(device);
    void* handle = notification.api.ort->SyncStream_GetHandle(consumer);
    device.check(device.driver().cuStreamWaitEvent(reinterpret_cast<CUstream>(handle), notification.event, 0),
                 "have a stream wait for another");
  });
}

OrtStatus* ORT_API_CALL wait_on_host(OrtSyncNotificationImpl* base) {
  Notification& notification = self(base);
  return guard(notification.api, [&] {
    Device& device = notification.stream->device();
    const Scope scope(device);
    device.check(device.driver().cuEventSynchronize(notification.event), "finish the work that was queued");
  });
}

void ORT_API_CALL release_stream(OrtSyncStreamImpl* base) {
  HostStream* own = &self(base);
  Device& device = own->stream->device();
  const Scope scope(device, std::nothrow);
  delete own;
}

void* ORT_API_CALL stream_handle(OrtSyncStreamImpl* base) { return self(base).stream->handle(); }

OrtStatus* ORT_API_CALL create_notification(OrtSyncStreamImpl* base, OrtSyncNotificationImpl** out) {
  HostStream& own = self(base);
  *out = nullptr;
  return guard(own.api, [&] {
    Device& device = own.stream->device();
    const Scope scope(device);
    auto notification = std::make_unique<Notification>();
    /* A thread that waits for it sleeps rather than spins. */
    device.check(
        device.driver().cuEventCreate(&notification->event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC),
        "make an event");
    notification->base.ort_version_supported = kApiVersion;
    notification->base.Release = release_notification;
    notification->base.Activate = activate;
    notification->base.WaitOnDevice = wait_on_device;
    notification->base.WaitOnHost = wait_on_host;
    notification->api = own.api;
    notification->stream = own.stream.get();
    *out = &notification.release()->base;
  });
}

/* The driver hands work to the device as it is queued. */
OrtStatus* ORT_API_CALL flush(OrtSyncStreamImpl*) { return nullptr; }
OrtStatus* ORT_API_CALL run_ended(OrtSyncStreamImpl*) { return nullptr; }

bool ORT_API_CALL is_stream_aware(const OrtEpFactory* base) { return !self(base).devices.empty(); }

OrtStatus* ORT_API_CALL create_stream(OrtEpFactory* base, const OrtMemoryDevice* memory,
                                      const OrtKeyValuePairs* options, OrtSyncStreamImpl** out) {
  const Factory& factory = self(base);
  *out = nullptr;
  return guard(factory.api, [&] {
    const char* theirs = options == nullptr ? nullptr : factory.api.ort->GetKeyValue(options, kUserStream);
    *out = make_stream(factory, factory.device(factory.api.ep->MemoryDevice_GetDeviceId(memory)),
                       theirs == nullptr ? nullptr : read_stream(theirs));
  });
}

}  // namespace

OrtAllocator* make_allocator(const Factory& factory, const OrtMemoryInfo* info, size_t limit, Pool* pool) {
  const OrtMemoryDevice* memory = factory.api.ep->MemoryInfo_GetMemoryDevice(info);
  uint32_t number = 0;
  const Place place = place_of(factory, memory, &number);
  if (place != Place::kDevice && place != Place::kPinned) {
    invalid("cuda: an allocator is asked for memory that is not of our GPUs");
  }
  auto allocator = std::make_unique<Allocator>();
  allocator->factory = &factory;
  allocator->device = &factory.device(number);
  const Scope scope(*allocator->device);
  OrtAllocator& base = allocator->base;
  base.version = kApiVersion;
  base.Alloc = alloc;
  base.Reserve = alloc;
  base.Free = free_block;
  base.Info = allocator_info;
  base.Shrink = shrink;
  for (const DeviceMemory& mine : factory.devices) { /* the host's may not live as long as the allocator */
    if (mine.device.get() == allocator->device) {
      allocator->info = place == Place::kDevice ? mine.memory : mine.pinned;
    }
  }
  if (place == Place::kDevice) {
    base.AllocOnStream = alloc_on_stream;
    base.GetStats = get_stats;
    if (pool == nullptr && limit != 0) {
      allocator->own_pool = std::make_unique<Pool>(*allocator->device, limit);
      pool = allocator->own_pool.get();
    }
    allocator->pool = pool != nullptr ? pool : &allocator->device->pool();
  }
  return &allocator.release()->base;
}

OrtSyncStreamImpl* make_stream(const Factory& factory, Device& device, CUstream theirs) {
  const Scope scope(device);
  auto own = std::make_unique<HostStream>();
  own->stream = std::make_unique<Stream>(device, theirs);
  own->api = factory.api;
  own->base.ort_version_supported = kApiVersion;
  own->base.Release = release_stream;
  own->base.GetHandle = stream_handle;
  own->base.CreateNotification = create_notification;
  own->base.Flush = flush;
  own->base.OnSessionRunEnd = run_ended;
  return &own.release()->base;
}

void offer_memory(OrtEpFactory* base) {
  base->CreateAllocator = create_allocator;
  base->ReleaseAllocator = release_allocator;
  base->CreateDataTransfer = create_transfer;
  base->IsStreamAware = is_stream_aware;
  base->CreateSyncStreamForDevice = create_stream;
}

}  // namespace ephost::cuda
