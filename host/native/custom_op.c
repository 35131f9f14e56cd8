/* Custom operators: domains of OrtCustomOp structs, what their shape inference may ask, and kernels made from
 * them. Which node is which operator is Python's business. */
#include <string.h>

#include "abi.h"
#include "exceptions.h"
#include "graph.h"
#include "heap.h"
#include "options.h"
#include "python.h"
#include "status.h"
#include "type_info.h"

/* ---- domains ------------------------------------------------------------------------------------------- */

struct OrtCustomOpDomain {
  char* name;
  const OrtCustomOp** ops; /* borrowed: the plugin's, as long as the domain */
  size_t count;
};

OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateCustomOpDomain)(const char* domain, OrtCustomOpDomain** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(domain != NULL);
  OrtCustomOpDomain* made = host_calloc(1, sizeof *made);
  if (made == NULL || (made->name = host_strdup(domain)) == NULL) {
    host_free(made);
    return status_no_memory();
  }
  handle_count(HANDLE_OTHER, 1);
  *out = made;
  return NULL;
}

void ORT_API_CALL SLOT(OrtApi, ReleaseCustomOpDomain)(OrtCustomOpDomain* input) {
  if (input == NULL) return;
  host_free(input->name);
  host_free((void*)input->ops);
  host_free(input);
  handle_count(HANDLE_OTHER, -1);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, CustomOpDomain_Add)(OrtCustomOpDomain* custom_op_domain,
                                                         const OrtCustomOp* op) {
  REQUIRE_ARG(custom_op_domain != NULL && op != NULL);
  REQUIRE_ARG(op->GetName);
  return pointers_push(&custom_op_domain->ops, &custom_op_domain->count, op) ? NULL : status_no_memory();
}

/* The domain stays the caller's, and must outlive the options and their sessions. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, AddCustomOpDomain)(OrtSessionOptions* options,
                                                        OrtCustomOpDomain* custom_op_domain) {
  REQUIRE_ARG(options != NULL && custom_op_domain != NULL);
  return pointers_push(&options->domains, &options->domain_count, custom_op_domain) ? NULL
                                                                                    : status_no_memory();
}

size_t ephost_session_options_domains(const OrtSessionOptions* options,
                                      const OrtCustomOpDomain* const** domains) {
  *domains = (const OrtCustomOpDomain* const*)options->domains;
  return options->domain_count;
}

const char* ephost_domain_name(const OrtCustomOpDomain* domain) { return domain->name; }

size_t ephost_domain_ops(const OrtCustomOpDomain* domain, const OrtCustomOp* const** ops) {
  *ops = domain->ops;
  return domain->count;
}

/* ---- shape inference ----------------------------------------------------------------------------------- */

struct OrtShapeInferContext {
  const OrtNode* node; /* for its attributes; borrowed */
  size_t input_count;
  size_t output_count;
  OrtTensorTypeAndShapeInfo** inputs;  /* NULL: left out, or no tensor; owned */
  OrtTensorTypeAndShapeInfo** outputs; /* NULL: not said; owned */
};

OrtShapeInferContext* ephost_infer_context_new(const OrtNode* node, size_t input_count, size_t output_count) {
  OrtShapeInferContext* context = host_calloc(1, sizeof *context);
  if (context == NULL) return NULL;
  handle_count(HANDLE_OTHER, 1);
  context->node = node;
  context->inputs = host_calloc(input_count + 1, sizeof *context->inputs);
  context->outputs = host_calloc(output_count + 1, sizeof *context->outputs);
  if (context->inputs == NULL || context->outputs == NULL) {
    ephost_infer_context_free(context);
    return NULL;
  }
  context->input_count = input_count;
  context->output_count = output_count;
  return context;
}

void ephost_infer_context_free(OrtShapeInferContext* context) {
  if (context == NULL) return;
  for (size_t i = 0; i < context->input_count; ++i) {
    if (context->inputs[i] != NULL) tensor_info_free(context->inputs[i]);
  }
  for (size_t i = 0; i < context->output_count; ++i) {
    if (context->outputs[i] != NULL) tensor_info_free(context->outputs[i]);
  }
  host_free(context->inputs);
  host_free(context->outputs);
  host_free(context);
  handle_count(HANDLE_OTHER, -1);
}

bool ephost_infer_context_set_input(OrtShapeInferContext* context, size_t index,
                                    const EphostTensorType* type) {
  bool has_shape = type->rank >= 0;
  context->inputs[index] = tensor_info_new((ONNXTensorElementDataType)type->element_type, has_shape,
                                           type->dims, type->symbols, has_shape ? (size_t)type->rank : 0);
  return context->inputs[index] != NULL;
}

const OrtTensorTypeAndShapeInfo* ephost_infer_context_output(const OrtShapeInferContext* context,
                                                             size_t index) {
  return context->outputs[index];
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, ShapeInferContext_GetInputCount)(const OrtShapeInferContext* context,
                                                                      size_t* out) {
  REQUIRE_ARG(out != NULL);
  *out = 0;
  REQUIRE_ARG(context != NULL);
  *out = context->input_count;
  return NULL;
}

