/* What Python calls in the C half, through cffi. Parsed by cffi: plain declarations only. */
#ifndef EPHOST_PYTHON_H_
#define EPHOST_PYTHON_H_

#include "abi.h"

/* ---- tables (generated) ---- */

typedef struct EphostSlot {
  const char* table;
  const char* member;
  bool is_implemented;
  uint32_t since; /* the API version in which the slot appeared */
} EphostSlot;
const OrtApiBase* ephost_get_api_base(void); /* what a plugin's CreateEpFactories gets */
size_t ephost_slot_count(void);
const EphostSlot* ephost_slot(size_t index);
uint64_t ephost_stub_calls(size_t index);

/* The version in which a member of a struct that plugins fill appeared; 0 for one that is not known. */
uint32_t ephost_member_since(const char* structure, const char* member);

typedef struct EphostConfigKey {
  const char* constant; /* its name in the headers */
  const char* key;
} EphostConfigKey;
size_t ephost_config_key_count(void);
const EphostConfigKey* ephost_config_key(size_t index);

/* ---- status, handles ---- */
const char* ephost_version(void); /* of ephost itself */
int ephost_api_version(void);     /* the highest that GetApi serves */
int ephost_versions_ahead(void);  /* how many more may be assumed */
void ephost_assume_api_version(uint32_t version);
uint32_t ephost_refused_api_version(
    void); /* the highest that GetApi has refused since the last question, or 0 */
int64_t ephost_live_handles(int kind);
void ephost_fail_allocation_after(int64_t count);

/* ---- what plugins throw (exceptions.c) ---- */

bool ephost_catches_exceptions(void); /* whether it was built to */
/* What a function of a plugin that returns no status has thrown in this thread since the last call, as a
 * status; NULL for nothing. Such a function seemed to return 0. */
OrtStatus* ephost_take_thrown(void);

/* ---- objects: values, type infos, memory, devices, options, loggers ---- */

void ephost_set_log_callback(void (*callback)(int level, const char* logger, const char* message,
                                              const char* file, int line, const char* function));
void ephost_log_after_fork(void); /* in the child, whose one thread is in no other's messages */
void ephost_set_log_level(int level);
OrtLogger* ephost_logger_new(const char* name, OrtLoggingLevel level);
void ephost_logger_set_level(OrtLogger* logger, OrtLoggingLevel level);
void ephost_logger_free(OrtLogger* logger);
void ephost_log(int level, const char* message); /* as the host's own message */

OrtAllocator* ephost_cpu_allocator(void);
const OrtMemoryInfo* ephost_get_cpu_memory_info(void);
OrtMemoryInfo* ephost_memory_info_copy(
    const OrtMemoryInfo* info); /* for ReleaseMemoryInfo; NULL without memory */
void ephost_set_cpu_cache_limit(size_t bytes);
void ephost_trim_cpu_cache(void);

/* Called once for each owner given to ephost_value_wrap, from any thread, when nobody uses its memory any
 * more. */
void ephost_set_release_callback(void (*callback)(void* owner));
/* A tensor over memory of the caller's (memory_info NULL: the CPU's). With an owner, the callback above gets
 * it when the last sharer is gone; without one the memory must outlive the value. On failure the callback is
 * not called. */
OrtStatus* ephost_value_wrap(int element_type, const int64_t* dims, size_t rank, void* data, size_t nbytes,
                             const OrtMemoryInfo* memory_info, void* owner, OrtValue** out);
/* Strings from one block of bytes: text i is packed[offsets[i]] up to packed[offsets[i + 1]]. To read them,
 * use OrtApi's GetStringTensorDataLength and GetStringTensorContent. */
OrtStatus* ephost_value_strings(const char* packed, const size_t* offsets, const int64_t* dims, size_t rank,
                                OrtValue** out);
/* Sequences share their items' data. element_type: of the tensors, also when there is none. */
OrtStatus* ephost_value_sequence(OrtValue* const* items, size_t count, int element_type, OrtValue** out);
/* A value that is no plain bytes as 64-bit words, for another process (packed.c): how many (0: it cannot be
 * packed, since it is on a device); writes them, and returns what lies behind; and makes a clear value of
 * words of which none is trusted, which is clear after an error. */
uint64_t ephost_packed_words(const OrtValue* value);
uint64_t* ephost_pack_value(uint64_t* at, const OrtValue* value);
OrtStatus* ephost_unpack_value(const uint64_t* at, uint64_t count, OrtValue* out);
OrtValue* ephost_value_new(void); /* clear; ReleaseValue frees it; NULL without memory */
OrtStatus* ephost_value_empty_optional(int element_type, OrtValue** out);
OrtStatus* ephost_value_share(const OrtValue* value, OrtValue** out); /* a second value over the same data */
/* Where the data is not aligned as plugins expect, they get a copy, made when the first one asks for it. */
void ephost_value_align_later(OrtValue* value, bool is_mapped);
/* lent; NULL beyond the last, and for a sequence of maps that has them in one tensor */
const OrtValue* ephost_value_item(const OrtValue* value, size_t index);

