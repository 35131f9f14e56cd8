/* A plugin EP library that stands between a host and a real plugin and logs what each says to the other.

   Build it with `python bench/interpose/build.py libinterpose.so`, and register it in a host (onnxruntime or
   ephost) in the plugin's place, with these environment variables:

     EPHOST_INTERPOSE_LIBRARY   the real plugin's path (required)
     EPHOST_INTERPOSE_LOG       the file to append to; stderr without it
     EPHOST_INTERPOSE_ONLY      comma-separated glob patterns of the functions to log: `OrtEp*.*` logs what
   the host calls in the plugin, `OrtApi.Graph_*` what the plugin asks about graphs; all without it
     EPHOST_INTERPOSE_GRAPHS    when set, each graph that the plugin is shown is written out in full, and with
   it the session's options and the devices

   Two logs of the same plugin, one from each host, show where the hosts' answers part. A plugin's function
   gives a line on entry and one on return, with what it called in between indented; a table's function gives
   one line.

   The host's tables are copied and the copies' slots replaced. A plugin's own structs (factory, EP, compute
   info) keep their addresses, because both sides compare them: their members are replaced in place and put
   back before the plugin frees them. Members that are newer than the struct's ort_version_supported are never
   touched. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ephost/plugin.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- one line of the log ---- */

/* The line of one call, composed privately and written whole. */
typedef struct Line {
  const char* function;
  bool wanted;
  bool entered; /* its entry has a line of its own */
  size_t length;
  char text[1500];
} Line;

static FILE* log_file;
static _Thread_local int depth;

static const OrtApi* real_OrtApi;
static const OrtEpApi* real_OrtEpApi;
static const OrtModelEditorApi* real_OrtModelEditorApi;
static const OrtCompileApi* real_OrtCompileApi;
static const OrtInteropApi* real_OrtInteropApi;

__attribute__((format(printf, 2, 3))) static void add(Line* line, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  size_t room = sizeof line->text - line->length;
  int written = vsnprintf(line->text + line->length, room, format, arguments);
  va_end(arguments);
  if (written > 0) line->length += (size_t)written < room ? (size_t)written : room - 1;
}

static void add_integer(Line* line, const char* name, long long value) { add(line, " %s=%lld", name, value); }
static void add_real(Line* line, const char* name, double value) { add(line, " %s=%g", name, value); }
static void add_flag(Line* line, const char* name, bool set) {
  add(line, " %s=%s", name, set ? "set" : "NULL");
}

static void add_pointer(Line* line, const char* name, const void* value) {
  if (value) {
    add(line, " %s=%p", name, value);
  } else {
    add(line, " %s=NULL", name);
  }
}

static void add_string(Line* line, const char* name, const char* value) {
  if (value) {
    add(line, " %s=\"%.300s\"", name, value);
  } else {
    add(line, " %s=NULL", name);
  }
}

/* Returns whether the status is success. */
static bool add_status(Line* line, OrtStatus* status) {
  if (!status) {
    add(line, " -> ok");
    return true;
  }
  add(line, " -> error %d \"%.300s\"", (int)real_OrtApi->GetErrorCode(status),
      real_OrtApi->GetErrorMessage(status));
  return false;
}

static void write_line(const char* mark, const Line* line) {
  fprintf(log_file, "%p %*s%s%s%s\n", (void*)pthread_self(), 2 * depth, "", mark, line->function, line->text);
}

static void entering(Line* line) {
  write_line("> ", line);
  line->entered = true;
  line->length = 0;
  line->text[0] = '\0';
  ++depth;
}

static void finish(const Line* line) {
  if (line->entered) --depth;
  write_line(line->entered ? "< " : "", line);
}

/* ---- a plugin's structs ---- */

/* One struct of the plugin whose members are replaced: its address and what it held. */
typedef struct Hooked {
  struct Hooked* next;
  void* object;
  size_t size;
  size_t uses;
  char original[];
} Hooked;

static pthread_mutex_t hooked_mutex = PTHREAD_MUTEX_INITIALIZER;
static Hooked* hooked_list;

static Hooked* find_hooked(const void* object) {
  Hooked* found = hooked_list;
  while (found && found->object != object) found = found->next;
  return found;
}

/* The struct as the plugin made it. Valid until unhook(object). */
static const void* original_of(const void* object) {
  pthread_mutex_lock(&hooked_mutex);
  const Hooked* found = find_hooked(object);
  pthread_mutex_unlock(&hooked_mutex);
  if (!found) {
    fprintf(stderr, "interpose: %p is called after its release\n", object);
    abort();
  }
  return found->original;
}

