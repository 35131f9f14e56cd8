/* What a plugin is shown, as text in the trace: graphs, options and devices. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "layer.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

bool shows;
static _Thread_local FILE* out; /* the note that is being written */

__attribute__((format(printf, 1, 2))) static void print(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)vfprintf(out, format, arguments);
  va_end(arguments);
}

/* Whether the call succeeded; says so in the log when not. */
static bool good(OrtStatus* status, const char* what) {
  if (!status) return true;
  print("%s: error %d %s\n", what, (int)real_OrtApi->GetErrorCode(status),
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
  print("{");
  for (size_t i = 0; i < count; ++i) print("%s%s: %s", i ? ", " : "", keys[i], values[i]);
  print("}");
}

static void print_type(const OrtTypeInfo* type) {
  enum ONNXType kind = ONNX_TYPE_UNKNOWN;
  const OrtTensorTypeAndShapeInfo* tensor = NULL;
  enum ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  int64_t dimensions[32];
  const char* symbols[32];
  size_t rank = 0;
  if (!type) {
    print("%s", "no type");
    return;
  }
  if (!GOOD(GetOnnxTypeFromTypeInfo(type, &kind))) return;
  if (kind != ONNX_TYPE_TENSOR) {
    print("onnx type %d", (int)kind);
    return;
  }
  if (!GOOD(CastTypeInfoToTensorInfo(type, &tensor)) || !tensor) return;
  if (!GOOD(GetTensorElementType(tensor, &element)) || !GOOD(GetDimensionsCount(tensor, &rank))) return;
  bool shaped =
      real_OrtApi->TensorTypeAndShape_HasShape ? real_OrtApi->TensorTypeAndShape_HasShape(tensor) : true;
  print("tensor(%d)", (int)element);
  if (!shaped) print("%s", " no shape,");
  if (rank > COUNT_OF(dimensions)) rank = COUNT_OF(dimensions);
  if (!GOOD(GetDimensions(tensor, dimensions, rank))) return;
  if (!GOOD(GetSymbolicDimensions(tensor, symbols, rank))) return;
  print("[");
  for (size_t i = 0; i < rank; ++i) {
    print("%s%lld", i ? "," : "", (long long)dimensions[i]);
    if (symbols[i] && symbols[i][0]) print("'%s'", symbols[i]);
  }
  print("]");
}

static void print_value(const OrtValueInfo* value, bool with_type) {
  const char* name = NULL;
  const OrtTypeInfo* type = NULL;
  if (!value) {
    print("%s", "NULL");
    return;
  }
  if (!GOOD(GetValueInfoName(value, &name))) return;
  print("%s", name && name[0] ? name : "''");
  if (!with_type) return;
  print("%s", ": ");
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
    print("%s%s%s%s%s", constant ? " constant" : "", required ? " required-input" : "",
          optional ? " optional-input" : "", output ? " graph-output" : "", outer ? " from-outer-scope" : "");
  }
  const OrtValue* tensor = NULL;
  OrtStatus* status = real_OrtApi->ValueInfo_GetInitializerValue(value, &tensor);
  if (status) {
    print(" (value: error %s)", real_OrtApi->GetErrorMessage(status));
    real_OrtApi->ReleaseStatus(status);
  } else {
    print("%s", tensor ? " with-value" : "");
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
    print("%s (%zu):\n", what, count);
    for (size_t i = 0; i < count; ++i) {
      print("%s", "  ");
      print_value(values[i], true);
      print("\n");
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
    print("%s", before);
    for (size_t i = 0; i < count; ++i) {
      if (i) print("%s", ", ");
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
    print("%s", " {");
    for (size_t i = 0; i < count; ++i) {
      const char* name = NULL;
      OrtOpAttrType type = ORT_OP_ATTR_UNDEFINED;
      if (attributes[i] && GOOD(OpAttr_GetName(attributes[i], &name)) &&
          GOOD(OpAttr_GetType(attributes[i], &type))) {
        print("%s%s:%d", i ? ", " : "", name, (int)type);
      }
    }
    print("}");
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
  print("  #%zu \"%s\" %s domain=\"%s\" since=%d ep=\"%s\"", id, name, type, domain, since, ep ? ep : "NULL");
  print_node_values(node, " (", real_OrtApi->Node_GetNumInputs, real_OrtApi->Node_GetInputs);
  print_node_values(node, ") -> (", real_OrtApi->Node_GetNumOutputs, real_OrtApi->Node_GetOutputs);
  print_node_values(node, ") implicit (", real_OrtApi->Node_GetNumImplicitInputs,
                    real_OrtApi->Node_GetImplicitInputs);
  print(")");
  print_attributes(node);
  print("\n");
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
  print("%s: graph \"%s\" path=%s%s%s ir=%lld parent=%s\n", title, name, path ? "\"" : "",
        path ? path : "NULL", path ? "\"" : "", (long long)ir_version, parent ? "a node" : "NULL");
  if (GOOD(Graph_GetNumOperatorSets(graph, &count))) {
    const char** domains = calloc(count + 1, sizeof *domains);
    int64_t* versions = calloc(count + 1, sizeof *versions);
    if (domains && versions && GOOD(Graph_GetOperatorSets(graph, domains, versions, count))) {
      print("%s", "opsets:");
      for (size_t i = 0; i < count; ++i) print(" \"%s\"=%lld", domains[i], (long long)versions[i]);
      print("\n");
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
    print("nodes (%zu):\n", count);
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

/* A note of its own for what comes until end_note; false when nothing is to be shown. */
typedef struct Note {
  char* text;
  size_t length;
} Note;

static bool begin_note(Note* note) {
  if (!shows || !trace_is_open()) return false;
  out = open_memstream(&note->text, &note->length);
  return out != NULL;
}

static void end_note(Note* note) {
  (void)fclose(out);
  out = NULL;
  if (note->text != NULL) trace_note(note->text, note->length);
  free(note->text);
}

void show_graph(const char* title, const OrtGraph* graph) {
  Note note = {0};
  if (!begin_note(&note)) return;
  print_graph(title, graph);
  end_note(&note);
}

void show_compiled(const OrtGraph** graphs, const OrtNode** fused_nodes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Note note = {0};
    if (!begin_note(&note)) return;
    print_graph("Compile", graphs[i]);
    print("%s", "fused node:\n");
    print_node(fused_nodes[i]);
    end_note(&note);
  }
}

void show_session_options(const OrtSessionOptions* options) {
  OrtKeyValuePairs* entries = NULL;
  Note note = {0};
  if (!begin_note(&note)) return;
  if (GOOD(GetSessionOptionsConfigEntries(options, &entries))) {
    print("%s", "session options: ");
    print_pairs(entries);
    print("\n");
    real_OrtApi->ReleaseKeyValuePairs(entries);
  }
  end_note(&note);
}

static void print_device(const OrtHardwareDevice* device) {
  print("type %d vendor \"%s\" 0x%x device 0x%x ", (int)real_OrtApi->HardwareDevice_Type(device),
        real_OrtApi->HardwareDevice_Vendor(device), real_OrtApi->HardwareDevice_VendorId(device),
        real_OrtApi->HardwareDevice_DeviceId(device));
  print_pairs(real_OrtApi->HardwareDevice_Metadata(device));
  print("\n");
}

void show_devices(const OrtHardwareDevice* const* devices, size_t count) {
  Note note = {0};
  if (!begin_note(&note)) return;
  for (size_t i = 0; i < count; ++i) {
    print("%s", "hardware device: ");
    print_device(devices[i]);
  }
  end_note(&note);
}

void show_ep_devices(OrtEpDevice* const* ep_devices, size_t count) {
  Note note = {0};
  if (!begin_note(&note)) return;
  for (size_t i = 0; i < count; ++i) {
    print("%s", "EP device: metadata ");
    print_pairs(real_OrtApi->EpDevice_EpMetadata(ep_devices[i]));
    print("%s", " options ");
    print_pairs(real_OrtApi->EpDevice_EpOptions(ep_devices[i]));
    print("%s", " on ");
    print_device(real_OrtApi->EpDevice_Device(ep_devices[i]));
  }
  end_note(&note);
}
