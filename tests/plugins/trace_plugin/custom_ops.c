#include "custom_ops.h"

/* ---- Twice --------------------------------------------------------------------------------------------- */

static const char* ORT_API_CALL twice_name(const OrtCustomOp* op) {
  (void)op;
  return mode("twice_is_neg") ? "Neg" : "Twice";
}

static const char* ORT_API_CALL op_ep(const OrtCustomOp* op) { return ((const CustomOp*)op)->ep_name; }

static ONNXTensorElementDataType ORT_API_CALL float_type(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

static size_t ORT_API_CALL one(const OrtCustomOp* op) {
  (void)op;
  return 1;
}

static size_t ORT_API_CALL two(const OrtCustomOp* op) {
  (void)op;
  return 2;
}

static OrtMemType ORT_API_CALL default_memory(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return OrtMemTypeDefault;
}

static OrtCustomOpInputOutputCharacteristic ORT_API_CALL required(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return INPUT_OUTPUT_REQUIRED;
}

static void* ORT_API_CALL twice_create(const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info) {
  char name[64] = "";
  size_t size = sizeof name;
  (void)api->KernelInfo_GetNodeName(info, name, &size);
  trace("Twice: CreateKernel for '%s'", name);
  return (void*)(uintptr_t)op;
}

static void ORT_API_CALL twice_compute(void* kernel, OrtKernelContext* context) {
  const OrtApi* api = ((const CustomOp*)kernel)->api;
  const OrtValue* x = NULL;
  OrtValue* y = NULL;
  ONNXTensorElementDataType type;
  const int64_t* dims = NULL;
  const void* from = NULL;
  void* to = NULL;
  size_t rank = 0, count = 1;
  trace("Twice: KernelCompute");
  if (api->KernelContext_GetInput(context, 0, &x) != NULL ||
      api->GetTensorElementTypeAndShapeDataReference(x, &type, &dims, &rank) != NULL ||
      api->KernelContext_GetOutput(context, 0, dims, rank, &y) != NULL ||
      api->GetTensorData(x, &from) != NULL || api->GetTensorMutableData(y, &to) != NULL) {
    return;
  }
  for (size_t i = 0; i < rank; ++i) {
    count *= (size_t)dims[i];
  }
  for (size_t i = 0; i < count; ++i) {
    ((float*)to)[i] = 2 * ((const float*)from)[i];
  }
}

static void ORT_API_CALL twice_destroy(void* kernel) {
  (void)kernel;
  trace("Twice: KernelDestroy");
}

static OrtStatus* ORT_API_CALL twice_infer(const OrtCustomOp* op, OrtShapeInferContext* context) {
  const OrtApi* api = ((const CustomOp*)op)->api;
  OrtTensorTypeAndShapeInfo* info = NULL;
  trace("Twice: InferOutputShapeFn");
  TRY(api->ShapeInferContext_GetInputTypeShape(context, 0, &info));
  TRY(api->ShapeInferContext_SetOutputTypeShape(context, 0, info));
  return NULL;
}

static int ORT_API_CALL twice_begins(const OrtCustomOp* op) {
  (void)op;
  return mode("twice_is_neg") ? 13 : 1; /* ONNX's Neg is from 13 on what it is */
}

static int ORT_API_CALL twice_ends(const OrtCustomOp* op) {
  (void)op;
  return INT32_MAX;
}

void twice_init(CustomOp* op, const OrtApi* api, const char* ep_name) {
  memset(op, 0, sizeof *op);
  op->api = api;
  op->ep_name = ep_name;
  op->base.version = API_VERSION;
  op->base.CreateKernel = twice_create;
  op->base.GetName = twice_name;
  op->base.GetExecutionProviderType = op_ep;
  op->base.GetInputType = float_type;
  op->base.GetInputTypeCount = one;
  op->base.GetOutputType = float_type;
  op->base.GetOutputTypeCount = one;
  op->base.KernelCompute = twice_compute;
  op->base.KernelDestroy = twice_destroy;
  op->base.GetInputCharacteristic = required;
  op->base.GetOutputCharacteristic = required;
  op->base.GetInputMemoryType = default_memory;
  op->base.InferOutputShapeFn = twice_infer;
  op->base.GetStartVersion = twice_begins;
  op->base.GetEndVersion = twice_ends;
}

/* ---- Blend --------------------------------------------------------------------------------------------- */

typedef struct BlendKernel {
  const OrtApi* api;
  float weight;
} BlendKernel;

static const char* ORT_API_CALL blend_name(const OrtCustomOp* op) {
  (void)op;
  return "Blend";
}

static ONNXTensorElementDataType ORT_API_CALL any_type(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

static ONNXTensorElementDataType ORT_API_CALL blend_output_type(const OrtCustomOp* op, size_t index) {
  (void)op;
  return index == 0 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED : ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
}

static OrtCustomOpInputOutputCharacteristic ORT_API_CALL variadic(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return INPUT_OUTPUT_VARIADIC;
}

static OrtCustomOpInputOutputCharacteristic ORT_API_CALL second_optional(const OrtCustomOp* op,
                                                                         size_t index) {
  (void)op;
  return index == 0 ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL;
}

static int ORT_API_CALL at_least_one(const OrtCustomOp* op) {
  (void)op;
  return 1;
}

static int ORT_API_CALL from_second_version(const OrtCustomOp* op) {
  (void)op;
  return 2;
}

static int ORT_API_CALL to_third_version(const OrtCustomOp* op) {
  (void)op;
  return 3;
}

static OrtStatus* ORT_API_CALL blend_create(const OrtCustomOp* op, const OrtApi* api,
                                            const OrtKernelInfo* info, void** kernel) {
  BlendKernel* made = (BlendKernel*)calloc(1, sizeof *made);
  (void)op;
  *kernel = NULL;
  if (made == NULL) {
    return out_of_memory(api);
  }
  made->api = api;
  OrtStatus* status = api->KernelInfoGetAttribute_float(info, "weight", &made->weight);
  if (status != NULL) {
    api->ReleaseStatus(status);
    made->weight = 1;
  }
  trace("Blend: CreateKernelV2 with weight %g", (double)made->weight);
  if (made->weight < 0) {
    free(made);
    return api->CreateStatus(ORT_INVALID_ARGUMENT, "a weight below 0");
  }
  *kernel = made;
  return NULL;
}

static OrtStatus* ORT_API_CALL blend_compute(void* op_kernel, OrtKernelContext* context) {
  const BlendKernel* kernel = (const BlendKernel*)op_kernel;
  const OrtApi* api = kernel->api;
  size_t inputs = 0, outputs = 0, rank = 0, count = 1;
  const OrtValue* x = NULL;
  OrtValue *y = NULL, *number = NULL;
  ONNXTensorElementDataType type;
  const int64_t* dims = NULL;
  void* to = NULL;
  TRY(api->KernelContext_GetInputCount(context, &inputs));
  TRY(api->KernelContext_GetOutputCount(context, &outputs));
  trace("Blend: KernelComputeV2 with %zu inputs and %zu outputs", inputs, outputs);
  TRY(api->KernelContext_GetInput(context, 0, &x));
  TRY(api->GetTensorElementTypeAndShapeDataReference(x, &type, &dims, &rank));
  TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &y));
  TRY(api->GetTensorMutableData(y, &to));
  for (size_t i = 0; i < rank; ++i) {
    count *= (size_t)dims[i];
  }
  if (count == 7) {
    return api->CreateStatus(ORT_EP_FAIL, "seven is too much");
  }
  const bool is_float = type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  memset(to, 0, count * (is_float ? sizeof(float) : sizeof(double)));
  for (size_t k = 0; k < inputs; ++k) {
    const void* from = NULL;
    TRY(api->KernelContext_GetInput(context, k, &x));
    TRY(api->GetTensorData(x, &from));
    for (size_t i = 0; i < count; ++i) {
      if (is_float) {
        ((float*)to)[i] += kernel->weight * ((const float*)from)[i];
      } else {
        ((double*)to)[i] += (double)kernel->weight * ((const double*)from)[i];
      }
    }
  }
  if (outputs > 1) {
    void* told = NULL;
    TRY(api->KernelContext_GetOutput(context, 1, NULL, 0, &number));
    if (number != NULL) {
      TRY(api->GetTensorMutableData(number, &told));
      *(int64_t*)told = (int64_t)inputs;
    }
  }
  return NULL;
}

