/* Types shared by all of the plugin ABI, and the rules that hold for every function in it. A comment
   elsewhere only says what these rules do not.

   Errors. A function that returns OrtStatus* returns NULL for success. Any other status belongs to the
   caller, who ends it with ReleaseStatus. After an error nothing is left to release: out-parameters are
   untouched or NULL. No C++ exception crosses a function of this ABI, in either direction.

   Ownership. What a function puts into an out-parameter named by a pointer to const (const OrtNode**) is
   borrowed: it belongs to the object asked, lives as long as that, and must not be released. Anything else
   that is created belongs to the caller, who releases it with the Release function of its type. Arguments are
   borrowed for the call unless the comment says that they are copied, taken over, or must outlive something.
   Release functions accept NULL.

   Strings are UTF-8 and end with a zero byte; paths are ORTCHAR_T. A char** beside an OrtAllocator* is
   allocated with that allocator and freed with it. "In the two-call way" means: called with out NULL, the
   function sets *size to what is needed (a text's terminator included) and succeeds; with *size too small it
   fails and sets *size likewise.

   NULL arguments are errors (ORT_INVALID_ARGUMENT) unless the comment allows them; functions that return no
   status do not check. A member of a struct that a plugin fills may be NULL only where its comment says what
   that means.

   Threads. Functions may be called from any thread, and on different objects at once. On one object, readers
   may overlap; whoever changes or releases it must be alone, except where the comment says otherwise.

   Versions. Structs only grow at their end. `version` or `ort_version_supported` is the ORT_API_VERSION that
   the filler of a struct was compiled with: the other side reads no member that is newer. Fill unused members
   with zero. */
#ifndef EPHOST_TYPES_H_
#define EPHOST_TYPES_H_

/* EPHOST_CDEF is for parsers of these headers, such as cffi: no system headers, no calling conventions. */
#ifndef EPHOST_CDEF
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

/* The API version that these headers declare: ask OrtApiBase::GetApi for it, or for an older one. */
#define ORT_API_VERSION 30

/* The calling convention of the functions in the tables and structs, and the character of paths. The two
   functions that a plugin exports and some callbacks have the compiler's own convention instead, which only
   differs on 32-bit Windows: their types below are written without the macro. */
#if defined(_WIN32) && !defined(EPHOST_CDEF)
#include <wchar.h>
#define ORT_API_CALL __stdcall
#else
#define ORT_API_CALL
#endif
#ifdef _WIN32
typedef wchar_t ORTCHAR_T;
#else
typedef char ORTCHAR_T;
#endif

/* Inside a struct: the members that follow, up to the next such line, first appeared in this API version.
   Members before the first one are as old as the struct. Expands to nothing; tools read it in the text. */
#define EPHOST_SINCE(version)

