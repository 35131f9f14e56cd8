/* Operators of trace_plugin's own: "test.trace" Twice, Blend, Shout and Borrow; in ONNX's domain with the
 * mode ops_of_onnx, and Twice under the name of one of ONNX's operators with twice_is_neg. */
#ifndef TRACE_PLUGIN_CUSTOM_OPS_H_
#define TRACE_PLUGIN_CUSTOM_OPS_H_

#include "trace.h"

typedef struct CustomOp {
  OrtCustomOp base; /* the host sees only this */
  const OrtApi* api;
  const char* ep_name; /* NULL: the CPU */
} CustomOp;

typedef struct CustomOps {
  CustomOp twice, blend, shout, borrow;
} CustomOps;

/* Twice: y = 2 x, float, by the functions that cannot fail. For the EP with that name; NULL: the CPU. */
void twice_init(CustomOp* op, const OrtApi* api, const char* ep_name);

/* Blend: the sum of any number of tensors of one shape, each weighted by the float attribute "weight" (1
 * unless given); any element type that is float or double. The optional second output is the number of
 * inputs. */
void blend_init(CustomOp* op, const OrtApi* api);

/* Shout: texts with '!' behind them, and of each its length in bytes before that and a 0 (int64, with 2 as
 * its last dimension: so long as the host's texts may be). For the EP with that name; NULL: the CPU. */
void shout_init(CustomOp* op, const OrtApi* api, const char* ep_name);
OrtStatus* shout(const OrtApi* api, OrtKernelContext* context);

/* Borrow: what the operator of the host makes of a float x that its attributes name. For the CPU. */
void borrow_init(CustomOp* op, const OrtApi* api);

#endif