static void ORT_API_CALL blend_destroy(void* op_kernel) {
  trace("Blend: KernelDestroy");
  free(op_kernel);
}

/* Says what it can ask for in the list: the inputs with their dimensions, and the attribute. */
static OrtStatus* ORT_API_CALL blend_infer(const OrtCustomOp* op, OrtShapeInferContext* context) {
  const OrtApi* api = ((const CustomOp*)op)->api;
  size_t inputs = 0, rank = 0, size = 0;
  OrtTensorTypeAndShapeInfo* info = NULL;
  ONNXTensorElementDataType type;
  const OrtOpAttr* attribute = NULL;
  float weight = 0;
  int64_t dims[8] = {0};
  const char* symbols[8] = {""};
  TRY(api->ShapeInferContext_GetInputCount(context, &inputs));
  TRY(api->ShapeInferContext_GetInputTypeShape(context, 0, &info));
  TRY(api->GetTensorElementType(info, &type));
  TRY(api->GetDimensionsCount(info, &rank));
  TRY(api->GetDimensions(info, dims, rank));
  TRY(api->GetSymbolicDimensions(info, symbols, rank));
  OrtStatus* status = api->ShapeInferContext_GetAttribute(context, "weight", &attribute);
  if (status == NULL) {
    status = api->ReadOpAttr(attribute, ORT_OP_ATTR_FLOAT, &weight, sizeof weight, &size);
  }
  trace("Blend: InferOutputShapeFn of %zu inputs, the first of type %d, rank %zu, %lld '%s', weight %s",
        inputs, (int)type, rank, rank > 0 ? (long long)dims[0] : 0, rank > 0 ? symbols[0] : "",
        status == NULL ? "given" : "not given");
  if (status != NULL) {
    api->ReleaseStatus(status);
  }
  TRY(api->ShapeInferContext_SetOutputTypeShape(context, 0, info));
  return NULL;
}

