// What oneDNN does whole for an operator. Nothing comes of any of these where the plugin is built without it,
// or where it has nothing: the operators' own loops do it then.
#ifndef EPHOST_CPU_ENGINES_ONEDNN_OPERATORS_H_
#define EPHOST_CPU_ENGINES_ONEDNN_OPERATORS_H_

#include "cpu/engines/conv/window.h"

namespace ephost::cpu {

enum class OnednnPooling : uint8_t { kMax, kMean, kMeanWithPads };

#ifdef EPHOST_ONEDNN
// Local response normalization of input 0, in its layout.
Kernel onednn_lrn(Prepare& p, int64_t size, float alpha, float beta, float bias);
// Windows of input 0, float32, in its layout if that keeps channels together.
Kernel onednn_pool(Prepare& p, const Window& window, const Dims& out, OnednnPooling of);
// c[m, n] = beta * c + a[m, k] * b[n, k]^T, of rows that are ldc apart; false where nothing is done.
bool onednn_product(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float beta, float* c,
                    int64_t ldc);
#else
inline Kernel onednn_lrn(Prepare&, int64_t, float, float, float) { return nullptr; }
inline Kernel onednn_pool(Prepare&, const Window&, const Dims&, OnednnPooling) { return nullptr; }
inline bool onednn_product(int64_t, int64_t, int64_t, const float*, const float*, float, float*, int64_t) {
  return false;
}
#endif

}  // namespace ephost::cpu

#endif
