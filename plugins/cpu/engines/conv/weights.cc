#include "cpu/engines/conv/weights.h"

#include "cpu/engines/conv/depthwise.h"
#include "cpu/engines/conv/matrices.h"
#include "cpu/engines/conv/onednn_conv.h"
#include "cpu/engines/conv/planes.h"
#include "cpu/engines/conv/transposed.h"
#include "cpu/engines/conv/winograd.h"

namespace ephost::cpu {

TensorPtr original_conv_weights(const TensorPtr& constant, const ConvProblem& given) {
  const ConvProblem c = unturned(given);
  if (constant->data != nullptr) return constant;
  if (has_matrix_weights(constant, c)) return matrix_original(constant, c);
  for (const WinogradForm& form : kWinogradForms) {
    if (has_winograd_weights(constant, form)) return winograd_original(constant, form);
  }
  if (has_depthwise_weights(constant)) return depthwise_original(constant);
  if (has_plane_weights(constant, c)) return plane_original(constant, c);
  if (has_deconv_weights(constant, c.window.strides)) return deconv_original(constant, c.window.strides);
#ifdef EPHOST_ONEDNN
  if (TensorPtr made = onednn_original(constant, given)) return made;
#endif
  fail("a weight is gone before it was packed");
}

}  // namespace ephost::cpu
