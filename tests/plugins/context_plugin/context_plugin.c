/* A plugin whose compiled code can be stored, for testing compiled models. It never ships.
 *
 * It claims every float32 Add whose second input is a constant, and every EPContext node of its own. To
 * "compile" an Add is to take the constant out of the model: without EPContext data the sum cannot be made.
 *
 * Where the session wants no weights in what is compiled ("ep.enable_weightless"), the constant stays an
 * input of the EPContext node. EPHOST_CONTEXT_WEIGHTLESS is what GetWeightlessSupport answers; without it
 * there is no such function, and "old" makes the EP older than that.
 *
 * EPHOST_CONTEXT_DATA: "31": it calls the application's callbacks for the data of its nodes, and says so as
 * version 31 has it. "experimental": it calls them as version 30 has it, and says nothing. A digit: it is of
 * version 31, says that number, and calls none.
 *
 * The environment variable EPHOST_CONTEXT names a fault of Compile's EPContext nodes (see `make_context`);
 * EPHOST_CONTEXT_ANSWER is what the factory answers to compatibility information. */
#include <stdio.h>

#include "../../../plugins/common/factory.h"

static const char kEpName[] = "context_plugin";
static const char kInfo[] = "constants v1";

typedef struct Ep {
  OrtEp base;
  const Factory* factory;
  bool store; /* ep.context_enable */
  bool embed;
  bool weightless; /* ep.enable_weightless */
  OrtReadNamedBufferFunc read;
  OrtWriteNamedBufferFunc write;
  void *read_state, *write_state;
  char path[4096]; /* of the compiled model */
} Ep;

typedef struct Info {
  OrtNodeComputeInfo base;
  const OrtApi* api;
  bool weightless; /* the addend is an input */
  size_t size;     /* bytes */
  float addend[];
} Info;

static bool faulty(const char* what) {
  const char* wanted = getenv("EPHOST_CONTEXT");
  return wanted != NULL && strcmp(wanted, what) == 0;
}

static OrtStatus* fail(const OrtApi* api, const char* text) { return api->CreateStatus(ORT_EP_FAIL, text); }

/* ---- Running ------------------------------------------------------------------------------------------- */

static OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* this_ptr, OrtNodeComputeContext* context,
                                            void** state) {
  (void)context;
  *state = this_ptr;
  return NULL;
}

static void ORT_API_CALL release_state(OrtNodeComputeInfo* this_ptr, void* state) {
  (void)this_ptr, (void)state;
}

static OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo* this_ptr, void* state, OrtKernelContext* context) {
  const Info* info = (const Info*)this_ptr;
  const OrtApi* api = info->api;
  const OrtValue* input = NULL;
  OrtValue* output = NULL;
  const int64_t* dims = NULL;
  const void* data = NULL;
  void* sum = NULL;
  size_t rank = 0, count = 1;
  ONNXTensorElementDataType type;
  (void)state;
  TRY(api->KernelContext_GetInput(context, 0, &input));
  TRY(api->GetTensorElementTypeAndShapeDataReference(input, &type, &dims, &rank));
  TRY(api->GetTensorData(input, &data));
  for (size_t i = 0; i < rank; ++i) count *= (size_t)dims[i];
  const float* addend = info->addend;
  if (info->weightless) {
    const OrtValue* constant = NULL;
    size_t size = 0;
    TRY(api->KernelContext_GetInput(context, 1, &constant));
    TRY(api->GetTensorSizeInBytes(constant, &size));
    if (count * sizeof(float) != size) return fail(api, "context_plugin: it adds tensors of one shape");
    TRY(api->GetTensorData(constant, (const void**)&addend));
  } else if (count * sizeof(float) != info->size)
    return fail(api, "context_plugin: it adds tensors of one shape");
  TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &output));
  TRY(api->GetTensorMutableData(output, &sum));
  for (size_t i = 0; i < count; ++i) ((float*)sum)[i] = ((const float*)data)[i] + addend[i];
  return NULL;
}

/* ---- Compiling ----------------------------------------------------------------------------------------- */