void blend_init(CustomOp* op, const OrtApi* api) {
  twice_init(op, api, NULL);
  op->base.CreateKernel = NULL;
  op->base.KernelCompute = NULL;
  op->base.GetName = blend_name;
  op->base.GetInputType = any_type;
  op->base.GetOutputType = blend_output_type;
  op->base.GetOutputTypeCount = two;
  op->base.KernelDestroy = blend_destroy;
  op->base.GetInputCharacteristic = variadic;
  op->base.GetOutputCharacteristic = second_optional;
  op->base.GetVariadicInputMinArity = at_least_one;
  op->base.GetVariadicInputHomogeneity = at_least_one;
  op->base.GetVariadicOutputMinArity = at_least_one;
  op->base.GetVariadicOutputHomogeneity = at_least_one;
  op->base.CreateKernelV2 = blend_create;
  op->base.KernelComputeV2 = blend_compute;
  op->base.InferOutputShapeFn = blend_infer;
  op->base.GetStartVersion = from_second_version;
  op->base.GetEndVersion = to_third_version;
}

/* ---- Shout --------------------------------------------------------------------------------------------- */

OrtStatus* shout(const OrtApi* api, OrtKernelContext* context) {
  const OrtValue* x = NULL;
  OrtValue *y = NULL, *lengths = NULL;
  ONNXTensorElementDataType type;
  const int64_t* dims = NULL;
  int64_t two_each[8];
  void* to = NULL;
  size_t rank = 0, outputs = 0, count = 1;
  TRY(api->KernelContext_GetInput(context, 0, &x));
  TRY(api->GetTensorElementTypeAndShapeDataReference(x, &type, &dims, &rank));
  TRY(api->KernelContext_GetOutputCount(context, &outputs));
  if (rank > 7) {
    return api->CreateStatus(ORT_INVALID_ARGUMENT, "Shout: too many dimensions");
  }
  for (size_t i = 0; i < rank; ++i) {
    two_each[i] = dims[i];
    count *= (size_t)dims[i];
  }
  two_each[rank] = 2;
  if (outputs > 1) {
    TRY(api->KernelContext_GetOutput(context, 1, two_each, rank + 1, &lengths));
    TRY(api->GetTensorMutableData(lengths, &to));
  }
  TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &y));
  for (size_t i = 0; i < count; ++i) {
    size_t length = 0;
    TRY(api->GetStringTensorElementLength(x, i, &length));
    char* text = (char*)malloc(length + 2);
    if (text == NULL) {
      return out_of_memory(api);
    }
    OrtStatus* status = api->GetStringTensorElement(x, length, i, text);
    text[length] = '!';
    text[length + 1] = '\0';
    if (status == NULL) {
      status = api->FillStringTensorElement(y, text, i);
    }
    free(text);
    TRY(status);
    if (to != NULL) {
      ((int64_t*)to)[2 * i] = (int64_t)length;
      ((int64_t*)to)[2 * i + 1] = 0;
    }
  }
  return NULL;
}

