/* The host's entry point and its main table. */
#ifndef EPHOST_API_H_
#define EPHOST_API_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The way in: a plugin gets it as an argument of CreateEpFactories, and it outlives the plugin. Never freed.
   */
struct OrtApiBase {
  /* The table of API version `version`, or NULL when the host does not serve it (0, or newer than the host).
     The table is static: the same pointer may be used from any thread until the process ends. It may be
     longer than the version asked for: use only the members that existed then. */
  const OrtApi* (ORT_API_CALL* GetApi)(uint32_t version);

  /* The version of onnxruntime that the host stands for, like "1.30.0". Static, never NULL. */
  const char* (ORT_API_CALL* GetVersionString)(void);
};

/* Functions of the host that both applications and plugins call. See types.h for what holds for all of them:
   statuses, ownership, strings, NULL and threads. A member marked with a newer version must not be touched
   when an older table was asked for. */
struct OrtApi {
  /* A new error with a copy of msg. Also how a plugin makes the statuses that it returns. Release with
     ReleaseStatus, unless it is returned to the host, which then owns it. */
  OrtStatus* (ORT_API_CALL* CreateStatus)(OrtErrorCode code, const char* msg);

  /* What a status says; NULL is not accepted. The message belongs to the status. */
  OrtErrorCode (ORT_API_CALL* GetErrorCode)(const OrtStatus* status);
  const char* (ORT_API_CALL* GetErrorMessage)(const OrtStatus* status);

  /* The process's environment: the first call makes it, later ones share it and count. logid is copied. With
     a custom logger, messages go to logging_function(logger_param, ...), which any thread may call, until the
     environment is released. */
  OrtStatus* (ORT_API_CALL* CreateEnv)(OrtLoggingLevel log_severity_level, const char* logid, OrtEnv** out);
  OrtStatus* (ORT_API_CALL* CreateEnvWithCustomLogger)(OrtLoggingFunction logging_function,
                                                       void* logger_param, OrtLoggingLevel log_severity_level,
                                                       const char* logid, OrtEnv** out);

  /* Turn the host's usage events on or off, where it has any. */
  OrtStatus* (ORT_API_CALL* EnableTelemetryEvents)(const OrtEnv* env);
  OrtStatus* (ORT_API_CALL* DisableTelemetryEvents)(const OrtEnv* env);

  /* Loads a model from a file or from bytes (copied unless a session option says otherwise) and prepares it
     to run. options may be NULL and can be released right after the call. On error there is no session. */
  OrtStatus* (ORT_API_CALL* CreateSession)(const OrtEnv* env, const ORTCHAR_T* model_path,
                                           const OrtSessionOptions* options, OrtSession** out);
  OrtStatus* (ORT_API_CALL* CreateSessionFromArray)(const OrtEnv* env, const void* model_data,
                                                    size_t model_data_length,
                                                    const OrtSessionOptions* options, OrtSession** out);

  /* Runs the model once and blocks until done; threads may call it at once on one session. run_options may be
     NULL. An outputs[i] that is NULL on entry is set to a new value, which the caller releases; one that is
     not NULL is a preallocated value to write into. After an error the outputs that were NULL are NULL. */
  OrtStatus* (ORT_API_CALL* Run)(OrtSession* session, const OrtRunOptions* run_options,
      const char* const* input_names, const OrtValue* const* inputs, size_t input_len,
      const char* const* output_names, size_t output_names_len, OrtValue** outputs);

  /* New options with defaults. A session copies what it needs from them. */
  OrtStatus* (ORT_API_CALL* CreateSessionOptions)(OrtSessionOptions** options);

  /* Where to save the model after optimisation; nothing is saved when unset. */
  OrtStatus* (ORT_API_CALL* SetOptimizedModelFilePath)(OrtSessionOptions* options,
                                                       const ORTCHAR_T* optimized_model_filepath);

  /* An independent copy. */
  OrtStatus* (ORT_API_CALL* CloneSessionOptions)(const OrtSessionOptions* in_options,
                                                 OrtSessionOptions** out_options);

  /* Whether independent branches may run at the same time. */
  OrtStatus* (ORT_API_CALL* SetSessionExecutionMode)(OrtSessionOptions* options,
                                                     ExecutionMode execution_mode);

  /* Whether sessions write a profile; the file's name starts with the prefix. */
  OrtStatus* (ORT_API_CALL* EnableProfiling)(OrtSessionOptions* options,
                                             const ORTCHAR_T* profile_file_prefix);
  OrtStatus* (ORT_API_CALL* DisableProfiling)(OrtSessionOptions* options);

  /* Whether a session plans one block for its buffers when shapes repeat. */
  OrtStatus* (ORT_API_CALL* EnableMemPattern)(OrtSessionOptions* options);
  OrtStatus* (ORT_API_CALL* DisableMemPattern)(OrtSessionOptions* options);

  /* Whether CPU memory comes from a caching arena or straight from the system. */
  OrtStatus* (ORT_API_CALL* EnableCpuMemArena)(OrtSessionOptions* options);
  OrtStatus* (ORT_API_CALL* DisableCpuMemArena)(OrtSessionOptions* options);

  /* The name in the session's log lines (copied), the detail of verbose lines, and the least severity written
     (an OrtLoggingLevel; -1 for the environment's). */
  OrtStatus* (ORT_API_CALL* SetSessionLogId)(OrtSessionOptions* options, const char* logid);
  OrtStatus* (ORT_API_CALL* SetSessionLogVerbosityLevel)(OrtSessionOptions* options,
                                                         int session_log_verbosity_level);
  OrtStatus* (ORT_API_CALL* SetSessionLogSeverityLevel)(OrtSessionOptions* options,
                                                        int session_log_severity_level);

  /* How much the host may rewrite the graph before EPs see it. */
  OrtStatus* (ORT_API_CALL* SetSessionGraphOptimizationLevel)(OrtSessionOptions* options,
      GraphOptimizationLevel graph_optimization_level);

  /* Threads inside one operator and threads across operators; 0 lets the host choose, 1 uses the calling
     thread only. */
  OrtStatus* (ORT_API_CALL* SetIntraOpNumThreads)(OrtSessionOptions* options, int intra_op_num_threads);
  OrtStatus* (ORT_API_CALL* SetInterOpNumThreads)(OrtSessionOptions* options, int inter_op_num_threads);

  /* An empty set of custom operators under a domain name (copied). */
  OrtStatus* (ORT_API_CALL* CreateCustomOpDomain)(const char* domain, OrtCustomOpDomain** out);

  /* Adds an operator. Not copied: op must outlive the domain. */
  OrtStatus* (ORT_API_CALL* CustomOpDomain_Add)(OrtCustomOpDomain* custom_op_domain, const OrtCustomOp* op);

  /* Makes a domain's operators known to sessions of these options. The domain must outlive those sessions. */
  OrtStatus* (ORT_API_CALL* AddCustomOpDomain)(OrtSessionOptions* options,
                                               OrtCustomOpDomain* custom_op_domain);

  /* Loads a library of custom operators and calls its RegisterCustomOps. The caller closes *library_handle
     after the last session; RegisterCustomOpsLibrary_V2 does that by itself. */
  OrtStatus* (ORT_API_CALL* RegisterCustomOpsLibrary)(OrtSessionOptions* options, const char* library_path,
                                                      void** library_handle);

  /* How many inputs, outputs and initialisers that may be fed a session has; bounds for the index below. */
  OrtStatus* (ORT_API_CALL* SessionGetInputCount)(const OrtSession* session, size_t* out);
  OrtStatus* (ORT_API_CALL* SessionGetOutputCount)(const OrtSession* session, size_t* out);
  OrtStatus* (ORT_API_CALL* SessionGetOverridableInitializerCount)(const OrtSession* session, size_t* out);

  /* The type of the value at an index, as a new object that the caller releases. */
  OrtStatus* (ORT_API_CALL* SessionGetInputTypeInfo)(const OrtSession* session, size_t index,
                                                     OrtTypeInfo** type_info);
  OrtStatus* (ORT_API_CALL* SessionGetOutputTypeInfo)(const OrtSession* session, size_t index,
                                                      OrtTypeInfo** type_info);
  OrtStatus* (ORT_API_CALL* SessionGetOverridableInitializerTypeInfo)(const OrtSession* session, size_t index,
                                                                      OrtTypeInfo** type_info);

  /* The name of the value at an index, allocated with `allocator`; the caller frees it there. */
  OrtStatus* (ORT_API_CALL* SessionGetInputName)(const OrtSession* session, size_t index,
                                                 OrtAllocator* allocator, char** value);
  OrtStatus* (ORT_API_CALL* SessionGetOutputName)(const OrtSession* session, size_t index,
                                                  OrtAllocator* allocator, char** value);
  OrtStatus* (ORT_API_CALL* SessionGetOverridableInitializerName)(const OrtSession* session, size_t index,
                                                                  OrtAllocator* allocator, char** value);

  /* New options of one call, with defaults. */
  OrtStatus* (ORT_API_CALL* CreateRunOptions)(OrtRunOptions** out);

  /* Log detail, least severity and label of the runs that use these options; the tag is copied. */
  OrtStatus* (ORT_API_CALL* RunOptionsSetRunLogVerbosityLevel)(OrtRunOptions* options,
                                                               int log_verbosity_level);
  OrtStatus* (ORT_API_CALL* RunOptionsSetRunLogSeverityLevel)(OrtRunOptions* options, int log_severity_level);
  OrtStatus* (ORT_API_CALL* RunOptionsSetRunTag)(OrtRunOptions* options, const char* run_tag);

  /* What was set; the tag belongs to the options. */
  OrtStatus* (ORT_API_CALL* RunOptionsGetRunLogVerbosityLevel)(const OrtRunOptions* options,
                                                               int* log_verbosity_level);
  OrtStatus* (ORT_API_CALL* RunOptionsGetRunLogSeverityLevel)(const OrtRunOptions* options,
                                                              int* log_severity_level);
  OrtStatus* (ORT_API_CALL* RunOptionsGetRunTag)(const OrtRunOptions* options, const char** run_tag);

  /* Asks the runs that use these options to stop with an error as soon as they can; may be called while they
     run, from another thread. Unset allows runs again. */
  OrtStatus* (ORT_API_CALL* RunOptionsSetTerminate)(OrtRunOptions* options);
  OrtStatus* (ORT_API_CALL* RunOptionsUnsetTerminate)(OrtRunOptions* options);

  /* A tensor whose memory comes from `allocator`, uninitialised (strings: empty). The allocator must outlive
     it. */
  OrtStatus* (ORT_API_CALL* CreateTensorAsOrtValue)(OrtAllocator* allocator, const int64_t* shape,
                                                    size_t shape_len, ONNXTensorElementDataType type,
                                                    OrtValue** out);

  /* A tensor around the caller's memory: nothing is copied or freed, so p_data must outlive the value. info
     says where the memory is; p_data_len counts bytes and must cover the shape. Not for strings. */
  OrtStatus* (ORT_API_CALL* CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo* info, void* p_data,
      size_t p_data_len, const int64_t* shape, size_t shape_len, ONNXTensorElementDataType type,
      OrtValue** out);

  /* *out is 1 for a tensor that holds something, else 0. */
  OrtStatus* (ORT_API_CALL* IsTensor)(const OrtValue* value, int* out);

  /* The tensor's first byte, on the device the tensor lives on; may be NULL for an empty tensor. Not for
     strings. Belongs to the value. */
  OrtStatus* (ORT_API_CALL* GetTensorMutableData)(OrtValue* value, void** out);

  /* Copies s_len zero-terminated strings into a string tensor; s_len must be its element count. */
  OrtStatus* (ORT_API_CALL* FillStringTensor)(OrtValue* value, const char* const* s, size_t s_len);