/* Belongs to the context. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, ShapeInferContext_GetInputTypeShape)(const OrtShapeInferContext* context,
                                                                          size_t index,
                                                                          OrtTensorTypeAndShapeInfo** info) {
  REQUIRE_ARG(info != NULL);
  *info = NULL;
  REQUIRE_ARG(context != NULL);
  if (index >= context->input_count || context->inputs[index] == NULL) {
    return status_new(ORT_INVALID_ARGUMENT, "node '%s' (%s) has no tensor as its input %zu",
                      context->node->name, context->node->op_type, index);
  }
  *info = context->inputs[index];
  return NULL;
}

/* Belongs to the context. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, ShapeInferContext_GetAttribute)(const OrtShapeInferContext* context,
                                                                     const char* attr_name,
                                                                     const OrtOpAttr** attr) {
  REQUIRE_ARG(attr != NULL);
  *attr = NULL;
  REQUIRE_ARG(context != NULL && attr_name != NULL);
  *attr = node_attribute(context->node, attr_name);
  if (*attr) return NULL;
  return status_new(ORT_INVALID_ARGUMENT, "node '%s' (%s) has no attribute '%s'", context->node->name,
                    context->node->op_type, attr_name);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi,
                             ShapeInferContext_SetOutputTypeShape)(const OrtShapeInferContext* context,
                                                                   size_t index,
                                                                   const OrtTensorTypeAndShapeInfo* info) {
  REQUIRE_ARG(context != NULL && info != NULL);
  if (index >= context->output_count) {
    return status_new(ORT_INVALID_ARGUMENT, "node '%s' (%s) has no output %zu", context->node->name,
                      context->node->op_type, index);
  }
  OrtTensorTypeAndShapeInfo* copy = tensor_info_copy(info);
  if (copy == NULL) return status_no_memory();
  if (context->outputs[index] != NULL) tensor_info_free(context->outputs[index]);
  context->outputs[index] = copy;
  return NULL;
}

/* ---- kernels ------------------------------------------------------------------------------------------- */

typedef struct CustomKernel {
  OrtKernelImpl base;
  const OrtCustomOp* op;
  void* state; /* what the operator made for the node */
} CustomKernel;

static OrtStatus* ORT_API_CALL compute(OrtKernelImpl* this_ptr, OrtKernelContext* context) {
  CustomKernel* kernel = (CustomKernel*)this_ptr;
  if (VERSIONED_MEMBER(OrtCustomOp, kernel->op, KernelComputeV2) != NULL)
    return GUARDED(OrtCustomOp, KernelComputeV2)(kernel->op, kernel->state, context);
  GUARDED(OrtCustomOp, KernelCompute)(kernel->op, kernel->state, context);
  return outcome(NULL);
}

static void ORT_API_CALL release(OrtKernelImpl* this_ptr) {
  CustomKernel* kernel = (CustomKernel*)this_ptr;
  if (kernel->op->KernelDestroy != NULL) GUARDED(OrtCustomOp, KernelDestroy)(kernel->op, kernel->state);
  host_free(kernel);
  handle_count(HANDLE_OTHER, -1);
}

OrtStatus* ephost_custom_kernel_new(const OrtCustomOp* op, const OrtKernelInfo* info, OrtKernelImpl** out) {
  *out = NULL;
  bool makes = VERSIONED_MEMBER(OrtCustomOp, op, CreateKernelV2) != NULL || op->CreateKernel != NULL;
  bool computes = VERSIONED_MEMBER(OrtCustomOp, op, KernelComputeV2) != NULL || op->KernelCompute != NULL;
  if (!makes || !computes) {
    return status_new(ORT_EP_FAIL, "the operator %s has no function to %s", GUARDED(OrtCustomOp, GetName)(op),
                      makes ? "compute" : "make a kernel");
  }
  CustomKernel* kernel = host_calloc(1, sizeof *kernel);
  if (kernel == NULL) return status_no_memory();
  kernel->base.ort_version_supported = EPHOST_API_VERSION_SERVED;
  kernel->base.Compute = compute;
  kernel->base.Release = release;
  kernel->op = op;
  OrtStatus* status = NULL;
  if (VERSIONED_MEMBER(OrtCustomOp, op, CreateKernelV2) != NULL) {
    status = GUARDED(OrtCustomOp, CreateKernelV2)(op, &ephost_api, info, &kernel->state);
  } else {
    kernel->state = GUARDED(OrtCustomOp, CreateKernel)(op, &ephost_api, info);
    status = outcome(NULL);
  }
  if (status != NULL) {
    host_free(kernel);
    return status;
  }
  handle_count(HANDLE_OTHER, 1);
  *out = &kernel->base;
  return NULL;
}
