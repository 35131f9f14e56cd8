/* Kernel registries: an EP describes each kernel with a builder and registers it, once for every session; the
 * host then looks up the kernel for each node that the EP claims. */
#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "abi.h"
#include "graph.h"
#include "heap.h"
#include "kernel.h"
#include "maps.h"
#include "python.h"
#include "status.h"
#include "type_info.h"

#define MAX_INDEX 65535 /* of an input or output that a kernel may speak of */

/* A description that Build has handed out is no longer the builder's. */
struct OrtKernelDefBuilder {
  OrtKernelDef* def; /* NULL after Build */
};

typedef struct Bucket {
  KernelEntry* entries;
  size_t count;
  size_t capacity;
} Bucket;

/* Entries with the same hash of operator and domain are in one bucket, in the order in which they came. */
#define BUCKETS 256
struct OrtKernelRegistry {
  Bucket buckets[BUCKETS];
};

static const char* canonical_domain(const char* domain) {
  return domain == NULL || strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

static size_t bucket_of(const char* op_type, const char* domain) {
  return (size_t)(name_hash(op_type) * 31 + name_hash(domain)) % BUCKETS;
}

/* ---- data types ---- */

/* *out is the process's, and NULL with an error for a type that no tensor has. */
OrtStatus* ORT_API_CALL SLOT(OrtEpApi, GetTensorDataType)(ONNXTensorElementDataType elem_type,
                                                          const OrtDataType** out) {
  /* One for each type, in the order of the enumeration. */
#define TYPE(number) \
  { (ONNXTensorElementDataType)(number) }
  static const OrtDataType types[] = {
      TYPE(0),  TYPE(1),  TYPE(2),  TYPE(3),  TYPE(4),  TYPE(5),  TYPE(6),  TYPE(7),  TYPE(8),
      TYPE(9),  TYPE(10), TYPE(11), TYPE(12), TYPE(13), TYPE(14), TYPE(15), TYPE(16), TYPE(17),
      TYPE(18), TYPE(19), TYPE(20), TYPE(21), TYPE(22), TYPE(23), TYPE(24), TYPE(25), TYPE(26),
  };
#undef TYPE
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  size_t index = (size_t)elem_type;
  if (index == 0 || index >= sizeof types / sizeof types[0]) {
    return status_new(ORT_INVALID_ARGUMENT, "GetTensorDataType: %d is no tensor element type",
                      (int)elem_type);
  }
  *out = &types[index];
  return NULL;
}

/* ---- descriptions ---- */

void kernel_def_release(OrtKernelDef* def) {
  if (def == NULL || atomic_fetch_sub(&def->references, 1) > 1) return;
  for (size_t i = 0; i < def->constraint_count; ++i)
    host_free(def->constraints[i].name); /* the types lie behind it */
  host_free(def->constraints);
  host_free(def->op_type);
  host_free(def->domain);
  host_free(def->ep_name);
  host_free(def->input_mem_types);
  host_free(def->output_mem_types);
  host_free(def->aliases);
  host_free(def->may_inplace);
  host_free(def);
  handle_count(HANDLE_KERNEL_DEF, -1);
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, CreateKernelDefBuilder)(OrtKernelDefBuilder** kernel_def_builder_out) {
  REQUIRE_ARG(kernel_def_builder_out != NULL);
  *kernel_def_builder_out = NULL;
  OrtKernelDefBuilder* builder = host_malloc(sizeof *builder);
  OrtKernelDef* def = host_calloc(1, sizeof *def);
  if (builder == NULL || def == NULL) {
    host_free(builder);
    host_free(def);
    return status_no_memory();
  }
  atomic_init(&def->references, 1);
  def->since_version = 1;
  def->until_version = INT_MAX;
  handle_count(HANDLE_KERNEL_DEF, 1);
  handle_count(HANDLE_OTHER, 1);
  builder->def = def;
  *kernel_def_builder_out = builder;
  return NULL;
}

void ORT_API_CALL SLOT(OrtEpApi, ReleaseKernelDefBuilder)(OrtKernelDefBuilder* input) {
  if (input == NULL) return;
  kernel_def_release(input->def);
  host_free(input);
  handle_count(HANDLE_OTHER, -1);
}

#define REQUIRE_OPEN_BUILDER()                                                       \
  do {                                                                               \
    REQUIRE_ARG(kernel_def_builder != NULL);                                         \
    REQUIRE_ARG(kernel_def_builder->def != NULL); /* Build ends the builder's use */ \
  } while (0)

static OrtStatus* set_text(char** member, const char* text) {
  char* copy = host_strdup(text);
  if (copy == NULL) return status_no_memory();
  host_free(*member);
  *member = copy;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi,
                             KernelDefBuilder_SetOperatorType)(OrtKernelDefBuilder* kernel_def_builder,
                                                               const char* op_type) {
  REQUIRE_OPEN_BUILDER();
  REQUIRE_ARG(op_type != NULL);
  return set_text(&kernel_def_builder->def->op_type, op_type);
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, KernelDefBuilder_SetDomain)(OrtKernelDefBuilder* kernel_def_builder,
                                                                   const char* domain) {
  REQUIRE_OPEN_BUILDER();
  REQUIRE_ARG(domain != NULL);
  return set_text(&kernel_def_builder->def->domain, domain);
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi,
                             KernelDefBuilder_SetSinceVersion)(OrtKernelDefBuilder* kernel_def_builder,
                                                               int since_version_start,
                                                               int since_version_end) {
  REQUIRE_OPEN_BUILDER();
  REQUIRE_ARG(since_version_start >= 1);
  REQUIRE_ARG(since_version_end >= since_version_start);
  kernel_def_builder->def->since_version = since_version_start;
  kernel_def_builder->def->until_version = since_version_end;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi,
                             KernelDefBuilder_SetExecutionProvider)(OrtKernelDefBuilder* kernel_def_builder,
                                                                    const char* ep_name) {
  REQUIRE_OPEN_BUILDER();
  REQUIRE_ARG(ep_name != NULL);
  return set_text(&kernel_def_builder->def->ep_name, ep_name);
}

static OrtStatus* set_mem_type(OrtMemType** types, size_t* count, size_t index, OrtMemType type) {
  REQUIRE_ARG(index <= MAX_INDEX);
  if (index >= *count) {
    OrtMemType* bigger = host_realloc(*types, (index + 1) * sizeof *bigger);
    if (bigger == NULL) return status_no_memory();
    for (size_t i = *count; i < index; ++i) bigger[i] = OrtMemTypeDefault;
    *types = bigger;
    *count = index + 1;
  }
  (*types)[index] = type;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi,
                             KernelDefBuilder_SetInputMemType)(OrtKernelDefBuilder* kernel_def_builder,
                                                               size_t input_index, OrtMemType mem_type) {
  REQUIRE_OPEN_BUILDER();
  OrtKernelDef* def = kernel_def_builder->def;
  return set_mem_type(&def->input_mem_types, &def->input_mem_type_count, input_index, mem_type);
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi,
                             KernelDefBuilder_SetOutputMemType)(OrtKernelDefBuilder* kernel_def_builder,
                                                                size_t output_index, OrtMemType mem_type) {
  REQUIRE_OPEN_BUILDER();
  OrtKernelDef* def = kernel_def_builder->def;
  return set_mem_type(&def->output_mem_types, &def->output_mem_type_count, output_index, mem_type);
}

/* The constraint's name and types are in one block, the types first. A second constraint of a name replaces
 * the first. */
OrtStatus* ORT_API_CALL SLOT(OrtEpApi,
                             KernelDefBuilder_AddTypeConstraint)(OrtKernelDefBuilder* kernel_def_builder,
                                                                 const char* arg_name,
                                                                 const OrtDataType* const* types,
                                                                 size_t num_types) {
  REQUIRE_OPEN_BUILDER();
  REQUIRE_ARG(arg_name != NULL);
  REQUIRE_ARG(types != NULL);
  REQUIRE_ARG(num_types > 0);
  for (size_t i = 0; i < num_types; ++i) REQUIRE_ARG(types[i] != NULL);
  OrtKernelDef* def = kernel_def_builder->def;
  size_t name_size = (strlen(arg_name) + 1 + 7) / 8 * 8; /* keeps what follows aligned */
  TypeConstraint added = {.type_count = num_types};
  added.name = host_malloc(name_size + num_types * sizeof *added.types);
  if (added.name == NULL) return status_no_memory();
  memcpy(added.name, arg_name, strlen(arg_name) + 1);
  added.types = (ONNXTensorElementDataType*)(void*)(added.name + name_size);
  for (size_t i = 0; i < num_types; ++i) added.types[i] = types[i]->element_type;
  for (size_t i = 0; i < def->constraint_count; ++i) {
    if (strcmp(def->constraints[i].name, arg_name) != 0) continue;
    host_free(def->constraints[i].name);
    def->constraints[i] = added;
    return NULL;
  }
  TypeConstraint* bigger = host_realloc(def->constraints, (def->constraint_count + 1) * sizeof *bigger);
  if (bigger == NULL) {
    host_free(added.name);
    return status_no_memory();
  }
  def->constraints = bigger;
  def->constraints[def->constraint_count++] = added;
  return NULL;
}

static OrtStatus* add_pairs(IndexPair** pairs, size_t* count, const int* inputs, const int* outputs,
                            size_t added) {
  REQUIRE_ARG(inputs != NULL);
  REQUIRE_ARG(outputs != NULL);
  REQUIRE_ARG(added > 0 && added <= MAX_INDEX);
  for (size_t i = 0; i < added; ++i) {
    REQUIRE_ARG(inputs[i] >= -1 && inputs[i] <= MAX_INDEX); /* -1 stands for a variadic one in the ABI */
    REQUIRE_ARG(outputs[i] >= -1 && outputs[i] <= MAX_INDEX);
  }
  IndexPair* bigger = host_realloc(*pairs, (*count + added) * sizeof *bigger);
  if (bigger == NULL) return status_no_memory();
  for (size_t i = 0; i < added; ++i) bigger[*count + i] = (IndexPair){inputs[i], outputs[i]};
  *pairs = bigger;
  *count += added;
  return NULL;
}

/* An output that is the same memory as an input. */
OrtStatus* ORT_API_CALL SLOT(OrtEpApi,
                             KernelDefBuilder_AddInputOutputAliases)(OrtKernelDefBuilder* kernel_def_builder,
                                                                     int const* input_indices,
                                                                     int const* output_indices,
                                                                     size_t num_io_indices) {
  REQUIRE_OPEN_BUILDER();
  OrtKernelDef* def = kernel_def_builder->def;
  return add_pairs(&def->aliases, &def->alias_count, input_indices, output_indices, num_io_indices);
}

/* An output that the kernel may write into an input's memory. */
OrtStatus* ORT_API_CALL SLOT(OrtEpApi, KernelDefBuilder_AddInputOutputMutableAliases)(
    OrtKernelDefBuilder* kernel_def_builder, int const* input_indices, int const* output_indices,
    size_t num_io_indices) {
  REQUIRE_OPEN_BUILDER();
  OrtKernelDef* def = kernel_def_builder->def;
  return add_pairs(&def->may_inplace, &def->may_inplace_count, input_indices, output_indices, num_io_indices);
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, KernelDefBuilder_Build)(OrtKernelDefBuilder* kernel_def_builder,
                                                               OrtKernelDef** kernel_def_out) {
  REQUIRE_ARG(kernel_def_out != NULL);
  *kernel_def_out = NULL;
  REQUIRE_OPEN_BUILDER();
  REQUIRE_ARG(kernel_def_builder->def->op_type != NULL);
  *kernel_def_out = kernel_def_builder->def;
  kernel_def_builder->def = NULL;
  return NULL;
}

void ORT_API_CALL SLOT(OrtEpApi, ReleaseKernelDef)(OrtKernelDef* input) { kernel_def_release(input); }

const char* ORT_API_CALL SLOT(OrtEpApi, KernelDef_GetOperatorType)(const OrtKernelDef* kernel_def) {
  return kernel_def != NULL ? kernel_def->op_type : NULL;
}

const char* ORT_API_CALL SLOT(OrtEpApi, KernelDef_GetDomain)(const OrtKernelDef* kernel_def) {
  if (kernel_def == NULL) return NULL;
  return kernel_def->domain != NULL ? kernel_def->domain : "";
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, KernelDef_GetSinceVersion)(const OrtKernelDef* kernel_def,
                                                                  int* start_version, int* end_version) {
  REQUIRE_ARG(start_version != NULL);
  REQUIRE_ARG(end_version != NULL);
  *start_version = *end_version = 0;
  REQUIRE_ARG(kernel_def != NULL);
  *start_version = kernel_def->since_version;
  *end_version = kernel_def->until_version;
  return NULL;
}

const char* ORT_API_CALL SLOT(OrtEpApi, KernelDef_GetExecutionProvider)(const OrtKernelDef* kernel_def) {
  if (kernel_def == NULL) return NULL;
  return kernel_def->ep_name != NULL ? kernel_def->ep_name : "";
}

OrtMemType kernel_def_input_mem_type(const OrtKernelDef* def, size_t index) {
  return index < def->input_mem_type_count ? def->input_mem_types[index] : OrtMemTypeDefault;
}

OrtMemType kernel_def_output_mem_type(const OrtKernelDef* def, size_t index) {
  return index < def->output_mem_type_count ? def->output_mem_types[index] : OrtMemTypeDefault;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, KernelDef_GetInputMemType)(const OrtKernelDef* kernel_def,
                                                                  size_t input_index, OrtMemType* mem_type) {
  REQUIRE_ARG(mem_type != NULL);
  *mem_type = OrtMemTypeDefault;
  REQUIRE_ARG(kernel_def != NULL);
  *mem_type = kernel_def_input_mem_type(kernel_def, input_index);
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, KernelDef_GetOutputMemType)(const OrtKernelDef* kernel_def,
                                                                   size_t output_index,
                                                                   OrtMemType* mem_type) {
  REQUIRE_ARG(mem_type != NULL);
  *mem_type = OrtMemTypeDefault;
  REQUIRE_ARG(kernel_def != NULL);
  *mem_type = kernel_def_output_mem_type(kernel_def, output_index);
  return NULL;
}

/* ---- registries ---- */

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, CreateKernelRegistry)(OrtKernelRegistry** kernel_registry) {
  REQUIRE_ARG(kernel_registry != NULL);
  *kernel_registry = host_calloc(1, sizeof(OrtKernelRegistry));
  if (*kernel_registry == NULL) return status_no_memory();
  handle_count(HANDLE_KERNEL_REGISTRY, 1);
  return NULL;
}