static OrtStatus* new_info(const OrtApi* api, const void* data, size_t size, Info** out) {
  Info* info = (Info*)calloc(1, sizeof *info + size + sizeof(float));
  *out = info;
  if (info == NULL) return out_of_memory(api);
  info->base.ort_version_supported = API_VERSION;
  info->base.CreateState = create_state;
  info->base.Compute = compute;
  info->base.ReleaseState = release_state;
  info->api = api;
  info->size = size;
  if (data != NULL) memcpy(info->addend, data, size);
  return NULL;
}

/* A path as the C library takes it: Windows' paths are UTF-16, and those of tests ASCII. */
static bool narrow(const ORTCHAR_T* path, char* out, size_t size) {
  size_t length = 0;
  while (path[length] != 0) ++length;
  if (length >= size) return false;
  for (size_t i = 0; i <= length; ++i) {
    if (sizeof *path > 1 && (unsigned)path[i] > 127) return false;
    out[i] = (char)path[i];
  }
  return true;
}

/* `name` in the folder of `model`. */
static bool beside(const char* model, const char* name, char* out, size_t size) {
  int folder = (int)strlen(model);
  while (folder > 0 && model[folder - 1] != '/' && model[folder - 1] != '\\') --folder;
  const int length = snprintf(out, size, "%.*s%s", folder, model, name);
  return length > 0 && (size_t)length < size;
}

/* A text attribute as a new block with a NUL behind it. */
static OrtStatus* read_text(const OrtApi* api, const OrtNode* node, const char* name, char** out,
                            size_t* size) {
  const OrtOpAttr* attribute = NULL;
  *out = NULL, *size = 0;
  TRY(api->Node_GetAttributeByName(node, name, &attribute));
  if (attribute == NULL) return NULL;
  OrtStatus* status = api->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, NULL, 0, size);
  if (status != NULL) api->ReleaseStatus(status); /* It says that there is no room, and how much it takes. */
  *out = (char*)calloc(1, *size + 1);
  if (*out == NULL) return out_of_memory(api);
  return api->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, *out, *size, size);
}

/* The file beside the model, or what the application gives. */
static OrtStatus* read_data(const Ep* ep, const OrtGraph* graph, const char* name, Info** out) {
  const OrtApi* api = ep->factory->api;
  const ORTCHAR_T* model = NULL;
  OrtAllocator* allocator = NULL;
  void* data = NULL;
  char path[8192], narrowed[4096];
  size_t size = 0;
  OrtStatus* status = NULL;
  FILE* file = NULL;
  if (ep->read != NULL) {
    TRY(api->GetAllocatorWithDefaultOptions(&allocator));
    TRY(ep->read(ep->read_state, name, allocator, &data, &size));
    status = new_info(api, data, size, out);
    if (data != NULL) allocator->Free(allocator, data);
    return status;
  }
  TRY(api->Graph_GetModelPath(graph, &model));
  if (narrow(model, narrowed, sizeof narrowed) && beside(narrowed, name, path, sizeof path))
    file = fopen(path, "rb");
  if (file == NULL) return fail(api, "context_plugin: cannot read its file");
  (void)fseek(file, 0, SEEK_END);
  size = (size_t)ftell(file);
  rewind(file);
  TRY_OR_DONE(new_info(api, NULL, size, out));
  if (fread((*out)->addend, 1, size, file) != size) status = fail(api, "context_plugin: its file is short");
done:
  (void)fclose(file);
  return status;
}

static OrtStatus* write_data(const Ep* ep, const char* name, const void* data, size_t size) {
  const OrtApi* api = ep->factory->api;
  char path[8192];
  if (ep->write != NULL) return ep->write(ep->write_state, name, data, size);
  FILE* file = beside(ep->path, name, path, sizeof path) ? fopen(path, "wb") : NULL;
  if (file == NULL) return fail(api, "context_plugin: cannot write its file");
  const bool written = fwrite(data, 1, size, file) == size;
  return fclose(file) == 0 && written ? NULL : fail(api, "context_plugin: cannot write its file");
}