typedef struct EphostValueView {
  int type; /* ONNXType */
  int element_type;
  size_t rank;
  const int64_t* dims; /* lent, like data and memory_info */
  size_t element_count;
  void* data;
  size_t nbytes;
  size_t item_count;
  int key_type, mapped_type; /* element types of a map, or of the maps of a sequence; 0: it holds none */
  const OrtMemoryInfo* memory_info;
} EphostValueView;
void ephost_value_view(const OrtValue* value, EphostValueView* out);

/* symbols: NULL, or a name or NULL for each dimension */
OrtStatus* ephost_type_tensor(int element_type, bool has_shape, const int64_t* dims,
                              const char* const* symbols, size_t rank, OrtTypeInfo** out);
OrtStatus* ephost_type_set_denotation(OrtTypeInfo* type_info, const char* denotation);

/* NULL removes; see OrtEpApi.GetEnvConfigEntries */
OrtStatus* ephost_env_config_set(const char* key, const char* value);

const OrtMemoryInfo* ephost_ep_device_read_only_memory(const OrtEpDevice* ep_device);
OrtEpFactory* ephost_ep_device_factory(const OrtEpDevice* ep_device);
/* The function that every factory needs and this one has not; NULL: it has all. */
const char* ephost_factory_lacks(const OrtEpFactory* factory);
enum {
  EPHOST_MAX_FACTORIES = 16,  /* of a library */
  EPHOST_MAX_EP_DEVICES = 32, /* of a factory */
  EPHOST_FIRST_VERSION = 22   /* of the ABI, with OrtEp and OrtEpFactory in it */
};

typedef struct EphostFactories { /* what a CreateEpFactories gave */
  OrtEpFactory* made[EPHOST_MAX_FACTORIES];
  size_t number;     /* as it says */
  OrtStatus* status; /* the caller's */
} EphostFactories;
/* Calls a library's CreateEpFactories. True if every factory is one with which the host can work, of a
 * version that it knows. */
bool ephost_create_factories(CreateEpApiFactoriesFn create, const char* name, const OrtLogger* logger,
                             EphostFactories* out);

typedef struct EphostOffer {                   /* what a factory says of itself */
  const char* ep_name;                         /* lent; NULL where it gives none */
  const char* vendor;                          /* likewise; it is asked for only where there is a name */
  OrtEpDevice* devices[EPHOST_MAX_EP_DEVICES]; /* the caller's, whatever else went wrong */
  size_t number;                               /* of them, as it says */
  OrtStatus* status; /* the caller's; of the names, where one of them is NULL, or of the devices */
} EphostOffer;
/* Asks a factory for its names, then for its devices. True if all is as it should be. */
bool ephost_ask_devices(OrtEpFactory* factory, const OrtHardwareDevice* const* hardware, size_t count,
                        EphostOffer* out);
/* Adds to a device's metadata the library's path, unless that is NULL, and the factory's version, if it says
 * one and the device has none. */
OrtStatus* ephost_complete_ep_device(OrtEpFactory* factory, OrtEpDevice* device, const char* library_path);
OrtDeviceEpIncompatibilityDetails* ephost_incompatibility_details_new(void); /* NULL without memory */

/* ---- graphs, kernel registry ---- */

/* Building a graph: values first (those of an outer graph that a subgraph reads included, see
 * set_outer_scope), then nodes in topological order, then ephost_graph_finish, then it is read only. NULL and
 * false mean: out of memory. Handles given for `take over` belong to the graph when the call succeeds. A
 * subgraph is built like a graph and given to its node with ephost_node_add_graph, which the node owns from
 * then on; it takes path, opsets and metadata from the root graph. */
/* path may be NULL */
OrtGraph* ephost_graph_new(const char* name, int64_t ir_version, const ORTCHAR_T* model_path);
void ephost_graph_free(OrtGraph* graph); /* NULL is fine; views first, then their graph */
bool ephost_graph_add_opset(OrtGraph* graph, const char* domain, int64_t version); /* "" for ai.onnx */
bool ephost_graph_set_metadata(OrtGraph* graph, const char* producer_name, const char* graph_name,
                               const char* domain, const char* description, const char* graph_description,
                               int64_t version);
