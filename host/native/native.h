/* What the C half of the host shares between its files: the layout of the opaque types, and the functions of
 * one file that another one calls. Nothing here is seen by a plugin. */
#ifndef EPHOST_NATIVE_H_
#define EPHOST_NATIVE_H_

#include <stdatomic.h>

#include "ephost/ephost.h"
#include "slots.h" /* generated: prototypes that hold the implemented slots to the ABI */

/* The name under which a slot of a table is implemented. Writing a function under this name puts it into the
 * table; the build finds it by this macro (see tools/generate.py). */
#define SLOT(table, member) ephost_##table##_##member

#define EPHOST_API_VERSION_SERVED 31 /* the highest version that GetApi serves; newer slots are stubs */

/* ---- heap.c -------------------------------------------------------------------------------------------- */

/* What the host allocates for itself goes through these, so that tests can make any one of them fail. They
 * give NULL without memory; a size of 0 gives a block to free like any other. */
void* host_malloc(size_t nbytes);
void* host_calloc(size_t count, size_t size); /* NULL too when the product overflows */
void* host_realloc(void* block, size_t nbytes);
void host_free(void* block); /* NULL is fine */
void* host_memdup(const void* data, size_t nbytes);
char* host_strdup(const char* text);
bool host_allocation_fails(void); /* for an allocation that goes elsewhere: true when it is the one to fail */
void ephost_fail_allocation_after(int64_t count); /* `count` more succeed, the next fails, later ones succeed;
                                                     negative: none fails */

/* ---- status.c ------------------------------------------------------------------------------------------ */

struct OrtStatus {
  OrtErrorCode code;
  char message[]; /* NUL-terminated */
};

#if defined(__GNUC__)
#define EPHOST_PRINTF(string, first) __attribute__((format(printf, string, first)))
#else
#define EPHOST_PRINTF(string, first)
#endif

/* Never returns NULL: without memory it gives a shared "out of memory" status that ReleaseStatus leaves
 * alone. */
OrtStatus* status_new(OrtErrorCode code, const char* format, ...) EPHOST_PRINTF(2, 3);
OrtStatus* status_no_memory(void);
/* Answers for a slot that nobody implements: says the table's and the function's name. */
OrtStatus* status_not_implemented(const char* table, const char* member);

/* The ABI's protocol for what has a size: *size becomes what is needed; with `out` NULL that is all that is
 * asked for, else *size says first for how many there is room, and too little of it is an error. */
OrtStatus* sized_out(const char* function, const void* source, size_t count, size_t element_size, void* out,
                     size_t* size);
OrtStatus* text_out(const char* function, const char* text, char* out, size_t* size); /* with its NUL */

