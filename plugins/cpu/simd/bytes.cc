// Elementwise operations on bytes.
#include "cpu/simd/bytes.h"

#include "cpu/simd/simd.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace ephost::cpu::EPHOST_ISA {
namespace {

#ifdef __AVX2__

__m256i load(const uint8_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
void store(uint8_t* to, __m256i bytes) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes); }

// The entries of 16 << level bytes of a table by the lower bits of an index: from two halves by the bit that
// is the highest one of each byte of bits[level - 1].
template <int level>
inline __m256i entries(const uint8_t* table, __m256i low, const __m256i* bits) {
  if constexpr (level == 0) {
    const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(part), low);
  } else {
    const __m256i first = entries<level - 1>(table, low, bits);
    const __m256i second = entries<level - 1>(table + (8 << level), low, bits);
    return _mm256_blendv_epi8(first, second, bits[level - 1]);
  }
}

#endif

void look_up(const uint8_t* x, int64_t n, const uint8_t* table, uint8_t* y) {
  int64_t i = 0;
#ifdef __AVX2__
  for (; i + 32 <= n; i += 32) {
    const __m256i index = load(x + i);
    __m256i bits[4];
    bits[3] = index;
    for (int b = 3; b > 0; --b) bits[b - 1] = _mm256_add_epi8(bits[b], bits[b]);
    store(y + i, entries<4>(table, _mm256_and_si256(index, _mm256_set1_epi8(15)), bits));
  }
#endif
  for (; i < n; ++i) y[i] = table[x[i]];
}

// Rounds to the nearest, ties to even: exact below 2^22.
inline float rounded(float x) { return (x + 12582912.0f) - 12582912.0f; }

struct Sum {
  static float of(float a, float b) { return a + b; }
#ifdef __AVX2__
  static __m256 of(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
#endif
};
struct Product {
  static float of(float a, float b) { return a * b; }
#ifdef __AVX2__
  static __m256 of(__m256 a, __m256 b) { return _mm256_mul_ps(a, b); }
#endif
};

template <typename Of, bool is_signed>
inline void combine(const uint8_t* a, const uint8_t* b, int64_t n, const BytePair& as, uint8_t* y) {
  const int low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
  const float most = static_cast<float>(high - as.zero), least = static_cast<float>(low - as.zero);
  int64_t i = 0;
#ifdef __AVX2__
  const __m256i a_zero = _mm256_set1_epi32(as.a_zero), b_zero = _mm256_set1_epi32(as.b_zero);
  const __m256i zero = _mm256_set1_epi16(static_cast<int16_t>(as.zero));
  const __m256 a_scale = _mm256_set1_ps(as.a_scale), b_scale = _mm256_set1_ps(as.b_scale),
               scale = _mm256_set1_ps(as.scale), large = _mm256_set1_ps(most), small = _mm256_set1_ps(least);
  const auto number = [](const uint8_t* from, __m256i point, __m256 step) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    const __m256i wide = is_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(wide, point)), step);
  };
  // Eight of them, rounded.
  const auto eight = [&](int64_t at) {
    const __m256 both = Of::of(number(a + at, a_zero, a_scale), number(b + at, b_zero, b_scale));
    // What is not a number becomes the upper limit.
    return _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(_mm256_div_ps(both, scale), large), small));
  };
  const auto pack = [&](__m256i first, __m256i second) {
    return _mm256_adds_epi16(_mm256_packs_epi32(first, second), zero);
  };
  const auto narrow = [](__m256i first, __m256i second) {
    return is_signed ? _mm256_packs_epi16(first, second) : _mm256_packus_epi16(first, second);
  };
  // Packing goes by halves of registers: their fours come in this order.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (; i + 32 <= n; i += 32) {
    const __m256i first = pack(eight(i), eight(i + 8)), second = pack(eight(i + 16), eight(i + 24));
    store(y + i, _mm256_permutevar8x32_epi32(narrow(first, second), order));
  }
  for (; i + 8 <= n; i += 8) {
    const __m256i one = eight(i), words = pack(one, one);
    const __m256i bytes = _mm256_permutevar8x32_epi32(narrow(words, words), order);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(y + i), _mm256_castsi256_si128(bytes));
  }
#endif
  for (; i < n; ++i) {
    const int left = is_signed ? static_cast<int8_t>(a[i]) : a[i],
              right = is_signed ? static_cast<int8_t>(b[i]) : b[i];
    float value = Of::of(static_cast<float>(left - as.a_zero) * as.a_scale,
                         static_cast<float>(right - as.b_zero) * as.b_scale) /
                  as.scale;
    value = value < most ? value : most;
    value = value > least ? value : least;
    y[i] = static_cast<uint8_t>(static_cast<int32_t>(rounded(value)) + as.zero);
  }
}

template <typename Of>
void combine(const uint8_t* a, const uint8_t* b, int64_t n, const BytePair& as, uint8_t* y) {
  as.is_signed ? combine<Of, true>(a, b, n, as, y) : combine<Of, false>(a, b, n, as, y);
}