/* texts: keys and values in turn, each with its NUL */
bool ephost_graph_add_metadata(OrtGraph* graph, const char* texts, size_t count);
/* Takes the type over; NULL: a tensor of which nothing is known. */
OrtValueInfo* ephost_graph_add_value(OrtGraph* graph, const char* name, OrtTypeInfo* type);
/* rank -1: not known; a dimension -1: not known; symbols NULL: none, else "" for a dimension without one. */
OrtValueInfo* ephost_graph_add_tensor(OrtGraph* graph, const char* name, int element_type, int64_t rank,
                                      const int64_t* dims, const char* const* symbols);
void ephost_value_set_outer_scope(OrtValueInfo* value); /* before set_initializer */
/* Puts the value among its graph's initializers (not one of an outer scope). data may be NULL. */
bool ephost_value_set_initializer(OrtValueInfo* value, OrtValue* data, bool take_over, bool constant);
bool ephost_value_set_external(OrtValueInfo* value, const ORTCHAR_T* path, int64_t offset, size_t nbytes);
bool ephost_graph_add_input(OrtGraph* graph, OrtValueInfo* value);
bool ephost_graph_add_output(OrtGraph* graph, OrtValueInfo* value);
/* NULL among inputs and outputs: left out. ep_name "": nobody's. */
OrtNode* ephost_graph_add_node(OrtGraph* graph, size_t id, const char* name, const char* op_type,
                               const char* domain, int since_version, const char* ep_name,
                               OrtValueInfo** inputs, size_t input_count, OrtValueInfo** outputs,
                               size_t output_count);
/* The type of tensors, as Python keeps it. */
typedef struct EphostTensorType {
  int element_type;
  int64_t rank; /* rank, dims and symbols as ephost_graph_add_tensor takes them */
  const int64_t* dims;
  const char* const* symbols;
} EphostTensorType;
typedef struct EphostSchema { /* what ephost_node_set_schema takes */
  const char* const* input_params;
  const char* const* input_formals;
  const char* const* output_params;
  const char* const* output_formals;
  const char* const* attributes;
  size_t attribute_count;
} EphostSchema;
/* What the operator's schema says: the type parameter and formal name of each input and output of the node
 * (an array entry may be NULL), and the optional attributes. All arrays are borrowed and must live as long as
 * the graph: keep one set for each schema and number of inputs and outputs. */
void ephost_node_set_schema(OrtNode* node, const char* const* input_params, const char* const* input_formals,
                            const char* const* output_params, const char* const* output_formals,
                            const char* const* attributes, size_t attribute_count);
/* All names that a kernel's type constraint may have for the node's operator, whether or not the node has
 * such an input: its type parameters, and the formal names whose type is none of these. Borrowed like the
 * above. With them, a kernel whose constraint has another name fits no node, and looking it up is an error;
 * without them the name is ignored. */
void ephost_node_set_constraint_names(OrtNode* node, const char* const* names, size_t count);
bool ephost_node_add_implicit_input(OrtNode* node, OrtValueInfo* value); /* of the node's own graph */
bool ephost_node_add_int(OrtNode* node, const char* name, int64_t value);
bool ephost_node_add_ints(OrtNode* node, const char* name, const int64_t* values, size_t count);
bool ephost_node_add_float(OrtNode* node, const char* name, float value);
bool ephost_node_add_floats(OrtNode* node, const char* name, const float* values, size_t count);
bool ephost_node_add_string(OrtNode* node, const char* name, const char* text, size_t length);
bool ephost_node_add_strings(OrtNode* node, const char* name, const char* const* texts, const size_t* lengths,
                             size_t count);
bool ephost_node_add_tensor(OrtNode* node, const char* name, OrtValue* tensor); /* takes over */
/* takes over, sets the parent */
bool ephost_node_add_graph(OrtNode* node, const char* name, OrtGraph* subgraph);
void ephost_graph_set_parent(OrtGraph* subgraph, const OrtNode* node);
/* Works out producers, consumers and flags; INVALID_GRAPH when a value has two sources. May be called again
 * after changes, but not while views of the graph are alive. */
OrtStatus* ephost_graph_finish(OrtGraph* graph);

/* The view of `graph` that EPs compile: its nodes have the same ids, and share all but their links. It must
 * be freed (ephost_graph_free) before its graph. */
OrtStatus* ephost_graph_view(const OrtGraph* graph, const char* name, OrtNode** nodes, size_t node_count,
                             OrtValueInfo** inputs, size_t input_count, OrtValueInfo** outputs,
                             size_t output_count, OrtGraph** out);

/* Reading graphs, of one's own and of those that plugins make. All that is returned is borrowed. Indices are
 * not checked. */
