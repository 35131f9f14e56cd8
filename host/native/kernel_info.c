/* OrtKernelInfo: what a kernel may ask about its node when it is created, and creating kernels. */
#include <stdatomic.h>
#include <string.h>

#include "abi.h"
#include "attribute.h"
#include "exceptions.h"
#include "graph.h"
#include "heap.h"
#include "kernel.h"
#include "key_values.h"
#include "maps.h"
#include "memory.h"
#include "python.h"
#include "status.h"
#include "type_info.h"

static KernelConstants* constants_new(const OrtValue** values, size_t count) {
  KernelConstants* constants = host_malloc(sizeof *constants + count * sizeof(const OrtValue*));
  if (constants == NULL) return NULL;
  atomic_init(&constants->references, 1);
  memcpy(constants->values, values, count * sizeof(const OrtValue*));
  return constants;
}

static void constants_release(KernelConstants* constants) {
  if (constants != NULL && atomic_fetch_sub(&constants->references, 1) == 1) host_free(constants);
}

/* Takes a reference of the constants over, also when it fails. */
static OrtKernelInfo* info_new(const OrtNode* node, const OrtEp* ep, const OrtKernelDef* def,
                               const OrtLogger* logger, const OrtKeyValuePairs* config,
                               OrtAllocator* cpu_allocator, OrtAllocator* device_allocator, void* session,
                               KernelConstants* constants) {
  OrtKernelInfo* info = host_calloc(1, sizeof *info);
  if (info == NULL) {
    constants_release(constants);
    return NULL;
  }
  handle_count(HANDLE_KERNEL_INFO, 1);
  info->node = node;
  info->ep = ep;
  info->logger = logger;
  info->cpu_allocator = cpu_allocator != NULL ? cpu_allocator : ephost_cpu_allocator();
  info->device_allocator = device_allocator != NULL ? device_allocator : info->cpu_allocator;
  info->session = session;
  info->config = key_values_copy(config);
  info->constants = constants;
  if (def != NULL) {
    info->def = (OrtKernelDef*)(uintptr_t)def; /* only its reference count changes */
    atomic_fetch_add(&info->def->references, 1);
  }
  if (info->config != NULL) return info;
  SLOT(OrtApi, ReleaseKernelInfo)(info);
  return NULL;
}

OrtKernelInfo* ephost_kernel_info_new(const OrtNode* node, const OrtEp* ep, const OrtKernelDef* def,
                                      const OrtLogger* logger, const OrtKeyValuePairs* config,
                                      OrtAllocator* cpu_allocator, OrtAllocator* device_allocator,
                                      void* session, const OrtValue** constants) {
  KernelConstants* shared = constants != NULL ? constants_new(constants, node->input_count) : NULL;
  if (constants != NULL && shared == NULL) return NULL;
  return info_new(node, ep, def, logger, config, cpu_allocator, device_allocator, session, shared);
}

void ephost_kernel_info_drop_constant(OrtKernelInfo* info, size_t input) {
  if (info->constants != NULL && input < info->node->input_count) info->constants->values[input] = NULL;
}

void ephost_kernel_info_free(OrtKernelInfo* info) { SLOT(OrtApi, ReleaseKernelInfo)(info); }

const OrtNode* ephost_kernel_info_node(const OrtKernelInfo* info) { return info->node; }

static OrtStatus* kernel_create(const OrtKernelInfo* info, const KernelEntry* entry, OrtKernelImpl** out) {
  *out = NULL;
  OrtStatus* status = ephost_guard_OrtKernelCreateFunc(entry->create, entry->create_state, info, out);
  if (status != NULL) {
    *out = NULL;
  } else if (*out == NULL || (*out)->Compute == NULL) {
    status = status_new(ORT_EP_FAIL, "node '%s' (%s): the EP made no kernel, or one without Compute",
                        info->node->name, info->node->op_type);
    if (*out != NULL && (*out)->Release != NULL) GUARDED(OrtKernelImpl, Release)(*out);
    *out = NULL;
  }
  return status;
}

