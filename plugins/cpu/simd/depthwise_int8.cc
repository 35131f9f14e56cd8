// Convolutions of bytes of each channel on its own: a line of pixels.
//
// AVX2 multiplies bytes two by two (vpmaddubsw) and adds each two products in 16 bits. Weights are cut into
// 16 * high + low, both so small that the sums of up to 16 taps fit into 16 bits, which the sums of high and
// of low are brought together from. What the zero point of the input contributes is the same for each pixel,
// and part of `start`.
#include "cpu/simd/simd.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace ephost::cpu::EPHOST_ISA {
namespace {

#ifdef __AVX2__

// 32 or 16 channels side by side. Unpacking leaves numbers in the order of DepthwiseLine.
struct Wide {
  using Bytes = __m256i;
  using Floats = __m256;
  static constexpr int kChannels = 32, kNumbers = 8;
  static Bytes load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  static Bytes all16(int x) { return _mm256_set1_epi16(static_cast<int16_t>(x)); }
  static Bytes all32(int x) { return _mm256_set1_epi32(x); }
  static Bytes flip(Bytes a, Bytes b) { return _mm256_xor_si256(a, b); }
  static Bytes low8(Bytes a, Bytes b) { return _mm256_unpacklo_epi8(a, b); }
  static Bytes high8(Bytes a, Bytes b) { return _mm256_unpackhi_epi8(a, b); }
  static Bytes low16(Bytes a, Bytes b) { return _mm256_unpacklo_epi16(a, b); }
  static Bytes high16(Bytes a, Bytes b) { return _mm256_unpackhi_epi16(a, b); }
  static Bytes products8(Bytes a, Bytes b) { return _mm256_maddubs_epi16(a, b); }
  static Bytes products16(Bytes a, Bytes b) { return _mm256_madd_epi16(a, b); }
  static Bytes add16(Bytes a, Bytes b) { return _mm256_add_epi16(a, b); }
  static Bytes add32(Bytes a, Bytes b) { return _mm256_add_epi32(a, b); }
  static Bytes limited_add16(Bytes a, Bytes b) { return _mm256_adds_epi16(a, b); }
  static Bytes pack32(Bytes a, Bytes b) { return _mm256_packs_epi32(a, b); }
  static Bytes pack_signed(Bytes a, Bytes b) { return _mm256_packs_epi16(a, b); }
  static Bytes pack_unsigned(Bytes a, Bytes b) { return _mm256_packus_epi16(a, b); }
  static void store(void* to, Bytes a) { _mm256_storeu_si256(static_cast<__m256i*>(to), a); }
  static Floats all_floats(float x) { return _mm256_set1_ps(x); }
  // Scaled and rounded; what is too large for an integer stays large.
  static Bytes scaled(Bytes sums, const float* scales, Floats large) {
    const Floats product = _mm256_mul_ps(_mm256_cvtepi32_ps(sums), _mm256_loadu_ps(scales));
    return _mm256_cvtps_epi32(_mm256_min_ps(product, large));
  }
  // Numbers 4 * i and following of the channels, and those of the second 16 channels.
  static void store_sums(int32_t* to, int i, Bytes a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 4 * i), _mm256_castsi256_si128(a));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16 + 4 * i), _mm256_extracti128_si256(a, 1));
  }
};

struct Narrow {
  using Bytes = __m128i;
  using Floats = __m128;
  static constexpr int kChannels = 16, kNumbers = 4;
  static Bytes load(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
  static Bytes all16(int x) { return _mm_set1_epi16(static_cast<int16_t>(x)); }
  static Bytes all32(int x) { return _mm_set1_epi32(x); }
  static Bytes flip(Bytes a, Bytes b) { return _mm_xor_si128(a, b); }
  static Bytes low8(Bytes a, Bytes b) { return _mm_unpacklo_epi8(a, b); }
  static Bytes high8(Bytes a, Bytes b) { return _mm_unpackhi_epi8(a, b); }
  static Bytes low16(Bytes a, Bytes b) { return _mm_unpacklo_epi16(a, b); }
  static Bytes high16(Bytes a, Bytes b) { return _mm_unpackhi_epi16(a, b); }
  static Bytes products8(Bytes a, Bytes b) { return _mm_maddubs_epi16(a, b); }
  static Bytes products16(Bytes a, Bytes b) { return _mm_madd_epi16(a, b); }
  static Bytes add16(Bytes a, Bytes b) { return _mm_add_epi16(a, b); }
  static Bytes add32(Bytes a, Bytes b) { return _mm_add_epi32(a, b); }
  static Bytes limited_add16(Bytes a, Bytes b) { return _mm_adds_epi16(a, b); }
  static Bytes pack32(Bytes a, Bytes b) { return _mm_packs_epi32(a, b); }
  static Bytes pack_signed(Bytes a, Bytes b) { return _mm_packs_epi16(a, b); }
  static Bytes pack_unsigned(Bytes a, Bytes b) { return _mm_packus_epi16(a, b); }
  static void store(void* to, Bytes a) { _mm_storeu_si128(static_cast<__m128i*>(to), a); }
  static Floats all_floats(float x) { return _mm_set1_ps(x); }
  static Bytes scaled(Bytes sums, const float* scales, Floats large) {
    const Floats product = _mm_mul_ps(_mm_cvtepi32_ps(sums), _mm_loadu_ps(scales));
    return _mm_cvtps_epi32(_mm_min_ps(product, large));
  }
  static void store_sums(int32_t* to, int i, Bytes a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 4 * i), a);
  }
};

