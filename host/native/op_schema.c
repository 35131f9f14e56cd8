/* OrtOpSchema: what ONNX says of an operator, for plugins that work out their kernels' type constraints from
 * it. Python makes them of onnx's schemas, through a callback. */
#include <stdatomic.h>
#include <string.h>

#include "abi.h"
#include "heap.h"
#include "python.h"
#include "status.h"

typedef struct Indices {
  size_t* items;
  size_t count;
} Indices;

struct OrtOpSchemaTypeConstraint {
  char* name;
  char** types;
  size_t type_count;
  Indices inputs;
  Indices outputs;
};

typedef struct Formal {
  char* name;
  int constraint; /* -1: a type of its own, which no parameter names */
} Formal;

typedef struct Formals {
  Formal* items;
  size_t count;
} Formals;

struct OrtOpSchema {
  int since_version;
  OrtOpSchemaTypeConstraint* constraints;
  size_t constraint_count;
  Formals inputs;
  Formals outputs;
};

static _Atomic(EphostSchemaCallback) schema_callback;

void ephost_set_schema_callback(EphostSchemaCallback callback) { atomic_store(&schema_callback, callback); }

/* ---- made by Python ------------------------------------------------------------------------------------ */

/* The constraints are given at once, so that pointers to them stay good. */
OrtOpSchema* ephost_op_schema_new(int since_version, size_t constraint_count) {
  OrtOpSchema* schema = host_calloc(1, sizeof *schema);
  if (schema == NULL) return NULL;
  schema->constraints = host_calloc(constraint_count ? constraint_count : 1, sizeof *schema->constraints);
  if (schema->constraints == NULL) {
    host_free(schema);
    return NULL;
  }
  schema->since_version = since_version;
  schema->constraint_count = constraint_count;
  handle_count(HANDLE_OTHER, 1);
  return schema;
}

bool ephost_op_schema_set_constraint(OrtOpSchema* schema, size_t index, const char* name,
                                     const char* const* types, size_t type_count) {
  OrtOpSchemaTypeConstraint* constraint = &schema->constraints[index];
  constraint->name = host_strdup(name);
  constraint->types = host_calloc(type_count ? type_count : 1, sizeof *constraint->types);
  if (constraint->name == NULL || constraint->types == NULL) return false;
  for (size_t i = 0; i < type_count; ++i) {
    if ((constraint->types[i] = host_strdup(types[i])) == NULL) return false;
    constraint->type_count = i + 1;
  }
  return true;
}

static bool indices_add(Indices* indices, size_t index) {
  size_t* grown = host_realloc(indices->items, (indices->count + 1) * sizeof *grown);
  if (grown == NULL) return false;
  grown[indices->count++] = index;
  indices->items = grown;
  return true;
}

bool ephost_op_schema_add_formal(OrtOpSchema* schema, bool is_input, const char* name, int constraint) {
  Formals* formals = is_input ? &schema->inputs : &schema->outputs;
  Formal* grown = host_realloc(formals->items, (formals->count + 1) * sizeof *grown);
  if (grown == NULL) return false;
  formals->items = grown;
  char* own_name = host_strdup(name);
  if (own_name == NULL) return false;
  if (constraint >= 0) {
    OrtOpSchemaTypeConstraint* target = &schema->constraints[constraint];
    if (!indices_add(is_input ? &target->inputs : &target->outputs, formals->count)) {
      host_free(own_name);
      return false;
    }
  }
  grown[formals->count++] = (Formal){own_name, constraint};
  return true;
}

static void formals_free(Formals* formals) {
  for (size_t i = 0; i < formals->count; ++i) host_free(formals->items[i].name);
  host_free(formals->items);
}

void ORT_API_CALL SLOT(OrtEpApi, ReleaseOpSchema)(OrtOpSchema* input) {
  if (input == NULL) return;
  for (size_t i = 0; i < input->constraint_count; ++i) {
    OrtOpSchemaTypeConstraint* constraint = &input->constraints[i];
    for (size_t k = 0; k < constraint->type_count; ++k) host_free(constraint->types[k]);
    host_free(constraint->types);
    host_free(constraint->name);
    host_free(constraint->inputs.items);
    host_free(constraint->outputs.items);
  }
  host_free(input->constraints);
  formals_free(&input->inputs);
  formals_free(&input->outputs);
  host_free(input);
  handle_count(HANDLE_OTHER, -1);
}

/* ---- asked by plugins ---------------------------------------------------------------------------------- */

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, GetOpSchema)(const char* name, int max_inclusive_version,
                                                    const char* domain, OrtOpSchema** out_schema) {
  REQUIRE_ARG(name != NULL && domain != NULL && out_schema != NULL);
  *out_schema = NULL;
  EphostSchemaCallback callback = atomic_load(&schema_callback);
  if (callback == NULL) return status_new(ORT_FAIL, "GetOpSchema: the host is not ready, or shutting down");
  *out_schema = callback(name, max_inclusive_version, domain);
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, OpSchema_GetSinceVersion)(const OrtOpSchema* schema, int* out) {
  REQUIRE_ARG(schema != NULL && out != NULL);
  *out = schema->since_version;
  return NULL;
}

