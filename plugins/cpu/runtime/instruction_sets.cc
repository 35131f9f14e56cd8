#include "cpu/simd/simd.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

// EPHOST_ISAS is a list by CMake: X(namespace, name, others) for each instruction set, the best one last.
// `others` is the namespace of what is not products of bytes: a lower set's where that has all that it could
// use. EPHOST_ISA_NAMES are the names of all sets of this architecture in the same order, built or not.
#define X(space, name, others)                    \
  namespace ephost::cpu::space {                  \
  void fill_formulas(Simd* table);                \
  void fill_halves(Simd* table);                  \
  void fill_functions(Simd* table);               \
  void fill_elements(Simd* table);                \
  void fill_gemm(Simd* table);                    \
  void fill_nbits_floats(NBits* table);           \
  void fill_nbits_bytes(NBits* table);            \
  void fill_winograd(Simd* table);                \
  void fill_rows(Simd* table);                    \
  void fill_pool(Simd* table);                    \
  void fill_number_gemm(Simd* table);             \
  void fill_bytes(Bytewise* table);               \
  void fill_depthwise(Simd* table);               \
  void fill_depthwise_float(Simd* table);         \
  void fill_planes_float(Simd* table);            \
  void fill_grid_float(Simd* table);              \
  void fill_quantized(Quantized* table);          \
  void fill_quantized_products(Quantized* table); \
  void fill_winograd8(Winograd8* table);          \
  void fill_leaves(Treewise* table);              \
  void fill_recurrence(Simd* table);              \
  }
EPHOST_ISAS
#undef X

namespace ephost::cpu {
namespace {

// Whether this processor, and the system, have what -march=NAME lets a compiler use. GCC's
// __builtin_cpu_supports knows such names, Clang's (before 19) only features, and not all of these.
bool have([[maybe_unused]] std::string_view name) {
#if defined(__x86_64__)
  constexpr unsigned kMovbe = 1u << 22, kF16c = 1u << 29, kLzcnt = 1u << 5;
  unsigned a = 0, b = 0, more = 0, extended = 0, d = 0;
  __get_cpuid(1, &a, &b, &more, &d);
  __get_cpuid(0x80000001, &a, &b, &extended, &d);
  __builtin_cpu_init();
  if (name.starts_with("x86-64-v")) {
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && (more & kMovbe) != 0 &&
                    (more & kF16c) != 0 && (extended & kLzcnt) != 0;
    const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
    if (name == "x86-64-v4-vnni") return v4 && __builtin_cpu_supports("avx512vnni");
    return name == "x86-64-v3" ? v3 : name == "x86-64-v4" && v4;
  }
#elif defined(__aarch64__) && defined(__linux__)
  // Linux's bits for them, which old headers of C libraries lack.
  constexpr unsigned long kCrc32 = 1ul << 7, kAtomics = 1ul << 8, kRdm = 1ul << 12, kDotprod = 1ul << 20;
  constexpr unsigned long kI8mm = 1ul << 13, kArmv8_2 = kCrc32 | kAtomics | kRdm;
  const unsigned long found = getauxval(AT_HWCAP);
  if (name.starts_with("armv8.2-a") && (found & kArmv8_2) != kArmv8_2) return false;
  if (name.find("+dotprod") != name.npos && (found & kDotprod) == 0) return false;
  if (name.find("+i8mm") != name.npos && (getauxval(AT_HWCAP2) & kI8mm) == 0) return false;
#endif
  return true;  // What every processor has that the plugin is built for.
}

Simd choose() {
  struct Set {
    const char* name;
    bool usable;
    void (*fill)(Simd*);
  };
  const Set sets[] = {
#define X(space, name, others)                          \
  {name, have(name), [](Simd* table) {                  \
     others::fill_formulas(table);                      \
     others::fill_halves(table);                        \
     others::fill_functions(table); /* over formulas */ \
     others::fill_elements(table);                      \
     others::fill_gemm(table);                          \
     others::fill_nbits_floats(&table->nbits);          \
     space::fill_nbits_bytes(&table->nbits);            \
     others::fill_winograd(table);                      \
     others::fill_rows(table);                          \
     others::fill_pool(table);                          \
     others::fill_number_gemm(table);                   \
     others::fill_bytes(&table->bytes);                 \
     others::fill_depthwise(table);                     \
     others::fill_depthwise_float(table);               \
     others::fill_planes_float(table);                  \
     others::fill_grid_float(table);                    \
     space::fill_quantized(&table->quantized);          \
     space::fill_quantized_products(&table->quantized); \
     space::fill_winograd8(&table->winograd8);          \
     others::fill_leaves(&table->trees);                \
     others::fill_recurrence(table);                    \
   }},
      EPHOST_ISAS
#undef X
  };
  const char* wanted = std::getenv("EPHOST_CPU_ISA");
#ifdef _WIN32  // whose C library does not know what the program set since it began
  char set[64];
  const DWORD length = GetEnvironmentVariableA("EPHOST_CPU_ISA", set, sizeof set);
  wanted = length > 0 && length < sizeof set ? set : nullptr;
#endif
  // Of what was asked for, or else of all sets, the best one that is built in and that the processor has.
  constexpr std::string_view kNames[] = {EPHOST_ISA_NAMES};
  const auto rank = [&](std::string_view name) {
    return std::find(std::begin(kNames), std::end(kNames), name) - std::begin(kNames);
  };
  const auto most = wanted == nullptr ? std::ssize(kNames) : rank(wanted);
  Simd table;
  const Set* best = &sets[0];
  for (const Set& set : sets) {
    if (set.usable && rank(set.name) <= most) {
      best = &set;
    }
  }
#define X(space, name, others) ", " name
  table.built = &(EPHOST_ISAS)[std::size(", ") - 1];
#undef X
  if (wanted != nullptr && *wanted != '\0' && most == std::ssize(kNames)) {
    static const std::string unknown = wanted;
    table.unknown = unknown.c_str();
  }
  table.name = best->name;
  best->fill(&table);
  return table;
}

}  // namespace

const Simd& simd() {
  static const Simd table = choose();
  return table;
}

}  // namespace ephost::cpu