static OrtStatus* load_context(const Ep* ep, const OrtGraph* graph, const OrtNode* node, Info** out) {
  const OrtApi* api = ep->factory->api;
  const OrtOpAttr* attribute = NULL;
  int64_t embedded = 0;
  size_t size = 0, read = 0;
  char* text = NULL;
  OrtStatus* status = NULL;
  size_t inputs = 0;
  TRY(api->Node_GetNumInputs(node, &inputs));
  if (inputs == 2) {
    TRY(new_info(api, NULL, 0, out));
    (*out)->weightless = true;
    return NULL;
  }
  TRY(api->Node_GetAttributeByName(node, "embed_mode", &attribute));
  TRY(api->ReadOpAttr(attribute, ORT_OP_ATTR_INT, &embedded, sizeof embedded, &read));
  TRY_OR_DONE(read_text(api, node, "ep_cache_context", &text, &size));
  if (text == NULL) {
    status = fail(api, "context_plugin: an EPContext node without ep_cache_context");
  } else if (embedded) {
    status = new_info(api, text, size, out);
  } else {
    status = read_data(ep, graph, text, out);
  }
done:
  free(text);
  return status;
}

static OrtStatus* make_context(const Ep* ep, const OrtNode* fused, const Info* info, OrtNode** out) {
  const OrtApi* api = ep->factory->api;
  const OrtModelEditorApi* editor = api->GetModelEditorApi();
  const OrtValueInfo *inputs[2] = {NULL, NULL}, *output = NULL;
  const char *name = NULL, *from[2] = {NULL, NULL}, *to = NULL, *data = (const char*)info->addend;
  char file_name[512];
  size_t size = info->size;
  const int64_t embed = ep->embed || info->weightless;
  const size_t count = info->weightless ? 2 : 1;
  OrtOpAttr* attributes[4] = {NULL};
  OrtStatus* status = NULL;
  if (faulty("nothing")) return NULL;
  TRY(api->Node_GetName(fused, &name));
  TRY(api->Node_GetInputs(fused, inputs, count));
  TRY(api->Node_GetOutputs(fused, &output, 1));
  for (size_t i = 0; i < count; ++i) TRY(api->GetValueInfoName(inputs[i], &from[i]));
  TRY(api->GetValueInfoName(output, &to));
  if (!embed) {
    (void)snprintf(file_name, sizeof file_name, "%s.bin", name);
    TRY(write_data(ep, file_name, data, size));
    data = file_name;
    size = strlen(file_name);
  }
  if (faulty("foreign_input")) from[0] = "nobody";
  if (faulty("other_output")) to = "other";
  TRY_OR_DONE(api->CreateOpAttr("ep_cache_context", data, (int)size, ORT_OP_ATTR_STRING, &attributes[0]));
  TRY_OR_DONE(api->CreateOpAttr("embed_mode", &embed, 1, ORT_OP_ATTR_INT, &attributes[1]));
  TRY_OR_DONE(api->CreateOpAttr("source", kEpName, (int)strlen(kEpName), ORT_OP_ATTR_STRING, &attributes[2]));
  TRY_OR_DONE(
      api->CreateOpAttr("partition_name", name, (int)strlen(name), ORT_OP_ATTR_STRING, &attributes[3]));
  status = editor->CreateNode(faulty("other_operator") ? "Code" : "EPContext", "com.microsoft", name, from,
                              count, &to, 1, attributes, 4, out);
done:
  for (size_t i = 0; i < 4; ++i) {
    if (attributes[i] != NULL) api->ReleaseOpAttr(attributes[i]);
  }
  return status;
}

static void ORT_API_CALL release_infos(OrtEp* this_ptr, OrtNodeComputeInfo** infos, size_t count) {
  (void)this_ptr;
  for (size_t i = 0; i < count; ++i) free(infos[i]);
}