#ifdef __cplusplus
extern "C" {
#endif

/* Element types of tensors. Numbers are ONNX's own up to 23; the last three differ (ONNX: FLOAT8E8M0 24,
   UINT2 25, INT2 26). Types below 8 bits are packed, the first element in the low bits. */
typedef enum ONNXTensorElementDataType {
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED = 0,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 = 2,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 = 3,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16 = 4,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16 = 5,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 = 6,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 = 7,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING = 8,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL = 9,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 = 10,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE = 11,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32 = 12,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64 = 13,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64 = 14,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128 = 15,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 = 16,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN = 17,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FNUZ = 18,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2 = 19,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ = 20,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT4 = 21,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4 = 22,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT4E2M1 = 23,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2 = 24,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2 = 25,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0 = 26,
} ONNXTensorElementDataType;

/* What a value is. */
typedef enum ONNXType {
  ONNX_TYPE_UNKNOWN = 0,
  ONNX_TYPE_TENSOR = 1,
  ONNX_TYPE_SEQUENCE = 2,
  ONNX_TYPE_MAP = 3,
  ONNX_TYPE_OPAQUE = 4,
  ONNX_TYPE_SPARSETENSOR = 5,
  ONNX_TYPE_OPTIONAL = 6,
} ONNXType;

/* How a sparse tensor stores its indices: coordinates, compressed rows, or blocks. (There is no 3.) */
typedef enum OrtSparseFormat {
  ORT_SPARSE_UNDEFINED = 0,
  ORT_SPARSE_COO = 1,
  ORT_SPARSE_CSRC = 2,
  ORT_SPARSE_BLOCK_SPARSE = 4,
} OrtSparseFormat;

/* Which index array of a sparse tensor is meant. */
typedef enum OrtSparseIndicesFormat {
  ORT_SPARSE_COO_INDICES = 0,
  ORT_SPARSE_CSR_INNER_INDICES = 1,
  ORT_SPARSE_CSR_OUTER_INDICES = 2,
  ORT_SPARSE_BLOCK_SPARSE_INDICES = 3,
} OrtSparseIndicesFormat;

/* Severities, rising. */
typedef enum OrtLoggingLevel {
  ORT_LOGGING_LEVEL_VERBOSE = 0,
  ORT_LOGGING_LEVEL_INFO = 1,
  ORT_LOGGING_LEVEL_WARNING = 2,
  ORT_LOGGING_LEVEL_ERROR = 3,
  ORT_LOGGING_LEVEL_FATAL = 4,
} OrtLoggingLevel;

/* Types of node attributes. The numbers are not ONNX's. */
typedef enum OrtOpAttrType {
  ORT_OP_ATTR_UNDEFINED = 0,
  ORT_OP_ATTR_INT = 1,
  ORT_OP_ATTR_INTS = 2,
  ORT_OP_ATTR_FLOAT = 3,
  ORT_OP_ATTR_FLOATS = 4,
  ORT_OP_ATTR_STRING = 5,
  ORT_OP_ATTR_STRINGS = 6,
  ORT_OP_ATTR_GRAPH = 7,
  ORT_OP_ATTR_TENSOR = 8,
} OrtOpAttrType;

/* How much the host may rewrite a graph, each level with those before: nothing, simplification that any EP
   can take, fusions for particular EPs, changes of data layout, everything. */
typedef enum GraphOptimizationLevel {
  ORT_DISABLE_ALL = 0,
  ORT_ENABLE_BASIC = 1,
  ORT_ENABLE_EXTENDED = 2,
  ORT_ENABLE_LAYOUT = 3,
  ORT_ENABLE_ALL = 99,
} GraphOptimizationLevel;

/* One node after the other, or independent branches at once. */
typedef enum ExecutionMode {
  ORT_SEQUENTIAL = 0,
  ORT_PARALLEL = 1,
} ExecutionMode;

/* The language of the application, for telemetry. */
typedef enum OrtLanguageProjection {
  ORT_PROJECTION_C = 0,
  ORT_PROJECTION_CPLUSPLUS = 1,
  ORT_PROJECTION_CSHARP = 2,
  ORT_PROJECTION_PYTHON = 3,
  ORT_PROJECTION_JAVA = 4,
  ORT_PROJECTION_WINML = 5,
  ORT_PROJECTION_NODEJS = 6,
} OrtLanguageProjection;

/* Kinds of allocator: plain, caching, or for weights that are never written again. */
typedef enum OrtAllocatorType {
  OrtInvalidAllocator = -1,
  OrtDeviceAllocator = 0,
  OrtArenaAllocator = 1,
  OrtReadOnlyAllocator = 2,
} OrtAllocatorType;

/* Whose memory a kernel's value is in: the EP's own (Default), or the CPU's on the way in or out. */
typedef enum OrtMemType {
  OrtMemTypeCPUInput = -2,
  OrtMemTypeCPUOutput = -1,
  OrtMemTypeCPU = -1,
  OrtMemTypeDefault = 0,
} OrtMemType;

/* A device's own memory, or memory of it that the CPU can access too (pinned, say). */
typedef enum OrtDeviceMemoryType {
  OrtDeviceMemoryType_DEFAULT = 0,
  OrtDeviceMemoryType_HOST_ACCESSIBLE = 5,
} OrtDeviceMemoryType;

/* Kinds of device, as seen from memory. */
typedef enum OrtMemoryInfoDeviceType {
  OrtMemoryInfoDeviceType_CPU = 0,
  OrtMemoryInfoDeviceType_GPU = 1,
  OrtMemoryInfoDeviceType_FPGA = 2,
  OrtMemoryInfoDeviceType_NPU = 3,
} OrtMemoryInfoDeviceType;

/* Kinds of hardware device. Mind that NPU differs from OrtMemoryInfoDeviceType_NPU. */
typedef enum OrtHardwareDeviceType {
  OrtHardwareDeviceType_CPU = 0,
  OrtHardwareDeviceType_GPU = 1,
  OrtHardwareDeviceType_NPU = 2,
} OrtHardwareDeviceType;

/* Rules by which the host chooses devices when the user named none. */
typedef enum OrtExecutionProviderDevicePolicy {
  OrtExecutionProviderDevicePolicy_DEFAULT = 0,
  OrtExecutionProviderDevicePolicy_PREFER_CPU = 1,
  OrtExecutionProviderDevicePolicy_PREFER_NPU = 2,
  OrtExecutionProviderDevicePolicy_PREFER_GPU = 3,
  OrtExecutionProviderDevicePolicy_MAX_PERFORMANCE = 4,
  OrtExecutionProviderDevicePolicy_MAX_EFFICIENCY = 5,
  OrtExecutionProviderDevicePolicy_MIN_OVERALL_POWER = 6,
} OrtExecutionProviderDevicePolicy;

/* Why an EP does not offer a device; bits that combine in a uint32_t. UNKNOWN is bit 31, written as the int
   of that pattern because C11 wants its enumerators to be ints: cast to uint32_t. */
typedef enum OrtDeviceEpIncompatibilityReason {
  OrtDeviceEpIncompatibility_NONE = 0,
  OrtDeviceEpIncompatibility_DRIVER_INCOMPATIBLE = 1,
  OrtDeviceEpIncompatibility_DEVICE_INCOMPATIBLE = 2,
  OrtDeviceEpIncompatibility_MISSING_DEPENDENCY = 4,
  OrtDeviceEpIncompatibility_UNKNOWN = (-2147483647 - 1),
} OrtDeviceEpIncompatibilityReason;

/* How the built-in CUDA EP chooses convolution algorithms. */
typedef enum OrtCudnnConvAlgoSearch {
  OrtCudnnConvAlgoSearchExhaustive = 0,
  OrtCudnnConvAlgoSearchHeuristic = 1,
  OrtCudnnConvAlgoSearchDefault = 2,
} OrtCudnnConvAlgoSearch;

/* Kinds of memory handle that an EP may import. */
typedef enum OrtExternalMemoryHandleType {
  ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE = 0,
  ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP = 1,
  ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_WIN32 = 2,
  ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD = 3,
} OrtExternalMemoryHandleType;

/* Kinds of semaphore that an EP may import. */
typedef enum OrtExternalSemaphoreType {
  ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE = 0,
  ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_WIN32 = 1,
  ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD = 2,
} OrtExternalSemaphoreType;

/* Graphics APIs to share a device with. */
typedef enum OrtGraphicsApi {
  ORT_GRAPHICS_API_NONE = 0,
  ORT_GRAPHICS_API_D3D12 = 1,
  ORT_GRAPHICS_API_VULKAN = 2,
} OrtGraphicsApi;

/* How a compiled model fits a device: made for another EP, as good as it gets, runs but should be compiled
   anew, does not run. */
typedef enum OrtCompiledModelCompatibility {
  OrtCompiledModelCompatibility_EP_NOT_APPLICABLE = 0,
  OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL = 1,
  OrtCompiledModelCompatibility_EP_SUPPORTED_PREFER_RECOMPILATION = 2,
  OrtCompiledModelCompatibility_EP_UNSUPPORTED = 3,
} OrtCompiledModelCompatibility;

/* What a custom operator's input or output is. */
typedef enum OrtCustomOpInputOutputCharacteristic {
  INPUT_OUTPUT_REQUIRED = 0,
  INPUT_OUTPUT_OPTIONAL = 1,
  INPUT_OUTPUT_VARIADIC = 2,
} OrtCustomOpInputOutputCharacteristic;

/* Bits for ModelCompilationOptions_SetFlags. */
typedef enum OrtCompileApiFlags {
  OrtCompileApiFlags_NONE = 0,
  OrtCompileApiFlags_ERROR_IF_NO_NODES_COMPILED = 1,
  OrtCompileApiFlags_ERROR_IF_OUTPUT_FILE_EXISTS = 2,
} OrtCompileApiFlags;

/* What an event in a profile measures. */
typedef enum OrtProfilingEventCategory {
  OrtProfilingEventCategory_SESSION = 0,
  OrtProfilingEventCategory_NODE = 1,
  OrtProfilingEventCategory_KERNEL = 2,
  OrtProfilingEventCategory_API = 3,
} OrtProfilingEventCategory;

/* What an OrtResourceCount counts. */
typedef enum OrtResourceCountKind {
  OrtResourceCountKind_None = 0,
  OrtResourceCountKind_TotalBytes = 1,
} OrtResourceCountKind;

/* Order of axes that an EP prefers for images: channels first (ONNX's own) or last. */
typedef enum OrtEpDataLayout {
  OrtEpDataLayout_NCHW = 0,
  OrtEpDataLayout_NHWC = 1,
  OrtEpDataLayout_Default = 0,
} OrtEpDataLayout;

/* When recording a graph: all nodes must be on the EP, or those that only compute shapes may be on the CPU.
   */
typedef enum OrtGraphCaptureNodeAssignmentPolicy {
  OrtGraphCaptureNodeAssignmentPolicy_ALL_NODES_ON_EP = 0,
  OrtGraphCaptureNodeAssignmentPolicy_ALLOW_CPU_FOR_SHAPES = 1,
} OrtGraphCaptureNodeAssignmentPolicy;

/* Which weights an EP can leave out of what it compiles: none, those in external files, or all. */
typedef enum OrtWeightlessSupport {
  OrtWeightlessSupport_NONE = 0,
  OrtWeightlessSupport_EXTERNAL_ONLY = 1,
  OrtWeightlessSupport_ALL = 2,
} OrtWeightlessSupport;

/* Kinds of error. ORT_OK never occurs in a status: success is a NULL status. */
typedef enum OrtErrorCode {
  ORT_OK = 0,
  ORT_FAIL = 1,
  ORT_INVALID_ARGUMENT = 2,
  ORT_NO_SUCHFILE = 3,
  ORT_NO_MODEL = 4,
  ORT_ENGINE_ERROR = 5,
  ORT_RUNTIME_EXCEPTION = 6,
  ORT_INVALID_PROTOBUF = 7,
  ORT_MODEL_LOADED = 8,
  ORT_NOT_IMPLEMENTED = 9,
  ORT_INVALID_GRAPH = 10,
  ORT_EP_FAIL = 11,
  ORT_MODEL_LOAD_CANCELED = 12,
  ORT_MODEL_REQUIRES_COMPILATION = 13,
  ORT_NOT_FOUND = 14,
} OrtErrorCode;

/* The tables of functions (api.h, ep.h, editor.h, compile.h, interop.h). OrtTrainingApi is declared only
   because OrtApi names it. */
typedef struct OrtApiBase OrtApiBase;
typedef struct OrtApi OrtApi;
typedef struct OrtEpApi OrtEpApi;
typedef struct OrtModelEditorApi OrtModelEditorApi;
typedef struct OrtCompileApi OrtCompileApi;
typedef struct OrtInteropApi OrtInteropApi;
typedef struct OrtTrainingApi OrtTrainingApi;

/* Structs that a plugin fills (ep.h, kernel.h, device.h, allocator.h, interop.h, custom_op.h). */
typedef struct OrtEpFactory OrtEpFactory;
typedef struct OrtEp OrtEp;
typedef struct OrtNodeComputeInfo OrtNodeComputeInfo;
typedef struct OrtNodeFusionOptions OrtNodeFusionOptions;
typedef struct OrtEpProfilerImpl OrtEpProfilerImpl;
typedef struct OrtResourceCount OrtResourceCount;
typedef struct OrtKernelImpl OrtKernelImpl;
typedef struct OrtLoopKernelHelper OrtLoopKernelHelper;
typedef struct OrtScanKernelHelper OrtScanKernelHelper;
typedef struct OrtAllocator OrtAllocator;
typedef struct OrtDataTransferImpl OrtDataTransferImpl;
typedef struct OrtSyncStreamImpl OrtSyncStreamImpl;
typedef struct OrtSyncNotificationImpl OrtSyncNotificationImpl;
typedef struct OrtExternalResourceImporterImpl OrtExternalResourceImporterImpl;
typedef struct OrtExternalMemoryHandle OrtExternalMemoryHandle;
typedef struct OrtExternalSemaphoreHandle OrtExternalSemaphoreHandle;
typedef struct OrtCustomOp OrtCustomOp;

/* Structs that an application fills (environment.h, interop.h). */
typedef struct OrtEnvCreationOptions OrtEnvCreationOptions;
typedef struct OrtThreadPoolCallbacksConfig OrtThreadPoolCallbacksConfig;
typedef struct OrtGraphicsInteropConfig OrtGraphicsInteropConfig;
typedef struct OrtExternalMemoryDescriptor OrtExternalMemoryDescriptor;
typedef struct OrtExternalSemaphoreDescriptor OrtExternalSemaphoreDescriptor;
typedef struct OrtExternalTensorDescriptor OrtExternalTensorDescriptor;

/* Opaque, the host's: everything below is only used through pointers. An error (NULL is success), a list of
   pairs of strings, a logger. */
typedef struct OrtStatus OrtStatus;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtLogger OrtLogger;

/* The process's environment, its threads and its arenas. */
typedef struct OrtEnv OrtEnv;
typedef struct OrtThreadingOptions OrtThreadingOptions;
typedef struct OrtArenaCfg OrtArenaCfg;
typedef struct OrtCustomHandleType OrtCustomHandleType;

/* Hardware, the EPs on it, and why an EP is not. */
typedef struct OrtHardwareDevice OrtHardwareDevice;
typedef struct OrtEpDevice OrtEpDevice;
typedef struct OrtDeviceEpIncompatibilityDetails OrtDeviceEpIncompatibilityDetails;

/* Sessions, their options, and what belongs to one: runs, bindings, adapters, shared packed weights,
   metadata, who took which node. */
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtIoBinding OrtIoBinding;
typedef struct OrtLoraAdapter OrtLoraAdapter;
typedef struct OrtPrepackedWeightsContainer OrtPrepackedWeightsContainer;
typedef struct OrtModelMetadata OrtModelMetadata;
typedef struct OrtEpAssignedSubgraph OrtEpAssignedSubgraph;
typedef struct OrtEpAssignedNode OrtEpAssignedNode;
typedef struct OrtModelCompilationOptions OrtModelCompilationOptions;
typedef struct OrtEpContextConfig OrtEpContextConfig;

/* Values, their types, and memory. */
typedef struct OrtValue OrtValue;
typedef struct OrtTypeInfo OrtTypeInfo;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtMapTypeInfo OrtMapTypeInfo;
typedef struct OrtSequenceTypeInfo OrtSequenceTypeInfo;
typedef struct OrtOptionalTypeInfo OrtOptionalTypeInfo;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtMemoryDevice OrtMemoryDevice;
typedef struct OrtSyncStream OrtSyncStream;

/* A model as a graph, and what an EP claims of it. */
typedef struct OrtModel OrtModel;
typedef struct OrtGraph OrtGraph;
typedef struct OrtNode OrtNode;
typedef struct OrtValueInfo OrtValueInfo;
typedef struct OrtOpAttr OrtOpAttr;
typedef struct OrtExternalInitializerInfo OrtExternalInitializerInfo;
typedef struct OrtEpGraphSupportInfo OrtEpGraphSupportInfo;
typedef struct OrtNodeComputeContext OrtNodeComputeContext;

/* Kernels: their registry, definitions, creation and calls; operator schemas and the types in them. */
typedef struct OrtKernelRegistry OrtKernelRegistry;
typedef struct OrtKernelDef OrtKernelDef;
typedef struct OrtKernelDefBuilder OrtKernelDefBuilder;
typedef struct OrtDataType OrtDataType;
typedef struct OrtKernelInfo OrtKernelInfo;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtSharedPrePackedWeightCache OrtSharedPrePackedWeightCache;
typedef struct OrtOp OrtOp;
typedef struct OrtOpSchema OrtOpSchema;
typedef struct OrtOpSchemaTypeConstraint OrtOpSchemaTypeConstraint;

/* Custom operators, profiles, and graphics resources. */
typedef struct OrtCustomOpDomain OrtCustomOpDomain;
typedef struct OrtShapeInferContext OrtShapeInferContext;
typedef struct OrtProfilingEvent OrtProfilingEvent;
typedef struct OrtProfilingEventsContainer OrtProfilingEventsContainer;
typedef struct OrtExternalResourceImporter OrtExternalResourceImporter;

/* Options of EPs that are compiled into onnxruntime, and a name that no function uses any more: only here
   because signatures have them. */
typedef struct OrtCUDAProviderOptions OrtCUDAProviderOptions;
typedef struct OrtCUDAProviderOptionsV2 OrtCUDAProviderOptionsV2;
typedef struct OrtTensorRTProviderOptions OrtTensorRTProviderOptions;
typedef struct OrtTensorRTProviderOptionsV2 OrtTensorRTProviderOptionsV2;
typedef struct OrtNvTensorRtRtxProviderOptions OrtNvTensorRtRtxProviderOptions;
typedef struct OrtROCMProviderOptions OrtROCMProviderOptions;
typedef struct OrtMIGraphXProviderOptions OrtMIGraphXProviderOptions;
typedef struct OrtOpenVINOProviderOptions OrtOpenVINOProviderOptions;
typedef struct OrtDnnlProviderOptions OrtDnnlProviderOptions;
typedef struct OrtCANNProviderOptions OrtCANNProviderOptions;
typedef struct OrtThreadPoolParams OrtThreadPoolParams;

/* An older name of OrtStatus*. */
typedef OrtStatus* OrtStatusPtr;

/* A thread that the application made for the host; only the application looks inside. */
typedef const struct OrtCustomHandleType* OrtCustomThreadHandle;

/* A function from GetExperimentalFunction: cast it to its real type before the call. */
typedef void (ORT_API_CALL* OrtExperimentalFnPtr)(void);

/* Takes one log line. All texts are borrowed for the call; any thread may call it. It must not log through
   the host. */
typedef void (ORT_API_CALL* OrtLoggingFunction)(void* param, OrtLoggingLevel severity, const char* category,
                                                const char* logid, const char* code_location,
                                                const char* message);

/* Chooses devices for a session: puts up to max_selected of ep_devices into selected, the preferred first,
   and the number into *num_selected. Pairs may be NULL. An error fails the session. */
typedef OrtStatus* (ORT_API_CALL* EpSelectionDelegate)(const OrtEpDevice** ep_devices, size_t num_devices,
    const OrtKeyValuePairs* model_metadata, const OrtKeyValuePairs* runtime_metadata,
    const OrtEpDevice** selected, size_t max_selected, size_t* num_selected, void* state);

/* Takes the next piece of a compiled model, borrowed for the call. An error stops the compilation. */
typedef OrtStatus* (ORT_API_CALL* OrtWriteBufferFunc)(void* state, const void* buffer,
                                                      size_t buffer_num_bytes);

/* Takes data under a name, such as what an EP compiled for an EPContext node. All is borrowed for the call, and
   an error is the caller's to release. Threads may call it at once. */
typedef OrtStatus* (ORT_API_CALL* OrtWriteNamedBufferFunc)(void* state, const char* name, const void* buffer,
                                                           size_t buffer_num_bytes);

/* Gives the data of a name: sets *buffer, which it allocates with `allocator` and the caller frees with that, and
   *data_size. */
typedef OrtStatus* (ORT_API_CALL* OrtReadNamedBufferFunc)(void* state, const char* name,
                                                          OrtAllocator* allocator, void** buffer,
                                                          size_t* data_size);

/* Says where an initialiser of a compiled model goes: leave *new_external_info NULL to put it into the model,
   or set it to a new info (which the host takes over) after writing it to that file. external_info is where
   it is now, NULL when inside the model. */
typedef OrtStatus* (ORT_API_CALL* OrtGetInitializerLocationFunc)(void* state, const char* initializer_name,
    const OrtValue* initializer_value, const OrtExternalInitializerInfo* external_info,
    OrtExternalInitializerInfo** new_external_info);

/* What a thread of the host runs: called once with its parameter, returns when the thread is to end. */
typedef void (*OrtThreadWorkerFn)(void* ort_worker_fn_param);

/* Starts a thread that calls the worker function with its parameter. Returns NULL when it cannot. */
typedef OrtCustomThreadHandle (*OrtCustomCreateThreadFn)(void* ort_custom_thread_creation_options,
                                                         OrtThreadWorkerFn ort_thread_worker_fn,
                                                         void* ort_worker_fn_param);

/* Waits for such a thread to end and frees the handle. */
typedef void (*OrtCustomJoinThreadFn)(OrtCustomThreadHandle ort_custom_thread_handle);

/* See OrtThreadPoolCallbacksConfig. */
typedef void* (*OrtThreadPoolWorkEnqueueFn)(void* user_context);
typedef void (*OrtThreadPoolWorkStartFn)(void* user_context, void* enqueue_data);
typedef void (*OrtThreadPoolWorkStopFn)(void* user_context, void* enqueue_data);
typedef void (*OrtThreadPoolWorkAbandonFn)(void* user_context, void* enqueue_data);

/* Exported as RegisterCustomOps by a library of custom operators: adds its domains to the options. */
typedef OrtStatus* (ORT_API_CALL* RegisterCustomOpsFn)(OrtSessionOptions* options, const OrtApiBase* api);

/* The end of a RunAsync: its outputs, or a status that the callback must release. Called on a thread of the
   pool. */
typedef void (*RunAsyncCallbackFn)(void* user_data, OrtValue** outputs, size_t num_outputs,
                                   OrtStatus* status);

/* Makes the kernel of one node; info is borrowed for the call. The host calls the kernel's Release. On error
   *kernel_out is ignored. May be called on several threads at once. */
typedef OrtStatus* (ORT_API_CALL* OrtKernelCreateFunc)(void* kernel_create_func_state,
                                                       const OrtKernelInfo* info, OrtKernelImpl** kernel_out);

/* Types of the two functions that a plugin exports: see plugin.h. */
typedef OrtStatus* (*CreateEpApiFactoriesFn)(const char* registered_name, const OrtApiBase* ort_api_base,
                                             const OrtLogger* default_logger, OrtEpFactory** factories,
                                             size_t max_factories, size_t* num_factories);
typedef OrtStatus* (*ReleaseEpApiFactoryFn)(OrtEpFactory* factory);

#ifdef __cplusplus
}
#endif

#endif