// Sums in 16 bits: of the first half of each 16 channels and of the second, for the low and high parts of
// weights.
template <typename V>
struct Halves {
  typename V::Bytes low[2], high[2];
};

// Two taps more; `first` says that they are the first ones.
template <typename V>
inline void add_pair(typename V::Bytes a, typename V::Bytes b, const int8_t* weights, bool first,
                     Halves<V>* sums) {
  const typename V::Bytes both[2] = {V::low8(a, b), V::high8(a, b)};
  for (int half = 0; half < 2; ++half) {
    const auto low = V::products8(both[half], V::load(weights + half * V::kChannels));
    const auto high = V::products8(both[half], V::load(weights + (2 + half) * V::kChannels));
    sums->low[half] = first ? low : V::add16(sums->low[half], low);
    sums->high[half] = first ? high : V::add16(sums->high[half], high);
  }
}

// Sums in 32 bits, added to what `sums` are. In the order of DepthwiseLine.
template <typename V>
inline void widen(const Halves<V>& from, typename V::Bytes* sums) {
  const auto factors = V::all32((16 << 16) | 1);
  for (int half = 0; half < 2; ++half) {
    const auto low = V::low16(from.low[half], from.high[half]),
               high = V::high16(from.low[half], from.high[half]);
    sums[2 * half] = V::add32(sums[2 * half], V::products16(low, factors));
    sums[2 * half + 1] = V::add32(sums[2 * half + 1], V::products16(high, factors));
  }
}

// What is done with the sums of a pixel.
template <typename V>
inline void finish(const typename V::Bytes* sums, const DepthwiseLine& line, const float* scales,
                   int64_t at) {
  if (line.y == nullptr) {
    for (int i = 0; i < 4; ++i) V::store_sums(line.sums + at, i, sums[i]);
    return;
  }
  const auto large = V::all_floats(1e9f);
  const auto zero = V::all16(line.zero);
  typename V::Bytes rounded[4];
  for (int i = 0; i < 4; ++i) rounded[i] = V::scaled(sums[i], scales + i * V::kNumbers, large);
  const auto first = V::limited_add16(V::pack32(rounded[0], rounded[1]), zero);
  const auto second = V::limited_add16(V::pack32(rounded[2], rounded[3]), zero);
  V::store(line.y + at, line.low < 0 ? V::pack_signed(first, second) : V::pack_unsigned(first, second));
}

// Windows of 3x3: all taps fit into one sum. `x` is where each line of the window begins.
template <typename V, bool is_signed>
inline void three(const DepthwiseLine& line, const int8_t* weights, const int32_t* start, const float* scales,
                  int64_t channel) {
  const auto sign = V::all16(is_signed ? 0x8080 : 0);
  const auto load = [&](const uint8_t* from) {
    return is_signed ? V::flip(V::load(from), sign) : V::load(from);
  };
  const uint8_t *x0 = line.taps[0] + channel, *x1 = line.taps[1] + channel, *x2 = line.taps[6] + channel;
  const int64_t one = line.taps[2] - line.taps[0], two = 2 * one;
  constexpr int kPair = 4 * V::kChannels;
  for (int64_t i = 0, at = channel; i < line.pixels; ++i, at += line.channels) {
    Halves<V> sums;
    add_pair<V>(load(x0), load(x1), weights, true, &sums);
    add_pair<V>(load(x0 + one), load(x1 + one), weights + kPair, false, &sums);
    add_pair<V>(load(x0 + two), load(x1 + two), weights + 2 * kPair, false, &sums);
    add_pair<V>(load(x2), load(x2 + one), weights + 3 * kPair, false, &sums);
    const auto last = load(x2 + two);
    add_pair<V>(last, last, weights + 4 * kPair, false, &sums);
    typename V::Bytes wide[4];
    for (int k = 0; k < 4; ++k) wide[k] = V::load(start + k * V::kNumbers);
    widen<V>(sums, wide);
    finish<V>(wide, line, scales, at);
    x0 += line.step;
    x1 += line.step;
    x2 += line.step;
  }
}

