#include "cpu/engines/strided.h"

#include <array>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ephost::cpu {
namespace {

constexpr size_t kMaxOuter = 32;
// Rows and columns of a transposed plane that are done together: cache lines of the input and of the output.
constexpr int64_t tile_of(int64_t cell) { return std::max<int64_t>(16, 64 / cell); }
// Bytes that are worth a thread of their own.
constexpr int64_t kGrainBytes = kGrain * 4;

template <size_t bytes>
struct Words {
  uint64_t words[bytes / 8];
};

template <typename Cell>
inline void move(const char* from, char* to) {
  Cell cell;
  std::memcpy(&cell, from, sizeof cell);  // Cells may lie at any address.
  std::memcpy(to, &cell, sizeof cell);
}

// A tile of a transposition: rows are contiguous in the input, columns in the output.
template <typename Cell>
void transpose(const char* in, char* out, int64_t rows, int64_t columns, int64_t in_step, int64_t out_step) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      move<Cell>(in + c * in_step + r * static_cast<int64_t>(sizeof(Cell)),
                 out + r * out_step + c * static_cast<int64_t>(sizeof(Cell)));
    }
  }
}

#if defined(__SSE2__)
template <>
void transpose<uint32_t>(const char* in, char* out, int64_t rows, int64_t columns, int64_t in_step,
                         int64_t out_step) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    int64_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      __m128 lines[4];
      for (int i = 0; i < 4; ++i) {
        lines[i] = _mm_loadu_ps(reinterpret_cast<const float*>(in + (c + i) * in_step + r * 4));
      }
      _MM_TRANSPOSE4_PS(lines[0], lines[1], lines[2], lines[3]);
      for (int i = 0; i < 4; ++i) {
        _mm_storeu_ps(reinterpret_cast<float*>(out + (r + i) * out_step + c * 4), lines[i]);
      }
    }
    for (; c < columns; ++c) {
      for (int64_t i = r; i < r + 4; ++i)
        move<uint32_t>(in + c * in_step + i * 4, out + i * out_step + c * 4);
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      move<uint32_t>(in + c * in_step + r * 4, out + r * out_step + c * 4);
    }
  }
}

// Lines of 16 bytes become columns. Each round brings what lies half of the lines apart next to each other,
// so that after as many rounds as the number of lines has bits every line is one of what was a column.
template <size_t n, typename Low, typename High>
inline void turn(__m128i (&lines)[n], const Low& unpack_low, const High& unpack_high) {
  for (size_t round = 1; round < n; round *= 2) {
    __m128i next[n];
    for (size_t i = 0; i < n / 2; ++i) {
      next[2 * i] = unpack_low(lines[i], lines[i + n / 2]);
      next[2 * i + 1] = unpack_high(lines[i], lines[i + n / 2]);
    }
    for (size_t i = 0; i < n; ++i) lines[i] = next[i];
  }
}
inline void turn(__m128i (&lines)[16]) {
  turn(
      lines, [](__m128i a, __m128i b) { return _mm_unpacklo_epi8(a, b); },
      [](__m128i a, __m128i b) { return _mm_unpackhi_epi8(a, b); });
}
inline void turn(__m128i (&lines)[8]) {
  turn(
      lines, [](__m128i a, __m128i b) { return _mm_unpacklo_epi16(a, b); },
      [](__m128i a, __m128i b) { return _mm_unpackhi_epi16(a, b); });
}

// Of small cells: as many at a time as 16 bytes have.
template <typename Cell>
void transpose_small(const char* in, char* out, int64_t rows, int64_t columns, int64_t in_step,
                     int64_t out_step) {
  constexpr int64_t kCell = sizeof(Cell), kSide = 16 / kCell;
  const auto one = [&](int64_t r, int64_t c) {
    move<Cell>(in + c * in_step + r * kCell, out + r * out_step + c * kCell);
  };
  const auto each = [&](int64_t r, int64_t end, int64_t c) {
    for (; r < end; ++r) {
      for (int64_t i = c; i < columns; ++i) one(r, i);
    }
  };
  int64_t r = 0;
  for (; r + kSide <= rows; r += kSide) {
    int64_t c = 0;
    for (; c < columns; c += kSide) {
      const int64_t wide = std::min(kSide, columns - c);
      // What is written beyond a short line is the next line's, which comes later.
      const int64_t safe = wide == kSide ? kSide : out_step == wide * kCell ? kSide - kSide / wide - 1 : 0;
      if (safe <= 0) break;
      __m128i lines[kSide];
      for (int64_t i = 0; i < kSide; ++i) {
        lines[i] = i < wide
                       ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + (c + i) * in_step + r * kCell))
                       : _mm_setzero_si128();
      }
      turn(lines);
      for (int64_t i = 0; i < safe; ++i) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + (r + i) * out_step + c * kCell), lines[i]);
      }
      each(r + safe, r + kSide, c);
    }
    if (c < columns) each(r, r + kSide, c);
  }
  each(r, rows, 0);
}
template <>
void transpose<uint8_t>(const char* in, char* out, int64_t rows, int64_t columns, int64_t in_step,
                        int64_t out_step) {
  transpose_small<uint8_t>(in, out, rows, columns, in_step, out_step);
}
template <>
void transpose<uint16_t>(const char* in, char* out, int64_t rows, int64_t columns, int64_t in_step,
                         int64_t out_step) {
  transpose_small<uint16_t>(in, out, rows, columns, in_step, out_step);
}
#endif

}  // namespace