void ORT_API_CALL SLOT(OrtEpApi, ReleaseKernelRegistry)(OrtKernelRegistry* input) {
  if (input == NULL) return;
  for (size_t i = 0; i < BUCKETS; ++i) {
    for (size_t k = 0; k < input->buckets[i].count; ++k) kernel_def_release(input->buckets[i].entries[k].def);
    host_free(input->buckets[i].entries);
  }
  host_free(input);
  handle_count(HANDLE_KERNEL_REGISTRY, -1);
}

static bool same_operator(const OrtKernelDef* def, const char* op_type, const char* domain) {
  return strcmp(def->op_type, op_type) == 0 && strcmp(canonical_domain(def->domain), domain) == 0;
}

static bool allows(const TypeConstraint* constraint, ONNXTensorElementDataType type) {
  for (size_t i = 0; i < constraint->type_count; ++i) {
    if (constraint->types[i] == type) return true;
  }
  return false;
}

static bool types_overlap(const OrtKernelDef* a, const OrtKernelDef* b) {
  for (size_t i = 0; i < a->constraint_count; ++i) {
    for (size_t k = 0; k < b->constraint_count; ++k) {
      if (strcmp(a->constraints[i].name, b->constraints[k].name) != 0) continue;
      bool common = false;
      for (size_t t = 0; t < a->constraints[i].type_count && !common; ++t) {
        common = allows(&b->constraints[k], a->constraints[i].types[t]);
      }
      if (!common) return false;
    }
  }
  return true;
}

