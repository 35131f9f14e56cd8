/* Calls of both sides as they begin and end: what is said of their arguments holds for every function, and is
 * generated from the headers. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"

_Thread_local Checked* innermost;
static _Atomic(uint64_t) number;
/* The newest API version that the plugin got. Relaxed where a call looks: who calls by a table has been given
 * it. */
static _Atomic(uint32_t) asked;

void check_asked(uint32_t version, bool given) {
  if (!given) return;
  if (version > ORT_API_VERSION) handles_stop(); /* what it makes by that table is not seen */
  uint32_t before = atomic_load(&asked);
  while (before < version && !atomic_compare_exchange_weak(&asked, &before, version)) {
  }
}

static const void* pointer_of(const Field* inputs, const Role* role) { return inputs[role->field].pointer; }

static bool is_known(const Enumerated* each, int64_t value) {
  for (size_t i = 0; i < each->count; ++i) {
    if (each->values[i] == value) return true;
  }
  return false;
}

static void check_enumerated(const Described* described, const Field* inputs) {
  if (atomic_load(&asked) > ORT_API_VERSION) return; /* it may know more values than the layer */
  for (size_t i = 0; i < described->enumerated_count; ++i) {
    const Enumerated* each = &described->enumerated[i];
    if (each->is_answer) {
      int answer = 0;
      if (inputs[each->field].pointer == NULL) continue;
      memcpy(&answer, inputs[each->field].pointer, sizeof answer);
      if (!is_known(each, answer)) {
        found(EPV_ANS_005, NULL, "%s answers %d, which is no %s", function_name(innermost->function), answer,
              each->type);
      }
      continue;
    }
    int64_t value = inputs[each->field].integer;
    if (!is_known(each, value)) {
      found(EPV_ARG_003, NULL, "%s is called with %lld, which is no %s", function_name(innermost->function),
            (long long)value, each->type);
    }
  }
}

/* Whether the call can be passed on. What a function is about is never NULL. */
static bool check_arguments(const Described* described, const Field* inputs) {
  bool good = true;
  for (size_t i = 0; i < described->role_count; ++i) {
    const Role* role = &described->roles[i];
    if (role->field == RESULT) continue;
    const void* given = pointer_of(inputs, role);
    bool is_array = role->how == 'U' || role->how == 'T' || role->how == 'G';
    int64_t count = is_array ? inputs[role->count].integer : 0;
    switch (role->how) {
      case 'u':
        if (given != NULL) {
          good = handle_may(role->type, given, ACTION_USE) && good;
        } else if (role->field == 0 && role->type != handle_type_env) {
          found(EPV_ARG_001, NULL, "%s is called with NULL for its %s", function_name(innermost->function),
                handle_types[role->type].name);
          good = false;
        }
        break;
      case 'r':
        if (given != NULL) good = handle_may(role->type, given, ACTION_RELEASE) && good;
        break;
      case 't':
        if (given != NULL) good = handle_may(role->type, given, ACTION_TAKE) && good;
        break;
      case 'U':
      case 'T':
        for (int64_t at = 0; given != NULL && at < count; ++at) {
          const void* one = ((const void* const*)given)[at];
          Action action = role->how == 'U' ? ACTION_USE : ACTION_TAKE;
          if (one != NULL) good = handle_may(role->type, one, action) && good;
        }
        break;
      case 'g':
        if (given != NULL) handle_lent(role->type, given, innermost, false);
        break;
      case 'G':
        for (int64_t at = 0; given != NULL && at < count; ++at) {
          const void* one = ((const void* const*)given)[at];
          if (one != NULL) handle_lent(role->type, one, innermost, false);
        }
        break;
      default:
        break;
    }
  }
  return good;
}

/* The plugin's call that is under way on this thread, which what the host lends is lent for. */
static Checked* borrower(void) {
  Checked* call = innermost;
  while (call != NULL && layer_described[call->function].is_hosts) call = call->outer;
  return call;
}

static void note_results(const Described* described, const Field* inputs, const void* result) {
  for (size_t i = 0; i < described->role_count; ++i) {
    const Role* role = &described->roles[i];
    if (strchr("obBx", role->how) == NULL) continue;
    const void* given = role->field == RESULT ? result : pointer_of(inputs, role);
    if (given == NULL) continue;
    if (role->field != RESULT && role->how != 'B') given = *(const void* const*)given;
    if (role->how == 'o' && given != NULL) handle_made(role->type, given);
    if (strchr("bx", role->how) != NULL && given != NULL) {
      handle_lent(role->type, given, borrower(), role->how == 'x');
    }
    for (int64_t at = 0; role->how == 'B' && at < inputs[role->count].integer; ++at) {
      const void* one = ((const void* const*)given)[at];
      if (one != NULL) handle_lent(role->type, one, borrower(), false);
    }
  }
}