  /* Bytes of all strings together, without terminators. */
  OrtStatus* (ORT_API_CALL* GetStringTensorDataLength)(const OrtValue* value, size_t* len);

  /* Copies all strings, one after another without terminators, into s (s_len bytes, as told above), and where
     each starts into offsets (one per element). */
  OrtStatus* (ORT_API_CALL* GetStringTensorContent)(const OrtValue* value, void* s, size_t s_len,
                                                    size_t* offsets, size_t offsets_len);

  /* The tensor part of a type, borrowed from type_info; NULL without an error when it is no tensor. */
  OrtStatus* (ORT_API_CALL* CastTypeInfoToTensorInfo)(const OrtTypeInfo* type_info,
                                                      const OrtTensorTypeAndShapeInfo** out);

  /* Tensor, sequence, map, ... */
  OrtStatus* (ORT_API_CALL* GetOnnxTypeFromTypeInfo)(const OrtTypeInfo* type_info, enum ONNXType* out);

  /* An empty description (undefined type, no dimensions) to fill with the three below; the caller releases
     it. */
  OrtStatus* (ORT_API_CALL* CreateTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo** out);

  /* Element type and dimensions (-1 for an unknown one; copied). */
  OrtStatus* (ORT_API_CALL* SetTensorElementType)(OrtTensorTypeAndShapeInfo* info,
                                                  enum ONNXTensorElementDataType type);
  OrtStatus* (ORT_API_CALL* SetDimensions)(OrtTensorTypeAndShapeInfo* info, const int64_t* dim_values,
                                           size_t dim_count);

  /* Element type and rank. Ask TensorTypeAndShape_HasShape to tell a scalar from an unknown rank: both count
     0. */
  OrtStatus* (ORT_API_CALL* GetTensorElementType)(const OrtTensorTypeAndShapeInfo* info,
                                                  enum ONNXTensorElementDataType* out);
  OrtStatus* (ORT_API_CALL* GetDimensionsCount)(const OrtTensorTypeAndShapeInfo* info, size_t* out);

  /* The first dim_values_length dimensions; -1 for one that is unknown or symbolic. */
  OrtStatus* (ORT_API_CALL* GetDimensions)(const OrtTensorTypeAndShapeInfo* info, int64_t* dim_values,
                                           size_t dim_values_length);

  /* The dimensions' names, "" where there is none. Borrowed from info. */
  OrtStatus* (ORT_API_CALL* GetSymbolicDimensions)(const OrtTensorTypeAndShapeInfo* info,
                                                   const char* dim_params[], size_t dim_params_length);

  /* The product of the dimensions: 1 for a scalar, 0 when one of them is 0. An error when one is unknown; 0
     also for an unknown rank. */
  OrtStatus* (ORT_API_CALL* GetTensorShapeElementCount)(const OrtTensorTypeAndShapeInfo* info, size_t* out);

  /* Element type and actual shape of a tensor, as a new object that the caller releases.
     GetTensorElementTypeAndShapeDataReference does the same without allocating. */
  OrtStatus* (ORT_API_CALL* GetTensorTypeAndShape)(const OrtValue* value, OrtTensorTypeAndShapeInfo** out);

  /* The full type of a value, as a new object; NULL without an error for an empty value. */
  OrtStatus* (ORT_API_CALL* GetTypeInfo)(const OrtValue* value, OrtTypeInfo** out);

  /* Tensor, sequence, map, ... */
  OrtStatus* (ORT_API_CALL* GetValueType)(const OrtValue* value, enum ONNXType* out);

  /* Says where memory is: allocator name (copied; "Cpu" for host memory, an unknown one is an error), kind
     of allocator, device number and use. New object; the caller releases it. CreateMemoryInfo_V2 can name
     any device. */
  OrtStatus* (ORT_API_CALL* CreateMemoryInfo)(const char* name, enum OrtAllocatorType type, int id,
                                              enum OrtMemType mem_type, OrtMemoryInfo** out);
  OrtStatus* (ORT_API_CALL* CreateCpuMemoryInfo)(enum OrtAllocatorType type, enum OrtMemType mem_type,
                                                 OrtMemoryInfo** out);

  /* *out is 0 when both name the same memory, else -1. */
  OrtStatus* (ORT_API_CALL* CompareMemoryInfo)(const OrtMemoryInfo* info1, const OrtMemoryInfo* info2,
                                               int* out);

  /* Its parts. The name belongs to it. */
  OrtStatus* (ORT_API_CALL* MemoryInfoGetName)(const OrtMemoryInfo* ptr, const char** out);
  OrtStatus* (ORT_API_CALL* MemoryInfoGetId)(const OrtMemoryInfo* ptr, int* out);
  OrtStatus* (ORT_API_CALL* MemoryInfoGetMemType)(const OrtMemoryInfo* ptr, OrtMemType* out);
  OrtStatus* (ORT_API_CALL* MemoryInfoGetType)(const OrtMemoryInfo* ptr, OrtAllocatorType* out);

  /* An allocator's Alloc and Free, for callers that do not look into the struct. A failed allocation gives an
     error or NULL; freeing NULL does nothing. */
  OrtStatus* (ORT_API_CALL* AllocatorAlloc)(OrtAllocator* ort_allocator, size_t size, void** out);
  OrtStatus* (ORT_API_CALL* AllocatorFree)(OrtAllocator* ort_allocator, void* p);

  /* Where its memory is; belongs to the allocator. */
  OrtStatus* (ORT_API_CALL* AllocatorGetInfo)(const OrtAllocator* ort_allocator,
                                              const struct OrtMemoryInfo** out);

  /* The host's CPU allocator. Shared, thread-safe, lives as long as the host: never release it. */
  OrtStatus* (ORT_API_CALL* GetAllocatorWithDefaultOptions)(OrtAllocator** out);

  /* Fixes the dimensions that carry this denotation to a value. */
  OrtStatus* (ORT_API_CALL* AddFreeDimensionOverride)(OrtSessionOptions* options, const char* dim_denotation,
                                                      int64_t dim_value);

  /* An element of a sequence, or of a map its keys (index 0) or values (index 1), as a new value that the
     caller releases; what must be copied comes from `allocator`. */
  OrtStatus* (ORT_API_CALL* GetValue)(const OrtValue* value, int index, OrtAllocator* allocator,
                                      OrtValue** out);

  /* Elements of a sequence; 2 for a map. */
  OrtStatus* (ORT_API_CALL* GetValueCount)(const OrtValue* value, size_t* out);

  /* A sequence of the given values (one type), or a map from two tensors, keys and values. The inputs stay
     the caller's. */
  OrtStatus* (ORT_API_CALL* CreateValue)(const OrtValue* const* in, size_t num_values,
                                         enum ONNXType value_type, OrtValue** out);

  /* Wrap and read a value of a type that the host registered under these two names; data_container holds it,
     data_container_size must be that type's size. Hosts without such types return an error. */
  OrtStatus* (ORT_API_CALL* CreateOpaqueValue)(const char* domain_name, const char* type_name,
                                               const void* data_container, size_t data_container_size,
                                               OrtValue** out);
  OrtStatus* (ORT_API_CALL* GetOpaqueValue)(const char* domain_name, const char* type_name,
                                            const OrtValue* in, void* data_container,
                                            size_t data_container_size);

  /* An attribute of the kernel's node; an error when it is missing or of another type. */
  OrtStatus* (ORT_API_CALL* KernelInfoGetAttribute_float)(const OrtKernelInfo* info, const char* name,
                                                          float* out);
  OrtStatus* (ORT_API_CALL* KernelInfoGetAttribute_int64)(const OrtKernelInfo* info, const char* name,
                                                          int64_t* out);

  /* The same for a string, in the two-call way: size counts the terminator. */
  OrtStatus* (ORT_API_CALL* KernelInfoGetAttribute_string)(const OrtKernelInfo* info, const char* name,
                                                           char* out, size_t* size);

  /* How many inputs and outputs the node has, omitted optional ones included. */
  OrtStatus* (ORT_API_CALL* KernelContext_GetInputCount)(const OrtKernelContext* context, size_t* out);
  OrtStatus* (ORT_API_CALL* KernelContext_GetOutputCount)(const OrtKernelContext* context, size_t* out);

  /* An input, borrowed for this call of Compute; NULL without an error for an optional input that was
     omitted. */
  OrtStatus* (ORT_API_CALL* KernelContext_GetInput)(const OrtKernelContext* context, size_t index,
                                                    const OrtValue** out);

  /* Allocates output `index` with this shape (or takes the buffer planned or bound for it) and lends it for
     this call of Compute; NULL without an error when nobody uses that optional output. Ask for each output
     once; the memory is not initialised. */
  OrtStatus* (ORT_API_CALL* KernelContext_GetOutput)(OrtKernelContext* context, size_t index,
                                                     const int64_t* dim_values, size_t dim_count,
                                                     OrtValue** out);

  /* Gives up one reference; the last one ends the environment. Sessions must be released before. */
  void (ORT_API_CALL* ReleaseEnv)(OrtEnv* input);

  /* Free what Create... gave; NULL does nothing. */
  void (ORT_API_CALL* ReleaseStatus)(OrtStatus* input);
  void (ORT_API_CALL* ReleaseMemoryInfo)(OrtMemoryInfo* input);

  /* Frees a session; no call of Run may be in it. Values that Run returned are not part of it. */
  void (ORT_API_CALL* ReleaseSession)(OrtSession* input);

  /* Free what the caller owns; NULL does nothing. Never for something borrowed. */
  void (ORT_API_CALL* ReleaseValue)(OrtValue* input);
  void (ORT_API_CALL* ReleaseRunOptions)(OrtRunOptions* input);
  void (ORT_API_CALL* ReleaseTypeInfo)(OrtTypeInfo* input);
  void (ORT_API_CALL* ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo* input);
  void (ORT_API_CALL* ReleaseSessionOptions)(OrtSessionOptions* input);
  void (ORT_API_CALL* ReleaseCustomOpDomain)(OrtCustomOpDomain* input);

  /* The type's denotation and its length, borrowed from type_info; "" when there is none. */
  OrtStatus* (ORT_API_CALL* GetDenotationFromTypeInfo)(const OrtTypeInfo* type_info,
                                                       const char** const denotation, size_t* len);

  /* The map or sequence part, borrowed from type_info; NULL without an error when it is none. */
  OrtStatus* (ORT_API_CALL* CastTypeInfoToMapTypeInfo)(const OrtTypeInfo* type_info,
                                                       const OrtMapTypeInfo** out);
  OrtStatus* (ORT_API_CALL* CastTypeInfoToSequenceTypeInfo)(const OrtTypeInfo* type_info,
                                                            const OrtSequenceTypeInfo** out);

  /* What a map or sequence holds. A type info is new; the caller releases it. */
  OrtStatus* (ORT_API_CALL* GetMapKeyType)(const OrtMapTypeInfo* map_type_info,
                                           enum ONNXTensorElementDataType* out);
  OrtStatus* (ORT_API_CALL* GetMapValueType)(const OrtMapTypeInfo* map_type_info, OrtTypeInfo** type_info);
  OrtStatus* (ORT_API_CALL* GetSequenceElementType)(const OrtSequenceTypeInfo* sequence_type_info,
                                                    OrtTypeInfo** type_info);

  /* Only for objects that the caller owns, never for the result of a cast. */
  void (ORT_API_CALL* ReleaseMapTypeInfo)(OrtMapTypeInfo* input);
  void (ORT_API_CALL* ReleaseSequenceTypeInfo)(OrtSequenceTypeInfo* input);

  /* Ends profiling and gives the file's name, allocated with `allocator`; "" when none was written. */
  OrtStatus* (ORT_API_CALL* SessionEndProfiling)(OrtSession* session, OrtAllocator* allocator, char** out);

  /* The model's metadata, as a new object that the caller releases. */
  OrtStatus* (ORT_API_CALL* SessionGetModelMetadata)(const OrtSession* session, OrtModelMetadata** out);

