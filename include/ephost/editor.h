#ifndef EPHOST_EDITOR_H_
#define EPHOST_EDITOR_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct OrtModelEditorApi {
  EPHOST_SINCE(22)
  OrtStatus*(ORT_API_CALL* CreateTensorTypeInfo)(const OrtTensorTypeAndShapeInfo* tensor_info, OrtTypeInfo** type_info);
  OrtStatus*(ORT_API_CALL* CreateSparseTensorTypeInfo)(const OrtTensorTypeAndShapeInfo* tensor_info, OrtTypeInfo** type_info);
  OrtStatus*(ORT_API_CALL* CreateMapTypeInfo)(ONNXTensorElementDataType map_key_type, const OrtTypeInfo* map_value_type, OrtTypeInfo** type_info);
  OrtStatus*(ORT_API_CALL* CreateSequenceTypeInfo)(const OrtTypeInfo* sequence_type, OrtTypeInfo** type_info);
  OrtStatus*(ORT_API_CALL* CreateOptionalTypeInfo)(const OrtTypeInfo* contained_type, OrtTypeInfo** type_info);
  OrtStatus*(ORT_API_CALL* CreateValueInfo)(const char* name, const OrtTypeInfo* type_info, OrtValueInfo** value_info);
  OrtStatus*(ORT_API_CALL* CreateNode)(const char* operator_name, const char* domain_name, const char* node_name, const char* const* input_names, size_t input_names_len, const char* const* output_names, size_t output_names_len, OrtOpAttr** attributes, size_t attribs_len, OrtNode** node);
  OrtStatus*(ORT_API_CALL* CreateGraph)(OrtGraph** graph);
  OrtStatus*(ORT_API_CALL* SetGraphInputs)(OrtGraph* graph, OrtValueInfo** inputs, size_t inputs_len);
  OrtStatus*(ORT_API_CALL* SetGraphOutputs)(OrtGraph* graph, OrtValueInfo** outputs, size_t outputs_len);
  OrtStatus*(ORT_API_CALL* AddInitializerToGraph)(OrtGraph* graph, const char* name, OrtValue* tensor, bool data_is_external);
  OrtStatus*(ORT_API_CALL* AddNodeToGraph)(OrtGraph* graph, OrtNode* node);
  OrtStatus*(ORT_API_CALL* CreateModel)(const char* const* domain_names, const int* opset_versions, size_t opset_entries_len, OrtModel** model);
  OrtStatus*(ORT_API_CALL* AddGraphToModel)(OrtModel* model, OrtGraph* graph);
  OrtStatus*(ORT_API_CALL* CreateSessionFromModel)(const OrtEnv* env, const OrtModel* model, const OrtSessionOptions* options, OrtSession** out);
  OrtStatus*(ORT_API_CALL* CreateModelEditorSession)(const OrtEnv* env, const ORTCHAR_T* model_path, const OrtSessionOptions* options, OrtSession** out);
  OrtStatus*(ORT_API_CALL* CreateModelEditorSessionFromArray)(const OrtEnv* env, const void* model_data, size_t model_data_length, const OrtSessionOptions* options, OrtSession** out);
  OrtStatus*(ORT_API_CALL* SessionGetOpsetForDomain)(const OrtSession* session, const char* domain, int* opset);
  OrtStatus*(ORT_API_CALL* ApplyModelToModelEditorSession)(OrtSession* session, OrtModel* model);
  OrtStatus*(ORT_API_CALL* FinalizeModelEditorSession)(OrtSession* session, const OrtSessionOptions* options, OrtPrepackedWeightsContainer* prepacked_weights_container);
};

#ifdef __cplusplus
}
#endif

#endif