static void take_back(const Described* described, const Field* inputs) {
  for (size_t i = 0; i < described->role_count; ++i) {
    const Role* role = &described->roles[i];
    const void* given = strchr("tT", role->how) != NULL ? pointer_of(inputs, role) : NULL;
    if (given == NULL) continue;
    int64_t count = role->how == 'T' ? inputs[role->count].integer : 1;
    for (int64_t at = 0; at < count; ++at) {
      const void* one = role->how == 'T' ? ((const void* const*)given)[at] : given;
      if (one != NULL) handle_taken_back(role->type, one);
    }
  }
}

bool check_begin(Checked* call, uint32_t function, const Field* inputs) {
  const Described* described = &layer_described[function];
  call->outer = innermost;
  call->function = function;
  call->number = described->is_hosts ? 0 : atomic_fetch_add(&number, 1) + 1;
  call->subject = inputs != NULL && layer_functions[function].inputs[0] == 'p' ? inputs[0].pointer : NULL;
  call->session = !described->is_hosts && call->subject != NULL ? object_session(call->subject) : 0;
  innermost = call;
  if (described->is_hosts) {
    check_enumerated(described, inputs);
    uint32_t version = atomic_load_explicit(&asked, memory_order_relaxed);
    if (described->since > version && version != 0) {
      found(EPV_VER_001, NULL, "%s is of API version %u, and the newest that the plugin asked for is %u",
            function_name(function), described->since, version);
    }
  }
  return check_arguments(described, inputs);
}

static void leave(Checked* call) {
  innermost = call->outer;
  call->on = false;
}

static OrtStatus* raised(Checked* call) {
  OrtStatus* status = real_OrtApi->CreateStatus(ORT_FAIL, call->finding);
  free(call->finding);
  call->finding = NULL;
  return status;
}

/* What a call found and did not raise itself is raised where the plugin's function ends that it was made in.
 */
static void pass_outwards(Checked* call) {
  Checked* outer = call->outer;
  if (outer != NULL && outer->finding == NULL) {
    outer->finding = call->finding;
    call->finding = NULL;
  }
}

OrtStatus* check_refused(Checked* call) {
  const Described* described = &layer_described[call->function];
  OrtStatus* status = NULL;
  if (described->gives_status) {
    status = call->finding != NULL
                 ? raised(call)
                 : real_OrtApi->CreateStatus(
                       ORT_INVALID_ARGUMENT,
                       "the layer did not pass the call on: one of its handles is not to be used");
    if (status != NULL) handle_made(handle_type_status, status);
  }
  pass_outwards(call);
  free(call->finding);
  call->finding = NULL;
  leave(call);
  return status;
}

/* A NULL that the host took offence at; a function that allows it succeeds. */
static void check_refusal(const OrtStatus* status, const Field* inputs) {
  if (real_OrtApi->GetErrorCode(status) != ORT_INVALID_ARGUMENT) return;
  const Described* described = &layer_described[innermost->function];
  for (size_t i = 0; i < described->role_count; ++i) {
    const Role* role = &described->roles[i];
    if (role->how == 'u' && role->field != RESULT && pointer_of(inputs, role) == NULL) {
      found(EPV_ARG_002, NULL, "%s is called with NULL for its %s: %s", function_name(innermost->function),
            handle_types[role->type].name, real_OrtApi->GetErrorMessage(status));
      return;
    }
  }
}

OrtStatus* check_end(Checked* call, OrtStatus* status, const Field* inputs, const void* result) {
  const Described* described = &layer_described[call->function];
  if (described->is_hosts) {
    if (status == NULL) {
      note_results(described, inputs, result);
    } else {
      take_back(described, inputs);
      check_refusal(status, inputs);
      handle_made(handle_type_status, status);
    }
    pass_outwards(call);
  } else {
    if (status == NULL) check_enumerated(described, inputs);
    handles_expire(call);
    /* A plugin may call its own structs, too, and gets their statuses then. */
    bool is_for_host = call->outer == NULL || layer_described[call->outer->function].is_hosts;
    if (status != NULL && is_for_host && !handle_handed_over(handle_type_status, status)) {
      status = real_OrtApi->CreateStatus(ORT_FAIL, "the plugin returned a status that it had released");
    }
    if (call->finding != NULL && status == NULL && described->gives_status && !described->makes) {
      status = raised(call);
    }
  }
  free(call->finding);
  call->finding = NULL;
  leave(call);
  return status;
}

void check_left(Checked* call) {
  if (!call->on || innermost != call) return;
  if (!layer_described[call->function].is_hosts) {
    found(EPV_PHASE_004, NULL, "a C++ exception leaves %s", function_name(call->function));
    outputs_end(call, false);
    handles_expire(call);
  }
  free(call->finding);
  call->finding = NULL;
  leave(call);
}