static OrtStatus* compile_one(const Ep* ep, const OrtGraph* graph, const OrtNode* fused, Info** info,
                              OrtNode** context) {
  const OrtApi* api = ep->factory->api;
  const OrtNode* node = NULL;
  const char* type = NULL;
  TRY(api->Graph_GetNodes(graph, &node, 1));
  TRY(api->Node_GetOperatorType(node, &type));
  if (strcmp(type, "EPContext") == 0) return load_context(ep, graph, node, info);
  const OrtValueInfo* inputs[2] = {NULL, NULL};
  const OrtValue* constant = NULL;
  const void* data = NULL;
  size_t size = 0;
  if (ep->weightless) {
    TRY(new_info(api, NULL, 0, info));
    (*info)->weightless = true;
    return ep->store ? make_context(ep, fused, *info, context) : NULL;
  }
  TRY(api->Node_GetInputs(node, inputs, 2));
  TRY(api->ValueInfo_GetInitializerValue(inputs[1], &constant));
  TRY(api->GetTensorSizeInBytes(constant, &size));
  TRY(api->GetTensorData(constant, &data));
  TRY(new_info(api, data, size, info));
  return ep->store ? make_context(ep, fused, *info, context) : NULL;
}

static OrtStatus* ORT_API_CALL compile(OrtEp* this_ptr, const OrtGraph** graphs, const OrtNode** fused_nodes,
                                       size_t count, OrtNodeComputeInfo** infos, OrtNode** ep_context_nodes) {
  OrtStatus* status = NULL;
  for (size_t i = 0; i < count && status == NULL; ++i) {
    Info* info = NULL;
    status = compile_one((const Ep*)this_ptr, graphs[i], fused_nodes[i], &info, &ep_context_nodes[i]);
    infos[i] = info == NULL ? NULL : &info->base;
  }
  for (size_t i = 0; i < count && status != NULL; ++i) {
    free(infos[i]);
    infos[i] = NULL;
  }
  return status;
}

static OrtStatus* is_ours(const OrtApi* api, const OrtNode* node, bool* answer) {
  const char* type = NULL;
  const OrtValueInfo* inputs[2] = {NULL, NULL};
  *answer = false;
  TRY(api->Node_GetOperatorType(node, &type));
  if (strcmp(type, "EPContext") == 0) {
    char* source = NULL;
    size_t size = 0;
    OrtStatus* status = read_text(api, node, "source", &source, &size);
    *answer = status == NULL && source != NULL && strcmp(source, kEpName) == 0;
    free(source);
    return status;
  }
  if (strcmp(type, "Add") != 0) return NULL;
  TRY(api->Node_GetInputs(node, inputs, 2));
  TRY(is_float_tensor(api, inputs[0], 8, answer));
  return *answer ? api->ValueInfo_IsConstantInitializer(inputs[1], answer) : NULL;
}

static OrtStatus* ORT_API_CALL get_capability(OrtEp* this_ptr, const OrtGraph* graph,
                                              OrtEpGraphSupportInfo* support) {
  const Factory* factory = ((const Ep*)this_ptr)->factory;
  const OrtApi* api = factory->api;
  OrtNodeFusionOptions options = {API_VERSION, true};
  size_t count = 0;
  OrtStatus* status = NULL;
  TRY(api->Graph_GetNumNodes(graph, &count));
  const OrtNode** nodes = (const OrtNode**)calloc(count + 1, sizeof *nodes);
  if (nodes == NULL) return out_of_memory(api);
  TRY_OR_DONE(api->Graph_GetNodes(graph, nodes, count));
  for (size_t i = 0; i < count; ++i) {
    bool ours = false;
    size_t inputs = 0;
    const char* type = NULL;
    TRY_OR_DONE(is_ours(api, nodes[i], &ours));
    TRY_OR_DONE(api->Node_GetOperatorType(nodes[i], &type));
    TRY_OR_DONE(api->Node_GetNumInputs(nodes[i], &inputs));
    options.drop_constant_initializers =
        strcmp(type, "EPContext") == 0 ? inputs == 1 : !((const Ep*)this_ptr)->weightless;
    if (ours)
      TRY_OR_DONE(factory->ep_api->EpGraphSupportInfo_AddNodesToFuse(support, &nodes[i], 1, &options));
  }
done:
  free((void*)nodes);
  return status;
}

