// For sources of loops that compute little of what they read and write; comes before all others. Stores of 64
// bytes wait for each other on some processors: Zen 4 takes up to 1.4 times as long to stream through its
// farther caches by them as by those of 32 bytes, which cost nothing where the data is near.
#ifndef EPHOST_CPU_SIMD_STREAMING_H_
#define EPHOST_CPU_SIMD_STREAMING_H_

#if defined(__AVX512F__) && !defined(__clang__)
#pragma GCC target("prefer-vector-width=256")
#endif

#endif