size_t ephost_graph_value_count(const OrtGraph* graph);
OrtValueInfo* ephost_graph_value(const OrtGraph* graph, size_t index);
OrtValueInfo* ephost_graph_input(const OrtGraph* graph, size_t index);
OrtValueInfo* ephost_graph_output(const OrtGraph* graph, size_t index);
OrtValueInfo* ephost_graph_initializer(const OrtGraph* graph, size_t index);
const char* ephost_value_name(const OrtValueInfo* value);
const OrtValue* ephost_value_initializer(const OrtValueInfo* value);
const char* ephost_node_name(const OrtNode* node);
const char* ephost_node_op_type(const OrtNode* node);
const char* ephost_node_domain(const OrtNode* node);
size_t ephost_node_input_count(const OrtNode* node);
size_t ephost_node_output_count(const OrtNode* node);
const char* ephost_node_input_name(const OrtNode* node, size_t index); /* "" where left out */
const char* ephost_node_output_name(const OrtNode* node, size_t index);
size_t ephost_node_attribute_count(const OrtNode* node);
const OrtOpAttr* ephost_node_attribute(const OrtNode* node, size_t index);
const char* ephost_attribute_name(const OrtOpAttr* attribute);
int ephost_attribute_type(const OrtOpAttr* attribute); /* an OrtOpAttrType */
size_t ephost_attribute_count(const OrtOpAttr* attribute);
const int64_t* ephost_attribute_ints(const OrtOpAttr* attribute); /* INT (one), INTS; else NULL */
const float* ephost_attribute_floats(const OrtOpAttr* attribute); /* FLOAT (one), FLOATS; else NULL */
/* STRING, STRINGS only */
const char* ephost_attribute_string(const OrtOpAttr* attribute, size_t index, size_t* length);
const OrtValue* ephost_attribute_tensor(const OrtOpAttr* attribute); /* TENSOR; else NULL */
const OrtGraph* ephost_model_graph(const OrtModel* model);           /* NULL while it has none */
size_t ephost_model_opset_count(const OrtModel* model);
const char* ephost_model_opset(const OrtModel* model, size_t index, int* version);

/* What an EP claims. The registry (NULL: none) must outlive the info. */
OrtEpGraphSupportInfo* ephost_support_info_new(const OrtGraph* graph, const OrtEp* ep,
                                               const OrtKernelRegistry* registry);
void ephost_support_info_free(OrtEpGraphSupportInfo* info);
size_t ephost_support_info_claim_count(const OrtEpGraphSupportInfo* info);
size_t ephost_support_info_node_count(const OrtEpGraphSupportInfo* info); /* of all claims */
typedef struct EphostClaim {
  size_t node_count;
  bool single;
  bool drops_constants;
} EphostClaim;
/* Every claim, and the ids of their nodes, claim by claim. */
void ephost_support_info_read(const OrtEpGraphSupportInfo* info, EphostClaim* claims, size_t* ids);

/* Kernels. An entry is valid until its registry changes or is released. */
typedef struct KernelEntry KernelEntry;
const KernelEntry* ephost_registry_find(const OrtKernelRegistry* registry, const OrtNode* node,
                                        const char* ep_name);
/* The entries of nodes and their definitions, up to the first node that has none; how many were found. */
size_t ephost_registry_find_all(const OrtKernelRegistry* registry, OrtNode* const* nodes, size_t count,
                                const char* ep_name, const KernelEntry** entries,
                                const OrtKernelDef** definitions);
size_t ephost_registry_size(const OrtKernelRegistry* registry);
const KernelEntry* ephost_registry_entry(const OrtKernelRegistry* registry,
                                         size_t index); /* NULL beyond the last */
const OrtKernelDef* ephost_entry_def(const KernelEntry* entry);
size_t ephost_def_constraint_count(const OrtKernelDef* def);
/* The name of a type constraint, with its types, all lent. Indices are not checked. */
const char* ephost_def_constraint(const OrtKernelDef* def, size_t index,
                                  const ONNXTensorElementDataType** types, size_t* count);
int ephost_def_input_mem_type(const OrtKernelDef* def, size_t index); /* an OrtMemType */
int ephost_def_output_mem_type(const OrtKernelDef* def, size_t index);
/* Node, EP, logger, allocators (NULL: the CPU's) and session are borrowed, config and constants (NULL: none;
 * else one for each of the node's inputs) copied, the constant values borrowed. */
OrtKernelInfo* ephost_kernel_info_new(const OrtNode* node, const OrtEp* ep, const OrtKernelDef* def,
                                      const OrtLogger* logger, const OrtKeyValuePairs* config,
                                      OrtAllocator* cpu_allocator, OrtAllocator* device_allocator,
                                      void* session, const OrtValue** constants);
