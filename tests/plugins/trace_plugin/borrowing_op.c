/* Borrow: an operator that has one of the host's do its work, by CreateOp and InvokeOp. */
#include "custom_ops.h"

typedef struct BorrowKernel {
  const OrtApi* api;
  OrtOp* op;
  int64_t inputs;
} BorrowKernel;

static const char* ORT_API_CALL borrow_name(const OrtCustomOp* op) {
  (void)op;
  return "Borrow";
}

static ONNXTensorElementDataType ORT_API_CALL borrow_type(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

static size_t ORT_API_CALL borrow_count(const OrtCustomOp* op) {
  (void)op;
  return 1;
}

static OrtCustomOpInputOutputCharacteristic ORT_API_CALL borrow_needs(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return INPUT_OUTPUT_REQUIRED;
}

static const char* ORT_API_CALL borrow_ep(const OrtCustomOp* op) {
  (void)op;
  return NULL;
}

static OrtStatus* read_text(const OrtApi* api, const OrtKernelInfo* info, const char* name, char* text,
                            size_t room) {
  return api->KernelInfoGetAttribute_string(info, name, text, &room);
}

/* Attributes: op, in_domain and of (the name of a type parameter) are texts; version, number (of inputs), and
 * axis, which the operator gets where it is not -100. */
static OrtStatus* make_op(BorrowKernel* made, const OrtKernelInfo* info) {
  const OrtApi* api = made->api;
  char op[64], domain[64], of[64];
  int64_t version = 0, axis = 0;
  TRY(read_text(api, info, "op", op, sizeof op));
  TRY(read_text(api, info, "in_domain", domain, sizeof domain));
  TRY(read_text(api, info, "of", of, sizeof of));
  TRY(api->KernelInfoGetAttribute_int64(info, "version", &version));
  TRY(api->KernelInfoGetAttribute_int64(info, "number", &made->inputs));
  TRY(api->KernelInfoGetAttribute_int64(info, "axis", &axis));
  const char* parameters[] = {of};
  const ONNXTensorElementDataType types[] = {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT};
  OrtOpAttr* attribute = NULL;
  if (axis != -100) TRY(api->CreateOpAttr("axis", &axis, 1, ORT_OP_ATTR_INT, &attribute));
  const OrtOpAttr* const attributes[] = {attribute};
  OrtStatus* status = api->CreateOp(info, op, domain, (int)version, parameters, types, 1, attributes,
                                    attribute != NULL, (int)made->inputs, 1, &made->op);
  api->ReleaseOpAttr(attribute);
  return status;
}

static OrtStatus* ORT_API_CALL borrow_create(const OrtCustomOp* op, const OrtApi* api,
                                             const OrtKernelInfo* info, void** kernel) {
  (void)op;
  *kernel = NULL;
  BorrowKernel* made = (BorrowKernel*)calloc(1, sizeof *made);
  if (made == NULL) {
    return out_of_memory(api);
  }
  made->api = api;
  OrtStatus* status = make_op(made, info);
  if (status != NULL) {
    free(made);
    return status;
  }
  trace("Borrow: made");
  *kernel = made;
  return NULL;
}

/* y = op(x), or op(x, x); of x's shape. */
static OrtStatus* ORT_API_CALL borrow_compute(void* op_kernel, OrtKernelContext* context) {
  const BorrowKernel* kernel = (const BorrowKernel*)op_kernel;
  const OrtApi* api = kernel->api;
  const OrtValue* x = NULL;
  OrtValue* y = NULL;
  ONNXTensorElementDataType type;
  const int64_t* dims = NULL;
  size_t rank = 0;
  TRY(api->KernelContext_GetInput(context, 0, &x));
  TRY(api->GetTensorElementTypeAndShapeDataReference(x, &type, &dims, &rank));
  TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &y));
  const OrtValue* const inputs[] = {x, x};
  OrtValue* const outputs[] = {y};
  return api->InvokeOp(context, kernel->op, inputs, (int)kernel->inputs, outputs, 1);
}

static void ORT_API_CALL borrow_destroy(void* op_kernel) {
  BorrowKernel* kernel = (BorrowKernel*)op_kernel;
  kernel->api->ReleaseOp(kernel->op);
  trace("Borrow: gone");
  free(kernel);
}

static OrtMemType ORT_API_CALL borrow_memory(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return OrtMemTypeDefault;
}

void borrow_init(CustomOp* op, const OrtApi* api) {
  memset(op, 0, sizeof *op);
  op->api = api;
  op->base.version = API_VERSION;
  op->base.GetName = borrow_name;
  op->base.GetExecutionProviderType = borrow_ep;
  op->base.GetInputType = borrow_type;
  op->base.GetInputTypeCount = borrow_count;
  op->base.GetOutputType = borrow_type;
  op->base.GetOutputTypeCount = borrow_count;
  op->base.GetInputCharacteristic = borrow_needs;
  op->base.GetOutputCharacteristic = borrow_needs;
  op->base.GetInputMemoryType = borrow_memory;
  op->base.CreateKernelV2 = borrow_create;
  op->base.KernelComputeV2 = borrow_compute;
  op->base.KernelDestroy = borrow_destroy;
}