Dims strides_of(const Dims& dims) {
  Dims strides(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    // What has no elements may have dimensions of any size.
    if (__builtin_mul_overflow(step, dims[i], &step)) step = 0;
  }
  return strides;
}

Dims stored_dims(const Desc& desc) {
  Dims dims = desc.dims;
  const int64_t block = block_of(desc.layout);
  if (desc.layout == Layout::kChannelsLast) {
    std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  } else if (block > 1) {
    dims[1] = (dims[1] + block - 1) / block;
    dims.push_back(block);
  }
  return dims;
}

size_t stored_axis(const Desc& desc, size_t axis) {
  if (desc.layout == Layout::kChannelsLast && axis > 0) {
    return axis == 1 ? desc.rank() - 1 : axis - 1;
  }
  return axis;
}

StridedCopy::StridedCopy(size_t size, const Dims& dims, const Dims& in_strides, const Dims& out_strides,
                         int64_t in_offset, int64_t out_offset) {
  if (count(dims) == 0) {
    return;
  }
  const int64_t bytes = static_cast<int64_t>(size);
  in_offset_ = in_offset * bytes;
  out_offset_ = out_offset * bytes;
  // The bytes of an element are the innermost dimension, so that runs of elements merge with them.
  std::vector<Dim> all;
  for (size_t i = 0; i <= dims.size(); ++i) {
    // Of one element nobody takes a step, which may be any number.
    if ((i < dims.size() ? dims[i] : bytes) == 1) {
      continue;
    }
    const Dim dim =
        i < dims.size() ? Dim{dims[i], in_strides[i] * bytes, out_strides[i] * bytes} : Dim{bytes, 1, 1};
    if (!all.empty() && all.back().in == dim.in * dim.n && all.back().out == dim.out * dim.n) {
      all.back() = {all.back().n * dim.n, dim.in, dim.out};
    } else {
      all.push_back(dim);
    }
  }
  if (all.empty()) {
    all.push_back({1, 1, 1});
  }
  if (all.size() == 1 && all[0].in == 1 && all[0].out == 1) {
    whole_ = true;
    columns_ = all[0];
    items_ = 1;
    return;
  }
  // Runs of a few bytes are cells of that size; longer ones are rows.
  if (all.back().in == 1 && all.back().out == 1) {
    const int64_t run = all.back().n;
    if (run == 2 || run == 4 || run == 8 || run == 16 || run == 32 || run == 64) {
      cell_ = static_cast<size_t>(run);
      all.pop_back();
    }
  }
  const int64_t cell = static_cast<int64_t>(cell_);
  // Columns are what is contiguous in the output, if anything is.
  const auto columns =
      std::find_if(all.rbegin(), all.rend(), [&](const Dim& dim) { return dim.out == cell; });
  if (columns != all.rend()) std::rotate(columns.base() - 1, columns.base(), all.end());
  columns_ = all.back();
  all.pop_back();
  rows_are_runs_ = columns_.in == cell && columns_.out == cell;
  if (all.empty()) {
    if (!rows_are_runs_) std::swap(rows_, columns_);  // Blocks of rows are what threads share.
  } else {
    // For a transposition the rows are those that are contiguous in the input.
    auto rows = all.end() - 1;
    if (columns_.in != cell && columns_.in != 0) {
      const auto found = std::find_if(all.begin(), all.end(), [&](const Dim& dim) { return dim.in == cell; });
      rows = found == all.end() ? rows : found;
    }
    rows_ = *rows;
    all.erase(rows);
  }
  outer_ = std::move(all);
  if (outer_.size() > kMaxOuter) {
    throw Error(ORT_NOT_IMPLEMENTED, "a tensor of more than " + std::to_string(kMaxOuter) + " dimensions");
  }
  const bool transposes = rows_.in == cell && columns_.out == cell && !rows_are_runs_;
  rows_at_once_ = transposes ? tile_of(cell) : std::clamp<int64_t>(16384 / (columns_.n * cell), 1, rows_.n);
  blocks_ = (rows_.n + rows_at_once_ - 1) / rows_at_once_;
  items_ = blocks_;
  for (const Dim& dim : outer_) {
    items_ *= dim.n;
  }
  grain_ = std::max<int64_t>(1, kGrainBytes / (std::min(rows_at_once_, rows_.n) * columns_.n * cell));
}