void ephost_kernel_info_free(OrtKernelInfo* info);
const OrtNode* ephost_kernel_info_node(const OrtKernelInfo* info); /* lent */
/* Makes infos (as above) and kernels, one after the other, up to the first that fails: `made` have both then,
 * and the next one may have an info. constants has for each node an array, or NULL. */
OrtStatus* ephost_kernels_new(OrtNode* const* nodes, const KernelEntry* const* entries, size_t count,
                              const OrtEp* ep, const OrtLogger* logger, const OrtKeyValuePairs* config,
                              OrtAllocator* device_allocator, const OrtValue** const* constants,
                              OrtKernelInfo** infos, OrtKernelImpl** kernels, size_t* made);

/* From here on neither the info nor its copies know a constant value of that input. */
void ephost_kernel_info_drop_constant(OrtKernelInfo* info, size_t input);

/* Custom operators. What is returned is lent. A kernel is released by its own function. */
void ephost_session_options_set_data_writer(OrtSessionOptions* options, OrtWriteNamedBufferFunc write_func,
                                            void* state);
size_t ephost_context_configs_taken(void); /* OrtEpContextConfigs that plugins made in this thread so far */
size_t ephost_session_options_domains(const OrtSessionOptions* options,
                                      const OrtCustomOpDomain* const** domains);
const char* ephost_domain_name(const OrtCustomOpDomain* domain);
size_t ephost_domain_ops(const OrtCustomOpDomain* domain, const OrtCustomOp* const** ops);
OrtStatus* ephost_custom_kernel_new(const OrtCustomOp* op, const OrtKernelInfo* info, OrtKernelImpl** out);
/* What InferOutputShapeFn gets; the node, for its attributes, is borrowed. NULL without memory. */
OrtShapeInferContext* ephost_infer_context_new(const OrtNode* node, size_t input_count, size_t output_count);
void ephost_infer_context_free(OrtShapeInferContext* context);
/* once for each input that is a tensor; false without memory */
bool ephost_infer_context_set_input(OrtShapeInferContext* context, size_t index,
                                    const EphostTensorType* type);
/* NULL: it was not said */
const OrtTensorTypeAndShapeInfo* ephost_infer_context_output(const OrtShapeInferContext* context,
                                                             size_t index);

/* The buffers of one packed weight: where PrePackWeight leaves them. The cache owns them and frees them with
 * the allocator, which is borrowed. NULL without memory. */
typedef struct OrtSharedPrePackedWeightCache EphostWeightCache;
EphostWeightCache* ephost_weight_cache_new(OrtAllocator* allocator);
void ephost_weight_cache_free(EphostWeightCache* cache);
bool ephost_weight_cache_is_stored(const EphostWeightCache* cache);
/* How many there are; both arrays are the cache's. */
size_t ephost_weight_cache_buffers(const EphostWeightCache* cache, const void* const** buffers,
                                   const size_t** sizes);

bool ephost_is_control_kernel(
    const OrtKernelImpl* kernel); /* made by CreateIfKernel and the like: the host runs it */

/* Operator schemas: the callback makes one with the functions below, or gives NULL where ONNX has no such
 * operator. It may be called from any thread of a plugin. */
typedef OrtOpSchema* (*EphostSchemaCallback)(const char* name, int max_version, const char* domain);
void ephost_set_schema_callback(EphostSchemaCallback callback);
OrtOpSchema* ephost_op_schema_new(int since_version, size_t constraint_count); /* NULL without memory */
/* false: out of memory; the schema is then to be released */
bool ephost_op_schema_set_constraint(OrtOpSchema* schema, size_t index, const char* name,
                                     const char* const* types, size_t type_count);
bool ephost_op_schema_add_formal(OrtOpSchema* schema, bool is_input, const char* name, int constraint);

/* Operators that kernels call, from any of their threads: what makes one, and gives it a number; what runs it
 * on values, the outputs' memory being there already; what ends it. NULL: nobody makes any. The functions
 * stay as long as they are set. */
typedef struct EphostOpCalls {
  OrtStatus* (*create)(const char* name, const char* domain, int version, const char** constraints,
                       const ONNXTensorElementDataType* types, size_t constraint_count,
                       const OrtOpAttr* const* attributes, size_t attribute_count, size_t input_count,
                       size_t output_count, size_t* made);
  OrtStatus* (*invoke)(size_t made, const OrtValue* const* inputs, OrtValue* const* outputs);
  void (*release)(size_t made);
} EphostOpCalls;
void ephost_set_op_calls(const EphostOpCalls* calls);