OrtStatus* ephost_kernels_new(OrtNode* const* nodes, const KernelEntry* const* entries, size_t count,
                              const OrtEp* ep, const OrtLogger* logger, const OrtKeyValuePairs* config,
                              OrtAllocator* device_allocator, const OrtValue** const* constants,
                              OrtKernelInfo** infos, OrtKernelImpl** kernels, size_t* made) {
  for (*made = 0; *made < count; ++*made) {
    size_t i = *made;
    infos[i] = ephost_kernel_info_new(nodes[i], ep, entries[i]->def, logger, config, NULL, device_allocator,
                                      NULL, constants[i]);
    if (infos[i] == NULL) return status_no_memory();
    OrtStatus* status = kernel_create(infos[i], entries[i], &kernels[i]);
    if (status != NULL) return status;
  }
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, CopyKernelInfo)(const OrtKernelInfo* info, OrtKernelInfo** info_copy) {
  REQUIRE_ARG(info_copy != NULL);
  *info_copy = NULL;
  REQUIRE_ARG(info != NULL);
  if (info->constants != NULL) atomic_fetch_add(&info->constants->references, 1);
  *info_copy = info_new(info->node, info->ep, info->def, info->logger, info->config, info->cpu_allocator,
                        info->device_allocator, info->session, info->constants);
  return *info_copy != NULL ? NULL : status_no_memory();
}

void ORT_API_CALL SLOT(OrtApi, ReleaseKernelInfo)(OrtKernelInfo* input) {
  if (input == NULL) return;
  kernel_def_release(input->def);
  key_values_free(input->config);
  constants_release(input->constants);
  host_free(input);
  handle_count(HANDLE_KERNEL_INFO, -1);
}

/* ---- attributes ---- */

static OrtStatus* find_attribute(const OrtKernelInfo* info, const char* name, OrtOpAttrType type,
                                 const OrtOpAttr** out) {
  *out = node_attribute(info->node, name);
  if (*out == NULL) {
    return status_new(ORT_FAIL, "node '%s' (%s) has no attribute '%s'", info->node->name, info->node->op_type,
                      name);
  }
  if ((*out)->type != type) {
    return status_new(ORT_FAIL, "attribute '%s' of node '%s' (%s) has the type %d, not %d", name,
                      info->node->name, info->node->op_type, (int)(*out)->type, (int)type);
  }
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfoGetAttribute_float)(const OrtKernelInfo* info,
                                                                   const char* name, float* out) {
  REQUIRE_ARG(info != NULL);
  REQUIRE_ARG(name != NULL);
  REQUIRE_ARG(out != NULL);
  const OrtOpAttr* attribute = NULL;
  OrtStatus* status = find_attribute(info, name, ORT_OP_ATTR_FLOAT, &attribute);
  if (status == NULL) *out = attribute->floats[0];
  return status;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfoGetAttribute_int64)(const OrtKernelInfo* info,
                                                                   const char* name, int64_t* out) {
  REQUIRE_ARG(info != NULL);
  REQUIRE_ARG(name != NULL);
  REQUIRE_ARG(out != NULL);
  const OrtOpAttr* attribute = NULL;
  OrtStatus* status = find_attribute(info, name, ORT_OP_ATTR_INT, &attribute);
  if (status == NULL) *out = attribute->ints[0];
  return status;
}

/* An attribute that is copied under the size protocol: a text with its NUL, or a list of numbers. */
static OrtStatus* attribute_out(const char* function, const OrtKernelInfo* info, const char* name,
                                OrtOpAttrType type, void* out, size_t* size) {
  REQUIRE_ARG(info != NULL);
  REQUIRE_ARG(name != NULL);
  REQUIRE_ARG(size != NULL);
  const OrtOpAttr* attribute = NULL;
  OrtStatus* status = find_attribute(info, name, type, &attribute);
  if (status != NULL) return status;
  if (type == ORT_OP_ATTR_STRING) {
    return sized_out(function, attribute->strings[0], attribute->lengths[0] + 1, 1, out, size);
  }
  if (type == ORT_OP_ATTR_FLOATS) {
    return sized_out(function, attribute->floats, attribute->count, sizeof(float), out, size);
  }
  return sized_out(function, attribute->ints, attribute->count, sizeof(int64_t), out, size);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfoGetAttribute_string)(const OrtKernelInfo* info,
                                                                    const char* name, char* out,
                                                                    size_t* size) {
  return attribute_out(__func__, info, name, ORT_OP_ATTR_STRING, out, size);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfoGetAttributeArray_float)(const OrtKernelInfo* info,
                                                                        const char* name, float* out,
                                                                        size_t* size) {
  return attribute_out(__func__, info, name, ORT_OP_ATTR_FLOATS, out, size);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfoGetAttributeArray_int64)(const OrtKernelInfo* info,
                                                                        const char* name, int64_t* out,
                                                                        size_t* size) {
  return attribute_out(__func__, info, name, ORT_OP_ATTR_INTS, out, size);
}

