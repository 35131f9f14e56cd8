/* Graphs, nodes and values as plugins see them: of graph.c, graph_view.c and their neighbours. */
#ifndef EPHOST_NATIVE_GRAPH_H_
#define EPHOST_NATIVE_GRAPH_H_

#include "abi.h"

struct OrtExternalInitializerInfo {
  ORTCHAR_T* path;
  int64_t offset;
  size_t nbytes;
};

typedef struct Consumer {
  const OrtNode* node;
  int64_t input; /* -1: implicitly, through a subgraph of the node */
} Consumer;

/* In a view, the name, type, initializer and external info belong to the value that it stands for (see
 * `origin`). */
struct OrtValueInfo {
  const char* name;
  /* never NULL once it is in a graph: unknown types are tensors of undefined element type */
  OrtTypeInfo* type;
  const OrtGraph* graph;
  const OrtValueInfo* origin; /* in a view: the value of the graph that the view was made from; else itself */
  OrtNode* producer;          /* NULL for inputs and initializers, and for values of an outer graph */
  size_t producer_output;
  Consumer* consumers; /* a part of its graph's consumer_block */
  size_t consumer_count;
  /* NULL for none, or when its data was not given; see owns_initializer */
  OrtValue* initializer;
  OrtExternalInitializerInfo* external; /* NULL when the data is not in a file of its own */
  bool owns_initializer;
  bool is_initializer;
  bool is_constant_initializer;
  bool is_required_input;
  bool is_optional_input; /* an input that an initializer gives a default */
  bool is_graph_output;
  bool is_from_outer_scope;
  bool owned_by_graph; /* false while a plugin holds it (model editor) */
};

/* In a view, the strings, attributes and schema names belong to `origin`. */
struct OrtNode {
  size_t id;
  size_t index; /* place in its graph's nodes */
  const char* name;
  const char* op_type;
  const char* domain;  /* "" for ai.onnx */
  const char* ep_name; /* interned; "" while nobody has claimed it */
  int since_version;
  OrtGraph* graph; /* NULL while a plugin holds it (model editor) */
  /* in a view: the node of the graph that the view was made from, at its root; else itself */
  const OrtNode* origin;
  OrtValueInfo** inputs; /* NULL entry: optional input left out */
  size_t input_count;
  OrtValueInfo** outputs; /* NULL entry: optional output left out */
  size_t output_count;
  OrtValueInfo** implicit_inputs;
  size_t implicit_input_count;
  OrtOpAttr** attributes;
  size_t attribute_count;
  /* For kernel lookup: the schema's type parameter ("T") and formal name ("X") of each input and output. NULL
   * where the schema is not known; borrowed, and kept for the life of the process. */
  const char* const* input_params;
  const char* const* input_formals;
  const char* const* output_params;
  const char* const* output_formals;
  /* names of the optional attributes that the schema knows; borrowed likewise */
  const char* const* schema_attributes;
  size_t schema_attribute_count;
  /* what a kernel's type constraint may be named for this operator; NULL: not known */
  const char* const* constraint_names;
  size_t constraint_name_count;
  const char** editor_inputs; /* names, of a node made through the model editor; "" where left out */
  const char** editor_outputs;
  bool owned_by_graph;
};

/* Subgraphs and views take the model's path, IR version, operator sets and metadata from the root graph. */
struct OrtGraph {
  const char* name;
  ORTCHAR_T* model_path; /* "" when the model has no file */
  int64_t ir_version;
  char** opset_domains;
  int64_t* opset_versions;
  size_t opset_count;
  OrtValueInfo** values; /* all of them, owned */
  size_t value_count;
  OrtValueInfo** inputs; /* including initializers that are inputs; borrowed from values */
  size_t input_count;
  OrtValueInfo** outputs;
  size_t output_count;
  OrtValueInfo** initializers;
  size_t initializer_count;
  OrtNode** nodes; /* in topological order; owned */
  size_t node_count;
  Consumer* consumer_block;
  const OrtNode* parent_node; /* of a subgraph; borrowed */
  const OrtGraph* view_of;    /* NULL unless it is a view */
  OrtModelMetadata* metadata; /* owned by the root graph; NULL in views and subgraphs */
  bool plugin_owned;          /* ReleaseGraph frees it: a view from Graph_GetGraphView, an editor's graph */
  bool from_editor;
};

OrtGraph* graph_new(const char* name);                             /* NULL without memory */
void graph_free(OrtGraph* graph);                                  /* NULL is fine */
OrtValueInfo* value_info_new(const char* name, OrtTypeInfo* type); /* takes the type over when it succeeds */
/* With room for `implicit_count` implicit inputs (views only) and `text_size` bytes behind its arrays. */
OrtNode* node_new(size_t input_count, size_t output_count, size_t implicit_count, size_t text_size);
const OrtOpAttr* node_attribute(const OrtNode* node, const char* name); /* NULL when it is not set */
/* takes the type over when it succeeds */
OrtValueInfo* graph_add_value(OrtGraph* graph, const char* name, OrtTypeInfo* type);
/* Works out from inputs, outputs, initializers and nodes: producers, consumers, the input and output flags.
 * May be called again after a change. For an editor's graph it first finds or makes a value for each name
 * that a node uses. A value with two sources is an INVALID_GRAPH status. */
OrtStatus* graph_resolve(OrtGraph* graph);
const OrtGraph* graph_root(const OrtGraph* graph); /* of a view or subgraph: the model's main graph */
void value_info_free(OrtValueInfo* value);         /* NULL is fine */
void node_free(OrtNode* node);                     /* NULL is fine */
OrtTypeInfo* unknown_type(void);                   /* a tensor of undefined element type and unknown shape */
size_t path_bytes(const ORTCHAR_T* path);          /* with its end */
/* array: address of a pointer array that only this function grows; false without memory */
bool pointers_push(void* array, size_t* count, const void* item);
/* A copy in the CPU's memory or, with an allocator, in its memory, which must be the CPU's. */
OrtStatus* value_copy_tensor(const OrtValue* value, OrtAllocator* allocator, OrtValue** out);

struct OrtModel {
  char** opset_domains;
  int* opset_versions;
  size_t opset_count;
  OrtGraph* graph;
};

#endif
