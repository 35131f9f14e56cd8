#include "simd/simd.h"

#include <cstdlib>
#include <cstring>
#include <iterator>

// EPHOST_ISAS is a list by CMake: X(namespace, name) for each instruction set, the best one last.
#define X(space, name)                            \
  namespace ephost::cpu::space {                  \
  void fill_elementwise(Simd* table);             \
  void fill_gemm(Simd* table);                    \
  void fill_nibbles(Simd* table);                 \
  void fill_winograd(Simd* table);                \
  void fill_rows(Simd* table);                    \
  void fill_pool(Simd* table);                    \
  void fill_bytes(Bytewise* table);               \
  void fill_depthwise(Simd* table);               \
  void fill_depthwise_float(Simd* table);         \
  void fill_quantized(Quantized* table);          \
  void fill_quantized_products(Quantized* table); \
  void fill_winograd8(Winograd8* table);          \
  }
EPHOST_ISAS
#undef X

namespace ephost::cpu {
namespace {

#if defined(__x86_64__)
#define EPHOST_HAVE(name) (__builtin_cpu_supports(name) != 0)
#else
#define EPHOST_HAVE(name) true
#endif

Simd choose() {
  struct Set {
    const char* name;
    bool usable;
    void (*fill)(Simd*);
  };
  const Set sets[] = {
#define X(space, name)                                  \
  {name, EPHOST_HAVE(name), [](Simd* table) {           \
     space::fill_elementwise(table);                    \
     space::fill_gemm(table);                           \
     space::fill_nibbles(table);                        \
     space::fill_winograd(table);                       \
     space::fill_rows(table);                           \
     space::fill_pool(table);                           \
     space::fill_bytes(&table->bytes);                  \
     space::fill_depthwise(table);                      \
     space::fill_depthwise_float(table);                \
     space::fill_quantized(&table->quantized);          \
     space::fill_quantized_products(&table->quantized); \
     space::fill_winograd8(&table->winograd8);          \
   }},
      EPHOST_ISAS
#undef X
  };
  const char* wanted = std::getenv("EPHOST_CPU_ISA");
  const Set* best = &sets[0];
  for (const Set& set : sets) {
    if (!set.usable) {
      continue;
    }
    best = &set;
    if (wanted != nullptr && std::strcmp(wanted, set.name) == 0) {
      break;
    }
  }
  Simd table;
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