/* ---- Compatibility, the EP, the factory ---------------------------------------------------------------- */

static const char* ORT_API_CALL compatibility_info(OrtEp* this_ptr, const OrtGraph* graph) {
  size_t count = 0;
  const OrtApi* api = ((const Ep*)this_ptr)->factory->api;
  OrtStatus* status = api->Graph_GetNumNodes(graph, &count);
  if (status != NULL) api->ReleaseStatus(status);
  return count > 0 ? kInfo : "";
}

static OrtStatus* ORT_API_CALL validate(OrtEpFactory* this_ptr, const OrtHardwareDevice* const* devices,
                                        size_t num_devices, const char* info,
                                        OrtCompiledModelCompatibility* out) {
  const char* answer = getenv("EPHOST_CONTEXT_ANSWER");
  const OrtApi* api = ((const Factory*)this_ptr)->api;
  *out = OrtCompiledModelCompatibility_EP_NOT_APPLICABLE;
  if (num_devices < 1 || devices[0] == NULL) return fail(api, "context_plugin: asked about no device");
  if (strcmp(info, kInfo) != 0) return NULL;
  *out = answer == NULL ? OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL
                        : (OrtCompiledModelCompatibility)(answer[0] - '0');
  return NULL;
}

static const char* ORT_API_CALL ep_name(const OrtEp* this_ptr) {
  (void)this_ptr;
  return kEpName;
}

static OrtStatus* ORT_API_CALL weightless_support(const OrtEp* this_ptr, OrtWeightlessSupport* support) {
  const char* answer = getenv("EPHOST_CONTEXT_WEIGHTLESS");
  (void)this_ptr;
  *support = answer == NULL ? OrtWeightlessSupport_NONE : (OrtWeightlessSupport)(answer[0] - '0');
  return NULL;
}

static OrtStatus* ORT_API_CALL data_callbacks(const OrtEp* this_ptr, uint32_t* flags) {
  const char* told = getenv("EPHOST_CONTEXT_DATA");
  (void)this_ptr;
  *flags = told == NULL || strcmp(told, "31") == 0 ? 3 : (uint32_t)(told[0] - '0');
  return NULL;
}

typedef OrtStatus*(ORT_API_CALL* GetConfig)(const OrtSessionOptions*, OrtEpContextConfig**);
typedef void(ORT_API_CALL* ReleaseConfig)(OrtEpContextConfig*);
typedef OrtStatus*(ORT_API_CALL* GetRead)(const OrtEpContextConfig*, OrtReadNamedBufferFunc*, void**);
typedef OrtStatus*(ORT_API_CALL* GetWrite)(const OrtEpContextConfig*, OrtWriteNamedBufferFunc*, void**);

static OrtStatus* find_callbacks(Ep* ep, const OrtSessionOptions* options) {
  const char* told = getenv("EPHOST_CONTEXT_DATA");
  const OrtApi* api = ep->factory->api;
  const OrtEpApi* ep_api = ep->factory->ep_api;
  OrtEpContextConfig* config = NULL;
  OrtStatus* status = NULL;
  if (told == NULL) return NULL;
  if (strcmp(told, "experimental") == 0) {
#define FIND(type, name) ((type)api->GetExperimentalFunction("OrtEpApi_" name "_SinceV28"))
    const GetConfig get = FIND(GetConfig, "SessionOptions_GetEpContextConfig");
    const ReleaseConfig release = FIND(ReleaseConfig, "ReleaseEpContextConfig");
    const GetRead get_read = FIND(GetRead, "EpContextConfig_GetEpContextDataReadFunc");
    const GetWrite get_write = FIND(GetWrite, "EpContextConfig_GetEpContextDataWriteFunc");
    if (get == NULL || release == NULL || get_read == NULL || get_write == NULL) return NULL;
    TRY(get(options, &config));
    status = get_read(config, &ep->read, &ep->read_state);
    if (status == NULL) status = get_write(config, &ep->write, &ep->write_state);
    release(config);
    return status;
  }
  ep->base.ort_version_supported = 31;
  ep->base.GetEpContextDataCallbackSupport = data_callbacks;
  if (strcmp(told, "31") != 0) return NULL;
  TRY(ep_api->SessionOptions_GetEpContextConfig(options, &config));
  status = ep_api->EpContextConfig_GetEpContextDataReadFunc(config, &ep->read, &ep->read_state);
  if (status == NULL)
    status = ep_api->EpContextConfig_GetEpContextDataWriteFunc(config, &ep->write, &ep->write_state);
  ep_api->ReleaseEpContextConfig(config);
  return status;
}