static bool same_pairs(const IndexPair* a, size_t a_count, const IndexPair* b, size_t b_count) {
  if (a_count != b_count) return false;
  for (size_t i = 0; i < a_count; ++i) {
    if (a[i].input != b[i].input || a[i].output != b[i].output) return false;
  }
  return true;
}

static bool same_memory(const OrtKernelDef* a, const OrtKernelDef* b) {
  size_t inputs =
      a->input_mem_type_count > b->input_mem_type_count ? a->input_mem_type_count : b->input_mem_type_count;
  for (size_t i = 0; i < inputs; ++i) {
    if (kernel_def_input_mem_type(a, i) != kernel_def_input_mem_type(b, i)) return false;
  }
  size_t outputs = a->output_mem_type_count > b->output_mem_type_count ? a->output_mem_type_count
                                                                       : b->output_mem_type_count;
  for (size_t i = 0; i < outputs; ++i) {
    if (kernel_def_output_mem_type(a, i) != kernel_def_output_mem_type(b, i)) return false;
  }
  return same_pairs(a->aliases, a->alias_count, b->aliases, b->alias_count) &&
         same_pairs(a->may_inplace, a->may_inplace_count, b->may_inplace, b->may_inplace_count);
}

/* A description without an end counts as one for its first version only. */
static int last_version(const OrtKernelDef* def) {
  return def->until_version == INT_MAX ? def->since_version : def->until_version;
}