  /* Text of the metadata, allocated with `allocator`; "" when the model has none. */
  OrtStatus* (ORT_API_CALL* ModelMetadataGetProducerName)(const OrtModelMetadata* model_metadata,
                                                          OrtAllocator* allocator, char** value);
  OrtStatus* (ORT_API_CALL* ModelMetadataGetGraphName)(const OrtModelMetadata* model_metadata,
                                                       OrtAllocator* allocator, char** value);
  OrtStatus* (ORT_API_CALL* ModelMetadataGetDomain)(const OrtModelMetadata* model_metadata,
                                                    OrtAllocator* allocator, char** value);
  OrtStatus* (ORT_API_CALL* ModelMetadataGetDescription)(const OrtModelMetadata* model_metadata,
                                                         OrtAllocator* allocator, char** value);

  /* The text under a key, allocated with `allocator`; NULL without an error when there is no such key. */
  OrtStatus* (ORT_API_CALL* ModelMetadataLookupCustomMetadataMap)(const OrtModelMetadata* model_metadata,
                                                                  OrtAllocator* allocator, const char* key,
                                                                  char** value);

  /* The model's own version number. */
  OrtStatus* (ORT_API_CALL* ModelMetadataGetVersion)(const OrtModelMetadata* model_metadata, int64_t* value);

  /* NULL does nothing. */
  void (ORT_API_CALL* ReleaseModelMetadata)(OrtModelMetadata* input);

  /* CreateEnv with thread pools that sessions share when they call DisablePerSessionThreads. tp_options is
     copied. */
  OrtStatus* (ORT_API_CALL* CreateEnvWithGlobalThreadPools)(OrtLoggingLevel log_severity_level,
      const char* logid, const OrtThreadingOptions* tp_options, OrtEnv** out);

  /* Use the environment's thread pools. The environment must have been created with them. */
  OrtStatus* (ORT_API_CALL* DisablePerSessionThreads)(OrtSessionOptions* options);

  /* Options of those pools; the SetGlobal... functions fill them. */
  OrtStatus* (ORT_API_CALL* CreateThreadingOptions)(OrtThreadingOptions** out);
  void (ORT_API_CALL* ReleaseThreadingOptions)(OrtThreadingOptions* input);

  /* All keys. The array and each string are allocated with `allocator`; NULL and 0 when there are none. */
  OrtStatus* (ORT_API_CALL* ModelMetadataGetCustomMetadataMapKeys)(const OrtModelMetadata* model_metadata,
                                                                   OrtAllocator* allocator, char*** keys,
                                                                   int64_t* num_keys);

  /* Fixes the dimension of this name to a value. */
  OrtStatus* (ORT_API_CALL* AddFreeDimensionOverrideByName)(OrtSessionOptions* options, const char* dim_name,
                                                            int64_t dim_value);

  /* Names of the EPs built into the host. Free the list with the second, which gets the same count. */
  OrtStatus* (ORT_API_CALL* GetAvailableProviders)(char*** out_ptr, int* provider_length);
  OrtStatus* (ORT_API_CALL* ReleaseAvailableProviders)(char** ptr, int providers_length);

  /* One string's length in bytes, and a copy of it without a terminator into s, which has room for s_len
     bytes. */
  OrtStatus* (ORT_API_CALL* GetStringTensorElementLength)(const OrtValue* value, size_t index, size_t* out);
  OrtStatus* (ORT_API_CALL* GetStringTensorElement)(const OrtValue* value, size_t s_len, size_t index,
                                                    void* s);

  /* Copies one zero-terminated string into a string tensor. */
  OrtStatus* (ORT_API_CALL* FillStringTensorElement)(OrtValue* value, const char* s, size_t index);

  /* Sets an option by name (config_keys.h); both strings are copied, an earlier value is replaced. */
  OrtStatus* (ORT_API_CALL* AddSessionConfigEntry)(OrtSessionOptions* options, const char* config_key,
                                                   const char* config_value);

  /* The session's allocator for a memory; the caller releases it, before the session. ReleaseAllocator also
     takes what KernelContext_GetAllocator and KernelInfoGetAllocator gave. */
  OrtStatus* (ORT_API_CALL* CreateAllocator)(const OrtSession* session, const OrtMemoryInfo* mem_info,
                                             OrtAllocator** out);
  void (ORT_API_CALL* ReleaseAllocator)(OrtAllocator* input);

  /* Run with inputs and outputs taken from a binding; run_options may be NULL. */
  OrtStatus* (ORT_API_CALL* RunWithBinding)(OrtSession* session, const OrtRunOptions* run_options,
                                            const OrtIoBinding* binding_ptr);

  /* A binding of one session, which must outlive it. One thread at a time. */
  OrtStatus* (ORT_API_CALL* CreateIoBinding)(OrtSession* session, OrtIoBinding** out);
  void (ORT_API_CALL* ReleaseIoBinding)(OrtIoBinding* input);

  /* Uses val_ptr for an input; replaces what was bound. The binding keeps the value's buffer alive, and
     copies it to the input's device when it is elsewhere. */
  OrtStatus* (ORT_API_CALL* BindInput)(OrtIoBinding* binding_ptr, const char* name, const OrtValue* val_ptr);

  /* Uses a preallocated value for an output, or lets the run allocate it in a memory. */
  OrtStatus* (ORT_API_CALL* BindOutput)(OrtIoBinding* binding_ptr, const char* name, const OrtValue* val_ptr);
  OrtStatus* (ORT_API_CALL* BindOutputToDevice)(OrtIoBinding* binding_ptr, const char* name,
                                                const OrtMemoryInfo* mem_info_ptr);

  /* Names in the order bound: one buffer without terminators, and each name's length. Both arrays are
     allocated with `allocator`; NULL and 0 when nothing is bound. */
  OrtStatus* (ORT_API_CALL* GetBoundOutputNames)(const OrtIoBinding* binding_ptr, OrtAllocator* allocator,
                                                 char** buffer, size_t** lengths, size_t* count);

  /* Values in the order bound. The caller releases each and frees the array with `allocator`; NULL and 0 when
     nothing is bound. */
  OrtStatus* (ORT_API_CALL* GetBoundOutputValues)(const OrtIoBinding* binding_ptr, OrtAllocator* allocator,
                                                  OrtValue*** output, size_t* output_count);

  /* Forget what was bound. */
  void (ORT_API_CALL* ClearBoundInputs)(OrtIoBinding* binding_ptr);
  void (ORT_API_CALL* ClearBoundOutputs)(OrtIoBinding* binding_ptr);

  /* Address of the element at the given coordinates. Not for strings; the tensor must be in host memory to
     use it. */
  OrtStatus* (ORT_API_CALL* TensorAt)(OrtValue* value, const int64_t* location_values,
                                      size_t location_values_count, void** out);

  /* Adds an allocator to the environment for sessions that ask for shared ones; arena_cfg may be NULL for
     defaults. */
  OrtStatus* (ORT_API_CALL* CreateAndRegisterAllocator)(OrtEnv* env, const OrtMemoryInfo* mem_info,
                                                        const OrtArenaCfg* arena_cfg);

  /* Tells telemetry which language the application uses. */
  OrtStatus* (ORT_API_CALL* SetLanguageProjection)(const OrtEnv* ort_env, OrtLanguageProjection projection);

  /* When profiling began, in nanoseconds of the host's clock. */
  OrtStatus* (ORT_API_CALL* SessionGetProfilingStartTimeNs)(const OrtSession* session, uint64_t* out);

  /* Sizes of the shared pools (0: the host chooses) and whether idle threads spin (1) or sleep (0). */
  OrtStatus* (ORT_API_CALL* SetGlobalIntraOpNumThreads)(OrtThreadingOptions* tp_options,
                                                        int intra_op_num_threads);
  OrtStatus* (ORT_API_CALL* SetGlobalInterOpNumThreads)(OrtThreadingOptions* tp_options,
                                                        int inter_op_num_threads);
  OrtStatus* (ORT_API_CALL* SetGlobalSpinControl)(OrtThreadingOptions* tp_options, int allow_spinning);

  /* Replaces an initialiser of the model. Not copied: val and its memory must outlive the sessions. */
  OrtStatus* (ORT_API_CALL* AddInitializer)(OrtSessionOptions* options, const char* name,
                                            const OrtValue* val);

  /* Both of the above in one. */
  OrtStatus* (ORT_API_CALL* CreateEnvWithCustomLoggerAndGlobalThreadPools)(
      OrtLoggingFunction logging_function, void* logger_param, OrtLoggingLevel log_severity_level,
      const char* logid, const struct OrtThreadingOptions* tp_options, OrtEnv** out);

  /* EPs that are compiled into onnxruntime, with their option structs. Not for plugins; an error in a host
     that lacks that EP. */
  OrtStatus* (ORT_API_CALL* SessionOptionsAppendExecutionProvider_CUDA)(OrtSessionOptions* options,
      const OrtCUDAProviderOptions* cuda_options);
  OrtStatus* (ORT_API_CALL* SessionOptionsAppendExecutionProvider_ROCM)(OrtSessionOptions* options,
      const OrtROCMProviderOptions* rocm_options);
  OrtStatus* (ORT_API_CALL* SessionOptionsAppendExecutionProvider_OpenVINO)(OrtSessionOptions* options,
      const OrtOpenVINOProviderOptions* provider_options);

  /* The shared pools' threads treat denormal floats as zero. */
  OrtStatus* (ORT_API_CALL* SetGlobalDenormalAsZero)(OrtThreadingOptions* tp_options);

  /* How an arena grows: limit in bytes (0: none), strategy (0 doubles, 1 takes what is asked, -1 default),
     first chunk and waste per chunk in bytes (-1 default). CreateArenaCfgV2 takes names. */
  OrtStatus* (ORT_API_CALL* CreateArenaCfg)(size_t max_mem, int arena_extend_strategy,
                                            int initial_chunk_size_bytes, int max_dead_bytes_per_chunk,
                                            OrtArenaCfg** out);
  void (ORT_API_CALL* ReleaseArenaCfg)(OrtArenaCfg* input);

  /* Text, allocated with `allocator`. */
  OrtStatus* (ORT_API_CALL* ModelMetadataGetGraphDescription)(const OrtModelMetadata* model_metadata,
                                                              OrtAllocator* allocator, char** value);

  /* A built-in EP, as above. */
  OrtStatus* (ORT_API_CALL* SessionOptionsAppendExecutionProvider_TensorRT)(OrtSessionOptions* options,
      const OrtTensorRTProviderOptions* tensorrt_options);

  /* The calling thread's GPU, for built-in GPU EPs only. */
  OrtStatus* (ORT_API_CALL* SetCurrentGpuDeviceId)(int device_id);
  OrtStatus* (ORT_API_CALL* GetCurrentGpuDeviceId)(int* device_id);

  /* A list attribute in the two-call way: with out NULL only *size is set; with too little room, an error
     with *size set to what is needed. size counts elements. */
  OrtStatus* (ORT_API_CALL* KernelInfoGetAttributeArray_float)(const OrtKernelInfo* info, const char* name,
                                                               float* out, size_t* size);
  OrtStatus* (ORT_API_CALL* KernelInfoGetAttributeArray_int64)(const OrtKernelInfo* info, const char* name,
                                                               int64_t* out, size_t* size);

  /* The arena's settings as names and numbers: max_mem, arena_extend_strategy, initial_chunk_size_bytes,
     max_dead_bytes_per_chunk and others. Unknown names are an error. */
  OrtStatus* (ORT_API_CALL* CreateArenaCfgV2)(const char* const* arena_config_keys,
                                              const size_t* arena_config_values, size_t num_keys,
                                              OrtArenaCfg** out);

