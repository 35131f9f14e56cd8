/* Compiling models ahead of time. For applications; plugins take part through OrtEp::Compile. */
#ifndef EPHOST_COMPILE_H_
#define EPHOST_COMPILE_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Compiles a model ahead of time: EPs replace what they compile by EPContext nodes, and the result is saved.
   Texts and paths are copied; buffers are not and must stay valid until CompileModel returns. */
struct OrtCompileApi {
  /* NULL does nothing. */
  void (ORT_API_CALL* ReleaseModelCompilationOptions)(OrtModelCompilationOptions* input);

  EPHOST_SINCE(22)

  /* New options that compile for the EPs and settings of session_options (copied). */
  OrtStatus* (ORT_API_CALL* CreateModelCompilationOptionsFromSessionOptions)(const OrtEnv* env,
      const OrtSessionOptions* session_options, OrtModelCompilationOptions** out);

  /* The model to compile: a file or bytes, the last one set. */
  OrtStatus* (ORT_API_CALL* ModelCompilationOptions_SetInputModelPath)(
      OrtModelCompilationOptions* model_compile_options, const ORTCHAR_T* input_model_path);
  OrtStatus* (ORT_API_CALL* ModelCompilationOptions_SetInputModelFromBuffer)(
      OrtModelCompilationOptions* model_compile_options, const void* input_model_data,
      size_t input_model_data_size);

  /* The file to write. Without an output, a name derived from the input's is used. */
  OrtStatus* (ORT_API_CALL* ModelCompilationOptions_SetOutputModelPath)(
      OrtModelCompilationOptions* model_compile_options, const ORTCHAR_T* output_model_path);

  /* Initialisers of at least this many bytes go to this file instead of into the model. */
  OrtStatus* (ORT_API_CALL* ModelCompilationOptions_SetOutputModelExternalInitializersFile)(
      OrtModelCompilationOptions* model_compile_options, const ORTCHAR_T* external_initializers_file_path,
      size_t external_initializers_size_threshold);

  /* Writes to memory from `allocator` instead; the two pointers are set by CompileModel, and the caller frees
     the buffer. */
  OrtStatus* (ORT_API_CALL* ModelCompilationOptions_SetOutputModelBuffer)(
      OrtModelCompilationOptions* model_compile_options, OrtAllocator* allocator,
      void** output_model_buffer_ptr, size_t* output_model_buffer_size_ptr);

  /* Whether an EP's binary is put inside the model or into files beside it. */
  OrtStatus* (ORT_API_CALL* ModelCompilationOptions_SetEpContextEmbedMode)(
      OrtModelCompilationOptions* model_compile_options, bool embed_ep_context_in_model);

  /* Does it. On error no complete output is left. */
  OrtStatus* (ORT_API_CALL* CompileModel)(const OrtEnv* env, const OrtModelCompilationOptions* model_options);

  EPHOST_SINCE(23)

  /* Bits of OrtCompileApiFlags. */
  OrtStatus* (ORT_API_CALL* ModelCompilationOptions_SetFlags)(
      OrtModelCompilationOptions* model_compile_options, uint32_t flags);

  /* Folder and model name from which EPs make the names of their binary files; for outputs that are no file.
     */
  OrtStatus* (ORT_API_CALL* ModelCompilationOptions_SetEpContextBinaryInformation)(
      OrtModelCompilationOptions* model_compile_options, const ORTCHAR_T* output_directory,
      const ORTCHAR_T* model_name);

  /* How much the host may rewrite the graph first; none by default. */
  OrtStatus* (ORT_API_CALL* ModelCompilationOptions_SetGraphOptimizationLevel)(
      OrtModelCompilationOptions* model_compile_options, GraphOptimizationLevel graph_optimization_level);

  /* Writes the model through a function, in pieces and in order; `state` is its first argument. */
  OrtStatus* (ORT_API_CALL* ModelCompilationOptions_SetOutputModelWriteFunc)(
      OrtModelCompilationOptions* model_compile_options, OrtWriteBufferFunc write_func, void* state);

  /* Asks a function for each initialiser, whether to store it inside or outside the model. */
  OrtStatus* (ORT_API_CALL* ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc)(
      OrtModelCompilationOptions* model_compile_options,
      OrtGetInitializerLocationFunc get_initializer_location_func, void* state);

  EPHOST_SINCE(24)

  /* Compiles a model built with OrtModelEditorApi, which stays the caller's and must outlive the compilation.
     */
  OrtStatus* (ORT_API_CALL* ModelCompilationOptions_SetInputModel)(
      OrtModelCompilationOptions* model_compile_options, const OrtModel* model);

  EPHOST_SINCE(30)

  /* Leaves weights out of the EPs' binaries: they come from the source model when a session opens. */
  OrtStatus* (ORT_API_CALL* ModelCompilationOptions_SetWeightlessEnabled)(
      OrtModelCompilationOptions* model_compile_options, bool use_weightless);

  EPHOST_SINCE(31)

  /* Who takes the data of EPContext nodes that do not embed it; NULL: nobody any more. */
  OrtStatus* (ORT_API_CALL* ModelCompilationOptions_SetEpContextDataWriteFunc)(
      OrtModelCompilationOptions* model_compile_options, OrtWriteNamedBufferFunc write_func, void* state);

  /* Held for version 31; do not call. */
  OrtStatus* (ORT_API_CALL* Reserved17)(void);
  OrtStatus* (ORT_API_CALL* Reserved18)(void);
};

#ifdef __cplusplus
}
#endif

#endif
