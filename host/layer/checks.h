/* The layer `validate`: what a plugin does is held to the rules of ephost/layers/rules.py, whose C half the
 * generator writes (rules.inc). Nothing here runs when `validates` is false.
 *
 * A call of either side has a frame on its thread's stack (calls.c). Handles of the host's are remembered by
 * their addresses (handles.c): a handle that the host gives anew, in whatever way, is a new one. What breaks
 * a rule becomes a finding (findings.c). The rest looks at one subject each: claims.c, outputs.c, structs.c.
 */
#ifndef EPHOST_LAYER_CHECKS_H_
#define EPHOST_LAYER_CHECKS_H_

#include <stdatomic.h>

#include "layer.h"

extern bool validates;       /* set while no plugin is open */
extern bool validate_raises; /* findings become errors of the calls they are made in */

/* ---- generated (rules.inc, and the rest in wrappers.c) ---- */

typedef enum Severity { SEVERITY_INFO, SEVERITY_WARNING, SEVERITY_ERROR } Severity;

typedef struct Rule {
  const char* name;
  Severity severity;
  const char* text;
} Rule;

enum RuleNumber { /* in the order of rules.py */
#define RULE(symbol, name, severity, text) symbol,
#include "rules.inc"
#undef RULE
                  RULE_COUNT
};

/* What an argument, or a result, means for the handle that it is or points to.
 *
 * In the host's functions: u used, U an array of those, r released, t taken over if the call succeeds, T an
 * array of those; o a new one that is the plugin's, b one that it is lent, B an array of those, x one that it
 * is lent for its call, whatever the type says.
 * In the plugin's functions: g given for the call, G an array of those. */
typedef struct Role {
  char how;
  uint8_t type;  /* of handle, an index of handle_types */
  uint8_t field; /* which of the call's inputs; RESULT: what it returns */
  uint8_t count; /* the input that says how many; arrays alone */
} Role;
enum { RESULT = 255 };

typedef struct Enumerated {
  uint8_t field;
  bool is_answer; /* the argument says where it is written to */
  const char* type;
  const int64_t* values;
  size_t count;
} Enumerated;

typedef struct Described {
  const Role* roles;
  size_t role_count;
  const Enumerated* enumerated;
  size_t enumerated_count;
  uint32_t since;
  bool is_hosts;
  bool gives_status;
  bool makes; /* a struct of the plugin's, which an error would leave behind */
} Described;
extern const Described layer_described[];

typedef struct HandleType {
  const char* name;
  bool expires; /* with the call that it was lent for */
  bool counted; /* one object may be given more than once, and is released as often */
} HandleType;
extern const HandleType handle_types[];
extern const uint8_t handle_type_status, handle_type_context, handle_type_value, handle_type_node,
    handle_type_ep_device, handle_type_env;

/* ---- calls (calls.c) ---- */

typedef struct Computing Computing;
typedef struct DeclaredOutputs DeclaredOutputs;

typedef struct Lent {
  struct Lent* next;
  void* entry;
} Lent;
enum { FEW = 8 };

/* A call that is under way. */
typedef struct Checked {
  struct Checked* outer; /* on this thread */
  Lent* lent;            /* what the host lent for this call, of the plugin's functions */
  size_t few_count;
  void* few[FEW];      /* the first of these, for which no memory is asked */
  const void* subject; /* its first argument */
  Computing* outputs;  /* of a Compute: see outputs.c */
  char* finding;       /* what was found in it, to be raised */
  uint64_t number;
  uint32_t function;
  uint32_t session;
  bool on;
} Checked;

#define CHECKED __attribute__((cleanup(check_left))) Checked
void check_left(Checked* call); /* by a C++ exception, when it is still open */
/* False: the call must not be passed on, and gets `check_refused`. */
bool check_begin(Checked* call, uint32_t function, const Field* inputs);
OrtStatus* check_refused(Checked* call);
/* After the call. Gives its status, or the one that a finding is raised as. */
OrtStatus* check_end(Checked* call, OrtStatus* status, const Field* inputs, const void* result);
extern _Thread_local Checked* innermost;
/* The version that the plugin asked for, and got or not; one that the layer does not know ends the checks of
 * handles. */
void check_asked(uint32_t version, bool given);

/* ---- handles (handles.c) ---- */

typedef enum Action { ACTION_USE, ACTION_RELEASE, ACTION_TAKE, ACTION_HAND_OVER } Action;

void handle_made(uint8_t type, const void* address);
/* For the call of the frame, when `for_call` or handles of the type are; NULL: for as long as may be. */
void handle_lent(uint8_t type, const void* address, Checked* frame, bool for_call);
bool handle_handed_over(uint8_t type, const void* address); /* false: it is gone already */
void handle_taken_back(uint8_t type, const void* address);
/* Whether it may be done; releasing and taking over is thereby noted. */
bool handle_may(uint8_t type, const void* address, Action action);
void handles_expire(Checked* frame);
void handles_stop(void); /* they are not all seen any more */
/* What is left; `is_gone`: the plugin is out of the process, and cannot release it any more. */
void handles_end(bool is_gone);

