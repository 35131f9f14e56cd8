// What tensors are made of: element types, dimensions, constants; and the one exception of the compilers.
#ifndef EPHOST_TOOLKIT_TYPES_H_
#define EPHOST_TOOLKIT_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ephost/ephost.h"
#include "toolkit/mutex.h"
#include "toolkit/small_vector.h"

namespace ephost {

// The numbers of the ABI, so that nothing has to be translated at its border.
enum class DType : uint8_t {
  kUndefined = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED,
  kFloat = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
  kUint8 = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,
  kInt8 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8,
  kUint16 = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16,
  kInt16 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16,
  kInt32 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32,
  kInt64 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
  kString = ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING,
  kBool = ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL,
  kFloat16 = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
  kDouble = ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE,
  kUint32 = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32,
  kUint64 = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64,
  kBFloat16 = ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16,
};

// Bytes of an element, for strings as in text.h; 0 for types that have no whole number of them (4-bit types).
size_t size_of(DType type);
// "float32", "int64", ...: as numpy writes them.
const char* name_of(DType type);

// A set of element types, for what an operator supports.
class Types {
 public:
  constexpr Types() = default;
  constexpr Types(std::initializer_list<DType> types) {
    for (DType type : types) bits_ |= uint64_t{1} << static_cast<unsigned>(type);
  }
  // False for numbers that stand for no type, as an attribute may have them.
  constexpr bool has(DType type) const {
    return static_cast<unsigned>(type) < 64 && (bits_ >> static_cast<unsigned>(type) & 1) != 0;
  }
  constexpr Types operator|(Types other) const {
    Types both;
    both.bits_ = bits_ | other.bits_;
    return both;
  }

 private:
  uint64_t bits_ = 0;
};

inline constexpr Types kFloats{DType::kFloat, DType::kDouble, DType::kFloat16, DType::kBFloat16};
inline constexpr Types kSigned{DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64};
inline constexpr Types kUnsigned{DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64};
inline constexpr Types kNumbers = kFloats | kSigned | kUnsigned;
inline constexpr Types kAny = kNumbers | Types{DType::kBool};
constexpr bool is_half(DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; }

// A short list, as of axes or strides.
using Ints = SmallVector<int64_t, 6>;
// Dimensions, outermost first. In a graph -1 stands for one that is not known; never in a plan.
using Dims = Ints;
std::string to_string(const Dims& dims);
// The product, 1 for a scalar. Throws Error where a dimension is negative or the product does not fit.
int64_t count(const Dims& dims);
int64_t count(const Dims& dims, size_t begin, size_t end);

// What the compilers and kernels throw; becomes an OrtStatus at the ABI's border.
class Error : public std::runtime_error {
 public:
  Error(OrtErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  OrtErrorCode code() const { return code_; }

 private:
  OrtErrorCode code_;
};

[[noreturn]] void fail(const std::string& message);  // ORT_FAIL
[[noreturn]] void invalid(
    const std::string& message);  // ORT_INVALID_ARGUMENT: the graph or the input is wrong

// Memory for kernels: aligned to a cache line, and never of zero bytes.
std::shared_ptr<void> allocate(size_t bytes);

// The same for what stays as long as a model, as packed weights do. What is less than a large page shares
// some with its neighbours, which go back to the system when nothing in them is in use.
std::shared_ptr<void> allocate_lasting(size_t bytes);

// A file whose bytes are mapped into memory, read only.
class MappedFile {
 public:
  // Null if the file cannot be mapped, or on systems where this is not done.
  static std::shared_ptr<MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const char* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Says that a part will not be read soon: its pages no longer count as this process's.
  void let_go(const void* begin, size_t bytes) const;
  // Whether it is of external data, which nobody changes while the model is open; not the model itself, which
  // may be written anew.
  bool lasts = false;

 private:
  MappedFile() = default;
  const char* data_ = nullptr;
  size_t bytes_ = 0;
};

// A constant. Its memory is ours (`owner`), or lies in a mapped file (`file`), where it may begin at any
// byte, or belongs to the host (neither), and is then valid during Compile only.
struct Tensor {
  DType type = DType::kUndefined;
  Dims dims;
  const void* data = nullptr;
  std::shared_ptr<void> owner;
  std::shared_ptr<const MappedFile> file;

  // Forms of it that kernels made for themselves (packed weights), by a name of their choice. A kernel that
  // has packed what it needs of a constant never touches `data` again: see Prepare::packed.
  std::map<std::string, std::shared_ptr<void>, std::less<>> packed;
  mutable Mutex packed_mutex;
  bool is_packed() const {
    const std::lock_guard lock(packed_mutex);
    return !packed.empty();
  }

  size_t bytes() const { return static_cast<size_t>(count(dims)) * size_of(type); }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
  // Copies what is not ours, so that it is aligned and the host's may go.
  void own();
  // Likewise, but for what is large and may be read where it is, in a file that lasts: a run may need few
  // rows of it, and other sessions and processes have the same pages.
  void own_or_stay();
  // The content will not be read soon, as it was packed into another form.
  void let_go() const {
    if (file != nullptr && !stays_) file->let_go(data, bytes());
  }

 private:
  bool stays_ = false;
};
using TensorPtr = std::shared_ptr<Tensor>;

// A constant with memory of its own, not yet written to: fill it by `mutable_data`.
TensorPtr make_tensor(DType type, const Dims& dims);
inline void* mutable_data(const TensorPtr& tensor) { return tensor->owner.get(); }
template <typename T>
TensorPtr make_tensor(DType type, const Dims& dims, const std::vector<T>& values) {
  TensorPtr tensor = make_tensor(type, dims);
  std::copy(values.begin(), values.end(), static_cast<T*>(mutable_data(tensor)));
  return tensor;
}

}  // namespace ephost

#endif