template <typename Cell>
void StridedCopy::planes(const char* in, char* out, int64_t begin, int64_t end) const {
  constexpr int64_t kCell = sizeof(Cell);
  // Where the first item is; the others follow by counting.
  std::array<int64_t, kMaxOuter> at{};
  int64_t rest = begin / blocks_, block = begin % blocks_;
  for (size_t d = outer_.size(); d-- > 0;) {
    at[d] = rest % outer_[d].n;
    rest /= outer_[d].n;
    in += at[d] * outer_[d].in;
    out += at[d] * outer_[d].out;
  }
  const int64_t columns = columns_.n;
  for (int64_t item = begin; item < end; ++item) {
    const int64_t first = block * rows_at_once_, rows = std::min(rows_at_once_, rows_.n - first);
    const char* from = in + first * rows_.in;
    char* to = out + first * rows_.out;
    if (columns == 1 && rows_.in == 0 && rows_.out == kCell) {  // One element is all that there is.
      Cell cell;
      std::memcpy(&cell, from, sizeof cell);
      std::fill_n(reinterpret_cast<Cell*>(to), rows, cell);
    } else if (rows_are_runs_) {
      for (int64_t r = 0; r < rows; ++r) {
        std::memcpy(to + r * rows_.out, from + r * rows_.in, static_cast<size_t>(columns * kCell));
      }
    } else if (rows_.in == kCell && columns_.out == kCell) {
      const int64_t side = rows < 16 ? 16 : tile_of(kCell);
      for (int64_t c = 0; c < columns; c += side) {
        transpose<Cell>(from + c * columns_.in, to + c * kCell, rows, std::min(side, columns - c),
                        columns_.in, rows_.out);
      }
    } else if (columns_.in == 0 && columns_.out == kCell) {
      for (int64_t r = 0; r < rows; ++r) {
        Cell cell;
        std::memcpy(&cell, from + r * rows_.in, sizeof cell);
        std::fill_n(reinterpret_cast<Cell*>(to + r * rows_.out), columns, cell);
      }
    } else {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          move<Cell>(from + r * rows_.in + c * columns_.in, to + r * rows_.out + c * columns_.out);
        }
      }
    }
    if (++block < blocks_) {
      continue;
    }
    block = 0;
    for (size_t d = outer_.size(); d-- > 0;) {
      in += outer_[d].in;
      out += outer_[d].out;
      if (++at[d] < outer_[d].n) {
        break;
      }
      at[d] = 0;
      in -= outer_[d].in * outer_[d].n;
      out -= outer_[d].out * outer_[d].n;
    }
  }
}

void StridedCopy::operator()(const void* in, void* out) const {
  const char* from = static_cast<const char*>(in) + in_offset_;
  char* to = static_cast<char*>(out) + out_offset_;
  if (whole_) {
    parallel_for(columns_.n, kGrainBytes, [&](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
    return;
  }
  parallel_for(items_, grain_, [&](int64_t begin, int64_t end) {
    switch (cell_) {
      case 1:
        return planes<uint8_t>(from, to, begin, end);
      case 2:
        return planes<uint16_t>(from, to, begin, end);
      case 4:
        return planes<uint32_t>(from, to, begin, end);
      case 8:
        return planes<uint64_t>(from, to, begin, end);
      case 16:
        return planes<Words<16>>(from, to, begin, end);
      case 32:
        return planes<Words<32>>(from, to, begin, end);
      default:
        return planes<Words<64>>(from, to, begin, end);
    }
  });
}

Kernel copy_or_alias(Prepare& p, StridedCopy copy) {
  if (copy.is_run()) {
    p.alias(0, 0, copy.in_offset());
    return nullptr;
  }
  return [copy = std::move(copy)](const Args& args) { copy(args.in(0), args.out()); };
}

}  // namespace ephost::cpu