/* For the argument checks at the top of a slot. */
#define REQUIRE_ARG(condition)                                                                               \
  do {                                                                                                       \
    if (!(condition)) return status_new(ORT_INVALID_ARGUMENT, "%s: " #condition " does not hold", __func__); \
  } while (0)

/* Live handles by kind, for tests and leak reports: every create counts +1, every release -1. */
typedef enum HandleKind {
  HANDLE_STATUS,
  HANDLE_VALUE,
  HANDLE_BUFFER,
  HANDLE_MEMORY_INFO,
  HANDLE_TYPE_INFO,
  HANDLE_TENSOR_INFO,
  HANDLE_KEY_VALUE_PAIRS,
  HANDLE_GRAPH,
  HANDLE_KERNEL_REGISTRY,
  HANDLE_KERNEL_DEF,
  HANDLE_KERNEL_INFO,
  HANDLE_EP_DEVICE,
  HANDLE_HARDWARE_DEVICE,
  HANDLE_ALLOCATOR,
  HANDLE_SYNC_STREAM,
  HANDLE_SESSION_OPTIONS,
  HANDLE_RUN_OPTIONS,
  HANDLE_PLAN,
  HANDLE_OTHER,
  HANDLE_KINDS
} HandleKind;
void handle_count(HandleKind kind, int delta);
int64_t ephost_live_handles(int kind); /* a HandleKind; -1 for what is none */

/* ---- key_values.c -------------------------------------------------------------------------------------- */

/* Entries keep the order in which their keys were first added; setting a key again replaces its value. */
struct OrtKeyValuePairs {
  const char** keys;
  const char** values;
  size_t count;
  size_t capacity;
};
OrtKeyValuePairs* key_values_new(void);                            /* NULL without memory */
OrtKeyValuePairs* key_values_copy(const OrtKeyValuePairs* source); /* NULL source gives an empty one */
bool key_values_set(OrtKeyValuePairs* pairs, const char* key, const char* value); /* false without memory */
void key_values_free(OrtKeyValuePairs* pairs);
const char* key_values_get(const OrtKeyValuePairs* pairs, const char* key); /* NULL when absent */
void key_values_remove(OrtKeyValuePairs* pairs, const char* key);

/* ---- memory.c ------------------------------------------------------------------------------------------ */

struct OrtMemoryDevice {
  OrtMemoryInfoDeviceType device_type;
  OrtDeviceMemoryType memory_type;
  uint32_t vendor_id;
  int32_t device_id;
  size_t alignment;
};

struct OrtMemoryInfo {
  char* name;
  OrtAllocatorType allocator_type;
  OrtMemType mem_type;
  OrtMemoryDevice device;
};

extern const OrtMemoryInfo ephost_cpu_memory_info; /* name "Cpu", the default CPU memory; never released */
OrtMemoryInfo* memory_info_copy(const OrtMemoryInfo* source); /* NULL without memory */
void memory_info_free(OrtMemoryInfo* info);                   /* NULL is fine, and so is the CPU's */
bool memory_device_equal(const OrtMemoryDevice* a, const OrtMemoryDevice* b);
bool memory_info_equal(const OrtMemoryInfo* a, const OrtMemoryInfo* b);
static inline bool memory_info_is_cpu(const OrtMemoryInfo* info) {
  return info->device.device_type == OrtMemoryInfoDeviceType_CPU ||
         info->device.memory_type == OrtDeviceMemoryType_HOST_ACCESSIBLE;
}

/* The process-wide CPU allocator: 64-byte aligned, with a per-size cache of freed blocks (bounded by a limit
 * that ephost_set_cpu_cache_limit sets), counting what it holds for GetStats. Thread-safe. */
OrtAllocator* ephost_cpu_allocator(void);
void ephost_set_cpu_cache_limit(size_t bytes);
void* cpu_alloc(size_t nbytes); /* NULL without memory; nbytes 0 gives a unique non-NULL pointer */
void cpu_free(void* block);
void ephost_trim_cpu_cache(void); /* give cached blocks back to the system */

/* ---- value.c ------------------------------------------------------------------------------------------- */

/* A block of memory that several values may share. */
typedef struct Buffer {
  atomic_int references;
  void* data;
  size_t nbytes;
  void (*free_data)(struct Buffer* buffer); /* called once, at the last reference; NULL: nothing to free */
  void* context;                            /* for free_data: an OrtAllocator*, a Python object, ... */
  /* data begins where plugins do not expect it, inside a model's file: what they get is a copy, made when the
   * first one asks. In a mapped file, whose pages are not needed after that. */
  bool is_misaligned, is_mapped;
  _Atomic(void*) aligned; /* that copy, or NULL; from cpu_alloc */
} Buffer;

/* All return NULL without memory. */
Buffer* buffer_from_cpu(size_t nbytes); /* from cpu_alloc */
/* From the allocator; for work on a stream, if there is one and the allocator knows streams. */
Buffer* buffer_from_allocator(OrtAllocator* allocator, size_t nbytes, OrtSyncStream* stream);
/* What an allocator says of itself, for messages: " (Limit=..., InUse=...)", or "". Returns `text`. */
enum { ALLOCATOR_STATE = 256 };
const char* allocator_state(const OrtAllocator* allocator, char text[ALLOCATOR_STATE]);
Buffer* buffer_adopt(void* data, size_t nbytes, void (*free_data)(Buffer*), void* context);
void buffer_retain(Buffer* buffer);
void buffer_release(Buffer* buffer); /* NULL is fine */

/* One element of a string tensor; text is NUL-terminated, may hold NULs before its end, and NULL is "". */
typedef struct StringElement {
  char* text;
  size_t length;
} StringElement;

#define VALUE_INLINE_RANK 6

/* ONNX_TYPE_UNKNOWN: no value (an absent optional input, a slot not computed yet).
 * ONNX_TYPE_OPTIONAL: an optional that holds nothing; one that holds something has the type of what it holds.
 * A tensor of strings has StringElement[count] as its data. 4- and 2-bit types are packed, low bits first. */
struct OrtValue {
  ONNXType type;
  /* of a tensor; of the tensors in a sequence, or in an empty optional */
  ONNXTensorElementDataType element_type;
  size_t rank;
  int64_t* dims; /* inline_dims, or heap memory when rank > VALUE_INLINE_RANK */
  int64_t inline_dims[VALUE_INLINE_RANK];
  size_t element_count;
  void* data;     /* NULL only when nbytes is 0 */
  size_t nbytes;  /* bytes of the elements */
  Buffer* buffer; /* what keeps data alive; NULL when somebody else does (a planned arena, the caller) */
  /* where data lives; never NULL for a tensor; borrowed from a longer-lived owner */
  const OrtMemoryInfo* memory_info;
  /* NULL, or the same, when there is no such owner: see value_own_memory_info */
  OrtMemoryInfo* owned_memory_info;
  /* never NULL for sequences: the elements; and maps: two rank 1 tensors, keys and values */
  OrtValue** items;
  size_t item_count;
};

size_t element_type_bits(ONNXTensorElementDataType type); /* 0 for strings and undefined */
/* Bytes of a tensor; false when a dimension is negative or the product overflows. count and nbytes may be
 * NULL. A string counts as its StringElement. */
bool tensor_nbytes(ONNXTensorElementDataType type, const int64_t* dims, size_t rank, size_t* count,
                   size_t* nbytes);
/* Make an empty (zeroed) value a tensor over `buffer` (its reference is taken over) or, with buffer NULL,
 * over the borrowed `data`. On false (no memory, bad shape) the value is untouched and the reference still
 * the caller's. */
bool value_init_tensor(OrtValue* value, ONNXTensorElementDataType type, const int64_t* dims, size_t rank,
                       Buffer* buffer, void* data, const OrtMemoryInfo* memory_info);
/* The same over new memory: of the allocator, or of the CPU for NULL and for (empty) strings. */
bool value_alloc_tensor(OrtValue* value, ONNXTensorElementDataType type, const int64_t* dims, size_t rank,
                        OrtAllocator* allocator);
/* Gives a tensor a memory info of its own when the one that it borrows may go first. False without memory. */
bool value_own_memory_info(OrtValue* value);
void value_clear(OrtValue* value);             /* drop what it holds; it is then ONNX_TYPE_UNKNOWN */
void value_move(OrtValue* to, OrtValue* from); /* `to` must be clear; `from` is clear afterwards */
/* `to` must be clear; shares buffers; false without memory; false too when `from` borrows its data (no
 * buffer) */
bool value_share(OrtValue* to, const OrtValue* from);
/* on the heap, clear; ReleaseValue frees it; NULL without memory */
OrtValue* value_new(void);

/* As value_share, but a tensor's data is copied into new memory: only CPU memory to CPU memory. */
bool value_copy(OrtValue* to, const OrtValue* from, OrtAllocator* allocator);
/* NULL when the element type is one, and the shape is that of a tensor that can be. count and nbytes may be
 * NULL. */
OrtStatus* tensor_shape_check(const char* function, ONNXTensorElementDataType type, const int64_t* dims,
                              size_t rank, size_t* count, size_t* nbytes);

typedef void (*ReleaseCallback)(void* owner);

/* ---- value_strings.c ----------------------------------------------------------------------------------- */

/* StringElement[count], all empty; frees the texts; NULL without memory */
Buffer* buffer_for_strings(size_t count);
/* copies; false without memory */
bool string_element_set(StringElement* element, const char* text, size_t length);
bool copy_strings(StringElement* to, const StringElement* from, size_t count);

/* ---- value_containers.c -------------------------------------------------------------------------------- */

/* Make a clear value a sequence or a map that shares (or copies, where they borrow) the items' data. */
bool value_init_items(OrtValue* value, ONNXType type, ONNXTensorElementDataType element_type,
                      const OrtValue* const* items, size_t count);

/* ---- type_info.c --------------------------------------------------------------------------------------- */

struct OrtTensorTypeAndShapeInfo {
  ONNXTensorElementDataType element_type;
  bool has_shape;
  size_t rank;
  int64_t* dims; /* -1 where unknown; inline_dims, or heap memory when rank > VALUE_INLINE_RANK */
  int64_t inline_dims[VALUE_INLINE_RANK];
  const char** symbols; /* "" where there is none; owned strings; NULL when no dimension has one */
};
struct OrtMapTypeInfo {
  ONNXTensorElementDataType key_type;
  OrtTypeInfo* value_type;
};
struct OrtSequenceTypeInfo {
  OrtTypeInfo* element_type;
};
struct OrtOptionalTypeInfo {
  OrtTypeInfo* contained_type;
};
struct OrtTypeInfo {
  ONNXType type;
  char* denotation; /* NULL for none */
  OrtTensorTypeAndShapeInfo* tensor;
  OrtMapTypeInfo* map;
  OrtSequenceTypeInfo* sequence;
  OrtOptionalTypeInfo* optional;
};
OrtTensorTypeAndShapeInfo* tensor_info_new(ONNXTensorElementDataType type, bool has_shape,
                                           const int64_t* dims, const char* const* symbols, size_t rank);
OrtTensorTypeAndShapeInfo* tensor_info_copy(const OrtTensorTypeAndShapeInfo* source);
void tensor_info_free(OrtTensorTypeAndShapeInfo* info);
/* the part that belongs to `type` is for the caller to set */
OrtTypeInfo* type_info_new(ONNXType type);
OrtTypeInfo* type_info_copy(const OrtTypeInfo* source); /* deep */
void type_info_free(OrtTypeInfo* info);                 /* deep; NULL is fine */
OrtTypeInfo* type_info_of_value(const OrtValue* value);

/* ---- logger.c ------------------------------------------------------------------------------------------ */

/* Messages go to the callback of ephost_set_log_callback (without one, errors go to stderr, the rest
 * nowhere); below `level` they are dropped before any Python runs. */
struct OrtLogger {
  char* name;       /* the registration name, or a session's log id */
  atomic_int level; /* an OrtLoggingLevel; may change while plugins' threads log */
};
OrtLogger* ephost_logger_new(const char* name, OrtLoggingLevel level);
void ephost_logger_free(OrtLogger* logger);
void ephost_set_log_callback(void (*callback)(int level, const char* logger, const char* message,
                                              const char* file, int line, const char* function));
void ephost_set_log_level(int level); /* of the host's own messages; warnings and above unless it is set */
/* the host's own messages */
void host_log(OrtLoggingLevel level, const char* format, ...) EPHOST_PRINTF(2, 3);

/* ---- devices.c ----------------------------------------------------------------------------------------- */

struct OrtHardwareDevice {
  OrtHardwareDeviceType type;
  uint32_t vendor_id;
  uint32_t device_id;
  char* vendor;
  OrtKeyValuePairs* metadata;
};

/* Made by a plugin through CreateEpDevice inside GetSupportedDevices, owned by the environment afterwards. */
struct OrtEpDevice {
  OrtEpFactory* factory;
  const OrtHardwareDevice* hardware; /* borrowed: the environment's, or a virtual device of the plugin's */
  char* ep_name;                     /* copied when it was made: valid after the library is gone */
  char* ep_vendor;
  OrtKeyValuePairs* metadata;
  OrtKeyValuePairs* options;
  const OrtMemoryInfo* default_memory; /* from EpDevice_AddAllocatorInfo (copies); NULL for none */
  const OrtMemoryInfo* host_accessible_memory;
  const OrtMemoryInfo* read_only_memory;
};

struct OrtDeviceEpIncompatibilityDetails {
  uint32_t reasons;
  int32_t error_code;
  char* notes;
};

/* ---- options.c ----------------------------------------------------------------------------------------- */

struct OrtSessionOptions {
  OrtKeyValuePairs* config;
  bool mem_pattern;
  ExecutionMode execution_mode;
  const void* weightless_data; /* borrowed */
  size_t weightless_size;
  OrtCustomOpDomain** domains; /* the array is owned, the domains are borrowed */
  size_t domain_count;
};

struct OrtRunOptions {
  OrtKeyValuePairs* config;
  char* tag;
  int log_severity;
  int log_verbosity;
  atomic_bool terminate;
  atomic_bool only_fetches;   /* run nothing but what the wanted outputs need */
  OrtSyncStream* sync_stream; /* borrowed */
};

/* ---- graph.c, graph_view.c, attribute.c ---------------------------------------------------------------- */

/* One block of memory with the attribute's name and data behind it, except for a tensor and a graph. */
struct OrtOpAttr {
  const char* name;
  OrtOpAttrType type;
  size_t count;          /* elements of a list; 1 for a scalar */
  const int64_t* ints;   /* INT, INTS */
  const float* floats;   /* FLOAT, FLOATS */
  const char** strings;  /* STRING (one), STRINGS; each NUL-terminated, but may hold NULs before its end */
  const size_t* lengths; /* of the strings, without the NUL */
  OrtValue* tensor;      /* TENSOR: owned */
  OrtGraph* graph;       /* GRAPH: owned */
};
/* All copy what they are given and return NULL without memory. `type` is the list's or, with count 1, the
 * scalar's. */
OrtOpAttr* attribute_of_ints(const char* name, OrtOpAttrType type, const int64_t* ints, size_t count);
OrtOpAttr* attribute_of_floats(const char* name, OrtOpAttrType type, const float* floats, size_t count);
OrtOpAttr* attribute_of_strings(const char* name, OrtOpAttrType type, const char* const* strings,
                                const size_t* lengths, size_t count);
/* takes the tensor over when it succeeds */
OrtOpAttr* attribute_of_tensor(const char* name, OrtValue* tensor);
/* takes the graph over when it succeeds */
OrtOpAttr* attribute_of_graph(const char* name, OrtGraph* graph);
void attribute_free(OrtOpAttr* attribute); /* NULL is fine */

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

struct OrtModelMetadata {
  char* producer_name;
  char* graph_name;
  char* domain;
  char* description;
  char* graph_description;
  int64_t version;
  OrtKeyValuePairs* custom;
};
/* NULL source gives an empty one; NULL without memory */
OrtModelMetadata* model_metadata_copy(const OrtModelMetadata* source);
void model_metadata_free(OrtModelMetadata* metadata);

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

/* What an EP claims in one GetCapability, collected for Python, which reads it when the call has returned. */
typedef struct Claim {
  /* of the graph that the EP was asked about, in the order in which the plugin gave them */
  const OrtNode** nodes;
  size_t node_count;
  bool single;                     /* through AddSingleNode: a kernel from the EP's registry runs it */
  bool drop_constant_initializers; /* of a group */
} Claim;
struct OrtEpGraphSupportInfo {
  const OrtGraph* graph;
  const OrtEp* ep;
  const OrtKernelRegistry* registry; /* for LookUpKernel; NULL when the EP has none */
  struct PointerMap* members;        /* origin of each node of the graph -> the node */
  Claim* claims;
  size_t claim_count;
  size_t claim_capacity;
};

struct OrtNodeComputeContext {
  const char* node_name;
};

/* ---- kernel_registry.c, kernel_info.c ------------------------------------------------------------------ */

struct OrtDataType {
  ONNXTensorElementDataType element_type;
};

typedef struct TypeConstraint {
  char* name; /* a type parameter ("T"), or an input's or output's formal name */
  ONNXTensorElementDataType* types;
  size_t type_count;
} TypeConstraint;

typedef struct IndexPair {
  int input;
  int output;
} IndexPair;

/* Shared by reference: Build hands out the builder's description, a registry keeps it alive. */
struct OrtKernelDef {
  atomic_int references;
  char* op_type;
  char* domain;
  char* ep_name;
  int since_version;
  int until_version; /* INT_MAX for open */
  TypeConstraint* constraints;
  size_t constraint_count;
  OrtMemType* input_mem_types; /* OrtMemTypeDefault beyond the array */
  size_t input_mem_type_count;
  OrtMemType* output_mem_types;
  size_t output_mem_type_count;
  IndexPair* aliases;
  size_t alias_count;
  IndexPair* may_inplace;
  size_t may_inplace_count;
};
OrtMemType kernel_def_input_mem_type(const OrtKernelDef* def, size_t index);
OrtMemType kernel_def_output_mem_type(const OrtKernelDef* def, size_t index);

typedef struct KernelEntry {
  OrtKernelDef* def;
  OrtKernelCreateFunc create;
  void* create_state;
} KernelEntry;
/* The entry whose operator, domain, version range and type constraints fit the node, and which names no other
 * EP than `ep_name` (NULL: any); NULL for none. */
const KernelEntry* kernel_registry_find(const OrtKernelRegistry* registry, const OrtNode* node,
                                        const char* ep_name);
/* When none fits: a constraint of a kernel for the node's version that the operator has no such name for;
 * else NULL. */
const char* kernel_registry_unknown_constraint(const OrtKernelRegistry* registry, const OrtNode* node,
                                               const char* ep_name);
void kernel_def_release(OrtKernelDef* def); /* drops a reference; NULL is fine */

/* Of each input of a node its constant value (maybe on the device) or NULL. The values are borrowed. */
typedef struct KernelConstants {
  atomic_int references;
  const OrtValue* values[];
} KernelConstants;

struct OrtKernelInfo {
  const OrtNode* node; /* borrowed: its graph must outlive the kernel */
  const OrtEp* ep;
  OrtKernelDef* def; /* a reference is held */
  const OrtLogger* logger;
  OrtKeyValuePairs* config; /* the session's; owned copy, may be NULL */
  OrtAllocator* cpu_allocator;
  OrtAllocator* device_allocator;    /* the EP's; the CPU's when it has none */
  void* session;                     /* Python's handle of the session, for subgraph kernels; may be NULL */
  struct KernelConstants* constants; /* shared with the info's copies; NULL for none */
};

/* ---- threads.c ----------------------------------------------------------------------------------------- */

typedef struct ThreadPool ThreadPool;
/* counts the caller: 1 starts none; 0 takes the machine's cores */
ThreadPool* ephost_thread_pool_new(int threads);
void ephost_thread_pool_free(ThreadPool* pool);
/* Calls fn(context, i) for each i < total, on the pool's threads and the caller's, in at most `batches`
 * pieces (0: as many as there are threads); returns when all are done. Nested calls run in the calling
 * thread. */
void thread_pool_parallel_for(ThreadPool* pool, void (*fn)(void*, size_t), size_t total, size_t batches,
                              void* context);

/* ---- streams ------------------------------------------------------------------------------------------- */

struct OrtSyncStream {
  OrtSyncStreamImpl* impl; /* NULL for a stream whose handle a user brought */
  void* user_handle;
  const OrtMemoryDevice* device;
  const OrtEpDevice* ep_device;
  atomic_uint_least64_t sync_id;
  void* owner;
};
/* Takes the implementation over; NULL without memory. ReleaseSyncStream frees it. */
OrtSyncStream* stream_new(OrtSyncStreamImpl* impl, const OrtMemoryDevice* device,
                          const OrtEpDevice* ep_device);
OrtStatus* stream_for(OrtEp* ep, OrtEpFactory* factory, const OrtMemoryDevice* device,
                      const OrtKeyValuePairs* options, const OrtEpDevice* ep_device, OrtSyncStream** out);
/* Returns when all that was queued on the stream so far is done. */
OrtStatus* stream_wait_on_host(OrtSyncStream* stream);

/* ---- tables.c (generated) ------------------------------------------------------------------------------ */

extern const OrtApiBase ephost_api_base;
extern const OrtApi ephost_api;
extern const OrtEpApi ephost_ep_api;
extern const OrtModelEditorApi ephost_model_editor_api;
extern const OrtCompileApi ephost_compile_api;
extern const OrtInteropApi ephost_interop_api;
void stub_called(size_t stub); /* counts; see ephost_stub_calls */

#endif