/* Whether a node could be for both, with nothing to tell them apart. */
static bool conflict(const OrtKernelDef* a, const OrtKernelDef* b) {
  const char* a_ep = a->ep_name != NULL ? a->ep_name : "";
  const char* b_ep = b->ep_name != NULL ? b->ep_name : "";
  return a->since_version <= last_version(b) && b->since_version <= last_version(a) &&
         strcmp(a_ep, b_ep) == 0 && types_overlap(a, b) && same_memory(a, b);
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, KernelRegistry_AddKernel)(OrtKernelRegistry* kernel_registry,
                                                                 const OrtKernelDef* kernel_def,
                                                                 OrtKernelCreateFunc kernel_create_func,
                                                                 void* kernel_create_func_state) {
  REQUIRE_ARG(kernel_registry != NULL);
  REQUIRE_ARG(kernel_def != NULL);
  REQUIRE_ARG(kernel_create_func != NULL);
  const char* domain = canonical_domain(kernel_def->domain);
  Bucket* bucket = &kernel_registry->buckets[bucket_of(kernel_def->op_type, domain)];
  for (size_t i = 0; i < bucket->count; ++i) {
    const OrtKernelDef* other = bucket->entries[i].def;
    if (same_operator(other, kernel_def->op_type, domain) && conflict(kernel_def, other)) {
      return status_new(
          ORT_FAIL,
          "a kernel for %s (domain '%s', versions %d to %d) is there already, for versions %d to %d",
          kernel_def->op_type, domain, kernel_def->since_version, last_version(kernel_def),
          other->since_version, last_version(other));
    }
  }
  if (bucket->count == bucket->capacity) {
    size_t capacity = bucket->capacity > 0 ? bucket->capacity * 2 : 2;
    KernelEntry* entries = host_realloc(bucket->entries, capacity * sizeof *entries);
    if (entries == NULL) return status_no_memory();
    bucket->entries = entries;
    bucket->capacity = capacity;
  }
  OrtKernelDef* shared = (OrtKernelDef*)(uintptr_t)kernel_def; /* only its reference count changes */
  atomic_fetch_add(&shared->references, 1);
  bucket->entries[bucket->count++] = (KernelEntry){shared, kernel_create_func, kernel_create_func_state};
  return NULL;
}

