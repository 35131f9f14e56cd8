// Says to the compiler that no iteration of the loop below depends on another one through memory.
#ifndef EPHOST_CPU_SIMD_INDEPENDENT_H_
#define EPHOST_CPU_SIMD_INDEPENDENT_H_

#ifdef __clang__
#define EPHOST_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define EPHOST_INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif
