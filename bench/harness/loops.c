/* Loops that do one thing as fast as the processor can, for harness/limits.py: compiled for this very
 * processor. */
#include <stdint.h>
#ifdef __AVX512VNNI__
#include <immintrin.h>
#endif

#ifdef __AVX512F__
#define LANES 16
#elif defined __AVX__
#define LANES 8
#else
#define LANES 4
#endif
typedef float Vector __attribute__((vector_size(4 * LANES)));
/* Twelve sums: enough to hide how long a multiplication takes, and few enough for 16 registers with the
 * factors. Compilers keep variables in registers, and not arrays. */
#define SUMS(X) X(s0) X(s1) X(s2) X(s3) X(s4) X(s5) X(s6) X(s7) X(s8) X(s9) X(s10) X(s11)
enum { COUNT = 12 };
/* Nobody knows of a value what it is: so it is computed, and not twice as one. */
#define HIDE(value) __asm__ volatile("" : "+x"(value));

/* Multiplies and adds float32 in registers; returns how many operations that were, two for each element. */
double multiply_floats(int64_t rounds) {
  Vector a = {0}, b = {0};
  HIDE(a)
  HIDE(b)
#define BEGIN(sum) Vector sum = b;
#define ADD(sum) sum = sum * a + b;
  SUMS(BEGIN)
  for (int64_t r = 0; r < rounds; ++r) {
    SUMS(ADD)
    SUMS(HIDE)
  }
#undef BEGIN
#undef ADD
  return 2.0 * COUNT * LANES * (double)rounds;
}

/* The same of bytes that are added four at a time in 32 bits; 0 where the processor has no instruction for
 * it. */
double multiply_bytes(int64_t rounds) {
#ifdef __AVX512VNNI__
  const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(1);
#define BEGIN(sum) __m512i sum = b;
#define ADD(sum) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  SUMS(BEGIN)
  for (int64_t r = 0; r < rounds; ++r) {
    SUMS(ADD)
  }
  return 2.0 * COUNT * 64 * (double)rounds;
#else
  (void)rounds;
  return 0;
#endif
}

/* Reads n numbers, a multiple of 64, and returns their bytes. */
double read_memory(const float* from, int64_t n) {
  Vector sums[4] = {{0}, {0}, {0}, {0}};
  for (int64_t i = 0; i + 4 * LANES <= n; i += 4 * LANES) {
    for (int part = 0; part < 4; ++part) {
      Vector read;
      __builtin_memcpy(&read, from + i + part * LANES, sizeof read);
      sums[part] += read;
    }
  }
  sums[0] += sums[1] + sums[2] + sums[3];
  HIDE(sums[0])
  return 4.0 * (double)n;
}