/* Remember what the struct holds. Returns whether its members are still to be replaced. */
static bool hook(void* object, size_t size) {
  pthread_mutex_lock(&hooked_mutex);
  Hooked* entry = find_hooked(object);
  bool first = entry == NULL;
  if (entry) {
    ++entry->uses;
  } else if ((entry = malloc(sizeof *entry + size)) != NULL) {
    *entry = (Hooked){.next = hooked_list, .object = object, .size = size, .uses = 1};
    memcpy(entry->original, object, size);
    hooked_list = entry;
  } else {
    first = false; /* without memory the plugin simply stays as it is */
  }
  pthread_mutex_unlock(&hooked_mutex);
  return first;
}

/* Put the members back: the plugin is about to free the struct. */
static void unhook(void* object) {
  pthread_mutex_lock(&hooked_mutex);
  for (Hooked** at = &hooked_list; *at; at = &(*at)->next) {
    Hooked* entry = *at;
    if (entry->object != object) continue;
    if (--entry->uses == 0) {
      memcpy(object, entry->original, entry->size);
      *at = entry->next;
      free(entry);
    }
    break;
  }
  pthread_mutex_unlock(&hooked_mutex);
}

static void hook_factory(OrtEpFactory* factory);
static void hook_ep(OrtEp* ep);
static void hook_compute_infos(OrtNodeComputeInfo** infos, size_t count);
static void unhook_compute_infos(OrtNodeComputeInfo** infos, size_t count);
static const OrtEpApi* copy_of_OrtEpApi(const OrtEpApi* real);
static const OrtModelEditorApi* copy_of_OrtModelEditorApi(const OrtModelEditorApi* real);
static const OrtCompileApi* copy_of_OrtCompileApi(const OrtCompileApi* real);
static const OrtInteropApi* copy_of_OrtInteropApi(const OrtInteropApi* real);
static void show_graph(const char* title, const OrtGraph* graph);
static void show_compiled(const OrtGraph** graphs, const OrtNode** fused_nodes, size_t count);
static void show_session_options(const OrtSessionOptions* options);
static void show_devices(const OrtHardwareDevice* const* devices, size_t count);
static void show_ep_devices(OrtEpDevice** ep_devices, const size_t* count);

/* What the generated wrappers do beside logging. */
#define AFTER_OrtApi_GetEpApi result = copy_of_OrtEpApi(result)
#define AFTER_OrtApi_GetModelEditorApi result = copy_of_OrtModelEditorApi(result)
#define AFTER_OrtApi_GetCompileApi result = copy_of_OrtCompileApi(result)
#define AFTER_OrtApi_GetInteropApi result = copy_of_OrtInteropApi(result)
#define BEFORE_OrtEpFactory_GetSupportedDevices show_devices(devices, num_devices)
#define AFTER_OrtEpFactory_GetSupportedDevices \
  if (!result) show_ep_devices(ep_devices, num_ep_devices)
#define BEFORE_OrtEpFactory_CreateEp show_session_options(session_options)
#define AFTER_OrtEpFactory_CreateEp \
  if (!result && *ep) hook_ep(*ep)
#define BEFORE_OrtEpFactory_ReleaseEp unhook(ep)
#define BEFORE_OrtEp_GetCapability show_graph("GetCapability", graph)
#define BEFORE_OrtEp_Compile show_compiled(graphs, fused_nodes, count)
#define AFTER_OrtEp_Compile \
  if (!result) hook_compute_infos(node_compute_infos, count)
#define BEFORE_OrtEp_ReleaseNodeComputeInfos unhook_compute_infos(node_compute_infos, num_node_compute_infos)

#include "wrappers.h"

static void hook_factory(OrtEpFactory* factory) {
  if (hook(factory, sizeof *factory)) fill_OrtEpFactory(factory, factory->ort_version_supported);
}

static void hook_ep(OrtEp* ep) {
  if (hook(ep, sizeof *ep)) fill_OrtEp(ep, ep->ort_version_supported);
}

static void hook_compute_infos(OrtNodeComputeInfo** infos, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (infos[i] && hook(infos[i], sizeof *infos[i])) fill_OrtNodeComputeInfo(infos[i], UINT32_MAX);
  }
}

static void unhook_compute_infos(OrtNodeComputeInfo** infos, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (infos[i]) unhook(infos[i]);
  }
}

/* ---- the host's tables ---- */

