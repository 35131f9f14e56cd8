/* One GPU: what it is, its context, the pool of its memory, and the streams that work on it.
 *
 * Nothing here waits for the GPU unless its comment says so. Memory and copies that the host asks for without
 * a stream are ordered by events after all that was queued before. */
#ifndef EPHOST_CUDA_DEVICE_H_
#define EPHOST_CUDA_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/driver.h"
#include "cuda/pool_account.h"

namespace ephost::cuda {

class Device;

/* A CUDA stream that work of ours is queued on. */
class Stream {
 public:
  /* Takes a stream of the user's, or makes one when `theirs` is NULL. Call inside a Scope. */
  Stream(Device& device, CUstream theirs);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }
  CUstream handle() const { return handle_; }
  /* To be called when something was queued: whoever frees memory later has to order that after it. */
  void mark() { marks_.fetch_add(1, std::memory_order_relaxed); }

 private:
  friend class Device;
  friend class Lane;
  Device& device_;
  const bool ours_;
  CUstream handle_ = nullptr;
  CUevent tail_ = nullptr; /* the device's lock is held while it is recorded and waited for */
  std::atomic<uint64_t> marks_{1};
};

/* A stream of the device itself, which follows all others: what is queued on it after `follow` comes after
 * what was queued on them before. */
class Lane {
 public:
  void open(Device& device);
  void close(Device& device);
  CUstream handle() const { return handle_; }
  void follow(Device& device, Stream& stream); /* with the device's lock */
  void forget(const Stream& stream) { seen_.erase(&stream); }

 private:
  CUstream handle_ = nullptr;
  std::unordered_map<const Stream*, uint64_t> seen_; /* marks that it has waited for */
};

/* Memory of a device, in stream order: a pool of the driver's, which keeps what is freed, and an account. */
class Pool {
 public:
  /* limit 0: as much as the device has. */
  Pool(Device& device, size_t limit);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /* Memory for work on `stream`, or on any stream when that is NULL. 0 when there is none left, also after
   * waiting for what is being freed. */
  CUdeviceptr allocate(size_t bytes, Stream* stream);
  /* Takes it back in the order of the stream that it was for, or after all work queued so far. */
  void release(CUdeviceptr address);
  void trim();
  PoolAccount account() const;
  /* "120 MiB of at most 128 MiB in use, ..." for messages. */
  std::string state() const;
  Device& device() const { return device_; }

 private:
  struct Block {
    size_t bytes;
    CUstream stream; /* NULL: any */
  };
  CUresult take(size_t bytes, Stream* stream, CUdeviceptr* address);

  Device& device_;
  CUmemoryPool pool_ = nullptr;
  mutable std::mutex lock_;
  PoolAccount account_;
  std::unordered_map<CUdeviceptr, Block> blocks_;
};

/* Page-locked memory of the host. A block that is freed is used again once the work queued by then is done.
 */
class PinnedMemory {
 public:
  explicit PinnedMemory(Device& device) : device_(device) {}
  ~PinnedMemory();
  void* allocate(size_t bytes); /* NULL when there is none */
  void release(void* address);
  void trim();

 private:
  struct Free {
    void* address;
    CUevent done;
  };
  Device& device_;
  std::mutex lock_;
  std::map<size_t, std::vector<Free>> free_; /* by size, a power of two */
  std::unordered_map<void*, size_t> used_;
};

class Device {
 public:
  /* Asks what the device is; makes no context. */
  Device(const Driver& driver, int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  CUdevice handle() const { return handle_; }
  const std::string& name() const { return name_; }
  const std::string& pci_bus_id() const { return pci_bus_id_; } /* "0000:65:00.0" */
  const std::string& uuid() const { return uuid_; }
  size_t memory() const { return memory_; }
  int capability() const { return capability_; } /* 90 for 9.0 */
  int attribute(CUdevice_attribute which) const;
  /* The device with its name and number, for messages. */
  std::string label() const;

  /* Makes the context and what goes with it, once; called by Scope. */
  void activate();
  CUcontext context() const { return context_; }

  /* Throws when a call failed, naming what was tried. After an error that the context does not survive, every
   * later check of this device fails at once with the first one. */
  void check(CUresult result, const std::string& what);
  void check_alive() const;

  Pool& pool();
  PinnedMemory& pinned() { return *pinned_; }

  /* The stream of ours with this handle; NULL when there is none. */
  Stream* find(CUstream handle);
  /* Has the lanes follow all streams; returns the one for copies or for memory. */
  CUstream lane_for_copies() { return follow_all(copies_); }
  CUstream lane_for_memory() { return follow_all(memory_lane_); }
  CUstream lane_for_allocation() const { return allocations_.handle(); }
  /* Waits for all that was queued on the device's streams so far. */
  void synchronize();
  /* Frees memory after what is queued on the stream that it was for, or on all streams: where that is NULL,
   * gone, or being recorded. */
  void free_in_order(CUdeviceptr address, CUstream stream);

  /* Whether what is queued on a stream is recorded, by us or by the program. */
  bool is_recorded(CUstream stream) const;
  /* Begins to record a stream of ours, which other threads then leave alone. False where that cannot be. */
  bool begin_recording(Stream& stream);

  /* A kernel of ours by name. */
  CUfunction kernel(const std::string& name);

 private:
  friend class Stream;
  CUstream follow_all(Lane& lane);
  void open_context();

  const Driver& driver_;
  const int ordinal_;
  CUdevice handle_ = 0;
  std::string name_, pci_bus_id_, uuid_;
  size_t memory_ = 0;
  int capability_ = 0;

  std::mutex opening_;
  CUcontext context_ = nullptr;
  std::vector<CUlibrary> libraries_;
  std::unordered_map<std::string, CUfunction> kernels_;

  mutable std::mutex lock_; /* of the streams, lanes, kernels and `lost_` */
  std::vector<Stream*> streams_;
  Lane copies_, memory_lane_, allocations_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<PinnedMemory> pinned_;
  std::string lost_;
};

/* Makes a device's context current while it lives; throws when the device was lost. */
class Scope {
 public:
  explicit Scope(Device& device);
  /* For giving things back, which must do what it can with a device that was lost: never throws. */
  Scope(Device& device, std::nothrow_t) noexcept;
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

}  // namespace ephost::cuda

#endif