  /* Sets a run option by name (config_keys.h); both strings are copied. */
  OrtStatus* (ORT_API_CALL* AddRunConfigEntry)(OrtRunOptions* options, const char* config_key,
                                               const char* config_value);

  /* Holds packed weights that several sessions share; release it after them. */
  OrtStatus* (ORT_API_CALL* CreatePrepackedWeightsContainer)(OrtPrepackedWeightsContainer** out);
  void (ORT_API_CALL* ReleasePrepackedWeightsContainer)(OrtPrepackedWeightsContainer* input);

  /* CreateSession and CreateSessionFromArray with such a container. */
  OrtStatus* (ORT_API_CALL* CreateSessionWithPrepackedWeightsContainer)(const OrtEnv* env,
      const ORTCHAR_T* model_path, const OrtSessionOptions* options,
      OrtPrepackedWeightsContainer* prepacked_weights_container, OrtSession** out);
  OrtStatus* (ORT_API_CALL* CreateSessionFromArrayWithPrepackedWeightsContainer)(const OrtEnv* env,
      const void* model_data, size_t model_data_length, const OrtSessionOptions* options,
      OrtPrepackedWeightsContainer* prepacked_weights_container, OrtSession** out);

  /* The built-in TensorRT EP with options by name; the string is allocated with `allocator`. */
  OrtStatus* (ORT_API_CALL* SessionOptionsAppendExecutionProvider_TensorRT_V2)(OrtSessionOptions* options,
      const OrtTensorRTProviderOptionsV2* tensorrt_options);
  OrtStatus* (ORT_API_CALL* CreateTensorRTProviderOptions)(OrtTensorRTProviderOptionsV2** out);
  OrtStatus* (ORT_API_CALL* UpdateTensorRTProviderOptions)(OrtTensorRTProviderOptionsV2* tensorrt_options,
      const char* const* provider_options_keys, const char* const* provider_options_values, size_t num_keys);
  OrtStatus* (ORT_API_CALL* GetTensorRTProviderOptionsAsString)(
      const OrtTensorRTProviderOptionsV2* tensorrt_options, OrtAllocator* allocator, char** ptr);
  void (ORT_API_CALL* ReleaseTensorRTProviderOptions)(OrtTensorRTProviderOptionsV2* input);

  /* Adds the operators of onnxruntime-extensions, where the host includes them. */
  OrtStatus* (ORT_API_CALL* EnableOrtCustomOps)(OrtSessionOptions* options);

  /* Shares the caller's allocator with sessions through the environment, found by its memory info. It must
     outlive its registration; the second forgets it. */
  OrtStatus* (ORT_API_CALL* RegisterAllocator)(OrtEnv* env, OrtAllocator* allocator);
  OrtStatus* (ORT_API_CALL* UnregisterAllocator)(OrtEnv* env, const OrtMemoryInfo* mem_info);

  /* *out is 1 for a sparse tensor, else 0. */
  OrtStatus* (ORT_API_CALL* IsSparseTensor)(const OrtValue* value, int* out);

  /* An empty sparse tensor of a dense shape, memory from `allocator`; the three below give it content. */
  OrtStatus* (ORT_API_CALL* CreateSparseTensorAsOrtValue)(OrtAllocator* allocator, const int64_t* dense_shape,
                                                          size_t dense_shape_len,
                                                          ONNXTensorElementDataType type, OrtValue** out);

  /* Copy values and indices into it. data_mem_info says where `values` is; counts are in elements. */
  OrtStatus* (ORT_API_CALL* FillSparseTensorCoo)(OrtValue* ort_value, const OrtMemoryInfo* data_mem_info,
      const int64_t* values_shape, size_t values_shape_len, const void* values, const int64_t* indices_data,
      size_t indices_num);
  OrtStatus* (ORT_API_CALL* FillSparseTensorCsr)(OrtValue* ort_value, const OrtMemoryInfo* data_mem_info,
      const int64_t* values_shape, size_t values_shape_len, const void* values,
      const int64_t* inner_indices_data, size_t inner_indices_num, const int64_t* outer_indices_data,
      size_t outer_indices_num);
  OrtStatus* (ORT_API_CALL* FillSparseTensorBlockSparse)(OrtValue* ort_value,
      const OrtMemoryInfo* data_mem_info, const int64_t* values_shape, size_t values_shape_len,
      const void* values, const int64_t* indices_shape_data, size_t indices_shape_len,
      const int32_t* indices_data);

  /* A sparse tensor around the caller's values, which must outlive it; the three below attach indices. */
  OrtStatus* (ORT_API_CALL* CreateSparseTensorWithValuesAsOrtValue)(const OrtMemoryInfo* info, void* p_data,
      const int64_t* dense_shape, size_t dense_shape_len, const int64_t* values_shape,
      size_t values_shape_len, ONNXTensorElementDataType type, OrtValue** out);

  /* Attach the caller's indices without a copy; they must outlive the value. */
  OrtStatus* (ORT_API_CALL* UseCooIndices)(OrtValue* ort_value, int64_t* indices_data, size_t indices_num);
  OrtStatus* (ORT_API_CALL* UseCsrIndices)(OrtValue* ort_value, int64_t* inner_data, size_t inner_num,
                                           int64_t* outer_data, size_t outer_num);
  OrtStatus* (ORT_API_CALL* UseBlockSparseIndices)(OrtValue* ort_value, const int64_t* indices_shape,
                                                   size_t indices_shape_len, int32_t* indices_data);

  /* Format, type and shape of the stored values (a new object), and their first byte (borrowed). */
  OrtStatus* (ORT_API_CALL* GetSparseTensorFormat)(const OrtValue* ort_value, enum OrtSparseFormat* out);
  OrtStatus* (ORT_API_CALL* GetSparseTensorValuesTypeAndShape)(const OrtValue* ort_value,
                                                               OrtTensorTypeAndShapeInfo** out);
  OrtStatus* (ORT_API_CALL* GetSparseTensorValues)(const OrtValue* ort_value, const void** out);

  /* The same for one of its index arrays. */
  OrtStatus* (ORT_API_CALL* GetSparseTensorIndicesTypeShape)(const OrtValue* ort_value,
                                                             enum OrtSparseIndicesFormat indices_format,
                                                             OrtTensorTypeAndShapeInfo** out);
  OrtStatus* (ORT_API_CALL* GetSparseTensorIndices)(const OrtValue* ort_value,
                                                    enum OrtSparseIndicesFormat indices_format,
                                                    size_t* num_indices, const void** indices);

  /* *out is 0 for an empty optional value, else 1. */
  OrtStatus* (ORT_API_CALL* HasValue)(const OrtValue* value, int* out);

  /* The device's own stream handle (a cudaStream_t, say) that this call of Compute runs on; NULL when the EP
     has no stream. */
  OrtStatus* (ORT_API_CALL* KernelContext_GetGPUComputeStream)(const OrtKernelContext* context, void** out);

  /* Where the tensor is; belongs to the value. */
  OrtStatus* (ORT_API_CALL* GetTensorMemoryInfo)(const OrtValue* value, const OrtMemoryInfo** mem_info);

  /* A built-in EP's own table, where it has one; belongs to the host. */
  OrtStatus* (ORT_API_CALL* GetExecutionProviderApi)(const char* provider_name, uint32_t version,
                                                     const void** provider_api);

  /* Let the application make and join a session's threads; the options pointer goes to the create function as
     it is. Both functions or neither. */
  OrtStatus* (ORT_API_CALL* SessionOptionsSetCustomCreateThreadFn)(OrtSessionOptions* options,
      OrtCustomCreateThreadFn ort_custom_create_thread_fn);
  OrtStatus* (ORT_API_CALL* SessionOptionsSetCustomThreadCreationOptions)(OrtSessionOptions* options,
      void* ort_custom_thread_creation_options);
  OrtStatus* (ORT_API_CALL* SessionOptionsSetCustomJoinThreadFn)(OrtSessionOptions* options,
      OrtCustomJoinThreadFn ort_custom_join_thread_fn);

  /* The same for the shared pools. */
  OrtStatus* (ORT_API_CALL* SetGlobalCustomCreateThreadFn)(OrtThreadingOptions* tp_options,
      OrtCustomCreateThreadFn ort_custom_create_thread_fn);
  OrtStatus* (ORT_API_CALL* SetGlobalCustomThreadCreationOptions)(OrtThreadingOptions* tp_options,
                                                                  void* ort_custom_thread_creation_options);
  OrtStatus* (ORT_API_CALL* SetGlobalCustomJoinThreadFn)(OrtThreadingOptions* tp_options,
                                                         OrtCustomJoinThreadFn ort_custom_join_thread_fn);

  /* Wait until copies of bound inputs have arrived, or bound outputs are complete. */
  OrtStatus* (ORT_API_CALL* SynchronizeBoundInputs)(OrtIoBinding* binding_ptr);
  OrtStatus* (ORT_API_CALL* SynchronizeBoundOutputs)(OrtIoBinding* binding_ptr);

  EPHOST_SINCE(11)

  /* The built-in CUDA EP with options by name. */
  OrtStatus* (ORT_API_CALL* SessionOptionsAppendExecutionProvider_CUDA_V2)(OrtSessionOptions* options,
      const OrtCUDAProviderOptionsV2* cuda_options);
  OrtStatus* (ORT_API_CALL* CreateCUDAProviderOptions)(OrtCUDAProviderOptionsV2** out);
  OrtStatus* (ORT_API_CALL* UpdateCUDAProviderOptions)(OrtCUDAProviderOptionsV2* cuda_options,
      const char* const* provider_options_keys, const char* const* provider_options_values, size_t num_keys);
  OrtStatus* (ORT_API_CALL* GetCUDAProviderOptionsAsString)(const OrtCUDAProviderOptionsV2* cuda_options,
                                                            OrtAllocator* allocator, char** ptr);
  void (ORT_API_CALL* ReleaseCUDAProviderOptions)(OrtCUDAProviderOptionsV2* input);

  /* A built-in EP, as above. */
  OrtStatus* (ORT_API_CALL* SessionOptionsAppendExecutionProvider_MIGraphX)(OrtSessionOptions* options,
      const OrtMIGraphXProviderOptions* migraphx_options);

  EPHOST_SINCE(12)

  /* AddInitializer for several at once, for initialisers whose data is in external files. */
  OrtStatus* (ORT_API_CALL* AddExternalInitializers)(OrtSessionOptions* options,
      const char* const* initializer_names, const OrtValue* const* initializers, size_t num_initializers);

  /* A new attribute; data and name are copied. len counts elements (bytes for a single string). The caller
     releases it; NULL does nothing. */
  OrtStatus* (ORT_API_CALL* CreateOpAttr)(const char* name, const void* data, int len, OrtOpAttrType type,
                                          OrtOpAttr** op_attr);
  void (ORT_API_CALL* ReleaseOpAttr)(OrtOpAttr* input);

  /* An operator of the host, to be called from a kernel: its name, domain and version, types, attributes and
     counts. Create it when the kernel is made; release it with the kernel. */
  OrtStatus* (ORT_API_CALL* CreateOp)(const OrtKernelInfo* info, const char* op_name, const char* domain,
      int version, const char** type_constraint_names,
      const ONNXTensorElementDataType* type_constraint_values, int type_constraint_count,
      const OrtOpAttr* const* attr_values, int attr_count, int input_count, int output_count, OrtOp** ort_op);

  /* Runs such an operator on the given values inside a call of Compute; the outputs are preallocated. */
  OrtStatus* (ORT_API_CALL* InvokeOp)(const OrtKernelContext* context, const OrtOp* ort_op,
                                      const OrtValue* const* input_values, int input_count,
                                      OrtValue* const* output_values, int output_count);

  /* NULL does nothing. */
  void (ORT_API_CALL* ReleaseOp)(OrtOp* input);