#define DEFINE_COPY(Table)                                    \
  static const Table* copy_of_##Table(const Table* real) {    \
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; \
    static Table copy;                                        \
    if (!real) return NULL;                                   \
    pthread_mutex_lock(&mutex);                               \
    if (!real_##Table) {                                      \
      copy = *real;                                           \
      fill_##Table(&copy);                                    \
      real_##Table = real;                                    \
    }                                                         \
    pthread_mutex_unlock(&mutex);                             \
    return &copy;                                             \
  }

DEFINE_COPY(OrtApi)
DEFINE_COPY(OrtEpApi)
DEFINE_COPY(OrtModelEditorApi)
DEFINE_COPY(OrtCompileApi)
DEFINE_COPY(OrtInteropApi)

static const OrtApiBase* real_base;

static const OrtApi* ORT_API_CALL base_get_api(uint32_t version) {
  const OrtApi* real = real_base->GetApi(version);
  fprintf(log_file, "OrtApiBase.GetApi version=%u -> %s\n", version, real ? "a table" : "NULL");
  return copy_of_OrtApi(real);
}

static const char* ORT_API_CALL base_get_version_string(void) {
  const char* version = real_base->GetVersionString();
  fprintf(log_file, "OrtApiBase.GetVersionString -> \"%s\"\n", version ? version : "NULL");
  return version;
}

static const OrtApiBase base_copy = {.GetApi = base_get_api, .GetVersionString = base_get_version_string};

/* ---- what the plugin is shown, in full ---- */

static bool showing(void) { return getenv("EPHOST_INTERPOSE_GRAPHS") != NULL; }

/* Whether the call succeeded; says so in the log when not. */
static bool good(OrtStatus* status, const char* what) {
  if (!status) return true;
  fprintf(log_file, "  | %s: error %d %s\n", what, (int)real_OrtApi->GetErrorCode(status),
          real_OrtApi->GetErrorMessage(status));
  real_OrtApi->ReleaseStatus(status);
  return false;
}

#define GOOD(call) good(real_OrtApi->call, #call)

static void print_pairs(const OrtKeyValuePairs* pairs) {
  const char* const* keys = NULL;
  const char* const* values = NULL;
  size_t count = 0;
  if (pairs) real_OrtApi->GetKeyValuePairs(pairs, &keys, &values, &count);
  fputc('{', log_file);
  for (size_t i = 0; i < count; ++i) fprintf(log_file, "%s%s: %s", i ? ", " : "", keys[i], values[i]);
  fputc('}', log_file);
}

static void print_type(const OrtTypeInfo* type) {
  enum ONNXType kind = ONNX_TYPE_UNKNOWN;
  const OrtTensorTypeAndShapeInfo* tensor = NULL;
  enum ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  int64_t dimensions[32];
  const char* symbols[32];
  size_t rank = 0;
  if (!type) {
    fputs("no type", log_file);
    return;
  }
  if (!GOOD(GetOnnxTypeFromTypeInfo(type, &kind))) return;
  if (kind != ONNX_TYPE_TENSOR) {
    fprintf(log_file, "onnx type %d", (int)kind);
    return;
  }
  if (!GOOD(CastTypeInfoToTensorInfo(type, &tensor)) || !tensor) return;
  if (!GOOD(GetTensorElementType(tensor, &element)) || !GOOD(GetDimensionsCount(tensor, &rank))) return;
  bool shaped =
      real_OrtApi->TensorTypeAndShape_HasShape ? real_OrtApi->TensorTypeAndShape_HasShape(tensor) : true;
  fprintf(log_file, "tensor(%d)", (int)element);
  if (!shaped) fputs(" no shape,", log_file);
  if (rank > COUNT_OF(dimensions)) rank = COUNT_OF(dimensions);
  if (!GOOD(GetDimensions(tensor, dimensions, rank))) return;
  if (!GOOD(GetSymbolicDimensions(tensor, symbols, rank))) return;
  fputc('[', log_file);
  for (size_t i = 0; i < rank; ++i) {
    fprintf(log_file, "%s%lld", i ? "," : "", (long long)dimensions[i]);
    if (symbols[i] && symbols[i][0]) fprintf(log_file, "'%s'", symbols[i]);
  }
  fputc(']', log_file);
}