/* What EPs' profilers leave. What an event points to is lent by the container. */
typedef struct EphostEvent {
  OrtProfilingEventCategory category;
  int32_t process_id;
  int32_t thread_id;
  int64_t start_us;
  int64_t duration_us;
  const char* name;
  const char* const* keys; /* of its arguments */
  const char* const* values;
  size_t argument_count;
} EphostEvent;
OrtProfilingEventsContainer* ephost_events_new(void); /* NULL without memory */
void ephost_events_free(OrtProfilingEventsContainer* container);
size_t ephost_events_count(const OrtProfilingEventsContainer* container);
void ephost_events_get(const OrtProfilingEventsContainer* container, size_t first, size_t count,
                       EphostEvent* out);

/* ---- libraries ---- */

void* ephost_library_open(const char* path, char* error, size_t error_size); /* NULL: error says why */
/* Whether the file is an ELF library for this processor, with all that is mapped of it. False says nothing:
 * the file has to be looked at more closely. */
bool ephost_library_is_sound(const char* path);
void* ephost_library_symbol(void* library, const char* name); /* NULL when absent */
void ephost_library_close(void* library);

/* ---- plans and runs ---- */

/* for CreateState; NULL without memory */
OrtNodeComputeContext* ephost_compute_context_new(const char* node_name);
void ephost_compute_context_free(OrtNodeComputeContext* context);

/* Steps of the host's own. Until a plan takes one over it is freed with ephost_host_kernel_free. ZipMap has
 * these labels, a tensor of rank 1. */
typedef struct HostKernel EphostHostKernel;
OrtStatus* ephost_zip_map_new(const OrtValue* labels, EphostHostKernel** out);
/* of Identity and the operators of sequences and optionals. The axis is that of SplitToSequence and
 * ConcatFromSequence, adds_axis their keepdims and new_axis, the element type SequenceEmpty's. */
OrtStatus* ephost_sequence_kernel_new(const char* op_type, int64_t axis, bool adds_axis, int element_type,
                                      EphostHostKernel** out);
/* of If, Loop, Scan (of opset 9 and later) and SequenceMap, whose bodies have plans: bodies.c */
typedef struct EphostBody {
  struct Plan* plan;      /* must outlive the kernel */
  size_t own_count;       /* of the plan's inputs the first are the body's own, the others it captures */
  const size_t* captured; /* for each of these the input of the node's step that holds it; copied */
  const bool* on_device;  /* for each output whether it is taken where it is made; copied */
} EphostBody;
/* What runs of a body are given parts of, or make parts of: its axis, direction and name, and what the body
 * declares of a part. All is copied. */
typedef struct EphostTrack {
  int64_t axis;
  bool backwards;
  const char* name;
  int element_type; /* ONNXTensorElementDataType */
  size_t rank;
  const int64_t* dims;
} EphostTrack;
typedef struct EphostBodies {
  const char* op_type;
  const EphostBody* bodies; /* If: then_branch, else_branch */
  size_t body_count;
  size_t state_count; /* values that go from one run to the next */
  const EphostTrack* scanned;
  size_t scanned_count;
  const EphostTrack* collected;
  size_t collected_count;
  size_t counter_ranks[2]; /* 0 or 1: of a loop's iteration number and condition, as its body reads them */
} EphostBodies;
OrtStatus* ephost_bodies_new(const EphostBodies* what, EphostHostKernel** out);
void ephost_host_kernel_free(EphostHostKernel* kernel); /* NULL is fine */

/* Making a plan: see plan.c. A status that is not NULL is released by ReleaseStatus. Pointers to EPs,
 * allocators, memory infos, kernels and compute infos are borrowed and must outlive the plan. */
typedef struct Plan EphostPlan;
typedef struct ThreadPool EphostThreadPool;
EphostThreadPool* ephost_thread_pool_new(int threads);
void ephost_thread_pool_free(EphostThreadPool* pool);
EphostPlan* ephost_plan_new(size_t slot_count, EphostThreadPool* threads, const OrtLogger* logger,
                            bool exclusive);
void ephost_plan_set_body(EphostPlan* plan); /* a part of another plan's run: EPs are not told of its runs */
void ephost_plan_free(EphostPlan* plan);
void ephost_plan_free_frames(EphostPlan* plan);
typedef struct EphostSlotType {
  /* ONNXTensorElementDataType; undefined where that is not known, or for what is no tensor */
  int element_type;
  int64_t rank;        /* -1: the dimensions are not all known */
  const int64_t* dims; /* copied */
  /* where a kernel's output goes; NULL: CPU memory. Borrowed, as the allocator for it */
  const OrtMemoryInfo* memory;
  OrtAllocator* allocator;
} EphostSlotType;
OrtStatus* ephost_plan_set_slots(EphostPlan* plan, const EphostSlotType* types); /* one for each slot */
OrtStatus* ephost_plan_set_constant(EphostPlan* plan, size_t slot, OrtValue* value);
/* memory NULL: the CPU's. stream_factory: of an EP with streams, else NULL. hears_of_runs: OnRunStart and
 * OnRunEnd are called. */
