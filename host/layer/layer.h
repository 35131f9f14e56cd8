/* The layer: a plugin library that stands between any host and a real plugin EP and sees every call in both
 * directions. wrappers.c, generated from include/ephost (tools/generate_layer.py), has a function for each.
 *
 * The host's tables are copied, and the plugin gets the copies. The plugin's own structs keep their
 * addresses, because both sides compare them: their members are replaced in place, and put back before the
 * plugin frees them. Members that are newer than the struct says it is are never touched. */
#ifndef EPHOST_LAYER_H_
#define EPHOST_LAYER_H_

#include <stdio.h>

#include "ephost/plugin.h"

/* ---- settings (settings.c) ---- */

typedef struct Settings {
  char* plugin;       /* the real library */
  char* trace;        /* the file to write; NULL: nothing is traced */
  char* only;         /* patterns of functions, separated by commas; NULL: all */
  bool graphs;        /* write out each graph, with options and devices */
  size_t trace_bytes; /* of the file at most */
  bool validate;      /* hold the plugin to the rules */
  bool raises;        /* what is found becomes the error of a call */
  bool bounds;        /* outputs lie between guards; inputs are compared */
  bool reads;         /* behind inputs nothing can be read */
  char* findings;     /* the file of JSON lines to add to; NULL: none */
} Settings;

/* Reads the file beside this library, LIBRARY.layer, and then the environment, which wins. Returns what is
 * wrong, or NULL. */
const char* settings_read(Settings* settings);

/* ---- the trace (trace.c) ---- */

/* One argument or result: which member holds it follows from the function's signature. */
typedef union Field {
  int64_t integer;
  double real;
  const void* pointer;
  const char* string;
} Field;

/* What the reader of a trace has to know of a function; the same as text is in the file. */
typedef struct Function {
  const char* name;
  const char* inputs;  /* a letter for each: i integer, d real, p pointer, s string, f whether it is set */
  const char* outputs; /* the same of what it writes and returns */
} Function;

/* Generated: every function of both sides, the two entry points and what is around them first. */
enum {
  FUNCTION_CREATE_EP_FACTORIES,
  FUNCTION_RELEASE_EP_FACTORY,
  FUNCTION_GET_API,
  FUNCTION_GET_VERSION_STRING,
  FUNCTION_KERNEL_CREATE,
  FUNCTIONS_BY_HAND
};
extern const Function layer_functions[];
extern const size_t layer_function_count;
extern const char
    layer_signatures[]; /* a line each: name|inputs|outputs, with names of arguments and enums */
extern const size_t layer_signatures_size;

typedef struct Call {
  uint64_t at; /* where its record lies in the file; 0: it has none, or has ended */
  uint64_t parent;
  void* trace;
  int64_t start;
  uint32_t function;
} Call;

/* Opens the trace; returns what is wrong, or NULL. */
const char* trace_open(const Settings* settings);
void trace_close(void);
bool trace_is_open(void);
Call call_begin(uint32_t function, const Field* inputs);
/* A Call that is left before its end, by a C++ exception, says so. Compiled with -fexceptions. */
#define CALL __attribute__((cleanup(call_left))) Call
void call_left(Call* call);
/* The call returned, with an error or without; NULL outputs: none. Of an error its text is kept. */
void call_end(Call* call, const OrtStatus* status, const Field* outputs);
/* A text about what happens: what a struct is and whose, a graph. */
void trace_note(const char* text, size_t length);

/* ---- the plugin's structs (objects.c) ---- */

/* The struct as the plugin made it. What is called after its release ends the process, and says so. */
const void* original_of(const void* object, const char* function);
/* A kernel of a custom operator, by which its operator is found again. */
void remember_kernel(const void* kernel, const void* op);

typedef void (*Fill)(void* object, uint32_t version);
/* Replaces the members; `size` is what the struct has at its version. A struct that cannot be written, being
 * constant, stays as it is. `owner`: what it belongs to, an EP or NULL. */
void hook(const char* kind, void* object, size_t size, uint32_t version, const void* owner, Fill fill);
void unhook(const void* object); /* before its release */

/* ---- what is done beside recording (events.c), and the host (entry.c) ---- */

extern const OrtApi* real_OrtApi; /* as the host has it */
uint32_t host_version(void);      /* the newest API version that the host knows */
void show_graph(const char* title, const OrtGraph* graph);
void show_compiled(const OrtGraph** graphs, const OrtNode** fused_nodes, size_t count);
void show_session_options(const OrtSessionOptions* options);
void show_devices(const OrtHardwareDevice* const* devices, size_t count);
void show_ep_devices(OrtEpDevice* const* ep_devices, size_t count);
extern bool shows; /* Settings.graphs */

/* ---- generated (wrappers.c) ---- */

/* The host's tables, copied once, with every function that the host has in them replaced. NULL for NULL. */
const OrtApi* copy_of_OrtApi(const OrtApi* real);
/* Each replaces the members of one struct of the plugin's. */
void hook_OrtEpFactory(OrtEpFactory* object, const void* owner);
OrtStatus* layer_create_kernel(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel);
/* Takes a kernel's function and its state, and gives those that stand for them. */
void replace_create_func(OrtKernelCreateFunc* function, void** state);
/* A kernel for control flow, which is the host's own: it is not to be hooked. */
void remember_hosts_kernel(const OrtKernelImpl* kernel);
void hook_OrtKernelImpl(OrtKernelImpl* object, const void* owner);
void* function_of_kernel_state(void* state);

#endif