static void print_value(const OrtValueInfo* value, bool with_type) {
  const char* name = NULL;
  const OrtTypeInfo* type = NULL;
  if (!value) {
    fputs("NULL", log_file);
    return;
  }
  if (!GOOD(GetValueInfoName(value, &name))) return;
  fprintf(log_file, "%s", name && name[0] ? name : "''");
  if (!with_type) return;
  fputs(": ", log_file);
  if (GOOD(GetValueInfoTypeInfo(value, &type))) print_type(type);
  bool constant = false;
  bool required = false;
  bool optional = false;
  bool output = false;
  bool outer = false;
  if (GOOD(ValueInfo_IsConstantInitializer(value, &constant)) &&
      GOOD(ValueInfo_IsRequiredGraphInput(value, &required)) &&
      GOOD(ValueInfo_IsOptionalGraphInput(value, &optional)) &&
      GOOD(ValueInfo_IsGraphOutput(value, &output)) && GOOD(ValueInfo_IsFromOuterScope(value, &outer))) {
    fprintf(log_file, "%s%s%s%s%s", constant ? " constant" : "", required ? " required-input" : "",
            optional ? " optional-input" : "", output ? " graph-output" : "",
            outer ? " from-outer-scope" : "");
  }
  const OrtValue* tensor = NULL;
  OrtStatus* status = real_OrtApi->ValueInfo_GetInitializerValue(value, &tensor);
  if (status) {
    fprintf(log_file, " (value: error %s)", real_OrtApi->GetErrorMessage(status));
    real_OrtApi->ReleaseStatus(status);
  } else {
    fputs(tensor ? " with-value" : "", log_file);
  }
}

typedef OrtStatus*(ORT_API_CALL* GraphCount)(const OrtGraph*, size_t*);
typedef OrtStatus*(ORT_API_CALL* GraphValues)(const OrtGraph*, const OrtValueInfo**, size_t);
typedef OrtStatus*(ORT_API_CALL* NodeCount)(const OrtNode*, size_t*);
typedef OrtStatus*(ORT_API_CALL* NodeValues)(const OrtNode*, const OrtValueInfo**, size_t);

static void print_graph_values(const OrtGraph* graph, const char* what, GraphCount count_of,
                               GraphValues values_of) {
  size_t count = 0;
  if (!good(count_of(graph, &count), what)) return;
  const OrtValueInfo** values = calloc(count + 1, sizeof *values);
  if (values && good(values_of(graph, values, count), what)) {
    fprintf(log_file, "  | %s (%zu):\n", what, count);
    for (size_t i = 0; i < count; ++i) {
      fputs("  |   ", log_file);
      print_value(values[i], true);
      fputc('\n', log_file);
    }
  }
  free(values);
}

static void print_node_values(const OrtNode* node, const char* before, NodeCount count_of,
                              NodeValues values_of) {
  size_t count = 0;
  if (!good(count_of(node, &count), before)) return;
  const OrtValueInfo** values = calloc(count + 1, sizeof *values);
  if (values && good(values_of(node, values, count), before)) {
    fputs(before, log_file);
    for (size_t i = 0; i < count; ++i) {
      if (i) fputs(", ", log_file);
      print_value(values[i], false);
    }
  }
  free(values);
}

static void print_attributes(const OrtNode* node) {
  size_t count = 0;
  if (!GOOD(Node_GetNumAttributes(node, &count)) || count == 0) return;
  const OrtOpAttr** attributes = calloc(count, sizeof *attributes);
  if (attributes && GOOD(Node_GetAttributes(node, attributes, count))) {
    fputs(" {", log_file);
    for (size_t i = 0; i < count; ++i) {
      const char* name = NULL;
      OrtOpAttrType type = ORT_OP_ATTR_UNDEFINED;
      if (attributes[i] && GOOD(OpAttr_GetName(attributes[i], &name)) &&
          GOOD(OpAttr_GetType(attributes[i], &type))) {
        fprintf(log_file, "%s%s:%d", i ? ", " : "", name, (int)type);
      }
    }
    fputc('}', log_file);
  }
  free(attributes);
}

static void print_node(const OrtNode* node) {
  const char* name = NULL;
  const char* type = NULL;
  const char* domain = NULL;
  const char* ep = NULL;
  size_t id = 0;
  int since = 0;
  if (!GOOD(Node_GetId(node, &id)) || !GOOD(Node_GetName(node, &name)) ||
      !GOOD(Node_GetOperatorType(node, &type)) || !GOOD(Node_GetDomain(node, &domain)) ||
      !GOOD(Node_GetSinceVersion(node, &since)) || !GOOD(Node_GetEpName(node, &ep))) {
    return;
  }
  fprintf(log_file, "  |   #%zu \"%s\" %s domain=\"%s\" since=%d ep=\"%s\"", id, name, type, domain, since,
          ep ? ep : "NULL");
  print_node_values(node, " (", real_OrtApi->Node_GetNumInputs, real_OrtApi->Node_GetInputs);
  print_node_values(node, ") -> (", real_OrtApi->Node_GetNumOutputs, real_OrtApi->Node_GetOutputs);
  print_node_values(node, ") implicit (", real_OrtApi->Node_GetNumImplicitInputs,
                    real_OrtApi->Node_GetImplicitInputs);
  fputc(')', log_file);
  print_attributes(node);
  fputc('\n', log_file);
}