/* "" where the session has no such entry. */
static OrtStatus* entry(const OrtApi* api, const OrtSessionOptions* options, const char* key, char* out,
                        size_t size) {
  int there = 0;
  out[0] = '\0';
  TRY(api->HasSessionConfigEntry(options, key, &there));
  return there ? api->GetSessionConfigEntry(options, key, out, &size) : NULL;
}

static OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* this_ptr, const OrtHardwareDevice* const* devices,
                                         const OrtKeyValuePairs* const* ep_metadata, size_t num_devices,
                                         const OrtSessionOptions* session_options, const OrtLogger* logger,
                                         OrtEp** out) {
  const Factory* factory = (const Factory*)this_ptr;
  char text[16];
  OrtStatus* status = NULL;
  (void)devices, (void)ep_metadata, (void)num_devices, (void)logger;
  *out = NULL;
  Ep* ep = (Ep*)calloc(1, sizeof *ep);
  if (ep == NULL) return out_of_memory(factory->api);
  TRY_OR_DONE(entry(factory->api, session_options, "ep.context_enable", text, sizeof text));
  ep->store = strcmp(text, "1") == 0;
  TRY_OR_DONE(entry(factory->api, session_options, "ep.context_embed_mode", text, sizeof text));
  ep->embed = strcmp(text, "1") == 0;
  TRY_OR_DONE(entry(factory->api, session_options, "ep.context_file_path", ep->path, sizeof ep->path));
  TRY_OR_DONE(entry(factory->api, session_options, "ep.enable_weightless", text, sizeof text));
  ep->weightless = strcmp(text, "1") == 0;
  const char* answer = getenv("EPHOST_CONTEXT_WEIGHTLESS");
  ep->base.GetWeightlessSupport = answer == NULL ? NULL : weightless_support;
  ep->base.ort_version_supported = answer != NULL && strcmp(answer, "old") == 0 ? API_VERSION : 30;
  ep->base.GetName = ep_name;
  ep->base.GetCapability = get_capability;
  ep->base.Compile = compile;
  ep->base.ReleaseNodeComputeInfos = release_infos;
  ep->base.GetCompiledModelCompatibilityInfo = compatibility_info;
  ep->factory = factory;
  TRY_OR_DONE(find_callbacks(ep, session_options));
  *out = &ep->base;
  return NULL;
done:
  free(ep);
  return status;
}

static void ORT_API_CALL release_ep(OrtEpFactory* this_ptr, OrtEp* ep) {
  (void)this_ptr;
  free(ep);
}

EPHOST_PLUGIN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  free(factory);
  return NULL;
}

EPHOST_PLUGIN_EXPORT OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* ort_api_base,
                                                  const OrtLogger* default_logger, OrtEpFactory** factories,
                                                  size_t max_factories, size_t* num_factories) {
  const OrtApi* api = ort_api_base->GetApi(API_VERSION);
  (void)registered_name, (void)default_logger;
  *num_factories = 0;
  if (api == NULL) return host_too_old(ort_api_base);
  if (max_factories < 1) return NULL;
  Factory* factory = (Factory*)calloc(1, sizeof *factory);
  if (factory == NULL) return out_of_memory(api);
  factory_init(factory, api, kEpName);
  factory->base.CreateEp = create_ep;
  factory->base.ReleaseEp = release_ep;
  factory->base.ValidateCompiledModelCompatibilityInfo = validate;
  factories[0] = &factory->base;
  *num_factories = 1;
  return NULL;
}