  /* Adds a built-in EP by name with options by name; unknown names are an error. */
  OrtStatus* (ORT_API_CALL* SessionOptionsAppendExecutionProvider)(OrtSessionOptions* options,
      const char* provider_name, const char* const* provider_options_keys,
      const char* const* provider_options_values, size_t num_keys);

  /* A copy of a kernel's info that may be kept after the kernel's creation; the caller releases it. */
  OrtStatus* (ORT_API_CALL* CopyKernelInfo)(const OrtKernelInfo* info, OrtKernelInfo** info_copy);
  void (ORT_API_CALL* ReleaseKernelInfo)(OrtKernelInfo* input);

  EPHOST_SINCE(13)

  /* Table of the training functions; NULL in a host without them. */
  const OrtTrainingApi* (ORT_API_CALL* GetTrainingApi)(uint32_t version);

  /* The built-in CANN EP with options by name. */
  OrtStatus* (ORT_API_CALL* SessionOptionsAppendExecutionProvider_CANN)(OrtSessionOptions* options,
      const OrtCANNProviderOptions* cann_options);
  OrtStatus* (ORT_API_CALL* CreateCANNProviderOptions)(OrtCANNProviderOptions** out);
  OrtStatus* (ORT_API_CALL* UpdateCANNProviderOptions)(OrtCANNProviderOptions* cann_options,
      const char* const* provider_options_keys, const char* const* provider_options_values, size_t num_keys);
  OrtStatus* (ORT_API_CALL* GetCANNProviderOptionsAsString)(const OrtCANNProviderOptions* cann_options,
                                                            OrtAllocator* allocator, char** ptr);
  void (ORT_API_CALL* ReleaseCANNProviderOptions)(OrtCANNProviderOptions* input);

  EPHOST_SINCE(14)

  /* CPU, GPU, FPGA or NPU. */
  void (ORT_API_CALL* MemoryInfoGetDeviceType)(const OrtMemoryInfo* ptr, OrtMemoryInfoDeviceType* out);

  /* Changes the environment's least severity. */
  OrtStatus* (ORT_API_CALL* UpdateEnvWithCustomLogLevel)(OrtEnv* ort_env, OrtLoggingLevel log_severity_level);

  /* Which processors the shared pool's threads run on, in the format of session.intra_op_thread_affinities.
     */
  OrtStatus* (ORT_API_CALL* SetGlobalIntraOpThreadAffinity)(OrtThreadingOptions* tp_options,
                                                            const char* affinity_string);

  /* Loads a library of custom operators; the session options and sessions keep it loaded. */
  OrtStatus* (ORT_API_CALL* RegisterCustomOpsLibrary_V2)(OrtSessionOptions* options,
                                                         const ORTCHAR_T* library_name);

  /* Calls a RegisterCustomOps function that is already in the process, found by its symbol name. */
  OrtStatus* (ORT_API_CALL* RegisterCustomOpsUsingFunction)(OrtSessionOptions* options,
                                                            const char* registration_func_name);

  /* How many inputs and outputs the node has, omitted optional ones included. */
  OrtStatus* (ORT_API_CALL* KernelInfo_GetInputCount)(const OrtKernelInfo* info, size_t* out);
  OrtStatus* (ORT_API_CALL* KernelInfo_GetOutputCount)(const OrtKernelInfo* info, size_t* out);

  /* The value's name in the two-call way; "" for one omitted. */
  OrtStatus* (ORT_API_CALL* KernelInfo_GetInputName)(const OrtKernelInfo* info, size_t index, char* out,
                                                     size_t* size);
  OrtStatus* (ORT_API_CALL* KernelInfo_GetOutputName)(const OrtKernelInfo* info, size_t index, char* out,
                                                      size_t* size);

  /* What is known about its type before running, as a new object that the caller releases. */
  OrtStatus* (ORT_API_CALL* KernelInfo_GetInputTypeInfo)(const OrtKernelInfo* info, size_t index,
                                                         OrtTypeInfo** type_info);
  OrtStatus* (ORT_API_CALL* KernelInfo_GetOutputTypeInfo)(const OrtKernelInfo* info, size_t index,
                                                          OrtTypeInfo** type_info);

  /* A tensor attribute, copied into memory of `allocator`; the caller releases the value. */
  OrtStatus* (ORT_API_CALL* KernelInfoGetAttribute_tensor)(const OrtKernelInfo* info, const char* name,
                                                           OrtAllocator* allocator, OrtValue** out);

  /* Whether an option was set (1 or 0), and its text in the two-call way; an error when it was not set. */
  OrtStatus* (ORT_API_CALL* HasSessionConfigEntry)(const OrtSessionOptions* options, const char* config_key,
                                                   int* out);
  OrtStatus* (ORT_API_CALL* GetSessionConfigEntry)(const OrtSessionOptions* options, const char* config_key,
                                                   char* config_value, size_t* size);

  EPHOST_SINCE(15)

  /* The built-in oneDNN EP with options by name. */
  OrtStatus* (ORT_API_CALL* SessionOptionsAppendExecutionProvider_Dnnl)(OrtSessionOptions* options,
      const OrtDnnlProviderOptions* dnnl_options);
  OrtStatus* (ORT_API_CALL* CreateDnnlProviderOptions)(OrtDnnlProviderOptions** out);
  OrtStatus* (ORT_API_CALL* UpdateDnnlProviderOptions)(OrtDnnlProviderOptions* dnnl_options,
      const char* const* provider_options_keys, const char* const* provider_options_values, size_t num_keys);
  OrtStatus* (ORT_API_CALL* GetDnnlProviderOptionsAsString)(const OrtDnnlProviderOptions* dnnl_options,
                                                            OrtAllocator* allocator, char** ptr);
  void (ORT_API_CALL* ReleaseDnnlProviderOptions)(OrtDnnlProviderOptions* input);

  /* The node's name in the two-call way. */
  OrtStatus* (ORT_API_CALL* KernelInfo_GetNodeName)(const OrtKernelInfo* info, char* out, size_t* size);

  /* The session's or the run's logger; borrowed from the argument. */
  OrtStatus* (ORT_API_CALL* KernelInfo_GetLogger)(const OrtKernelInfo* info, const OrtLogger** logger);
  OrtStatus* (ORT_API_CALL* KernelContext_GetLogger)(const OrtKernelContext* context,
                                                     const OrtLogger** logger);

  /* Writes one line (copied) with the place it comes from. Any thread. */
  OrtStatus* (ORT_API_CALL* Logger_LogMessage)(const OrtLogger* logger, OrtLoggingLevel log_severity_level,
                                               const char* message, const ORTCHAR_T* file_path,
                                               int line_number, const char* func_name);

  /* The least severity that is written; ask before building costly text. */
  OrtStatus* (ORT_API_CALL* Logger_GetLoggingSeverityLevel)(const OrtLogger* logger, OrtLoggingLevel* out);

  /* Whether an input never changes (1 or 0) and, if so, its value, borrowed for as long as the kernel lives.
     */
  OrtStatus* (ORT_API_CALL* KernelInfoGetConstantInput_tensor)(const OrtKernelInfo* info, size_t index,
                                                               int* is_constant, const OrtValue** out);

  /* The optional part, borrowed from type_info; NULL without an error when it is none. */
  OrtStatus* (ORT_API_CALL* CastTypeInfoToOptionalTypeInfo)(const OrtTypeInfo* type_info,
                                                            const OrtOptionalTypeInfo** out);

  /* What an optional holds, as a new object that the caller releases. */
  OrtStatus* (ORT_API_CALL* GetOptionalContainedTypeInfo)(const OrtOptionalTypeInfo* optional_type_info,
                                                          OrtTypeInfo** out);

  /* Makes room for a string of this length in a string tensor and lends the buffer to write it. */
  OrtStatus* (ORT_API_CALL* GetResizedStringTensorElementBuffer)(OrtValue* value, size_t index,
                                                                 size_t length_in_bytes, char** buffer);

  /* An allocator for a memory of the kernel's EP; release it with ReleaseAllocator before Compute returns. */
  OrtStatus* (ORT_API_CALL* KernelContext_GetAllocator)(const OrtKernelContext* context,
                                                        const OrtMemoryInfo* mem_info, OrtAllocator** out);

  /* How the host was built; static. */
  const char* (ORT_API_CALL* GetBuildInfoString)(void);

  EPHOST_SINCE(16)

  /* Options of the built-in ROCm EP by name. */
  OrtStatus* (ORT_API_CALL* CreateROCMProviderOptions)(OrtROCMProviderOptions** out);
  OrtStatus* (ORT_API_CALL* UpdateROCMProviderOptions)(OrtROCMProviderOptions* rocm_options,
      const char* const* provider_options_keys, const char* const* provider_options_values, size_t num_keys);
  OrtStatus* (ORT_API_CALL* GetROCMProviderOptionsAsString)(const OrtROCMProviderOptions* rocm_options,
                                                            OrtAllocator* allocator, char** ptr);
  void (ORT_API_CALL* ReleaseROCMProviderOptions)(OrtROCMProviderOptions* input);

  /* CreateAndRegisterAllocator for a built-in EP's memory, with that EP's options. */
  OrtStatus* (ORT_API_CALL* CreateAndRegisterAllocatorV2)(OrtEnv* env, const char* provider_type,
      const OrtMemoryInfo* mem_info, const OrtArenaCfg* arena_cfg, const char* const* provider_options_keys,
      const char* const* provider_options_values, size_t num_keys);

  /* Run on a thread of the session's pool: returns at once, later calls run_async_callback from that thread.
     All arrays and values must stay valid until then. */
  OrtStatus* (ORT_API_CALL* RunAsync)(OrtSession* session, const OrtRunOptions* run_options,
      const char* const* input_names, const OrtValue* const* input, size_t input_len,
      const char* const* output_names, size_t output_names_len, OrtValue** output,
      RunAsyncCallbackFn run_async_callback, void* user_data);

  /* Options of built-in EPs that are pointers (a stream, say); borrowed both ways. */
  OrtStatus* (ORT_API_CALL* UpdateTensorRTProviderOptionsWithValue)(
      OrtTensorRTProviderOptionsV2* tensorrt_options, const char* key, void* value);
  OrtStatus* (ORT_API_CALL* GetTensorRTProviderOptionsByName)(
      const OrtTensorRTProviderOptionsV2* tensorrt_options, const char* key, void** ptr);
  OrtStatus* (ORT_API_CALL* UpdateCUDAProviderOptionsWithValue)(OrtCUDAProviderOptionsV2* cuda_options,
                                                                const char* key, void* value);
  OrtStatus* (ORT_API_CALL* GetCUDAProviderOptionsByName)(const OrtCUDAProviderOptionsV2* cuda_options,
                                                          const char* key, void** ptr);

  /* A built-in EP's resource (stream, library handle, ...) by version and number; an error where there is
     none. */
  OrtStatus* (ORT_API_CALL* KernelContext_GetResource)(const OrtKernelContext* context, int resource_version,
                                                       int resource_id, void** resource);

  EPHOST_SINCE(17)

  /* Sends the sessions' log lines to a function, which any thread may call while a session lives. */
  OrtStatus* (ORT_API_CALL* SetUserLoggingFunction)(OrtSessionOptions* options,
                                                    OrtLoggingFunction user_logging_function,
                                                    void* user_logging_param);

  /* What a custom operator's shape inference may ask; results are borrowed for the call. */
  OrtStatus* (ORT_API_CALL* ShapeInferContext_GetInputCount)(const OrtShapeInferContext* context,
                                                             size_t* out);
  OrtStatus* (ORT_API_CALL* ShapeInferContext_GetInputTypeShape)(const OrtShapeInferContext* context,
                                                                 size_t index,
                                                                 OrtTensorTypeAndShapeInfo** info);
  OrtStatus* (ORT_API_CALL* ShapeInferContext_GetAttribute)(const OrtShapeInferContext* context,
                                                            const char* attr_name, const OrtOpAttr** attr);

