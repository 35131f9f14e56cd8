// The operators, by file: each function adds those of its file.
#ifndef EPHOST_CPU_KERNELS_H_
#define EPHOST_CPU_KERNELS_H_

#include "../operator.h"

namespace ephost::cpu {

void add_algebra(Registry* registry);
void add_attention(Registry* registry);
void add_contrib(Registry* registry);
void add_control_flow(Registry* registry);
void add_elementwise(Registry* registry);
void add_conv(Registry* registry);
void add_deform(Registry* registry);
void add_gemm(Registry* registry);
void add_generators(Registry* registry);
void add_indexing(Registry* registry);
void add_int8_conv(Registry* registry);
void add_int8_products(Registry* registry);
void add_movement(Registry* registry);
void add_nibbles(Registry* registry);
void add_norm(Registry* registry);
void add_pool(Registry* registry);
void add_qlinear(Registry* registry);
void add_quantize(Registry* registry);
void add_resize(Registry* registry);
void add_sampling(Registry* registry);
void add_selection(Registry* registry);
void add_normalize(Registry* registry);
void add_reduce(Registry* registry);
void add_rnn(Registry* registry);
void add_shapes(Registry* registry);
void add_spectrum(Registry* registry);
void add_state(Registry* registry);
void add_transformer(Registry* registry);

}  // namespace ephost::cpu

#endif