static void print_subgraphs(const OrtNode* node);

static void print_graph(const char* title, const OrtGraph* graph) {
  const char* name = NULL;
  const ORTCHAR_T* path = NULL;
  const OrtNode* parent = NULL;
  int64_t ir_version = 0;
  size_t count = 0;
  if (!GOOD(Graph_GetName(graph, &name)) || !GOOD(Graph_GetModelPath(graph, &path)) ||
      !GOOD(Graph_GetParentNode(graph, &parent)) || !GOOD(Graph_GetOnnxIRVersion(graph, &ir_version))) {
    return;
  }
  fprintf(log_file, "  | %s: graph \"%s\" path=%s%s%s ir=%lld parent=%s\n", title, name, path ? "\"" : "",
          path ? path : "NULL", path ? "\"" : "", (long long)ir_version, parent ? "a node" : "NULL");
  if (GOOD(Graph_GetNumOperatorSets(graph, &count))) {
    const char** domains = calloc(count + 1, sizeof *domains);
    int64_t* versions = calloc(count + 1, sizeof *versions);
    if (domains && versions && GOOD(Graph_GetOperatorSets(graph, domains, versions, count))) {
      fputs("  | opsets:", log_file);
      for (size_t i = 0; i < count; ++i)
        fprintf(log_file, " \"%s\"=%lld", domains[i], (long long)versions[i]);
      fputc('\n', log_file);
    }
    free(domains);
    free(versions);
  }
  print_graph_values(graph, "inputs", real_OrtApi->Graph_GetNumInputs, real_OrtApi->Graph_GetInputs);
  print_graph_values(graph, "outputs", real_OrtApi->Graph_GetNumOutputs, real_OrtApi->Graph_GetOutputs);
  print_graph_values(graph, "initializers", real_OrtApi->Graph_GetNumInitializers,
                     real_OrtApi->Graph_GetInitializers);
  if (!GOOD(Graph_GetNumNodes(graph, &count))) return;
  const OrtNode** nodes = calloc(count + 1, sizeof *nodes);
  if (nodes && GOOD(Graph_GetNodes(graph, nodes, count))) {
    fprintf(log_file, "  | nodes (%zu):\n", count);
    for (size_t i = 0; i < count; ++i) print_node(nodes[i]);
    for (size_t i = 0; i < count; ++i) print_subgraphs(nodes[i]);
  }
  free(nodes);
}

static void print_subgraphs(const OrtNode* node) {
  size_t count = 0;
  if (!GOOD(Node_GetNumSubgraphs(node, &count)) || count == 0) return;
  const OrtGraph** graphs = calloc(count, sizeof *graphs);
  const char** attributes = calloc(count, sizeof *attributes);
  if (graphs && attributes && GOOD(Node_GetSubgraphs(node, graphs, count, attributes))) {
    for (size_t i = 0; i < count; ++i) print_graph(attributes[i], graphs[i]);
  }
  free(graphs);
  free(attributes);
}

/* Everything below the lock comes out in one piece. */
static void show_graph(const char* title, const OrtGraph* graph) {
  if (!showing()) return;
  flockfile(log_file);
  print_graph(title, graph);
  funlockfile(log_file);
}

static void show_compiled(const OrtGraph** graphs, const OrtNode** fused_nodes, size_t count) {
  if (!showing()) return;
  flockfile(log_file);
  for (size_t i = 0; i < count; ++i) {
    print_graph("Compile", graphs[i]);
    fputs("  | fused node:\n", log_file);
    print_node(fused_nodes[i]);
  }
  funlockfile(log_file);
}

static void show_session_options(const OrtSessionOptions* options) {
  OrtKeyValuePairs* entries = NULL;
  if (!showing() || !GOOD(GetSessionOptionsConfigEntries(options, &entries))) return;
  flockfile(log_file);
  fputs("  | session options: ", log_file);
  print_pairs(entries);
  fputc('\n', log_file);
  funlockfile(log_file);
  real_OrtApi->ReleaseKeyValuePairs(entries);
}