template <typename T>
void largest(const uint8_t* const* rows, int64_t count, int64_t n, uint8_t* y) {
  int64_t i = 0;
#ifdef __AVX2__
  const auto larger = [](auto a, auto b) {
    if constexpr (sizeof a == 32) {
      return static_cast<T>(-1) < 0 ? _mm256_max_epi8(a, b) : _mm256_max_epu8(a, b);
    } else {
      return static_cast<T>(-1) < 0 ? _mm_max_epi8(a, b) : _mm_max_epu8(a, b);
    }
  };
  for (; i + 32 <= n; i += 32) {
    __m256i most = load(rows[0] + i);
    for (int64_t r = 1; r < count; ++r) most = larger(most, load(rows[r] + i));
    store(y + i, most);
  }
  const auto sixteen = [&](int64_t r) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[r] + i));
  };
  for (; i + 16 <= n; i += 16) {
    __m128i most = sixteen(0);
    for (int64_t r = 1; r < count; ++r) most = larger(most, sixteen(r));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i), most);
  }
#endif
  for (; i < n; ++i) {
    T most = static_cast<T>(rows[0][i]);
    for (int64_t r = 1; r < count; ++r) {
      const T other = static_cast<T>(rows[r][i]);
      most = other > most ? other : most;
    }
    y[i] = static_cast<uint8_t>(most);
  }
}

template <typename T>
void add_rows(const uint8_t* x, int64_t rows, int64_t step, int64_t n, int32_t* sums) {
  int64_t i = 0;
#ifdef __AVX2__
  constexpr bool is_signed = static_cast<T>(-1) < 0;
  for (; i + 16 <= n; i += 16) {
    // As many as fit into 16 bits.
    constexpr int64_t kMost = 128;
    for (int64_t first = 0; first < rows; first += kMost) {
      const int64_t end = first + kMost < rows ? first + kMost : rows;
      __m256i part = _mm256_setzero_si256();
      for (int64_t r = first; r < end; ++r) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + r * step + i));
        part = _mm256_add_epi16(part, is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes));
      }
      const auto add = [](int32_t* to, __m128i words) {
        __m256i* const at = reinterpret_cast<__m256i*>(to);
        _mm256_storeu_si256(at, _mm256_add_epi32(_mm256_loadu_si256(at), _mm256_cvtepi16_epi32(words)));
      };
      add(sums + i, _mm256_castsi256_si128(part));
      add(sums + i + 8, _mm256_extracti128_si256(part, 1));
    }
  }
#endif
  if (i == n) return;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = i; c < n; ++c) sums[c] += static_cast<T>(x[r * step + c]);
  }
}

void decode(const uint8_t* codes, int64_t rows, int64_t n, const float* scales, int step, float* y) {
  const auto* bytes = reinterpret_cast<const int8_t*>(codes);
  if (step == 0) {
    const float scale = *scales;
    for (int64_t i = 0; i < rows * n; ++i) y[i] = static_cast<float>(bytes[i]) * scale;
    return;
  }
  for (int64_t r = 0; r < rows; ++r, bytes += n, y += n) {
    for (int64_t c = 0; c < n; ++c) y[c] = static_cast<float>(bytes[c]) * scales[c];
  }
}

inline void decode_row_of_halves(const uint8_t* codes, int64_t n, const float* scales, int step, float* y) {
  int64_t c = 0;
#ifdef __AVX2__
  const __m256 scale = _mm256_set1_ps(*scales);
  const auto decode_eight = [&](__m128i numbers, int64_t at) {
    const __m256 by = step == 0 ? scale : _mm256_loadu_ps(scales + at);
    _mm256_storeu_ps(y + at, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(numbers)), by));
  };
  for (; c + 16 <= n; c += 16) {
    const __m128i words = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + c / 2)));
    const __m128i low = _mm_and_si128(words, _mm_set1_epi16(0x0f));
    const __m128i high = _mm_slli_epi16(_mm_and_si128(words, _mm_set1_epi16(0xf0)), 4);
    const __m128i numbers = _mm_sub_epi8(_mm_or_si128(low, high), _mm_set1_epi8(8));
    decode_eight(numbers, c);
    decode_eight(_mm_unpackhi_epi64(numbers, numbers), c + 8);
  }
#endif
  for (; c < n; c += 2) {
    const int both = codes[c / 2];
    y[c] = static_cast<float>((both & 15) - 8) * scales[step * c];
    y[c + 1] = static_cast<float>((both >> 4) - 8) * scales[step * (c + 1)];
  }
}

void decode_halves(const uint8_t* codes, int64_t rows, int64_t n, const float* scales, int step, float* y) {
  if (step == 0) {
    decode_row_of_halves(codes, rows * n, scales, 0, y);
    return;
  }
  for (int64_t r = 0; r < rows; ++r, codes += n / 2, y += n) decode_row_of_halves(codes, n, scales, 1, y);
}

}  // namespace

void fill_bytes(Bytewise* table) {
  table->look_up = look_up;
  table->add = combine<Sum>;
  table->multiply = combine<Product>;
  table->largest_unsigned = largest<uint8_t>;
  table->largest_signed = largest<int8_t>;
  table->add_rows_unsigned = add_rows<uint8_t>;
  table->add_rows_signed = add_rows<int8_t>;
  table->decode = decode;
  table->decode_halves = decode_halves;
}

}  // namespace ephost::cpu::EPHOST_ISA