template <typename V, bool is_signed>
inline void any(const DepthwiseLine& line, const int8_t* weights, const int32_t* start, const float* scales,
                int64_t channel) {
  const auto sign = V::all16(is_signed ? 0x8080 : 0);
  const auto load = [&](const uint8_t* from) {
    return is_signed ? V::flip(V::load(from), sign) : V::load(from);
  };
  for (int64_t i = 0, at = channel; i < line.pixels; ++i, at += line.channels) {
    const int64_t offset = channel + i * line.step;
    typename V::Bytes wide[4];
    for (int k = 0; k < 4; ++k) wide[k] = V::load(start + k * V::kNumbers);
    const int8_t* w = weights;
    for (int64_t first = 0; first < line.pairs; first += line.group) {
      const int64_t end = first + line.group < line.pairs ? first + line.group : line.pairs;
      Halves<V> sums;
      sums.low[0] = sums.low[1] = sums.high[0] = sums.high[1] = V::all16(0);
      for (int64_t p = first; p < end; ++p, w += 4 * V::kChannels) {
        add_pair<V>(load(line.taps[2 * p] + offset), load(line.taps[2 * p + 1] + offset), w, false, &sums);
      }
      widen<V>(sums, wide);
    }
    finish<V>(wide, line, scales, at);
  }
}

template <typename V>
inline void compute(const DepthwiseLine& line, const DepthwiseBlock& block) {
  const int8_t* weights = line.weights + block.packed * line.pairs * 4;
  const int32_t* start = line.start + block.packed;
  const float* scales = line.scales + block.packed;
  if (line.is_three) {
    line.is_signed ? three<V, true>(line, weights, start, scales, block.channel)
                   : three<V, false>(line, weights, start, scales, block.channel);
  } else {
    line.is_signed ? any<V, true>(line, weights, start, scales, block.channel)
                   : any<V, false>(line, weights, start, scales, block.channel);
  }
}

#else

struct Wide {
  static constexpr int kChannels = 32;
};
struct Narrow {
  static constexpr int kChannels = 16;
};

template <typename V>
void compute(const DepthwiseLine& line, const DepthwiseBlock& block) {
  constexpr int kNumbers = V::kChannels / 4;
  const float most = static_cast<float>((line.low < 0 ? 127 : 255) - line.zero);
  const float least = static_cast<float>(line.low - line.zero);
  for (int64_t i = 0; i < line.pixels; ++i) {
    for (int c = 0; c < V::kChannels; ++c) {
      const int64_t number = block.packed + c % 16 / 4 * kNumbers + c / 16 * 4 + c % 4;
      const int8_t* low =
          line.weights + block.packed * line.pairs * 4 + c % 16 / 8 * V::kChannels + c / 16 * 16 + c % 8 * 2;
      int32_t sum = line.start[number];
      for (int64_t t = 0; t < 2 * line.pairs; t += 2, low += 4 * V::kChannels) {
        for (int k = 0; k < 2; ++k) {
          const uint8_t x = line.taps[t + k][block.channel + c + i * line.step];
          sum += (line.is_signed ? x ^ 0x80 : x) * (low[k + 2 * V::kChannels] * 16 + low[k]);
        }
      }
      const int64_t at = i * line.channels + block.channel + c;
      if (line.y == nullptr) {
        line.sums[at] = sum;
        continue;
      }
      float value = static_cast<float>(sum) * line.scales[number];
      value = value < most ? value : most;
      value = value > least ? value : least;
      // Rounds to the nearest, ties to even.
      line.y[at] = static_cast<uint8_t>(static_cast<int>((value + 12582912.0f) - 12582912.0f) + line.zero);
    }
  }
}

#endif

void depthwise(const DepthwiseLine& line) {
  for (int64_t i = 0; i < line.count; ++i) {
    const DepthwiseBlock& block = line.blocks[i];
    block.wide ? compute<Wide>(line, block) : compute<Narrow>(line, block);
  }
}

}  // namespace

void fill_depthwise(Simd* table) { table->depthwise = depthwise; }

}  // namespace ephost::cpu::EPHOST_ISA