static void print_device(const OrtHardwareDevice* device) {
  fprintf(log_file, "type %d vendor \"%s\" 0x%x device 0x%x ", (int)real_OrtApi->HardwareDevice_Type(device),
          real_OrtApi->HardwareDevice_Vendor(device), real_OrtApi->HardwareDevice_VendorId(device),
          real_OrtApi->HardwareDevice_DeviceId(device));
  print_pairs(real_OrtApi->HardwareDevice_Metadata(device));
}

static void show_devices(const OrtHardwareDevice* const* devices, size_t count) {
  if (!showing()) return;
  flockfile(log_file);
  for (size_t i = 0; i < count; ++i) {
    fputs("  | hardware device: ", log_file);
    print_device(devices[i]);
    fputc('\n', log_file);
  }
  funlockfile(log_file);
}

static void show_ep_devices(OrtEpDevice** ep_devices, const size_t* count) {
  if (!showing()) return;
  flockfile(log_file);
  for (size_t i = 0; i < *count; ++i) {
    fputs("  | EP device: metadata ", log_file);
    print_pairs(real_OrtApi->EpDevice_EpMetadata(ep_devices[i]));
    fputs(" options ", log_file);
    print_pairs(real_OrtApi->EpDevice_EpOptions(ep_devices[i]));
    fputs(" on ", log_file);
    print_device(real_OrtApi->EpDevice_Device(ep_devices[i]));
    fputc('\n', log_file);
  }
  funlockfile(log_file);
}

/* ---- the two symbols ---- */

static void* library;
static CreateEpApiFactoriesFn real_create;
static OrtStatus*(ORT_API_CALL* real_release)(OrtEpFactory*);

static void choose_functions(void) {
  const char* only = getenv("EPHOST_INTERPOSE_ONLY");
  char* patterns = strdup(only && only[0] ? only : "*");
  char* rest = NULL;
  for (char* one = patterns ? strtok_r(patterns, ",", &rest) : NULL; one; one = strtok_r(NULL, ",", &rest)) {
    for (size_t i = 0; i < FUNCTION_COUNT; ++i) {
      if (fnmatch(one, function_names[i], 0) == 0) wanted[i] = true;
    }
  }
  free(patterns);
}

/* Open the log and the real plugin; returns what went wrong, or NULL. */
static const char* start(void) {
  const char* path = getenv("EPHOST_INTERPOSE_LIBRARY");
  const char* log_path = getenv("EPHOST_INTERPOSE_LOG");
  if (!log_file) {
    log_file = log_path && log_path[0] ? fopen(log_path, "a") : stderr;
    if (!log_file) return "interpose: EPHOST_INTERPOSE_LOG cannot be opened";
    setvbuf(log_file, NULL, _IOLBF, 0);
    choose_functions();
  }
  if (library) return NULL;
  if (!path || !path[0]) return "interpose: EPHOST_INTERPOSE_LIBRARY does not name a plugin library";
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return dlerror();
  void* create = dlsym(library, "CreateEpFactories");
  void* release = dlsym(library, "ReleaseEpFactory");
  if (!create || !release) {
    dlclose(library);
    library = NULL;
    return "interpose: the library lacks CreateEpFactories or ReleaseEpFactory";
  }
  memcpy(&real_create, &create, sizeof create);
  memcpy(&real_release, &release, sizeof release);
  return NULL;
}

OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* ort_api_base,
                             const OrtLogger* default_logger, OrtEpFactory** factories, size_t max_factories,
                             size_t* num_factories) {
  const char* problem = start();
  if (problem) return ort_api_base->GetApi(1)->CreateStatus(ORT_FAIL, problem);
  real_base = ort_api_base;
  fprintf(log_file, "> CreateEpFactories registered_name=\"%s\" max_factories=%zu\n", registered_name,
          max_factories);
  ++depth;
  OrtStatus* status =
      real_create(registered_name, &base_copy, default_logger, factories, max_factories, num_factories);
  --depth;
  fprintf(log_file, "< CreateEpFactories -> %s, %zu\n", status ? "an error" : "ok",
          status ? 0 : *num_factories);
  if (!status) {
    for (size_t i = 0; i < *num_factories; ++i) hook_factory(factories[i]);
  }
  return status;
}

OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  fprintf(log_file, "ReleaseEpFactory factory=%p\n", (void*)factory);
  unhook(factory);
  return real_release(factory);
}