/* ---- matching ---- */

/* Of the values that a constraint speaks of, the first that is there decides: ONNX gives all of them one
 * type. */
static const OrtValueInfo* first_value(const TypeConstraint* constraint, const char* const* params,
                                       const char* const* formals, OrtValueInfo* const* values,
                                       size_t count) {
  for (size_t i = 0; i < count; ++i) {
    bool named = (params != NULL && params[i] != NULL && strcmp(params[i], constraint->name) == 0) ||
                 (formals != NULL && formals[i] != NULL && strcmp(formals[i], constraint->name) == 0);
    if (named && values[i] != NULL) return values[i];
  }
  return NULL;
}

static bool knows(const OrtNode* node, const char* constraint) {
  if (node->constraint_names == NULL) return true;
  for (size_t i = 0; i < node->constraint_name_count; ++i) {
    if (strcmp(node->constraint_names[i], constraint) == 0) return true;
  }
  return false;
}

static bool types_fit(const OrtKernelDef* def, const OrtNode* node) {
  for (size_t i = 0; i < def->constraint_count; ++i) {
    const TypeConstraint* constraint = &def->constraints[i];
    if (!knows(node, constraint->name)) return false;
    const OrtValueInfo* value =
        first_value(constraint, node->input_params, node->input_formals, node->inputs, node->input_count);
    if (value == NULL) {
      value = first_value(constraint, node->output_params, node->output_formals, node->outputs,
                          node->output_count);
    }
    if (value == NULL) continue;
    if (value->type->type != ONNX_TYPE_TENSOR || !allows(constraint, value->type->tensor->element_type))
      return false;
  }
  return true;
}

