#include "cuda/device.h"

#include <algorithm>
#include <cctype>

#include "cuda/images.h"

namespace ephost::cuda {

/* ---- Streams ------------------------------------------------------------------------------------------- */

Stream::Stream(Device& device, CUstream theirs) : device_(device), ours_(theirs == nullptr), handle_(theirs) {
  const Driver& driver = device.driver();
  if (ours_) {
    device.check(driver.cuStreamCreate(&handle_, CU_STREAM_NON_BLOCKING), "make a stream");
  }
  const CUresult result = driver.cuEventCreate(&tail_, CU_EVENT_DISABLE_TIMING);
  if (result != CUDA_SUCCESS) {
    if (ours_) {
      (void)driver.cuStreamDestroy(handle_);
    }
    device.check(result, "make an event");
  }
  const std::lock_guard<std::mutex> hold(device.lock_);
  device.streams_.push_back(this);
}

Stream::~Stream() {
  const Driver& driver = device_.driver();
  {
    const std::lock_guard<std::mutex> hold(device_.lock_);
    /* What is still queued must come before what the lanes do from now on. */
    device_.copies_.follow(device_, *this);
    device_.memory_lane_.follow(device_, *this);
    device_.copies_.forget(*this);
    device_.memory_lane_.forget(*this);
    auto& streams = device_.streams_;
    streams.erase(std::find(streams.begin(), streams.end(), this));
  }
  (void)driver.cuEventDestroy(tail_);
  if (ours_) {
    (void)driver.cuStreamDestroy(handle_); /* which ends when its work is done */
  }
}

void Lane::open(Device& device) {
  device.check(device.driver().cuStreamCreate(&handle_, CU_STREAM_NON_BLOCKING), "make a stream");
}

void Lane::close(Device& device) {
  if (handle_ != nullptr) {
    (void)device.driver().cuStreamDestroy(handle_);
  }
}

void Lane::follow(Device& device, Stream& stream) {
  const Driver& driver = device.driver();
  const uint64_t marks = stream.marks_.load(std::memory_order_relaxed);
  uint64_t& seen = seen_[&stream];
  if (stream.ours_ && seen == marks) {
    return;
  }
  /* What a stream is asked while it is recorded becomes part of the recording, and so would this lane. Its
   * tail is where the recording began (Device::begin_recording), and nothing was queued since. */
  if (device.is_recorded(stream.handle_)) {
    (void)driver.cuStreamWaitEvent(handle_, stream.tail_, 0);
    return;
  }
  /* Errors are those of earlier work: whoever waits for that work is told. */
  if (driver.cuEventRecord(stream.tail_, stream.handle_) == CUDA_SUCCESS) {
    (void)driver.cuStreamWaitEvent(handle_, stream.tail_, 0);
  }
  seen = marks;
}

/* ---- The pool ------------------------------------------------------------------------------------------ */

Pool::Pool(Device& device, size_t limit) : device_(device) {
  const Driver& driver = device.driver();
  account_.limit = limit;
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device.handle();
  properties.maxSize = limit;
  device.check(driver.cuMemPoolCreate(&pool_, &properties), "make a pool of memory");
  /* Keep what is freed, and never make one stream wait for another behind our back. */
  cuuint64_t keep = UINT64_MAX;
  int off = 0;
  (void)driver.cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
  (void)driver.cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off);
}

Pool::~Pool() {
  if (pool_ != nullptr) {
    (void)device_.driver().cuMemPoolDestroy(pool_);
  }
}

CUresult Pool::take(size_t bytes, Stream* stream, CUdeviceptr* address) {
  const Driver& driver = device_.driver();
  if (stream != nullptr) {
    return driver.cuMemAllocFromPoolAsync(address, bytes, pool_, stream->handle());
  }
  /* Nothing but allocations is ever queued on this lane, so this waits for no work; after it the memory may
   * be used on any stream. */
  const CUstream lane = device_.lane_for_allocation();
  const CUresult result = driver.cuMemAllocFromPoolAsync(address, bytes, pool_, lane);
  return result == CUDA_SUCCESS ? driver.cuStreamSynchronize(lane) : result;
}