  /* What it answers for one output; info is copied. */
  OrtStatus* (ORT_API_CALL* ShapeInferContext_SetOutputTypeShape)(const OrtShapeInferContext* context,
                                                                  size_t index,
                                                                  const OrtTensorTypeAndShapeInfo* info);

  /* Names for the dimensions ("" for none); copied. */
  OrtStatus* (ORT_API_CALL* SetSymbolicDimensions)(OrtTensorTypeAndShapeInfo* info, const char* dim_params[],
                                                   size_t dim_params_length);

  /* Copies an attribute into data, which has room for len bytes; *out is the number of bytes needed, also
     when that is an error for lack of room. A string has no terminator; in a list of strings each one does.
     */
  OrtStatus* (ORT_API_CALL* ReadOpAttr)(const OrtOpAttr* op_attr, OrtOpAttrType type, void* data, size_t len,
                                        size_t* out);

  /* Only deterministic kernels, where the EP has a choice. */
  OrtStatus* (ORT_API_CALL* SetDeterministicCompute)(OrtSessionOptions* options, bool value);

  /* Calls fn(usr_data, i) for each i below total, on the session's threads and the calling one, and returns
     when all are done. num_batch splits the range; 0 lets the host choose. fn must not throw. */
  OrtStatus* (ORT_API_CALL* KernelContext_ParallelFor)(const OrtKernelContext* context,
                                                       void (*fn)(void*, size_t), size_t total,
                                                       size_t num_batch, void* usr_data);

  /* The built-in OpenVINO EP with options by name. */
  OrtStatus* (ORT_API_CALL* SessionOptionsAppendExecutionProvider_OpenVINO_V2)(OrtSessionOptions* options,
      const char* const* provider_options_keys, const char* const* provider_options_values, size_t num_keys);

  EPHOST_SINCE(18)

  /* The built-in Vitis AI EP with options by name. */
  OrtStatus* (ORT_API_CALL* SessionOptionsAppendExecutionProvider_VitisAI)(OrtSessionOptions* options,
      const char* const* provider_options_keys, const char* const* provider_options_values, size_t num_keys);

  /* Memory of the kernel's EP; the kernel frees it with that memory's allocator. */
  OrtStatus* (ORT_API_CALL* KernelContext_GetScratchBuffer)(const OrtKernelContext* context,
                                                            const OrtMemoryInfo* mem_info,
                                                            size_t count_or_bytes, void** out);

  /* The allocator of the kernel's EP for a use of memory; the caller releases it with ReleaseAllocator. */
  OrtStatus* (ORT_API_CALL* KernelInfoGetAllocator)(const OrtKernelInfo* info, OrtMemType mem_type,
                                                    OrtAllocator** out);

  /* Contents of external data files by file name, instead of reading them. Not copied: valid until the
     session is made. */
  OrtStatus* (ORT_API_CALL* AddExternalInitializersFromFilesInMemory)(OrtSessionOptions* options,
      const ORTCHAR_T* const* external_initializer_file_names,
      char* const* external_initializer_file_buffer_array, const size_t* external_initializer_file_lengths,
      size_t num_external_initializer_files);

  EPHOST_SINCE(20)

  /* Adapter weights from a file or bytes, copied to the allocator's device unless it is NULL, and their use
     in runs. The adapter must outlive those runs. */
  OrtStatus* (ORT_API_CALL* CreateLoraAdapter)(const ORTCHAR_T* adapter_file_path, OrtAllocator* allocator,
                                               OrtLoraAdapter** out);
  OrtStatus* (ORT_API_CALL* CreateLoraAdapterFromArray)(const void* bytes, size_t num_bytes,
                                                        OrtAllocator* allocator, OrtLoraAdapter** out);
  void (ORT_API_CALL* ReleaseLoraAdapter)(OrtLoraAdapter* input);
  OrtStatus* (ORT_API_CALL* RunOptionsAddActiveLoraAdapter)(OrtRunOptions* options,
                                                            const OrtLoraAdapter* adapter);

  /* Changes options of a session's EPs while it lives, "ep.dynamic.workload_type" say; reaches
     OrtEp::SetDynamicOptions. */
  OrtStatus* (ORT_API_CALL* SetEpDynamicOptions)(OrtSession* sess, const char* const* keys,
                                                 const char* const* values, size_t kv_len);

  EPHOST_SINCE(22)

  /* Free what OrtModelEditorApi or Graph_GetGraphView made and nobody took over; NULL does nothing. */
  void (ORT_API_CALL* ReleaseValueInfo)(OrtValueInfo* input);
  void (ORT_API_CALL* ReleaseNode)(OrtNode* input);
  void (ORT_API_CALL* ReleaseGraph)(OrtGraph* input);
  void (ORT_API_CALL* ReleaseModel)(OrtModel* input);

  /* Borrowed from value_info. The type is NULL when unknown. */
  OrtStatus* (ORT_API_CALL* GetValueInfoName)(const OrtValueInfo* value_info, const char** name);
  OrtStatus* (ORT_API_CALL* GetValueInfoTypeInfo)(const OrtValueInfo* value_info,
                                                  const OrtTypeInfo** type_info);

  /* Functions that build a model; static. NULL in a host without them. */
  const OrtModelEditorApi* (ORT_API_CALL* GetModelEditorApi)(void);

  /* CreateTensorWithDataAsOrtValue that hands the memory over: deleter->Free(p_data) when the value goes. The
     deleter must outlive the value, and says where the memory is. */
  OrtStatus* (ORT_API_CALL* CreateTensorWithDataAndDeleterAsOrtValue)(OrtAllocator* deleter, void* p_data,
      size_t p_data_len, const int64_t* shape, size_t shape_len, ONNXTensorElementDataType type,
      OrtValue** out);

  /* Asks session creations with these options to stop with ORT_MODEL_LOAD_CANCELED; may be called from
     another thread. */
  OrtStatus* (ORT_API_CALL* SessionOptionsSetLoadCancellationFlag)(OrtSessionOptions* options, bool cancel);

  /* Functions that compile a model ahead of time; static. NULL in a host without them. */
  const OrtCompileApi* (ORT_API_CALL* GetCompileApi)(void);

  /* A new empty list. */
  void (ORT_API_CALL* CreateKeyValuePairs)(OrtKeyValuePairs** out);

  /* Adds or replaces; both strings are copied. An empty or NULL key is ignored. */
  void (ORT_API_CALL* AddKeyValuePair)(OrtKeyValuePairs* kvps, const char* key, const char* value);

  /* The value under a key, borrowed until the list changes; NULL when there is none. */
  const char* (ORT_API_CALL* GetKeyValue)(const OrtKeyValuePairs* kvps, const char* key);

  /* All keys and values, borrowed until the list changes. */
  void (ORT_API_CALL* GetKeyValuePairs)(const OrtKeyValuePairs* kvps, const char* const** keys,
                                        const char* const** values, size_t* num_entries);

  /* Does nothing when there is no such key. */
  void (ORT_API_CALL* RemoveKeyValuePair)(OrtKeyValuePairs* kvps, const char* key);

  /* NULL does nothing. */
  void (ORT_API_CALL* ReleaseKeyValuePairs)(OrtKeyValuePairs* input);

  /* Loads a plugin library and creates its factories; their devices appear in GetEpDevices. An error undoes
     everything. */
  OrtStatus* (ORT_API_CALL* RegisterExecutionProviderLibrary)(OrtEnv* env, const char* registration_name,
                                                              const ORTCHAR_T* path);

  /* Releases its factories and closes it. No session may still use it. */
  OrtStatus* (ORT_API_CALL* UnregisterExecutionProviderLibrary)(OrtEnv* env, const char* registration_name);

  /* All EP devices, an array borrowed from the environment until a library is registered or unregistered. */
  OrtStatus* (ORT_API_CALL* GetEpDevices)(const OrtEnv* env, const OrtEpDevice* const** ep_devices,
                                          size_t* num_ep_devices);

  /* Uses one EP on the given devices (all of that EP) with these options; the first EP added asks first.
     Devices are borrowed and must outlive the session. */
  OrtStatus* (ORT_API_CALL* SessionOptionsAppendExecutionProvider_V2)(OrtSessionOptions* session_options,
      OrtEnv* env, const OrtEpDevice* const* ep_devices, size_t num_ep_devices,
      const char* const* ep_option_keys, const char* const* ep_option_vals, size_t num_ep_options);

  /* Lets a rule or a function choose among the devices when the session is made; explicit devices win over
     both. */
  OrtStatus* (ORT_API_CALL* SessionOptionsSetEpSelectionPolicy)(OrtSessionOptions* session_options,
                                                                OrtExecutionProviderDevicePolicy policy);
  OrtStatus* (ORT_API_CALL* SessionOptionsSetEpSelectionPolicyDelegate)(OrtSessionOptions* session_options,
                                                                        EpSelectionDelegate delegate,
                                                                        void* delegate_state);

  /* What a device is: PCI vendor and device numbers where it has them (the device number names the model, not
     the unit), the vendor's name, and more as pairs. All borrowed, never NULL. */
  OrtHardwareDeviceType (ORT_API_CALL* HardwareDevice_Type)(const OrtHardwareDevice* device);
  uint32_t (ORT_API_CALL* HardwareDevice_VendorId)(const OrtHardwareDevice* device);
  const char* (ORT_API_CALL* HardwareDevice_Vendor)(const OrtHardwareDevice* device);
  uint32_t (ORT_API_CALL* HardwareDevice_DeviceId)(const OrtHardwareDevice* device);
  const OrtKeyValuePairs* (ORT_API_CALL* HardwareDevice_Metadata)(const OrtHardwareDevice* device);

  /* An EP on a hardware device: names, facts the factory gave, default options, and the device. All borrowed,
     never NULL. */
  const char* (ORT_API_CALL* EpDevice_EpName)(const OrtEpDevice* ep_device);
  const char* (ORT_API_CALL* EpDevice_EpVendor)(const OrtEpDevice* ep_device);
  const OrtKeyValuePairs* (ORT_API_CALL* EpDevice_EpMetadata)(const OrtEpDevice* ep_device);
  const OrtKeyValuePairs* (ORT_API_CALL* EpDevice_EpOptions)(const OrtEpDevice* ep_device);
  const OrtHardwareDevice* (ORT_API_CALL* EpDevice_Device)(const OrtEpDevice* ep_device);

  /* Functions for plugins; static. */
  const OrtEpApi* (ORT_API_CALL* GetEpApi)(void);

  EPHOST_SINCE(23)

  /* Bytes of its elements. Not for strings. */
  OrtStatus* (ORT_API_CALL* GetTensorSizeInBytes)(const OrtValue* ort_value, size_t* size);

  /* An allocator's statistics by name, as a new object; an error when it keeps none. */
  OrtStatus* (ORT_API_CALL* AllocatorGetStats)(const OrtAllocator* ort_allocator, OrtKeyValuePairs** out);

  /* Says where memory is, for any device: name (copied), vendor and device numbers, normal or
     host-accessible, alignment in bytes (0 for the default), and kind of allocator. The caller releases it.
     */
  OrtStatus* (ORT_API_CALL* CreateMemoryInfo_V2)(const char* name, enum OrtMemoryInfoDeviceType device_type,
      uint32_t vendor_id, int32_t device_id, enum OrtDeviceMemoryType mem_type, size_t alignment,
      enum OrtAllocatorType allocator_type, OrtMemoryInfo** out);

  /* What was given to CreateMemoryInfo_V2. */
  OrtDeviceMemoryType (ORT_API_CALL* MemoryInfoGetDeviceMemType)(const OrtMemoryInfo* ptr);
  uint32_t (ORT_API_CALL* MemoryInfoGetVendorId)(const OrtMemoryInfo* ptr);

