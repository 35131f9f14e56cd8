#include "toolkit/types.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace ephost {

size_t size_of(DType type) {
  switch (type) {
    case DType::kBool:
    case DType::kInt8:
    case DType::kUint8:
      return 1;
    case DType::kInt16:
    case DType::kUint16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kFloat:
    case DType::kInt32:
    case DType::kUint32:
      return 4;
    case DType::kDouble:
    case DType::kInt64:
    case DType::kUint64:
    case DType::kString:  // A pointer: see text.h.
      return 8;
    default:
      return 0;
  }
}

const char* name_of(DType type) {
  switch (type) {
    case DType::kFloat:
      return "float32";
    case DType::kUint8:
      return "uint8";
    case DType::kInt8:
      return "int8";
    case DType::kUint16:
      return "uint16";
    case DType::kInt16:
      return "int16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kString:
      return "string";
    case DType::kBool:
      return "bool";
    case DType::kFloat16:
      return "float16";
    case DType::kDouble:
      return "float64";
    case DType::kUint32:
      return "uint32";
    case DType::kUint64:
      return "uint64";
    case DType::kBFloat16:
      return "bfloat16";
    default:
      return "another type";
  }
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + (dims[i] < 0 ? std::string("?") : std::to_string(dims[i]));
  }
  return text + "]";
}

int64_t count(const Dims& dims, size_t begin, size_t end) {
  // More elements than memory of any size has: their bytes can be counted, the filling of a layout included.
  // A dimension of 0 is no excuse for the others: strides, and numbers of rows and columns, are products of
  // those.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() >> 8;
  int64_t product = 1;
  bool is_empty = false;
  for (size_t i = begin; i < end; ++i) {
    is_empty = is_empty || dims[i] == 0;
    const int64_t size = dims[i] == 0 ? 1 : dims[i];
    if (size < 0 || __builtin_mul_overflow(product, size, &product) || product > kMost) {
      invalid("a tensor of shape " + to_string(dims) + " cannot be");
    }
  }
  return is_empty ? 0 : product;
}

int64_t count(const Dims& dims) { return count(dims, 0, dims.size()); }

void fail(const std::string& message) { throw Error(ORT_FAIL, message); }
void invalid(const std::string& message) { throw Error(ORT_INVALID_ARGUMENT, message); }

namespace {

#ifdef MADV_HUGEPAGE
// Of Linux' large pages: new memory is cleared by one fault for 512 small ones, which is much of what packing
// a model's weights takes, and what runs through them looks up one page in place of so many.
constexpr size_t kLargePage = size_t{2} << 20;
#else
constexpr size_t kLargePage = std::numeric_limits<size_t>::max();
#endif
constexpr size_t kLine = 64;  // Of the cache.

// Large pages that are handed out piece by piece, each behind the one before.
struct Chunk {
  static constexpr size_t kSize = size_t{8} << 20;

  std::shared_ptr<void> memory = allocate(kSize);
  size_t used = 0;
};

// Whether pieces share pages: not where a sanitizer watches what lies between two allocations.
#if defined(MADV_HUGEPAGE) && !defined(__SANITIZE_ADDRESS__)
constexpr bool kShares = true;
#else
constexpr bool kShares = false;
#endif

}  // namespace

std::shared_ptr<void> allocate(size_t bytes) {
  const bool large = bytes >= kLargePage;
  const std::align_val_t alignment{large ? kLargePage : kLine};
  void* memory = ::operator new(bytes + (bytes == 0), alignment, std::nothrow);
  if (memory == nullptr) {
    fail("no memory for " + std::to_string(bytes) + " bytes");
  }
#ifdef MADV_HUGEPAGE
  if (large) {
    // Whole ones: the rest of the last one nobody asked for. A system without them says no, which changes
    // nothing.
    (void)::madvise(memory, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
  }
#endif
  return {memory, [alignment](void* p) { ::operator delete(p, alignment); }};
}

std::shared_ptr<void> allocate_lasting(size_t bytes) {
  if (!kShares || bytes >= kLargePage || bytes < kLine) {
    return allocate(bytes);
  }
  static std::mutex mutex;
  static std::weak_ptr<Chunk> current;  // Of all models: the last pages of one are the first of the next.
  const std::lock_guard lock(mutex);
  std::shared_ptr<Chunk> chunk = current.lock();
  if (chunk == nullptr || Chunk::kSize - chunk->used < bytes) {
    chunk = std::make_shared<Chunk>();
    current = chunk;
  }
  char* piece = static_cast<char*>(chunk->memory.get()) + chunk->used;
  chunk->used += (bytes + kLine - 1) / kLine * kLine;
  return {std::move(chunk), piece};
}

void Tensor::own() {
  if (owner == nullptr) {
    owner = allocate(bytes());
    if (bytes() > 0) {
      std::memcpy(owner.get(), data, bytes());
    }
    let_go();
    data = owner.get();
    file = nullptr;
  }
}

void Tensor::own_or_stay() {
  constexpr size_t kLarge = size_t{1} << 20;
  const bool aligned = reinterpret_cast<uintptr_t>(data) % std::max<size_t>(size_of(type), 1) == 0;
  stays_ = file != nullptr && file->lasts && bytes() >= kLarge && aligned;
  if (!stays_) own();
}

#if defined(__unix__) || defined(__APPLE__)
std::shared_ptr<MappedFile> MappedFile::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return nullptr;
  }
  struct stat about {};
  void* data = MAP_FAILED;
  if (::fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
    data = ::mmap(nullptr, static_cast<size_t>(about.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
  }
  ::close(descriptor);
  if (data == MAP_FAILED) {
    return nullptr;
  }
  std::shared_ptr<MappedFile> file(new MappedFile());
  file->data_ = static_cast<const char*>(data);
  file->bytes_ = static_cast<size_t>(about.st_size);
  return file;
}

MappedFile::~MappedFile() { ::munmap(const_cast<char*>(data_), bytes_); }

void MappedFile::let_go(const void* begin, size_t bytes) const {
  const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page;
  const uintptr_t last = (reinterpret_cast<uintptr_t>(begin) + bytes) / page * page;
  if (first < last) {
    ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }
}
#else
std::shared_ptr<MappedFile> MappedFile::open(const std::string&) { return nullptr; }
MappedFile::~MappedFile() = default;
void MappedFile::let_go(const void*, size_t) const {}
#endif

TensorPtr make_tensor(DType type, const Dims& dims) {
  auto tensor = std::make_shared<Tensor>();
  tensor->type = type;
  tensor->dims = dims;
  tensor->owner = allocate(tensor->bytes());
  tensor->data = tensor->owner.get();
  return tensor;
}

}  // namespace ephost