CUdeviceptr Pool::allocate(size_t bytes, Stream* stream) {
  const size_t size = PoolAccount::rounded(bytes);
  {
    const std::lock_guard<std::mutex> hold(lock_);
    if (size == 0 || !account_.fits(size)) {
      ++account_.refused;
      return 0;
    }
    account_.reserve(size); /* before the call, so that two threads cannot pass the limit together */
  }
  CUdeviceptr address = 0;
  CUresult result = take(size, stream, &address);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    /* What was freed may still wait for work, and what the pool keeps may be in pieces that do not fit. */
    const Driver& driver = device_.driver();
    (void)driver.cuStreamSynchronize(device_.lane_for_memory());
    (void)driver.cuMemPoolTrimTo(pool_, 0);
    result = take(size, stream, &address);
  }
  const std::lock_guard<std::mutex> hold(lock_);
  if (result == CUDA_SUCCESS) {
    try {
      blocks_[address] = Block{size, stream == nullptr ? nullptr : stream->handle()};
    } catch (...) {
      (void)device_.driver().cuMemFreeAsync(address,
                                            stream == nullptr ? device_.lane_for_memory() : stream->handle());
      account_.give_back(size);
      throw;
    }
    account_.take(size);
    return address;
  }
  account_.give_back(size);
  ++account_.refused;
  if (result != CUDA_ERROR_OUT_OF_MEMORY) {
    device_.check(result, "allocate " + size_text(bytes));
  }
  return 0;
}

void Pool::release(CUdeviceptr address) {
  CUstream stream = nullptr;
  {
    const std::lock_guard<std::mutex> hold(lock_);
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) {
      throw Error(ORT_EP_FAIL, "cuda: memory is freed that this pool did not give");
    }
    stream = found->second.stream;
    account_.give_back(found->second.bytes);
    blocks_.erase(found);
  }
  device_.free_in_order(address, stream);
}

void Pool::trim() {
  const Driver& driver = device_.driver();
  device_.check(driver.cuStreamSynchronize(device_.lane_for_memory()), "wait for memory that is being freed");
  device_.check(driver.cuMemPoolTrimTo(pool_, 0), "trim the pool of memory");
}

PoolAccount Pool::account() const {
  const std::lock_guard<std::mutex> hold(lock_);
  return account_;
}

std::string Pool::state() const {
  const PoolAccount now = account();
  std::string text = size_text(now.in_use) + " in use";
  if (now.limit != 0) {
    text += " of at most " + size_text(now.limit);
  }
  text += ", " + size_text(now.most_in_use) + " at the most so far";
  size_t free_bytes = 0, total = 0;
  if (device_.driver().cuMemGetInfo(&free_bytes, &total) == CUDA_SUCCESS) {
    text += "; the device has " + size_text(free_bytes) + " of " + size_text(total) + " free";
  }
  return text;
}

/* ---- Page-locked memory -------------------------------------------------------------------------------- */

void* PinnedMemory::allocate(size_t bytes) {
  const Driver& driver = device_.driver();
  if (bytes > SIZE_MAX / 2) {
    return nullptr;
  }
  size_t size = 256;
  while (size < bytes) {
    size *= 2;
  }
  const std::lock_guard<std::mutex> hold(lock_);
  std::vector<Free>& list = free_[size];
  for (size_t i = 0; i < list.size(); ++i) {
    if (driver.cuEventQuery(list[i].done) == CUDA_SUCCESS) {
      void* address = list[i].address;
      used_[address] = size;
      (void)driver.cuEventDestroy(list[i].done);
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      return address;
    }
  }
  void* address = nullptr;
  const CUresult result = driver.cuMemHostAlloc(&address, size, CU_MEMHOSTALLOC_PORTABLE);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    return nullptr;
  }
  device_.check(result, "allocate " + size_text(bytes) + " of page-locked memory");
  used_[address] = size;
  return address;
}