/* A description without an end is for exactly its first version: nothing says that a later one means the
 * same. */
static bool version_fits(const OrtKernelDef* def, int version) {
  return def->since_version == version ||
         (def->since_version < version && def->until_version != INT_MAX && version <= def->until_version);
}

/* All but the types. */
static bool is_for(const OrtKernelDef* def, const OrtNode* node, const char* domain, const char* ep_name) {
  if (ep_name != NULL && def->ep_name != NULL && strcmp(def->ep_name, ep_name) != 0) return false;
  return version_fits(def, node->since_version) && same_operator(def, node->op_type, domain);
}

const KernelEntry* kernel_registry_find(const OrtKernelRegistry* registry, const OrtNode* node,
                                        const char* ep_name) {
  const char* domain = canonical_domain(node->domain);
  const Bucket* bucket = &registry->buckets[bucket_of(node->op_type, domain)];
  for (size_t i = 0; i < bucket->count; ++i) {
    const OrtKernelDef* def = bucket->entries[i].def;
    if (is_for(def, node, domain, ep_name) && types_fit(def, node)) return &bucket->entries[i];
  }
  return NULL;
}

const char* kernel_registry_unknown_constraint(const OrtKernelRegistry* registry, const OrtNode* node,
                                               const char* ep_name) {
  const char* domain = canonical_domain(node->domain);
  const Bucket* bucket = &registry->buckets[bucket_of(node->op_type, domain)];
  for (size_t i = 0; i < bucket->count; ++i) {
    const OrtKernelDef* def = bucket->entries[i].def;
    if (!is_for(def, node, domain, ep_name)) continue;
    for (size_t k = 0; k < def->constraint_count; ++k) {
      if (!knows(node, def->constraints[k].name)) return def->constraints[k].name;
    }
  }
  return NULL;
}

/* ---- what Python calls ---- */

const KernelEntry* ephost_registry_find(const OrtKernelRegistry* registry, const OrtNode* node,
                                        const char* ep_name) {
  return kernel_registry_find(registry, node, ep_name);
}

size_t ephost_registry_find_all(const OrtKernelRegistry* registry, OrtNode* const* nodes, size_t count,
                                const char* ep_name, const KernelEntry** entries,
                                const OrtKernelDef** definitions) {
  for (size_t i = 0; i < count; ++i) {
    entries[i] = kernel_registry_find(registry, nodes[i], ep_name);
    if (entries[i] == NULL) return i;
    definitions[i] = entries[i]->def;
  }
  return count;
}

size_t ephost_registry_size(const OrtKernelRegistry* registry) {
  size_t count = 0;
  for (size_t i = 0; i < BUCKETS; ++i) count += registry->buckets[i].count;
  return count;
}

const KernelEntry* ephost_registry_entry(const OrtKernelRegistry* registry, size_t index) {
  for (size_t i = 0; i < BUCKETS; ++i) {
    if (index < registry->buckets[i].count) return &registry->buckets[i].entries[index];
    index -= registry->buckets[i].count;
  }
  return NULL;
}

const OrtKernelDef* ephost_entry_def(const KernelEntry* entry) { return entry->def; }

size_t ephost_def_constraint_count(const OrtKernelDef* def) { return def->constraint_count; }

const char* ephost_def_constraint(const OrtKernelDef* def, size_t index,
                                  const ONNXTensorElementDataType** types, size_t* count) {
  *types = def->constraints[index].types;
  *count = def->constraints[index].type_count;
  return def->constraints[index].name;
}

int ephost_def_input_mem_type(const OrtKernelDef* def, size_t index) {
  return (int)kernel_def_input_mem_type(def, index);
}

int ephost_def_output_mem_type(const OrtKernelDef* def, size_t index) {
  return (int)kernel_def_output_mem_type(def, index);
}
