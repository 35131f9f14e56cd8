/* Kernels that move elements and compute nothing: by their size, not their type. */
#include "kernel.h"

namespace ephost::cuda {

template <typename T>
DEVICE void copy(const CopyArguments& args) {
  const uint32_t number = thread_number();
  if (number >= args.count) {
    return;
  }
  int64_t from = 0, to = 0;
  uint32_t rest = number;
#pragma unroll
  for (int d = 0; d < kMaxRank; ++d) {
    if (d < args.rank) {
      const uint32_t next = divide(rest, args.dims[d]);
      const int64_t place = rest - next * args.dims[d].divisor;
      from += place * args.from_strides[d];
      to += place * args.to_strides[d];
      rest = next;
    }
  }
  static_cast<T*>(args.to)[to] = static_cast<const T*>(args.from)[from];
}

/* Tiles of 32 x 32 by way of shared memory, so that reads and writes are both along rows; the padding column
 * keeps the columns of a tile in different banks. Blocks of 32 x 8 threads, one for each tile; the grid's z
 * is the batch. */
template <typename T>
DEVICE void transpose(const TransposeArguments& args, T (&tile)[32][33]) {
  const int64_t plane = static_cast<int64_t>(args.rows) * args.columns;
  const T* from = static_cast<const T*>(args.from) + plane * blockIdx.z;
  T* to = static_cast<T*>(args.to) + plane * blockIdx.z;
  const int left = static_cast<int>(blockIdx.x) * 32, top = static_cast<int>(blockIdx.y) * 32;
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  for (int i = y; i < 32; i += 8) {
    if (top + i < args.rows && left + x < args.columns) {
      tile[i][x] = from[static_cast<int64_t>(top + i) * args.columns + left + x];
    }
  }
  __syncthreads();
  for (int i = y; i < 32; i += 8) {
    if (left + i < args.columns && top + x < args.rows) {
      to[static_cast<int64_t>(left + i) * args.rows + top + x] = tile[x][i];
    }
  }
}

/* The same for elements of two bytes, of which a thread moves two at once: tiles of 64 x 64. Rows and columns
 * are even, and both matrices lie on a boundary of four bytes. */
DEVICE void transpose_pairs(const TransposeArguments& args, uint16_t (&tile)[64][65]) {
  const int64_t plane = static_cast<int64_t>(args.rows) * args.columns;
  const uint16_t* from = static_cast<const uint16_t*>(args.from) + plane * blockIdx.z;
  uint16_t* to = static_cast<uint16_t*>(args.to) + plane * blockIdx.z;
  const int left = static_cast<int>(blockIdx.x) * 64, top = static_cast<int>(blockIdx.y) * 64;
  const int x = static_cast<int>(threadIdx.x) * 2, y = static_cast<int>(threadIdx.y);
#pragma unroll
  for (int i = y; i < 64; i += 8) {
    if (top + i < args.rows && left + x < args.columns) {
      const uint32_t pair =
          *reinterpret_cast<const uint32_t*>(from + static_cast<int64_t>(top + i) * args.columns + left + x);
      tile[i][x] = static_cast<uint16_t>(pair);
      tile[i][x + 1] = static_cast<uint16_t>(pair >> 16);
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = y; i < 64; i += 8) {
    if (left + i < args.columns && top + x < args.rows) {
      const uint32_t pair = tile[x][i] | static_cast<uint32_t>(tile[x + 1][i]) << 16;
      *reinterpret_cast<uint32_t*>(to + static_cast<int64_t>(left + i) * args.rows + top + x) = pair;
    }
  }
}

template <typename T>
DEVICE void gather(const GatherArguments& args) {
  const uint32_t number = thread_number();
  if (number >= args.count) {
    return;
  }
  const uint32_t slice = divide(number, args.inner), inner = number - slice * args.inner.divisor;
  const uint32_t outer = divide(slice, args.num_index), i = slice - outer * args.num_index.divisor;
  int64_t index = args.wide ? static_cast<const int64_t*>(args.index)[i]
                            : static_cast<int64_t>(static_cast<const int32_t*>(args.index)[i]);
  if (index < 0) {
    index += args.axis;
  }
  T value = {}; /* zero for an index that is out of range, which only the device sees */
  if (index >= 0 && index < args.axis) {
    value = static_cast<const T*>(args.from)[(outer * args.axis + index) * args.inner.divisor + inner];
  }
  static_cast<T*>(args.to)[number] = value;
}

template <typename T>
DEVICE void pad(const PadArguments& args) {
  const uint32_t number = thread_number();
  if (number >= args.count) {
    return;
  }
  int64_t from = 0;
  bool inside = true;
  uint32_t rest = number;
#pragma unroll
  for (int d = 0; d < kMaxRank; ++d) {
    if (d < args.rank) {
      const uint32_t next = divide(rest, args.dims[d]);
      int64_t at = static_cast<int64_t>(rest - next * args.dims[d].divisor) - args.before[d];
      rest = next;
      const int64_t size = args.sizes[d];
      if (args.mode == PadMode::kConstant) {
        inside = inside && at >= 0 && at < size;
      } else if (args.mode == PadMode::kEdge) {
        at = at < 0 ? 0 : at >= size ? size - 1 : at;
      } else if (args.mode == PadMode::kWrap) {
        at = (at % size + size) % size;
      } else if (size > 1) {
        const int64_t period = 2 * (size - 1);
        at = (at % period + period) % period;
        at = at < size ? at : period - at;
      } else {
        at = 0;
      }
      from += at * args.strides[d];
    }
  }
  T value;
  memcpy(static_cast<void*>(&value), &args.value, sizeof(T));
  static_cast<T*>(args.to)[number] = inside ? static_cast<const T*>(args.from)[from] : value;
}

#define MOVES(name, T)                                                \
  KERNEL(copy_##name, CONSTANT CopyArguments args) { copy<T>(args); } \
  KERNEL(gather_##name, CONSTANT GatherArguments args) { gather<T>(args); }

MOVES(u8, uint8_t)
MOVES(u16, uint16_t)
MOVES(u32, uint32_t)
MOVES(u64, uint2)
MOVES(u128, uint4)

#define PAD(name, T) \
  KERNEL(pad_##name, CONSTANT PadArguments args) { pad<T>(args); }

PAD(u8, uint8_t)
PAD(u16, uint16_t)
PAD(u32, uint32_t)
PAD(u64, uint2)

#define TRANSPOSE(name, T)                                                      \
  COOPERATIVE_KERNEL(transpose_##name, 256, CONSTANT TransposeArguments args) { \
    SHARED T tile[32][33];                                                      \
    transpose<T>(args, tile);                                                   \
  }

TRANSPOSE(u8, uint8_t)
TRANSPOSE(u16, uint16_t)
TRANSPOSE(u32, uint32_t)
TRANSPOSE(u64, uint2)

COOPERATIVE_KERNEL(transpose_pairs_u16, 256, CONSTANT TransposeArguments args) {
  SHARED uint16_t tile[64][65];
  transpose_pairs(args, tile);
}

DEVICE double read(const void* from, int64_t i, Element type) {
  switch (type) {
    case Element::kFloat:
      return static_cast<const float*>(from)[i];
    case Element::kHalf:
      return to_float(static_cast<const half_t*>(from)[i]);
    case Element::kBfloat:
      return to_float(static_cast<const bf16_t*>(from)[i]);
    case Element::kInt32:
      return static_cast<const int32_t*>(from)[i];
    case Element::kUint8:
      return static_cast<const uint8_t*>(from)[i];
    case Element::kInt8:
      return static_cast<const int8_t*>(from)[i];
    case Element::kBool:
      return static_cast<const uint8_t*>(from)[i] != 0;
    default:
      return 0;
  }
}

/* Integers go through int64, so that no bit of one is lost; all else through float32, which holds what it
 * takes. */
KERNEL(cast_elements, CONSTANT CastArguments args) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= args.count) {
    return;
  }
  const bool whole = args.source >= Element::kInt32;
  const int64_t number = args.source == Element::kInt64 ? static_cast<const int64_t*>(args.from)[i]
                         : whole ? static_cast<int64_t>(read(args.from, i, args.source))
                                 : 0;
  const float real = whole ? static_cast<float>(number) : static_cast<float>(read(args.from, i, args.source));
  const int64_t rounded = whole ? number : static_cast<int64_t>(real);
  switch (args.target) {
    case Element::kFloat:
      static_cast<float*>(args.to)[i] = real;
      break;
    case Element::kHalf:
      static_cast<half_t*>(args.to)[i] = from_float<half_t>(real);
      break;
    case Element::kBfloat:
      static_cast<bf16_t*>(args.to)[i] = from_float<bf16_t>(real);
      break;
    case Element::kInt32:
      static_cast<int32_t*>(args.to)[i] = static_cast<int32_t>(rounded);
      break;
    case Element::kInt64:
      static_cast<int64_t*>(args.to)[i] = rounded;
      break;
    case Element::kUint8:
      static_cast<uint8_t*>(args.to)[i] = static_cast<uint8_t>(rounded);
      break;
    case Element::kInt8:
      static_cast<int8_t*>(args.to)[i] = static_cast<int8_t>(rounded);
      break;
    case Element::kBool:
      static_cast<uint8_t*>(args.to)[i] = whole ? number != 0 : real != 0.0f;
      break;
  }
}

}  // namespace ephost::cuda