static const char* ORT_API_CALL shout_name(const OrtCustomOp* op) {
  (void)op;
  return "Shout";
}

static ONNXTensorElementDataType ORT_API_CALL string_type(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
}

static ONNXTensorElementDataType ORT_API_CALL shout_output_type(const OrtCustomOp* op, size_t index) {
  (void)op;
  return index == 0 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING : ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
}

static OrtStatus* ORT_API_CALL shout_create(const OrtCustomOp* op, const OrtApi* api,
                                            const OrtKernelInfo* info, void** kernel) {
  (void)api, (void)info;
  *kernel = (void*)(uintptr_t)op;
  return NULL;
}

static OrtStatus* ORT_API_CALL shout_compute(void* op_kernel, OrtKernelContext* context) {
  return shout(((const CustomOp*)op_kernel)->api, context);
}

static void ORT_API_CALL shout_destroy(void* op_kernel) { (void)op_kernel; }

void shout_init(CustomOp* op, const OrtApi* api, const char* ep_name) {
  twice_init(op, api, ep_name);
  op->base.CreateKernel = NULL;
  op->base.KernelCompute = NULL;
  op->base.GetName = shout_name;
  op->base.GetInputType = string_type;
  op->base.GetOutputType = shout_output_type;
  op->base.GetOutputTypeCount = two;
  op->base.GetOutputCharacteristic = second_optional;
  op->base.CreateKernelV2 = shout_create;
  op->base.KernelComputeV2 = shout_compute;
  op->base.KernelDestroy = shout_destroy;
  op->base.InferOutputShapeFn = twice_infer;
}

/* ---- Borrow -------------------------------------------------------------------------------------------- */

typedef struct BorrowKernel {
  const OrtApi* api;
  OrtOp* op;
  int64_t inputs;
} BorrowKernel;

static const char* ORT_API_CALL borrow_name(const OrtCustomOp* op) {
  (void)op;
  return "Borrow";
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

void borrow_init(CustomOp* op, const OrtApi* api) {
  memset(op, 0, sizeof *op);
  op->api = api;
  op->base.version = API_VERSION;
  op->base.GetName = borrow_name;
  op->base.GetExecutionProviderType = op_ep;
  op->base.GetInputType = float_type;
  op->base.GetInputTypeCount = one;
  op->base.GetOutputType = float_type;
  op->base.GetOutputTypeCount = one;
  op->base.GetInputCharacteristic = required;
  op->base.GetOutputCharacteristic = required;
  op->base.GetInputMemoryType = default_memory;
  op->base.CreateKernelV2 = borrow_create;
  op->base.KernelComputeV2 = borrow_compute;
  op->base.KernelDestroy = borrow_destroy;
}