/* The array and each string are in the allocator's memory and the caller's to free; `out` NULL asks for the
 * size only. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfoGetAttributeArray_string)(const OrtKernelInfo* info,
                                                                         const char* name,
                                                                         OrtAllocator* allocator, char*** out,
                                                                         size_t* size) {
  if (out != NULL) *out = NULL;
  REQUIRE_ARG(size != NULL);
  *size = 0;
  REQUIRE_ARG(info != NULL);
  REQUIRE_ARG(name != NULL);
  const OrtOpAttr* attribute = NULL;
  OrtStatus* status = find_attribute(info, name, ORT_OP_ATTR_STRINGS, &attribute);
  if (status != NULL) return status;
  *size = attribute->count;
  if (out == NULL || attribute->count == 0) return NULL;
  REQUIRE_ARG(allocator != NULL);
  char** strings = GUARDED(OrtAllocator, Alloc)(allocator, attribute->count * sizeof *strings);
  for (size_t i = 0; strings != NULL && i < attribute->count; ++i) {
    strings[i] = GUARDED(OrtAllocator, Alloc)(allocator, attribute->lengths[i] + 1);
    if (strings[i] != NULL) {
      memcpy(strings[i], attribute->strings[i], attribute->lengths[i] + 1);
      continue;
    }
    while (i > 0) GUARDED(OrtAllocator, Free)(allocator, strings[--i]);
    GUARDED(OrtAllocator, Free)(allocator, strings);
    strings = NULL;
  }
  if (strings == NULL) {
    *size = 0;
    return outcome(status_no_memory());
  }
  *out = strings;
  return NULL;
}

/* A copy in the allocator's memory, which the caller releases. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfoGetAttribute_tensor)(const OrtKernelInfo* info,
                                                                    const char* name, OrtAllocator* allocator,
                                                                    OrtValue** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(info != NULL);
  REQUIRE_ARG(name != NULL);
  REQUIRE_ARG(allocator != NULL);
  const OrtOpAttr* attribute = NULL;
  OrtStatus* status = find_attribute(info, name, ORT_OP_ATTR_TENSOR, &attribute);
  return status != NULL ? status : value_copy_tensor(attribute->tensor, allocator, out);
}

/* ---- inputs and outputs ---- */

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfo_GetInputCount)(const OrtKernelInfo* info, size_t* out) {
  REQUIRE_ARG(out != NULL);
  *out = 0;
  REQUIRE_ARG(info != NULL);
  *out = info->node->input_count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfo_GetOutputCount)(const OrtKernelInfo* info, size_t* out) {
  REQUIRE_ARG(out != NULL);
  *out = 0;
  REQUIRE_ARG(info != NULL);
  *out = info->node->output_count;
  return NULL;
}

static OrtStatus* out_of_range(const char* function, const OrtNode* node, size_t index, size_t count) {
  return status_new(ORT_INVALID_ARGUMENT, "%s: node '%s' (%s) has %zu, there is no number %zu", function,
                    node->name, node->op_type, count, index);
}

/* The name of an input or output; that of one that is left out is "". */
static OrtStatus* name_out(const char* function, const OrtKernelInfo* info, bool of_input, size_t index,
                           char* out, size_t* size) {
  REQUIRE_ARG(info != NULL);
  REQUIRE_ARG(size != NULL);
  const OrtNode* node = info->node;
  size_t count = of_input ? node->input_count : node->output_count;
  if (index >= count) return out_of_range(function, node, index, count);
  const OrtValueInfo* value = of_input ? node->inputs[index] : node->outputs[index];
  return text_out(function, value != NULL ? value->name : "", out, size);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfo_GetInputName)(const OrtKernelInfo* info, size_t index,
                                                              char* out, size_t* size) {
  return name_out(__func__, info, true, index, out, size);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfo_GetOutputName)(const OrtKernelInfo* info, size_t index,
                                                               char* out, size_t* size) {
  return name_out(__func__, info, false, index, out, size);
}

