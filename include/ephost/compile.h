#ifndef EPHOST_COMPILE_H_
#define EPHOST_COMPILE_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct OrtCompileApi {
  void(ORT_API_CALL* ReleaseModelCompilationOptions)(OrtModelCompilationOptions* input);
  EPHOST_SINCE(22)
  OrtStatus*(ORT_API_CALL* CreateModelCompilationOptionsFromSessionOptions)(const OrtEnv* env, const OrtSessionOptions* session_options, OrtModelCompilationOptions** out);
  OrtStatus*(ORT_API_CALL* ModelCompilationOptions_SetInputModelPath)(OrtModelCompilationOptions* model_compile_options, const ORTCHAR_T* input_model_path);
  OrtStatus*(ORT_API_CALL* ModelCompilationOptions_SetInputModelFromBuffer)(OrtModelCompilationOptions* model_compile_options, const void* input_model_data, size_t input_model_data_size);
  OrtStatus*(ORT_API_CALL* ModelCompilationOptions_SetOutputModelPath)(OrtModelCompilationOptions* model_compile_options, const ORTCHAR_T* output_model_path);
  OrtStatus*(ORT_API_CALL* ModelCompilationOptions_SetOutputModelExternalInitializersFile)(OrtModelCompilationOptions* model_compile_options, const ORTCHAR_T* external_initializers_file_path, size_t external_initializers_size_threshold);
  OrtStatus*(ORT_API_CALL* ModelCompilationOptions_SetOutputModelBuffer)(OrtModelCompilationOptions* model_compile_options, OrtAllocator* allocator, void** output_model_buffer_ptr, size_t* output_model_buffer_size_ptr);
  OrtStatus*(ORT_API_CALL* ModelCompilationOptions_SetEpContextEmbedMode)(OrtModelCompilationOptions* model_compile_options, bool embed_ep_context_in_model);
  OrtStatus*(ORT_API_CALL* CompileModel)(const OrtEnv* env, const OrtModelCompilationOptions* model_options);
  EPHOST_SINCE(23)
  OrtStatus*(ORT_API_CALL* ModelCompilationOptions_SetFlags)(OrtModelCompilationOptions* model_compile_options, uint32_t flags);
  OrtStatus*(ORT_API_CALL* ModelCompilationOptions_SetEpContextBinaryInformation)(OrtModelCompilationOptions* model_compile_options, const ORTCHAR_T* output_directory, const ORTCHAR_T* model_name);
  OrtStatus*(ORT_API_CALL* ModelCompilationOptions_SetGraphOptimizationLevel)(OrtModelCompilationOptions* model_compile_options, GraphOptimizationLevel graph_optimization_level);
  OrtStatus*(ORT_API_CALL* ModelCompilationOptions_SetOutputModelWriteFunc)(OrtModelCompilationOptions* model_compile_options, OrtWriteBufferFunc write_func, void* state);
  OrtStatus*(ORT_API_CALL* ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc)(OrtModelCompilationOptions* model_compile_options, OrtGetInitializerLocationFunc get_initializer_location_func, void* state);
  EPHOST_SINCE(24)
  OrtStatus*(ORT_API_CALL* ModelCompilationOptions_SetInputModel)(OrtModelCompilationOptions* model_compile_options, const OrtModel* model);
  EPHOST_SINCE(30)
  OrtStatus*(ORT_API_CALL* ModelCompilationOptions_SetWeightlessEnabled)(OrtModelCompilationOptions* model_compile_options, bool use_weightless);
  EPHOST_SINCE(31)
  OrtStatus*(ORT_API_CALL* Reserved16)(void);
  OrtStatus*(ORT_API_CALL* Reserved17)(void);
  OrtStatus*(ORT_API_CALL* Reserved18)(void);
};

#ifdef __cplusplus
}
#endif

#endif