static OrtStatus* formal_at(const Formals* formals, size_t index, const char* what, const Formal** out) {
  if (index >= formals->count) {
    return status_new(ORT_INVALID_ARGUMENT, "the operator has %zu %ss; number %zu was asked for",
                      formals->count, what, index);
  }
  *out = &formals->items[index];
  return NULL;
}

static OrtStatus* formal_name(const Formals* formals, size_t index, const char* what, const char** out) {
  const Formal* formal = NULL;
  *out = NULL;
  OrtStatus* status = formal_at(formals, index, what, &formal);
  if (status == NULL) *out = formal->name;
  return status;
}

static OrtStatus* formal_constraint(const OrtOpSchema* schema, const Formals* formals, size_t index,
                                    const char* what, const OrtOpSchemaTypeConstraint** out) {
  const Formal* formal = NULL;
  *out = NULL;
  OrtStatus* status = formal_at(formals, index, what, &formal);
  if (status == NULL && formal->constraint >= 0) *out = &schema->constraints[formal->constraint];
  return status;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, OpSchema_GetNumInputs)(const OrtOpSchema* schema, size_t* out) {
  REQUIRE_ARG(schema != NULL && out != NULL);
  *out = schema->inputs.count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, OpSchema_GetInputName)(const OrtOpSchema* schema, size_t index,
                                                              const char** out) {
  REQUIRE_ARG(schema != NULL && out != NULL);
  return formal_name(&schema->inputs, index, "input", out);
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi,
                             OpSchema_GetInputTypeConstraint)(const OrtOpSchema* schema, size_t index,
                                                              const OrtOpSchemaTypeConstraint** out) {
  REQUIRE_ARG(schema != NULL && out != NULL);
  return formal_constraint(schema, &schema->inputs, index, "input", out);
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, OpSchema_GetNumOutputs)(const OrtOpSchema* schema, size_t* out) {
  REQUIRE_ARG(schema != NULL && out != NULL);
  *out = schema->outputs.count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, OpSchema_GetOutputName)(const OrtOpSchema* schema, size_t index,
                                                               const char** out) {
  REQUIRE_ARG(schema != NULL && out != NULL);
  return formal_name(&schema->outputs, index, "output", out);
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi,
                             OpSchema_GetOutputTypeConstraint)(const OrtOpSchema* schema, size_t index,
                                                               const OrtOpSchemaTypeConstraint** out) {
  REQUIRE_ARG(schema != NULL && out != NULL);
  return formal_constraint(schema, &schema->outputs, index, "output", out);
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, OpSchema_GetTypeConstraintCount)(const OrtOpSchema* schema,
                                                                        size_t* out) {
  REQUIRE_ARG(schema != NULL && out != NULL);
  *out = schema->constraint_count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, OpSchema_GetTypeConstraint)(const OrtOpSchema* schema, size_t index,
                                                                   const OrtOpSchemaTypeConstraint** out) {
  REQUIRE_ARG(schema != NULL && out != NULL);
  *out = NULL;
  if (index >= schema->constraint_count) {
    return status_new(ORT_INVALID_ARGUMENT, "the operator has %zu type constraints; number %zu was asked for",
                      schema->constraint_count, index);
  }
  *out = &schema->constraints[index];
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, OpSchemaTypeConstraint_GetTypeParamName)(
    const OrtOpSchemaTypeConstraint* type_constraint, const char** out) {
  REQUIRE_ARG(type_constraint != NULL && out != NULL);
  *out = type_constraint->name;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, OpSchemaTypeConstraint_GetAllowedTypes)(
    const OrtOpSchemaTypeConstraint* type_constraint, const char* const** out_types, size_t* num_types) {
  REQUIRE_ARG(type_constraint != NULL && out_types != NULL && num_types != NULL);
  *out_types = (const char* const*)type_constraint->types;
  *num_types = type_constraint->type_count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, OpSchemaTypeConstraint_GetInputIndices)(
    const OrtOpSchemaTypeConstraint* type_constraint, const size_t** out_indices, size_t* count) {
  REQUIRE_ARG(type_constraint != NULL && out_indices != NULL && count != NULL);
  *out_indices = type_constraint->inputs.items;
  *count = type_constraint->inputs.count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, OpSchemaTypeConstraint_GetOutputIndices)(
    const OrtOpSchemaTypeConstraint* type_constraint, const size_t** out_indices, size_t* count) {
  REQUIRE_ARG(type_constraint != NULL && out_indices != NULL && count != NULL);
  *out_indices = type_constraint->outputs.items;
  *count = type_constraint->outputs.count;
  return NULL;
}