  /* The node that computes the value and which of its outputs it is; NULL without an error for a graph input
     or an initialiser. The index pointer may be NULL. */
  OrtStatus* (ORT_API_CALL* ValueInfo_GetValueProducer)(const OrtValueInfo* value_info,
                                                        const OrtNode** producer_node,
                                                        size_t* producer_output_index);

  /* Uses of a value inside its graph, one entry for each: node and input index, -1 where a subgraph of that
     node uses it. The arrays are the caller's, with room for num_consumers. */
  OrtStatus* (ORT_API_CALL* ValueInfo_GetValueNumConsumers)(const OrtValueInfo* value_info,
                                                            size_t* num_consumers);
  OrtStatus* (ORT_API_CALL* ValueInfo_GetValueConsumers)(const OrtValueInfo* value_info,
                                                         const OrtNode** nodes, int64_t* input_indices,
                                                         size_t num_consumers);

  /* The initialiser's value, borrowed from the graph and loaded from its file if need be; NULL without an
     error when the value is no initialiser. */
  OrtStatus* (ORT_API_CALL* ValueInfo_GetInitializerValue)(const OrtValueInfo* value_info,
                                                           const OrtValue** initializer_value);

  /* File, offset and size when the initialiser's data is in a file, as a new object that the caller releases;
     NULL without an error otherwise. */
  OrtStatus* (ORT_API_CALL* ValueInfo_GetExternalInitializerInfo)(const OrtValueInfo* value_info,
                                                                  OrtExternalInitializerInfo** info);

  /* What role a value has: an input without or with a default value, an output, an initialiser that cannot be
     fed, or one that an enclosing graph defines. */
  OrtStatus* (ORT_API_CALL* ValueInfo_IsRequiredGraphInput)(const OrtValueInfo* value_info,
                                                            bool* is_required_graph_input);
  OrtStatus* (ORT_API_CALL* ValueInfo_IsOptionalGraphInput)(const OrtValueInfo* value_info,
                                                            bool* is_optional_graph_input);
  OrtStatus* (ORT_API_CALL* ValueInfo_IsGraphOutput)(const OrtValueInfo* value_info, bool* is_graph_output);
  OrtStatus* (ORT_API_CALL* ValueInfo_IsConstantInitializer)(const OrtValueInfo* value_info,
                                                             bool* is_constant_initializer);
  OrtStatus* (ORT_API_CALL* ValueInfo_IsFromOuterScope)(const OrtValueInfo* value_info,
                                                        bool* is_from_outer_scope);

  /* Borrowed from the graph; the path is "" when the model did not come from a file. */
  OrtStatus* (ORT_API_CALL* Graph_GetName)(const OrtGraph* graph, const char** graph_name);
  OrtStatus* (ORT_API_CALL* Graph_GetModelPath)(const OrtGraph* graph, const ORTCHAR_T** model_path);

  /* The model's IR version. */
  OrtStatus* (ORT_API_CALL* Graph_GetOnnxIRVersion)(const OrtGraph* graph, int64_t* onnx_ir_version);

  /* Domains ("" is ONNX's own) and versions the model imports. Arrays are the caller's; an error when they
     are too short. */
  OrtStatus* (ORT_API_CALL* Graph_GetNumOperatorSets)(const OrtGraph* graph, size_t* num_operator_sets);
  OrtStatus* (ORT_API_CALL* Graph_GetOperatorSets)(const OrtGraph* graph, const char** domains,
                                                   int64_t* opset_versions, size_t num_operator_sets);

  /* The graph's values, borrowed, into the caller's array; an error when it is too short. Inputs include
     initialisers that the model lists as inputs. */
  OrtStatus* (ORT_API_CALL* Graph_GetNumInputs)(const OrtGraph* graph, size_t* num_inputs);
  OrtStatus* (ORT_API_CALL* Graph_GetInputs)(const OrtGraph* graph, const OrtValueInfo** inputs,
                                             size_t num_inputs);
  OrtStatus* (ORT_API_CALL* Graph_GetNumOutputs)(const OrtGraph* graph, size_t* num_outputs);
  OrtStatus* (ORT_API_CALL* Graph_GetOutputs)(const OrtGraph* graph, const OrtValueInfo** outputs,
                                              size_t num_outputs);
  OrtStatus* (ORT_API_CALL* Graph_GetNumInitializers)(const OrtGraph* graph, size_t* num_initializers);
  OrtStatus* (ORT_API_CALL* Graph_GetInitializers)(const OrtGraph* graph, const OrtValueInfo** initializers,
                                                   size_t num_initializers);

  /* Its nodes, borrowed, each after the nodes it depends on. */
  OrtStatus* (ORT_API_CALL* Graph_GetNumNodes)(const OrtGraph* graph, size_t* num_nodes);
  OrtStatus* (ORT_API_CALL* Graph_GetNodes)(const OrtGraph* graph, const OrtNode** nodes, size_t num_nodes);

  /* The node whose attribute this graph is; NULL for the main graph. */
  OrtStatus* (ORT_API_CALL* Graph_GetParentNode)(const OrtGraph* graph, const OrtNode** node);

  /* A graph of just these nodes, their inputs and outputs, without copying: release it with ReleaseGraph,
     before src_graph goes. */
  OrtStatus* (ORT_API_CALL* Graph_GetGraphView)(const OrtGraph* src_graph, const OrtNode** nodes,
                                                size_t num_nodes, OrtGraph** dst_graph);

  /* A number that tells the nodes of one graph apart. */
  OrtStatus* (ORT_API_CALL* Node_GetId)(const OrtNode* node, size_t* node_id);

  /* Borrowed from the node. The name may be ""; the domain of ONNX's own operators is "". */
  OrtStatus* (ORT_API_CALL* Node_GetName)(const OrtNode* node, const char** node_name);
  OrtStatus* (ORT_API_CALL* Node_GetOperatorType)(const OrtNode* node, const char** operator_type);
  OrtStatus* (ORT_API_CALL* Node_GetDomain)(const OrtNode* node, const char** domain_name);

  /* The opset version in which the operator got its present form. */
  OrtStatus* (ORT_API_CALL* Node_GetSinceVersion)(const OrtNode* node, int* since_version);

  /* Its values, borrowed, into the caller's array; an error when it is too short. An entry is NULL for an
     optional one that was omitted. */
  OrtStatus* (ORT_API_CALL* Node_GetNumInputs)(const OrtNode* node, size_t* num_inputs);
  OrtStatus* (ORT_API_CALL* Node_GetInputs)(const OrtNode* node, const OrtValueInfo** inputs,
                                            size_t num_inputs);
  OrtStatus* (ORT_API_CALL* Node_GetNumOutputs)(const OrtNode* node, size_t* num_outputs);
  OrtStatus* (ORT_API_CALL* Node_GetOutputs)(const OrtNode* node, const OrtValueInfo** outputs,
                                             size_t num_outputs);

  /* Values that its subgraphs take from the surrounding graphs. */
  OrtStatus* (ORT_API_CALL* Node_GetNumImplicitInputs)(const OrtNode* node, size_t* num_implicit_inputs);
  OrtStatus* (ORT_API_CALL* Node_GetImplicitInputs)(const OrtNode* node, const OrtValueInfo** implicit_inputs,
                                                    size_t num_implicit_inputs);

  /* Its attributes, borrowed, subgraphs included. */
  OrtStatus* (ORT_API_CALL* Node_GetNumAttributes)(const OrtNode* node, size_t* num_attributes);
  OrtStatus* (ORT_API_CALL* Node_GetAttributes)(const OrtNode* node, const OrtOpAttr** attributes,
                                                size_t num_attributes);

  /* One attribute, borrowed. NULL without an error for an optional attribute that is not set; ORT_NOT_FOUND
     for a name the operator does not have. */
  OrtStatus* (ORT_API_CALL* Node_GetAttributeByName)(const OrtNode* node, const char* attribute_name,
                                                     const OrtOpAttr** attribute);

  /* A tensor attribute as a new value that the caller releases. */
  OrtStatus* (ORT_API_CALL* OpAttr_GetTensorAttributeAsOrtValue)(const OrtOpAttr* attribute,
                                                                 OrtValue** attr_tensor);

  /* Borrowed from the attribute. */
  OrtStatus* (ORT_API_CALL* OpAttr_GetType)(const OrtOpAttr* attribute, OrtOpAttrType* type);
  OrtStatus* (ORT_API_CALL* OpAttr_GetName)(const OrtOpAttr* attribute, const char** name);

  /* Graphs in its attributes, borrowed, and the attributes' names; attribute_names may be NULL. */
  OrtStatus* (ORT_API_CALL* Node_GetNumSubgraphs)(const OrtNode* node, size_t* num_subgraphs);
  OrtStatus* (ORT_API_CALL* Node_GetSubgraphs)(const OrtNode* node, const OrtGraph** subgraphs,
                                               size_t num_subgraphs, const char** attribute_names);

  /* The graph that the node is in, borrowed; an error for a node built with OrtModelEditorApi. */
  OrtStatus* (ORT_API_CALL* Node_GetGraph)(const OrtNode* node, const OrtGraph** graph);

  /* The EP that the node was assigned to, borrowed; NULL when it is not assigned. */
  OrtStatus* (ORT_API_CALL* Node_GetEpName)(const OrtNode* node, const char** out);

  /* NULL does nothing. */
  void (ORT_API_CALL* ReleaseExternalInitializerInfo)(OrtExternalInitializerInfo* input);

  /* The path (borrowed) is relative to the model's folder. Check offset and size against the file before use.
     */
  const ORTCHAR_T* (ORT_API_CALL* ExternalInitializerInfo_GetFilePath)(
      const OrtExternalInitializerInfo* info);
  int64_t (ORT_API_CALL* ExternalInitializerInfo_GetFileOffset)(const OrtExternalInitializerInfo* info);
  size_t (ORT_API_CALL* ExternalInitializerInfo_GetByteSize)(const OrtExternalInitializerInfo* info);

  /* A run option's text, borrowed; NULL when it was not set. ephost answers "ephost.run_terminated" with "1" from
     the moment on that RunOptionsSetTerminate was called: what a long Compute can ask, with the options that
     OnRunStart got. */
  const char* (ORT_API_CALL* GetRunConfigEntry)(const OrtRunOptions* options, const char* config_key);

  /* The memory the EP registered for this device and use, borrowed; NULL when there is none. */
  const OrtMemoryInfo* (ORT_API_CALL* EpDevice_MemoryInfo)(const OrtEpDevice* ep_device,
                                                           OrtDeviceMemoryType memory_type);

  /* Makes the environment's allocator for an EP device's memory, in place of an earlier one. Belongs to the
     environment; `allocator` may be NULL when only the effect is wanted, allocator_options may be NULL. */
  OrtStatus* (ORT_API_CALL* CreateSharedAllocator)(OrtEnv* env, const OrtEpDevice* ep_device,
      OrtDeviceMemoryType mem_type, OrtAllocatorType allocator_type,
      const OrtKeyValuePairs* allocator_options, OrtAllocator** allocator);

  /* Finds one, borrowed; NULL without an error when there is none. */
  OrtStatus* (ORT_API_CALL* GetSharedAllocator)(OrtEnv* env, const OrtMemoryInfo* mem_info,
                                                OrtAllocator** allocator);

  /* Drops it; nothing it allocated may be in use. */
  OrtStatus* (ORT_API_CALL* ReleaseSharedAllocator)(OrtEnv* env, const OrtEpDevice* ep_device,
                                                    OrtDeviceMemoryType mem_type);

  /* GetTensorMutableData for reading. */
  OrtStatus* (ORT_API_CALL* GetTensorData)(const OrtValue* value, const void** out);

  /* A copy of all options set by name; the caller releases it. */
  OrtStatus* (ORT_API_CALL* GetSessionOptionsConfigEntries)(const OrtSessionOptions* options,
                                                            OrtKeyValuePairs** out);