void PinnedMemory::release(void* address) {
  const Driver& driver = device_.driver();
  const std::lock_guard<std::mutex> hold(lock_);
  const auto found = used_.find(address);
  if (found == used_.end()) {
    throw Error(ORT_EP_FAIL, "cuda: page-locked memory is freed that was not allocated here");
  }
  CUevent done = nullptr;
  CUresult result = driver.cuEventCreate(&done, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS) {
    result = driver.cuEventRecord(done, device_.lane_for_copies());
  }
  if (result == CUDA_SUCCESS) {
    free_[found->second].push_back({address, done});
  } else {
    if (done != nullptr) {
      (void)driver.cuEventDestroy(done);
    }
    (void)driver.cuMemFreeHost(address); /* which waits for the device itself */
  }
  used_.erase(found);
}

void PinnedMemory::trim() {
  const Driver& driver = device_.driver();
  const std::lock_guard<std::mutex> hold(lock_);
  for (auto& entry : free_) {
    for (const Free& block : entry.second) {
      (void)driver.cuEventDestroy(block.done);
      (void)driver.cuMemFreeHost(block.address);
    }
  }
  free_.clear();
}

PinnedMemory::~PinnedMemory() { trim(); }

/* ---- The device ---------------------------------------------------------------------------------------- */

Device::Device(const Driver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {
  check(driver.cuDeviceGet(&handle_, ordinal), "find device " + std::to_string(ordinal));
  char text[256] = "";
  check(driver.cuDeviceGetName(text, sizeof text, handle_), "ask for the name of a device");
  name_ = text;
  check(driver.cuDeviceGetPCIBusId(text, sizeof text, handle_), "ask for the PCI bus id of " + name_);
  pci_bus_id_ = text;
  for (char& c : pci_bus_id_) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  CUuuid uuid = {};
  check(driver.cuDeviceGetUuid(&uuid, handle_), "ask for the UUID of " + name_);
  static const char kDigits[] = "0123456789abcdef";
  uuid_ = "GPU-";
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) {
      uuid_ += '-';
    }
    const unsigned byte = static_cast<unsigned char>(uuid.bytes[i]);
    uuid_ += kDigits[byte >> 4];
    uuid_ += kDigits[byte & 15];
  }
  check(driver.cuDeviceTotalMem(&memory_, handle_), "ask for the memory of " + name_);
  capability_ = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
                attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

Device::~Device() {
  if (context_ == nullptr) {
    return;
  }
  if (driver_.cuCtxPushCurrent(context_) == CUDA_SUCCESS) {
    if (memory_lane_.handle() != nullptr) {
      (void)driver_.cuStreamSynchronize(memory_lane_.handle());
    }
    pinned_.reset();
    pool_.reset();
    allocations_.close(*this);
    memory_lane_.close(*this);
    copies_.close(*this);
    for (CUlibrary library : libraries_) {
      (void)driver_.cuLibraryUnload(library);
    }
    CUcontext popped;
    (void)driver_.cuCtxPopCurrent(&popped);
  }
  (void)driver_.cuDevicePrimaryCtxRelease(handle_);
}

int Device::attribute(CUdevice_attribute which) const {
  int value = 0;
  if (driver_.cuDeviceGetAttribute(&value, which, handle_) != CUDA_SUCCESS) {
    throw Error(ORT_EP_FAIL, "cuda: attribute " + std::to_string(static_cast<int>(which)) + " of " + label() +
                                 " is unknown");
  }
  return value;
}

std::string Device::label() const { return "GPU " + std::to_string(ordinal_) + " (" + name_ + ")"; }

void Device::check_alive() const {
  const std::lock_guard<std::mutex> hold(lock_);
  if (!lost_.empty()) {
    throw Error(ORT_EP_FAIL, "cuda: " + label() + " was lost: " + lost_);
  }
}

void Device::check(CUresult result, const std::string& what) {
  if (result == CUDA_SUCCESS) {
    return;
  }
  const std::string text = "cannot " + what + ": " + driver_.name_of(result);
  switch (result) {
    /* After these, every call in the context fails. */
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_UNKNOWN: {
      const std::lock_guard<std::mutex> hold(lock_);
      if (lost_.empty()) {
        lost_ = text;
      }
      break;
    }
    default:
      break;
  }
  throw Error(ORT_EP_FAIL, "cuda: " + label() + ": " + text);
}