/* ---- findings (findings.c) ---- */

typedef struct Event {
  const char* what;
  uint32_t function;
  uint32_t during; /* the plugin's function that it was called in; NO_FUNCTION: none */
  uint32_t thread;
  uint32_t session;
  int64_t at;
} Event;
enum { NO_FUNCTION = 0xFFFFFFFF, MOST_EVENTS = 4 };

typedef struct Handle { /* as it is told */
  const char* type;
  const void* address;
  Event events[MOST_EVENTS];
  size_t event_count;
} Handle;

const char* findings_open(const Settings* settings);
void findings_close(void);
void findings_log_to(const OrtLogger* logger);
__attribute__((format(printf, 3, 4))) void found(enum RuleNumber rule, const Handle* handle,
                                                 const char* format, ...);
Event event_now(const char* what);
const char* function_name(uint32_t function);
uint32_t session_begins(void);
void session_named(uint32_t session, const char* name);
void session_name(uint32_t session, char* name, size_t room);

/* ---- subjects ---- */

/* What GetCapability says of a graph, and EPContext nodes (claims.c). */
void claims_begin(const OrtGraph* graph, const OrtEpGraphSupportInfo* info, const OrtEp* ep);
void claims_end(const OrtEpGraphSupportInfo* info);
void claim_group(const OrtEpGraphSupportInfo* info, const OrtNode* const* nodes, size_t count);
void claim_single(const OrtEpGraphSupportInfo* info, const OrtNode* node);
void check_context_node(const char* type, const char* domain, const char* node, OrtOpAttr* const* attributes,
                        size_t count);
void check_context_nodes(OrtNode* const* nodes, size_t count); /* that Compile gave */

/* Inputs and outputs of Compute (outputs.c). `maker`: the compute info or kernel, or NULL. */
extern _Atomic(bool) checks_bounds;
void outputs_begin(Checked* call, OrtKernelContext* context, const void* maker);
void outputs_end(Checked* call, bool succeeded);
void outputs_took(const OrtKernelContext* context, size_t index, const OrtValue** value);
void outputs_gave(OrtKernelContext* context, size_t index, const int64_t* dims, size_t rank,
                  OrtValue** value);
void outputs_preallocated(const OrtKernelContext* context, size_t index, const OrtValue* value);
void outputs_declared(const void* maker, const OrtNode* fused);
void outputs_declared_of_kernel(const OrtKernelImpl* kernel, const OrtKernelInfo* info);
void outputs_undeclare(DeclaredOutputs* declared);

/* A tensor of the type and shape of this one over other memory; NULL where it cannot be made (outputs.c). */
OrtValue* value_over(const OrtValue* like, char* data, size_t bytes);

/* Inputs that cannot be read beyond (inputs.c). `checks_reads`: inputs are lent so. */
extern _Atomic(bool) checks_reads;
typedef struct LentInput LentInput;
LentInput* input_lend(const OrtValue* real, const char* data, size_t bytes); /* NULL: it could not be */
OrtValue* input_value(const LentInput* input);
const char* input_data(const LentInput* input);
void input_give_back(LentInput* input, size_t index, size_t bytes); /* tells what was touched behind it */

/* Structs and answers of the plugin (structs.c). */
void check_struct(const char* kind, const void* object, uint32_t version);
void check_called_after_release(const void* object, const char* function);
void check_text(const char* text);
void check_factory_name(const char* name);
void check_ep_name(const OrtEp* ep, const char* name);
void check_ep_of(const OrtEp* ep); /* its name, which not every host asks for */
void check_made(const char* what, const void* object);
void check_once(const void* object, const void* const* before, size_t count);
void check_room(const char* what, size_t count, size_t room);
void check_status_code(OrtErrorCode code);
void check_allocated(const OrtAllocator* allocator, const void* memory, size_t size);
void check_freed(const OrtAllocator* allocator, const void* memory);
void check_location(const OrtMemoryInfo* info);
void memory_info_made(const OrtMemoryInfo* info, enum OrtMemoryInfoDeviceType device, size_t alignment);
void allocator_made(const OrtAllocator* allocator, const OrtMemoryInfo* info);
void allocator_released(const OrtAllocator* allocator);
void check_stream_aware(const OrtEpFactory* factory, bool says_so);
void check_copied(OrtDataTransferImpl* transfer, const OrtValue* const* from, OrtValue* const* to,
                  size_t count, const OrtStatus* status);

/* ---- what these need of objects.c and trace.c ---- */

uint32_t object_session(const void* object);
bool object_is_known(const void* object);
/* What the checks know of a struct: replaces it, and gives what was there. */
DeclaredOutputs* object_attach(const void* object, DeclaredOutputs* declared);
const DeclaredOutputs* object_attached(const void* object);
uint32_t thread_number(void);

#endif