  /* Where the session wants each input, and leaves each output; borrowed, into an array of as many as the
     session has. */
  OrtStatus* (ORT_API_CALL* SessionGetMemoryInfoForInputs)(const OrtSession* session,
                                                           const OrtMemoryInfo** inputs_memory_info,
                                                           size_t num_inputs);
  OrtStatus* (ORT_API_CALL* SessionGetMemoryInfoForOutputs)(const OrtSession* session,
                                                            const OrtMemoryInfo** outputs_memory_info,
                                                            size_t num_outputs);

  /* The EP device that takes each input first, borrowed; NULL for one that no EP device takes. */
  OrtStatus* (ORT_API_CALL* SessionGetEpDeviceForInputs)(const OrtSession* session,
                                                         const OrtEpDevice** inputs_ep_devices,
                                                         size_t num_inputs);

  /* A stream on an EP device: release it after what runs on it. The handle is the device's own (a
     cudaStream_t, say). stream_options may be NULL. */
  OrtStatus* (ORT_API_CALL* CreateSyncStreamForEpDevice)(const OrtEpDevice* ep_device,
                                                         const OrtKeyValuePairs* stream_options,
                                                         OrtSyncStream** stream);
  void* (ORT_API_CALL* SyncStream_GetHandle)(OrtSyncStream* stream);
  void (ORT_API_CALL* ReleaseSyncStream)(OrtSyncStream* input);

  /* Copies between devices, all pairs of one direction; the destinations are allocated already. With a
     stream, returns before the copies are done; with NULL, after. */
  OrtStatus* (ORT_API_CALL* CopyTensors)(const OrtEnv* env, const OrtValue* const* src_tensors,
                                         OrtValue* const* dst_tensors, OrtSyncStream* stream,
                                         size_t num_tensors);

  /* The model's metadata as a new object that the caller releases. */
  OrtStatus* (ORT_API_CALL* Graph_GetModelMetadata)(const OrtGraph* graph, OrtModelMetadata** out);

  /* Whether a compiled model with this compatibility text will run on the devices, which are all of one EP;
     asks the factory. */
  OrtStatus* (ORT_API_CALL* GetModelCompatibilityForEpDevices)(const OrtEpDevice* const* ep_devices,
      size_t num_ep_devices, const char* compatibility_info, OrtCompiledModelCompatibility* out_status);

  /* Describes data in a file; the path is copied, the caller releases it. */
  OrtStatus* (ORT_API_CALL* CreateExternalInitializerInfo)(const ORTCHAR_T* filepath, int64_t file_offset,
                                                           size_t byte_size,
                                                           OrtExternalInitializerInfo** out);

  EPHOST_SINCE(24)

  /* False when not even the rank is known. */
  bool (ORT_API_CALL* TensorTypeAndShape_HasShape)(const OrtTensorTypeAndShapeInfo* info);

  /* A copy of the session's options set by name; the caller releases it. */
  OrtStatus* (ORT_API_CALL* KernelInfo_GetConfigEntries)(const OrtKernelInfo* info, OrtKeyValuePairs** out);

  /* The kernel's operator; texts in the two-call way. */
  OrtStatus* (ORT_API_CALL* KernelInfo_GetOperatorDomain)(const OrtKernelInfo* info, char* out, size_t* size);
  OrtStatus* (ORT_API_CALL* KernelInfo_GetOperatorType)(const OrtKernelInfo* info, char* out, size_t* size);
  OrtStatus* (ORT_API_CALL* KernelInfo_GetOperatorSinceVersion)(const OrtKernelInfo* info,
                                                                int* since_version);

  /* Functions that share memory with graphics APIs; static. NULL in a host without them. */
  const OrtInteropApi* (ORT_API_CALL* GetInteropApi)(void);

  /* The EP device that produces each output, borrowed; NULL for none. */
  OrtStatus* (ORT_API_CALL* SessionGetEpDeviceForOutputs)(const OrtSession* session,
                                                          const OrtEpDevice** outputs_ep_devices,
                                                          size_t num_outputs);

  /* Devices the host knows, borrowed from the environment, into the caller's array. */
  OrtStatus* (ORT_API_CALL* GetNumHardwareDevices)(const OrtEnv* env, size_t* num_devices);
  OrtStatus* (ORT_API_CALL* GetHardwareDevices)(const OrtEnv* env, const OrtHardwareDevice** devices,
                                                size_t num_devices);

  /* Why an EP does not offer a device, as a new object; its reasons are 0 when the EP does offer it. */
  OrtStatus* (ORT_API_CALL* GetHardwareDeviceEpIncompatibilityDetails)(const OrtEnv* env, const char* ep_name,
      const OrtHardwareDevice* hw, OrtDeviceEpIncompatibilityDetails** details);

  /* Bits of OrtDeviceEpIncompatibilityReason, text (borrowed; may be NULL) and a number of the EP's own.
     Release takes NULL. */
  OrtStatus* (ORT_API_CALL* DeviceEpIncompatibilityDetails_GetReasonsBitmask)(
      const OrtDeviceEpIncompatibilityDetails* details, uint32_t* reasons_bitmask);
  OrtStatus* (ORT_API_CALL* DeviceEpIncompatibilityDetails_GetNotes)(
      const OrtDeviceEpIncompatibilityDetails* details, const char** notes);
  OrtStatus* (ORT_API_CALL* DeviceEpIncompatibilityDetails_GetErrorCode)(
      const OrtDeviceEpIncompatibilityDetails* details, int32_t* error_code);
  void (ORT_API_CALL* ReleaseDeviceEpIncompatibilityDetails)(OrtDeviceEpIncompatibilityDetails* input);

  /* The compatibility text an EP left in a compiled model, allocated with `allocator`; NULL without an error
     when there is none. */
  OrtStatus* (ORT_API_CALL* GetCompatibilityInfoFromModel)(const ORTCHAR_T* model_path, const char* ep_type,
                                                           OrtAllocator* allocator,
                                                           char** compatibility_info);
  OrtStatus* (ORT_API_CALL* GetCompatibilityInfoFromModelBytes)(const void* model_data,
      size_t model_data_length, const char* ep_type, OrtAllocator* allocator, char** compatibility_info);

  /* CreateEnv with all settings in a struct, which is copied. */
  OrtStatus* (ORT_API_CALL* CreateEnvWithOptions)(const OrtEnvCreationOptions* options, OrtEnv** out);

  /* Which EP took which nodes, borrowed from the session. Needs session.record_ep_graph_assignment_info = "1"
     when the session is made. */
  OrtStatus* (ORT_API_CALL* Session_GetEpGraphAssignmentInfo)(const OrtSession* session,
      const OrtEpAssignedSubgraph* const** ep_subgraphs, size_t* num_ep_subgraphs);

  /* The parts of that answer, borrowed from it. */
  OrtStatus* (ORT_API_CALL* EpAssignedSubgraph_GetEpName)(const OrtEpAssignedSubgraph* ep_subgraph,
                                                          const char** out);
  OrtStatus* (ORT_API_CALL* EpAssignedSubgraph_GetNodes)(const OrtEpAssignedSubgraph* ep_subgraph,
                                                         const OrtEpAssignedNode* const** ep_nodes,
                                                         size_t* num_ep_nodes);
  OrtStatus* (ORT_API_CALL* EpAssignedNode_GetName)(const OrtEpAssignedNode* ep_node, const char** out);
  OrtStatus* (ORT_API_CALL* EpAssignedNode_GetDomain)(const OrtEpAssignedNode* ep_node, const char** out);
  OrtStatus* (ORT_API_CALL* EpAssignedNode_GetOperatorType)(const OrtEpAssignedNode* ep_node,
                                                            const char** out);

  /* Runs on the caller's stream, which must outlive the run; NULL for the EP's own. */
  void (ORT_API_CALL* RunOptionsSetSyncStream)(OrtRunOptions* options, OrtSyncStream* sync_stream);

  /* Element type and shape of a tensor without allocating; the shape is borrowed until the value goes. A
     scalar has count 0. */
  OrtStatus* (ORT_API_CALL* GetTensorElementTypeAndShapeDataReference)(const OrtValue* value,
      ONNXTensorElementDataType* elem_type, const int64_t** shape_data, size_t* shape_data_count);

  EPHOST_SINCE(25)

  /* A profile of just these runs. */
  OrtStatus* (ORT_API_CALL* RunOptionsEnableProfiling)(OrtRunOptions* options,
                                                       const ORTCHAR_T* profile_file_prefix);
  OrtStatus* (ORT_API_CALL* RunOptionsDisableProfiling)(OrtRunOptions* options);

  /* A list of strings; the array and each string are allocated with `allocator`. NULL and 0 for an empty
     list. */
  OrtStatus* (ORT_API_CALL* KernelInfoGetAttributeArray_string)(const OrtKernelInfo* info, const char* name,
                                                                OrtAllocator* allocator, char*** out,
                                                                size_t* size);

  /* Functions around the work of thread pools of sessions created from now on; config is copied, its
     user_context must outlive those sessions. */
  OrtStatus* (ORT_API_CALL* SetPerSessionThreadPoolCallbacks)(OrtEnv* env,
                                                              const OrtThreadPoolCallbacksConfig* config);

  EPHOST_SINCE(27)

  /* What the session options say. */
  OrtStatus* (ORT_API_CALL* GetMemPatternEnabled)(const OrtSessionOptions* options, int* out);
  OrtStatus* (ORT_API_CALL* GetSessionExecutionMode)(const OrtSessionOptions* options, ExecutionMode* out);

  /* Drops a graph captured under this number, so that the next run captures anew. */
  OrtStatus* (ORT_API_CALL* SessionReleaseCapturedGraph)(OrtSession* session, int graph_annotation_id);

  EPHOST_SINCE(28)

  /* A function outside the stable API, by name; cast it to its documented type. NULL when the host does not
     have it: always check. */
  OrtExperimentalFnPtr (ORT_API_CALL* GetExperimentalFunction)(const char* name);

  /* The stream this call of Compute runs on, borrowed; NULL when the EP has no streams. */
  OrtStatus* (ORT_API_CALL* KernelContext_GetSyncStream)(const OrtKernelContext* context,
                                                         OrtSyncStream** out);

  EPHOST_SINCE(30)

  /* The original model in memory, from which a compiled model without weights takes them. Not copied: must
     stay valid while sessions of these options live. */
  OrtStatus* (ORT_API_CALL* SessionOptionsSetWeightlessSourceModelBuffer)(OrtSessionOptions* options,
                                                                          const void* source_model_data,
                                                                          size_t source_model_data_length);

  /* The value that the caller of Run supplied for an output, borrowed; NULL without an error when it supplied
     none. */
  OrtStatus* (ORT_API_CALL* KernelContext_GetPreallocatedOutput)(const OrtKernelContext* context,
                                                                 size_t output_index, OrtValue** output);

  EPHOST_SINCE(31)

  /* Who gives the data of EPContext nodes to EPs that ask the session options for it; NULL: nobody any more.
     `state` goes to each call as it is. */
  OrtStatus* (ORT_API_CALL* SessionOptions_SetEpContextDataReadFunc)(OrtSessionOptions* options,
                                                                     OrtReadNamedBufferFunc read_func,
                                                                     void* state);

  /* Held for version 31; do not call. */
  OrtStatus* (ORT_API_CALL* Reserved427)(void);

  EPHOST_SINCE(32)

  /* Asks the device's factory how much memory there is: OrtEpFactory::GetDeviceMemoryCapacity. What is not to be
     told is NULL, but not both. ORT_NOT_IMPLEMENTED: the plugin cannot say. */
  OrtStatus* (ORT_API_CALL* EpDevice_GetMemoryCapacity)(const OrtEpDevice* ep_device,
                                                        OrtDeviceMemoryType memory_type, uint64_t* first,
                                                        uint64_t* second);
};

#ifdef __cplusplus
}
#endif

#endif
