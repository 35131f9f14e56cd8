/* Building models in memory. */
#ifndef EPHOST_EDITOR_H_
#define EPHOST_EDITOR_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Builds a model or graph in memory. What is added to something belongs to it from then on, but only if the
   call succeeded; until then the caller releases it (ReleaseValueInfo, ReleaseNode, ReleaseGraph,
   ReleaseModel). Plugins use it for the EPContext nodes that Compile returns. No object may be used by two
   threads at once. */
struct OrtModelEditorApi {
  EPHOST_SINCE(22)

  /* A tensor type from an element type and shape, which stay the caller's. */
  OrtStatus* (ORT_API_CALL* CreateTensorTypeInfo)(const OrtTensorTypeAndShapeInfo* tensor_info,
                                                  OrtTypeInfo** type_info);
  OrtStatus* (ORT_API_CALL* CreateSparseTensorTypeInfo)(const OrtTensorTypeAndShapeInfo* tensor_info,
                                                        OrtTypeInfo** type_info);

  /* A type around another one, which is copied and stays the caller's. */
  OrtStatus* (ORT_API_CALL* CreateMapTypeInfo)(ONNXTensorElementDataType map_key_type,
                                               const OrtTypeInfo* map_value_type, OrtTypeInfo** type_info);
  OrtStatus* (ORT_API_CALL* CreateSequenceTypeInfo)(const OrtTypeInfo* sequence_type,
                                                    OrtTypeInfo** type_info);
  OrtStatus* (ORT_API_CALL* CreateOptionalTypeInfo)(const OrtTypeInfo* contained_type,
                                                    OrtTypeInfo** type_info);

  /* A named value of a type; both are copied. */
  OrtStatus* (ORT_API_CALL* CreateValueInfo)(const char* name, const OrtTypeInfo* type_info,
                                             OrtValueInfo** value_info);

  /* A node. Names are copied, "" stands for an optional input or output that is omitted; an empty domain is
     ONNX's own. Takes over the attributes and sets their entries in the caller's array to NULL; `attributes`
     may be NULL when there are none. */
  OrtStatus* (ORT_API_CALL* CreateNode)(const char* operator_name, const char* domain_name,
      const char* node_name, const char* const* input_names, size_t input_names_len,
      const char* const* output_names, size_t output_names_len, OrtOpAttr** attributes, size_t attribs_len,
      OrtNode** node);

  /* An empty graph. */
  OrtStatus* (ORT_API_CALL* CreateGraph)(OrtGraph** graph);

  /* Replaces its inputs or outputs; takes over the value infos, and sets the caller's entries to NULL. */
  OrtStatus* (ORT_API_CALL* SetGraphInputs)(OrtGraph* graph, OrtValueInfo** inputs, size_t inputs_len);
  OrtStatus* (ORT_API_CALL* SetGraphOutputs)(OrtGraph* graph, OrtValueInfo** outputs, size_t outputs_len);

  /* Adds an initialiser and takes over `tensor`. With data_is_external its memory stays the caller's and must
     outlive the session; otherwise it is copied into the model. Small tensors must not be external. */
  OrtStatus* (ORT_API_CALL* AddInitializerToGraph)(OrtGraph* graph, const char* name, OrtValue* tensor,
                                                   bool data_is_external);

  /* Takes over the node. */
  OrtStatus* (ORT_API_CALL* AddNodeToGraph)(OrtGraph* graph, OrtNode* node);

  /* An empty model that imports these domains and opset versions (copied). */
  OrtStatus* (ORT_API_CALL* CreateModel)(const char* const* domain_names, const int* opset_versions,
                                         size_t opset_entries_len, OrtModel** model);

  /* Gives the model its main graph; takes over the graph. */
  OrtStatus* (ORT_API_CALL* AddGraphToModel)(OrtModel* model, OrtGraph* graph);

  /* A session for the model, which is not changed and stays the caller's. */
  OrtStatus* (ORT_API_CALL* CreateSessionFromModel)(const OrtEnv* env, const OrtModel* model,
                                                    const OrtSessionOptions* options, OrtSession** out);

  /* A session whose model is loaded but not yet prepared: change it with the functions below, then finish. */
  OrtStatus* (ORT_API_CALL* CreateModelEditorSession)(const OrtEnv* env, const ORTCHAR_T* model_path,
                                                      const OrtSessionOptions* options, OrtSession** out);
  OrtStatus* (ORT_API_CALL* CreateModelEditorSessionFromArray)(const OrtEnv* env, const void* model_data,
      size_t model_data_length, const OrtSessionOptions* options, OrtSession** out);

  /* The opset version that the session's model imports for a domain. */
  OrtStatus* (ORT_API_CALL* SessionGetOpsetForDomain)(const OrtSession* session, const char* domain,
                                                      int* opset);

  /* Adds the nodes of `model` to such a session and takes over its graph's inputs and outputs. The model
     stays the caller's. */
  OrtStatus* (ORT_API_CALL* ApplyModelToModelEditorSession)(OrtSession* session, OrtModel* model);

  /* Prepares such a session to run. The container may be NULL. */
  OrtStatus* (ORT_API_CALL* FinalizeModelEditorSession)(OrtSession* session, const OrtSessionOptions* options,
      OrtPrepackedWeightsContainer* prepacked_weights_container);
};

#ifdef __cplusplus
}
#endif

#endif