OrtStatus* ephost_plan_add_ep(EphostPlan* plan, OrtEp* ep, const char* name, const OrtMemoryInfo* memory,
                              OrtAllocator* allocator, OrtEpFactory* stream_factory, bool hears_of_runs);
typedef struct EphostStep {
  int kind; /* a StepKind of plan.h */
  int ep;   /* in the order of ephost_plan_add_ep; -1 for the fallback */
  /* what runs it; the plan takes a Python callable or a kernel of the host over, also when it fails */
  void* object;
  void* state;
  const OrtKernelDef* definition; /* a kernel's, which says what of it may share memory, or NULL */
  size_t input_count;
  size_t output_count;
  bool is_group; /* `names` has several nodes for it */
} EphostStep;
/* `slots` has, step by step, inputs and outputs (-1: left out); `names` each node's name and operator, each
 * with its NUL. To be called once. */
OrtStatus* ephost_plan_add_steps(EphostPlan* plan, const EphostStep* steps, size_t count,
                                 const int32_t* slots, const char* names);
/* Of each input and output the slot on the CPU and, when some EP has it in memory of its own, the slot there;
 * -1 for none. */
OrtStatus* ephost_plan_set_interface(EphostPlan* plan, const int32_t* inputs, const int32_t* device_inputs,
                                     size_t input_count, const int32_t* outputs,
                                     const int32_t* device_outputs, size_t output_count);
/* When all of that is told: finds how long each value is needed, and gives what steps of plugins make places
 * in one arena. Says its size, and that without sharing. */
OrtStatus* ephost_plan_share_memory(EphostPlan* plan, size_t* arena_bytes, size_t* planned_bytes);
/* Where in the arena a slot's value lies; false: nowhere. */
bool ephost_plan_place(const EphostPlan* plan, size_t slot, size_t* offset, size_t* nbytes);
/* From here on the EP with that index records runs and replays them; they take turns. */
void ephost_plan_set_capture(EphostPlan* plan, int ep);
/* Whether runs with these options run only what the outputs that they ask for need. */
OrtStatus* ephost_stream_wait(OrtSyncStream* stream); /* until all that was queued is done */
void ephost_run_options_only_fetches(OrtRunOptions* options, bool only);
typedef struct EphostStepTime {
  int32_t step;
  uint64_t thread;
  int64_t start_ns;
  int64_t duration_ns;
} EphostStepTime;
void ephost_plan_profile(EphostPlan* plan, bool enabled);
/* Tells a profiler how long ago the host's profile began, at that moment of ephost_clock_ns: a call from
 * Python would take longer than what is profiled. */
OrtStatus* ephost_profiler_start(OrtEpProfilerImpl* profiler, int64_t began);
/* What this thread's last call of it was given: by the time that a profiler written in Python is entered, how
 * long ago that was is no longer true. */
int64_t ephost_profiler_began(void);
/* Lets EPs' profilers, which must outlive the plan, hear of runs and steps while it is profiled. To be called
 * once, before the first profiled run. */
OrtStatus* ephost_plan_set_profilers(EphostPlan* plan, OrtEpProfilerImpl** profilers, size_t count,
                                     int64_t profile_start);
/* capacity 0: only counts */
size_t ephost_plan_times(EphostPlan* plan, EphostStepTime* out, size_t capacity);
int64_t ephost_clock_ns(void);

/* ---- isolated plugins: shared_pool.c, remote.c, serve.c ---- */

/* Memory that two processes map; its blocks keep it alive. NULL without memory. The file stays the caller's.
 * The host alone gives out blocks. */
typedef struct SharedPool EphostSharedPool;
/* Maps so many bytes of addresses. Takes the file over, which grows as memory is given out: what is locked
 * whole (mlockall) takes no more memory than that. NULL: it cannot be mapped, and the file stays. */
EphostSharedPool* ephost_pool_open(int file, uint64_t nbytes);
void ephost_pool_release(EphostSharedPool* pool);            /* NULL is fine */
OrtAllocator* ephost_pool_allocator(EphostSharedPool* pool); /* borrowed */
size_t ephost_pool_in_use(EphostSharedPool* pool);           /* bytes of blocks that are given out */