static OrtStatus* give_type(const char* function, const OrtNode* node, OrtValueInfo* const* values,
                            size_t count, size_t index, OrtTypeInfo** type_info) {
  if (index >= count) return out_of_range(function, node, index, count);
  if (values[index] == NULL) {
    return status_new(ORT_INVALID_ARGUMENT, "%s: number %zu of node '%s' (%s) is left out", function, index,
                      node->name, node->op_type);
  }
  *type_info = type_info_copy(values[index]->type);
  return *type_info != NULL ? NULL : status_no_memory();
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfo_GetInputTypeInfo)(const OrtKernelInfo* info, size_t index,
                                                                  OrtTypeInfo** type_info) {
  REQUIRE_ARG(type_info != NULL);
  *type_info = NULL;
  REQUIRE_ARG(info != NULL);
  return give_type(__func__, info->node, info->node->inputs, info->node->input_count, index, type_info);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfo_GetOutputTypeInfo)(const OrtKernelInfo* info, size_t index,
                                                                   OrtTypeInfo** type_info) {
  REQUIRE_ARG(type_info != NULL);
  *type_info = NULL;
  REQUIRE_ARG(info != NULL);
  return give_type(__func__, info->node, info->node->outputs, info->node->output_count, index, type_info);
}

/* The value is the session's. An input that the node does not have is no constant, and that no error: kernels
 * ask for optional inputs at the end without looking whether they are there. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfoGetConstantInput_tensor)(const OrtKernelInfo* info,
                                                                        size_t index, int* is_constant,
                                                                        const OrtValue** out) {
  REQUIRE_ARG(is_constant != NULL);
  *is_constant = 0;
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(info != NULL);
  if (info->constants != NULL && index < info->node->input_count) *out = info->constants->values[index];
  *is_constant = *out != NULL;
  return NULL;
}

/* ---- the node and its session ---- */

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfo_GetNodeName)(const OrtKernelInfo* info, char* out,
                                                             size_t* size) {
  REQUIRE_ARG(info != NULL);
  REQUIRE_ARG(size != NULL);
  return text_out(__func__, info->node->name, out, size);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfo_GetOperatorDomain)(const OrtKernelInfo* info, char* out,
                                                                   size_t* size) {
  REQUIRE_ARG(info != NULL);
  REQUIRE_ARG(size != NULL);
  return text_out(__func__, info->node->domain, out, size);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfo_GetOperatorType)(const OrtKernelInfo* info, char* out,
                                                                 size_t* size) {
  REQUIRE_ARG(info != NULL);
  REQUIRE_ARG(size != NULL);
  return text_out(__func__, info->node->op_type, out, size);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfo_GetOperatorSinceVersion)(const OrtKernelInfo* info,
                                                                         int* since_version) {
  REQUIRE_ARG(since_version != NULL);
  *since_version = 0;
  REQUIRE_ARG(info != NULL);
  *since_version = info->node->since_version;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfo_GetLogger)(const OrtKernelInfo* info,
                                                           const OrtLogger** logger) {
  REQUIRE_ARG(logger != NULL);
  *logger = NULL;
  REQUIRE_ARG(info != NULL);
  *logger = info->logger;
  return NULL;
}

/* A copy of the session's configuration, which the caller releases. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfo_GetConfigEntries)(const OrtKernelInfo* info,
                                                                  OrtKeyValuePairs** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(info != NULL);
  *out = key_values_copy(info->config);
  return *out != NULL ? NULL : status_no_memory();
}

/* Callers may pass the allocator to ReleaseAllocator, which leaves it alone: it is the session's. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelInfoGetAllocator)(const OrtKernelInfo* info, OrtMemType mem_type,
                                                             OrtAllocator** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(info != NULL);
  *out = mem_type == OrtMemTypeDefault ? info->device_allocator : info->cpu_allocator;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, KernelInfo_GetEp)(const OrtKernelInfo* info, const OrtEp** ep) {
  REQUIRE_ARG(ep != NULL);
  *ep = NULL;
  REQUIRE_ARG(info != NULL);
  *ep = info->ep;
  return NULL;
}