void Device::open_context() {
  check(driver_.cuDevicePrimaryCtxRetain(&context_, handle_), "make a context");
  check(driver_.cuCtxPushCurrent(context_), "use the context");
  try {
    copies_.open(*this);
    memory_lane_.open(*this);
    allocations_.open(*this);
    for (const Image& image : images()) {
      CUlibrary library = nullptr;
      check(driver_.cuLibraryLoadData(&library, image.data, nullptr, nullptr, 0, nullptr, nullptr, 0),
            std::string("load the kernels of ") + image.name);
      libraries_.push_back(library);
    }
    pinned_ = std::make_unique<PinnedMemory>(*this);
    pool_ = std::make_unique<Pool>(*this, 0);
  } catch (...) {
    CUcontext popped;
    (void)driver_.cuCtxPopCurrent(&popped);
    throw;
  }
  CUcontext popped;
  (void)driver_.cuCtxPopCurrent(&popped);
}

void Device::activate() {
  const std::lock_guard<std::mutex> hold(opening_);
  if (pool_ == nullptr) {
    if (context_ != nullptr) {
      throw Error(ORT_EP_FAIL, "cuda: " + label() + " could not be opened before"); /* half of it is there */
    }
    open_context();
  }
}

Pool& Device::pool() { return *pool_; }

Stream* Device::find(CUstream handle) {
  const std::lock_guard<std::mutex> hold(lock_);
  for (Stream* stream : streams_) {
    if (stream->handle() == handle) {
      return stream;
    }
  }
  return nullptr;
}

bool Device::is_recorded(CUstream stream) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver_.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool Device::begin_recording(Stream& stream) {
  const std::lock_guard<std::mutex> hold(lock_);
  (void)driver_.cuEventRecord(stream.tail_, stream.handle_);
  return driver_.cuStreamBeginCapture(stream.handle_, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS;
}

void Device::free_in_order(CUdeviceptr address, CUstream stream) {
  {
    const std::lock_guard<std::mutex> hold(lock_); /* no recording begins meanwhile */
    const bool known = std::any_of(streams_.begin(), streams_.end(),
                                   [&](const Stream* each) { return each->handle() == stream; });
    if (stream != nullptr && known && !is_recorded(stream)) {
      (void)driver_.cuMemFreeAsync(address, stream);
      return;
    }
  }
  (void)driver_.cuMemFreeAsync(address, lane_for_memory());
}

CUstream Device::follow_all(Lane& lane) {
  const std::lock_guard<std::mutex> hold(lock_);
  for (Stream* stream : streams_) {
    lane.follow(*this, *stream);
  }
  return lane.handle();
}

void Device::synchronize() {
  check(driver_.cuStreamSynchronize(lane_for_copies()), "finish the work that was queued");
}

CUfunction Device::kernel(const std::string& name) {
  const std::lock_guard<std::mutex> hold(lock_);
  const auto known = kernels_.find(name);
  if (known != kernels_.end()) {
    return known->second;
  }
  for (CUlibrary library : libraries_) {
    CUkernel found = nullptr;
    if (driver_.cuLibraryGetKernel(&found, library, name.c_str()) == CUDA_SUCCESS) {
      /* The driver takes a CUkernel wherever it takes a CUfunction. */
      return kernels_[name] = reinterpret_cast<CUfunction>(found);
    }
  }
  throw Error(ORT_EP_FAIL, "cuda: there is no kernel '" + name + "'");
}

/* ---- Scope --------------------------------------------------------------------------------------------- */

Scope::Scope(Device& device) : driver_(device.driver()) {
  device.check_alive();
  device.activate();
  device.check(driver_.cuCtxPushCurrent(device.context()), "use the context");
  pushed_ = true;
}

Scope::Scope(Device& device, std::nothrow_t) noexcept : driver_(device.driver()) {
  pushed_ = device.context() != nullptr && driver_.cuCtxPushCurrent(device.context()) == CUDA_SUCCESS;
}

Scope::~Scope() {
  CUcontext popped;
  if (pushed_) {
    (void)driver_.cuCtxPopCurrent(&popped);
  }
}

}  // namespace ephost::cuda