/* The host's half: runs of groups in a worker process. Both callbacks get the handle. The first asks the
 * worker to serve a lane, the block at an offset of the pool, and gives the socket for it; the second says
 * what became of a worker that does not answer (or not in time), as a status that is never NULL. `process` is
 * a descriptor that can be read once the worker has ended (a pidfd), and stays the caller's; -1: there is
 * none. */
typedef struct Remote EphostRemote;
typedef OrtStatus* (*EphostLaneOpener)(void* handle, uint64_t offset, int* socket);
typedef OrtStatus* (*EphostFaultCallback)(void* handle, bool timed_out, const char* node);
EphostRemote* ephost_remote_new(EphostSharedPool* pool, int process, void* handle, EphostLaneOpener open_lane,
                                EphostFaultCallback fault);
void ephost_remote_set_timeout(EphostRemote* remote, double seconds); /* of a run; 0: none */
void ephost_remote_end(EphostRemote* remote);                         /* after its infos; NULL is fine */
OrtNodeComputeInfo* ephost_remote_info_new(EphostRemote* remote, uint32_t plan);
void ephost_remote_info_free(OrtNodeComputeInfo* info);
/* A device's memory in a worker. Its blocks have addresses here, where nothing can be read or written; each
 * keeps the memory, and the worker frees what is freed here. The remote is taken over, and asked for its lane
 * at once; `info` is borrowed, for as long as there are blocks. */
typedef struct RemoteMemory EphostRemoteMemory;
OrtStatus* ephost_remote_memory_new(EphostRemote* remote, uint32_t device, const OrtMemoryInfo* info,
                                    EphostRemoteMemory** out);
void ephost_remote_memory_release(EphostRemoteMemory* memory); /* NULL is fine */
OrtAllocator* ephost_remote_memory_allocator(EphostRemoteMemory* memory);
size_t ephost_remote_memory_blocks(EphostRemoteMemory* memory); /* how many there are */
OrtStatus* ephost_remote_memory_alloc(EphostRemoteMemory* memory, size_t nbytes, void** out);
void ephost_remote_free(void* block);       /* of any such memory; NULL is fine */
bool ephost_remote_knows(const void* data); /* whether an address is in a block of any such memory */
/* An allocator that has each block from the callback, which gets the handle: from the worker of the day.
 * `info` is borrowed. NULL without memory. */
typedef OrtStatus* (*EphostRemoteAllocate)(void* handle, size_t nbytes, void** out);
OrtAllocator* ephost_remote_allocator_new(void* handle, EphostRemoteAllocate allocate,
                                          const OrtMemoryInfo* info);
void ephost_remote_allocator_free(OrtAllocator* allocator); /* NULL is fine */
/* What copies between the CPU and such memories of a device, whichever worker they are in. `info` is
 * borrowed. Its Release frees it. NULL without memory. */
OrtDataTransferImpl* ephost_remote_transfer_new(const OrtMemoryInfo* info);
/* What an output's slot is on a device in a worker: where that is wanted, the step leaves it there. */
OrtStatus* ephost_plan_set_remote_slot(EphostPlan* plan, int32_t slot, int32_t remote_slot);
/* The error that the host's next look for what a plugin has thrown in this thread finds; taken over. */
void ephost_keep_status(OrtStatus* status);
/* Frames of the plan take their arenas from the pool, which the plan keeps. */
void ephost_plan_set_pool(EphostPlan* plan, EphostSharedPool* pool);

/* The worker's half. */
bool ephost_serve_plan(uint32_t number, EphostPlan* plan); /* NULL takes it off; false without memory */
void ephost_serve_lane(EphostSharedPool* pool, uint64_t offset, int socket); /* until the socket ends */
/* From here on lanes may ask for memory of a device. All three are borrowed. False without memory. */
bool ephost_serve_memory(uint32_t device, OrtAllocator* allocator, OrtDataTransferImpl* transfer,
                         const OrtMemoryInfo* info);
void ephost_worker_report(int file,
                          uint32_t* last_call); /* crashes are described there; the last call noted */
uint32_t* ephost_status_map(int file);          /* for the last call; NULL: it cannot be mapped */
bool ephost_worker_watch(int socket);           /* the process ends with the socket; false: cannot */
/* This process is a worker, which is asked on a socket. `status`: a page that the host reads; the word behind
 * that of the last call says what is wrong with the process, EphostWorkerFault. */
typedef enum EphostWorkerFault { EPHOST_WORKER_LOST_ITS_SOCKET = 1 } EphostWorkerFault;
void ephost_worker_begin(int socket, uint32_t* status);
/* Ends a process that the plugin has forked and returned in, and a worker whose socket it has closed. */
void ephost_worker_check(void);
const char* ephost_call_name(uint32_t number); /* of a noted call; "" for none */

#endif
