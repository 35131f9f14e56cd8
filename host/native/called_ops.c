/* OrtOp: operators of the host that kernels call. Python makes them, each a session of one node, and runs
 * them, through callbacks. */
#include "called_ops.h"

#include <stdatomic.h>

#include "abi.h"
#include "heap.h"
#include "python.h"
#include "status.h"

struct OrtOp {
  size_t made; /* Python's number of it */
  int input_count;
  int output_count;
};

static _Atomic(const EphostOpCalls*) op_calls;

void (*called_ops_load)(void);

void ephost_set_op_calls(const EphostOpCalls* calls) { atomic_store(&op_calls, calls); }

static OrtStatus* calls_now(const char* function, const EphostOpCalls** out) {
  *out = atomic_load(&op_calls);
  if (*out == NULL && called_ops_load != NULL) {
    called_ops_load();
    *out = atomic_load(&op_calls);
  }
  return *out != NULL ? NULL : status_new(ORT_FAIL, "%s: the host is not ready, or shutting down", function);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi,
                             CreateOp)(const OrtKernelInfo* info, const char* op_name, const char* domain,
                                       int version, const char** type_constraint_names,
                                       const ONNXTensorElementDataType* type_constraint_values,
                                       int type_constraint_count, const OrtOpAttr* const* attr_values,
                                       int attr_count, int input_count, int output_count, OrtOp** ort_op) {
  REQUIRE_ARG(ort_op != NULL);
  *ort_op = NULL;
  REQUIRE_ARG(info != NULL && op_name != NULL && domain != NULL);
  REQUIRE_ARG(type_constraint_count >= 0 && attr_count >= 0 && input_count >= 0 && output_count >= 0);
  REQUIRE_ARG(type_constraint_count == 0 ||
              (type_constraint_names != NULL && type_constraint_values != NULL));
  REQUIRE_ARG(attr_count == 0 || attr_values != NULL);
  for (int i = 0; i < type_constraint_count; ++i) REQUIRE_ARG(type_constraint_names[i] != NULL);
  for (int i = 0; i < attr_count; ++i) REQUIRE_ARG(attr_values[i] != NULL);
  const EphostOpCalls* calls;
  OrtStatus* status = calls_now("CreateOp", &calls);
  if (status != NULL) return status;
  OrtOp* op = host_calloc(1, sizeof *op);
  if (op == NULL) return status_no_memory();
  op->input_count = input_count;
  op->output_count = output_count;
  status = calls->create(op_name, domain, version, type_constraint_names, type_constraint_values,
                         (size_t)type_constraint_count, attr_values, (size_t)attr_count, (size_t)input_count,
                         (size_t)output_count, &op->made);
  if (status != NULL) {
    host_free(op);
    return status;
  }
  handle_count(HANDLE_OTHER, 1);
  *ort_op = op;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, InvokeOp)(const OrtKernelContext* context, const OrtOp* ort_op,
                                               const OrtValue* const* input_values, int input_count,
                                               OrtValue* const* output_values, int output_count) {
  REQUIRE_ARG(context != NULL && ort_op != NULL);
  if (input_count != ort_op->input_count || output_count != ort_op->output_count) {
    return status_new(ORT_INVALID_ARGUMENT,
                      "InvokeOp: %d inputs and %d outputs for an operator that was made with %d and %d",
                      input_count, output_count, ort_op->input_count, ort_op->output_count);
  }
  REQUIRE_ARG(input_count == 0 || input_values != NULL);
  REQUIRE_ARG(output_count == 0 || output_values != NULL);
  for (int i = 0; i < input_count; ++i) REQUIRE_ARG(input_values[i] != NULL);
  for (int i = 0; i < output_count; ++i) REQUIRE_ARG(output_values[i] != NULL);
  const EphostOpCalls* calls;
  OrtStatus* status = calls_now("InvokeOp", &calls);
  return status != NULL ? status : calls->invoke(ort_op->made, input_values, output_values);
}

void ORT_API_CALL SLOT(OrtApi, ReleaseOp)(OrtOp* input) {
  if (input == NULL) return;
  const EphostOpCalls* calls = atomic_load(&op_calls);
  if (calls != NULL) calls->release(input->made);
  host_free(input);
  handle_count(HANDLE_OTHER, -1);
}
