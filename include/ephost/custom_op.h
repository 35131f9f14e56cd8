/* Custom operators: single operators with kernels, without an execution provider around them. */
#ifndef EPHOST_CUSTOM_OP_H_
#define EPHOST_CUSTOM_OP_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A custom operator, implemented by the application or a library and given to CustomOpDomain_Add; it must
   outlive the sessions that know it. `op` is the struct itself, so that state may follow it. Members up to
   KernelDestroy are required; a later one may be NULL where its comment says so, and is not read when
   `version` is older than it. */
struct OrtCustomOp {
  /* The API version the operator was compiled with. */
  uint32_t version;

  /* Makes the state of one node; it goes to the two Kernel functions below. May be NULL when CreateKernelV2
     is there. */
  void* (ORT_API_CALL* CreateKernel)(const struct OrtCustomOp* op, const OrtApi* api,
                                     const OrtKernelInfo* info);

  /* The operator's name; static. */
  const char* (ORT_API_CALL* GetName)(const struct OrtCustomOp* op);

  /* The EP whose nodes it implements; NULL for the CPU. */
  const char* (ORT_API_CALL* GetExecutionProviderType)(const struct OrtCustomOp* op);

  /* Number of inputs and outputs, and their element types; ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED takes any.
     */
  ONNXTensorElementDataType (ORT_API_CALL* GetInputType)(const struct OrtCustomOp* op, size_t index);
  size_t (ORT_API_CALL* GetInputTypeCount)(const struct OrtCustomOp* op);
  ONNXTensorElementDataType (ORT_API_CALL* GetOutputType)(const struct OrtCustomOp* op, size_t index);
  size_t (ORT_API_CALL* GetOutputTypeCount)(const struct OrtCustomOp* op);

  /* Computes one node. Cannot fail; may run on several threads at once. May be NULL when KernelComputeV2 is
     there. */
  void (ORT_API_CALL* KernelCompute)(void* op_kernel, OrtKernelContext* context);

  /* Frees what CreateKernel or CreateKernelV2 made. */
  void (ORT_API_CALL* KernelDestroy)(void* op_kernel);

  EPHOST_SINCE(8)

  /* Whether an input or output is required, optional or variadic. NULL: all are required. */
  OrtCustomOpInputOutputCharacteristic (ORT_API_CALL* GetInputCharacteristic)(const struct OrtCustomOp* op,
                                                                              size_t index);
  OrtCustomOpInputOutputCharacteristic (ORT_API_CALL* GetOutputCharacteristic)(const struct OrtCustomOp* op,
                                                                               size_t index);

  EPHOST_SINCE(13)

  /* The memory an input is wanted in. NULL: the EP's default. */
  OrtMemType (ORT_API_CALL* GetInputMemoryType)(const struct OrtCustomOp* op, size_t index);

  EPHOST_SINCE(14)

  /* Least number of values a variadic input or output takes, and whether all have one type (not 0). NULL: 1
     and yes. */
  int (ORT_API_CALL* GetVariadicInputMinArity)(const struct OrtCustomOp* op);
  int (ORT_API_CALL* GetVariadicInputHomogeneity)(const struct OrtCustomOp* op);
  int (ORT_API_CALL* GetVariadicOutputMinArity)(const struct OrtCustomOp* op);
  int (ORT_API_CALL* GetVariadicOutputHomogeneity)(const struct OrtCustomOp* op);

  EPHOST_SINCE(16)

  /* Like CreateKernel and KernelCompute, but they can fail; used in their place when not NULL. */
  OrtStatus* (ORT_API_CALL* CreateKernelV2)(const struct OrtCustomOp* op, const OrtApi* api,
                                            const OrtKernelInfo* info, void** kernel);
  OrtStatus* (ORT_API_CALL* KernelComputeV2)(void* op_kernel, OrtKernelContext* context);

  EPHOST_SINCE(17)

  /* Infers the outputs' types and shapes when the model is loaded. NULL: unknown until run. */
  OrtStatus* (ORT_API_CALL* InferOutputShapeFn)(const struct OrtCustomOp* op, OrtShapeInferContext*);

  /* Opset versions it implements, both included. NULL: from 1, without end. */
  int (ORT_API_CALL* GetStartVersion)(const struct OrtCustomOp* op);
  int (ORT_API_CALL* GetEndVersion)(const struct OrtCustomOp* op);

  EPHOST_SINCE(18)

  /* Pairs of an input and an output that may share memory (in place), or always do (alias): count returned,
     arrays allocated by the first and freed by the second. NULL: none. */
  size_t (ORT_API_CALL* GetMayInplace)(int** input_index, int** output_index);
  void (ORT_API_CALL* ReleaseMayInplace)(int* input_index, int* output_index);
  size_t (ORT_API_CALL* GetAliasMap)(int** input_index, int** output_index);
  void (ORT_API_CALL* ReleaseAliasMap)(int* input_index, int* output_index);
};

#ifdef __cplusplus
}
#endif

#endif
