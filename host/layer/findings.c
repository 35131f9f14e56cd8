/* What breaks a rule: told to the host's log, written down as lines of JSON, and kept to be raised. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "checks.h"

enum { MOST_OF_ONE = 10, LONGEST_NAME = 128, MOST_SESSIONS = 4096, LONGEST_LINE = 16384 };

static const Rule rules[] = {
#define RULE(symbol, name, severity, text) {name, severity, text},
#include "rules.inc"
#undef RULE
};
static const char* const severities[] = {"info", "warning", "error"};

bool validates;
bool validate_raises;
static int file = -1;
static _Atomic(const OrtLogger*) logger;
static _Atomic(uint32_t)* counts; /* by rule and function */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char (*names)[LONGEST_NAME]; /* of sessions' EPs, from 1 on */
static _Atomic(uint32_t) session_count;

const char* findings_open(const Settings* settings) {
  if (!settings->validate) return NULL;
  free(counts);
  free(names);
  counts = calloc((layer_function_count + 1) * RULE_COUNT, sizeof *counts);
  names = calloc(MOST_SESSIONS, sizeof *names);
  if (counts == NULL || names == NULL) return "the layer has no memory for its checks";
  atomic_store(&session_count, 0);
  validate_raises = settings->raises;
  if (settings->findings != NULL) {
    file = open(settings->findings, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0) return "the layer cannot write the file of its findings";
  }
  checks_bounds = settings->bounds;
  checks_reads = settings->bounds && settings->reads;
  validates = true;
  return NULL;
}

/* The checks stay on for what a plugin that stays in the process goes on calling; nothing more is written. */
void findings_close(void) {
  atomic_store(&logger, NULL);
  if (file >= 0) close(file);
  file = -1;
}

void findings_log_to(const OrtLogger* to) { atomic_store(&logger, to); }

const char* function_name(uint32_t function) {
  return function == NO_FUNCTION ? "" : layer_functions[function].name;
}

uint32_t session_begins(void) { return atomic_fetch_add(&session_count, 1) + 1; }

void session_named(uint32_t session, const char* name) {
  if (session == 0 || session >= MOST_SESSIONS || name == NULL) return;
  pthread_mutex_lock(&mutex);
  (void)snprintf(names[session], LONGEST_NAME, "%s", name);
  pthread_mutex_unlock(&mutex);
}

void session_name(uint32_t session, char* name, size_t room) {
  name[0] = '\0';
  if (session == 0 || session >= MOST_SESSIONS || names == NULL) return;
  pthread_mutex_lock(&mutex);
  (void)snprintf(name, room, "%s", names[session]);
  pthread_mutex_unlock(&mutex);
}

#ifndef CLOCK_MONOTONIC_COARSE /* Linux has it: a few milliseconds are near enough for what is remembered */
#define CLOCK_MONOTONIC_COARSE CLOCK_MONOTONIC
#endif

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* The function of the plugin that is being called on this thread, as the outermost that the host called. */
static uint32_t during(void) {
  const Checked* call = innermost;
  while (call != NULL && layer_described[call->function].is_hosts) call = call->outer;
  return call != NULL ? call->function : NO_FUNCTION;
}

static uint32_t session_now(void) {
  const Checked* call = innermost;
  while (call != NULL && call->session == 0) call = call->outer;
  return call != NULL ? call->session : 0;
}

Event event_now(const char* what) {
  return (Event){.what = what,
                 .function = innermost != NULL ? innermost->function : NO_FUNCTION,
                 .during = during(),
                 .thread = thread_number(),
                 .session = session_now(),
                 .at = now()};
}

/* ---- JSON ---- */

typedef struct Line {
  char text[LONGEST_LINE];
  size_t used;
} Line;

__attribute__((format(printf, 2, 3))) static void put(Line* line, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line->text + line->used, sizeof line->text - line->used, format, arguments);
  va_end(arguments);
  if (length > 0) line->used += (size_t)length;
  if (line->used >= sizeof line->text) line->used = sizeof line->text - 1;
}

static bool continues(const unsigned char* at, size_t count) {
  for (size_t i = 1; i <= count; ++i) {
    if ((at[i] & 0xC0) != 0x80) return false;
  }
  return true;
}

/* How many bytes the character of UTF-8 at `at` has; 0 where there is none. */
static size_t character(const unsigned char* at) {
  if (at[0] < 0x80) return 1;
  if (at[0] >= 0xC2 && at[0] < 0xE0 && continues(at, 1)) return 2;
  if (at[0] >= 0xE0 && at[0] < 0xF0 && continues(at, 2)) {
    bool overlong = at[0] == 0xE0 && at[1] < 0xA0;
    bool surrogate = at[0] == 0xED && at[1] >= 0xA0;
    return overlong || surrogate ? 0 : 3;
  }
  if (at[0] >= 0xF0 && at[0] < 0xF5 && continues(at, 3)) {
    bool overlong = at[0] == 0xF0 && at[1] < 0x90;
    bool beyond = at[0] == 0xF4 && at[1] >= 0x90;
    return overlong || beyond ? 0 : 4;
  }
  return 0;
}

/* What a plugin names may be any bytes: what is no UTF-8 becomes U+FFFD. */
static void put_string(Line* line, const char* text) {
  put(line, "\"");
  for (const unsigned char* at = (const unsigned char*)text; *at != '\0';) {
    size_t length = character(at);
    if (*at == '"' || *at == '\\') {
      put(line, "\\%c", *at);
    } else if (*at < 0x20) {
      put(line, "\\u%04x", *at);
    } else if (length == 0) {
      put(line, "\\ufffd");
    } else {
      put(line, "%.*s", (int)length, (const char*)at);
    }
    at += length != 0 ? length : 1;
  }
  put(line, "\"");
}

static void put_event(Line* line, const Event* event) {
  put(line, "{\"event\": \"%s\", \"function\": \"%s\", \"during\": \"%s\", \"thread\": %u, \"session\": %u, ",
      event->what, function_name(event->function), function_name(event->during), event->thread,
      event->session);
  put(line, "\"at_ns\": %lld}", (long long)event->at);
}

static void write_line(const Rule* rule, const Handle* handle, const Event* event, const char* message) {
  static _Thread_local Line line;
  char ep[LONGEST_NAME];
  session_name(event->session, ep, sizeof ep);
  line.used = 0;
  put(&line, "{\"version\": 1, \"rule\": \"%s\", \"severity\": \"%s\", \"message\": ", rule->name,
      severities[rule->severity]);
  put_string(&line, message);
  put(&line, ", \"function\": \"%s\", \"during\": \"%s\", \"handle\": ", function_name(event->function),
      function_name(event->during));
  if (handle == NULL) {
    put(&line, "null");
  } else {
    put(&line, "{\"type\": \"%s\", \"address\": \"%p\", \"history\": [", handle->type, handle->address);
    for (size_t i = 0; i < handle->event_count; ++i) {
      if (i != 0) put(&line, ", ");
      put_event(&line, &handle->events[i]);
    }
    put(&line, "]}");
  }
  put(&line, ", \"thread\": %u, \"session\": %u, \"ep\": ", event->thread, event->session);
  put_string(&line, ep);
  put(&line, ", \"process\": %d, \"at_ns\": %lld}\n", (int)getpid(), (long long)event->at);
  /* In one piece, which goes to the file's end also where other processes write to it. */
  if (write(file, line.text, line.used) < 0) return; /* a full disk: the log has it still */
}

static void log_line(const Rule* rule, const Handle* handle, const Event* event, const char* message) {
  const OrtLogger* to = atomic_load(&logger);
  if (to == NULL) return;
  static const OrtLoggingLevel levels[] = {ORT_LOGGING_LEVEL_INFO, ORT_LOGGING_LEVEL_WARNING,
                                           ORT_LOGGING_LEVEL_ERROR};
  char text[4096];
  size_t used = (size_t)snprintf(text, sizeof text, "%s: %.3000s", rule->name, message);
  for (size_t i = 0; handle != NULL && i < handle->event_count && used < sizeof text; ++i) {
    const Event* past = &handle->events[i];
    used += (size_t)snprintf(text + used, sizeof text - used, "; %s by %s%s%s on thread %u", past->what,
                             function_name(past->function), past->during != NO_FUNCTION ? " in " : "",
                             function_name(past->during), past->thread);
  }
  OrtStatus* status = real_OrtApi->Logger_LogMessage(to, levels[rule->severity], text, "validate", 0,
                                                     function_name(event->function));
  if (status != NULL) real_OrtApi->ReleaseStatus(status);
}

void found(enum RuleNumber number, const Handle* handle, const char* format, ...) {
  const Rule* rule = &rules[number];
  Event event = event_now("found");
  size_t function = event.function == NO_FUNCTION ? layer_function_count : event.function;
  uint32_t before = atomic_fetch_add(&counts[function * RULE_COUNT + number], 1);
  if (before >= MOST_OF_ONE && !validate_raises) return;
  char message[3000];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  if (before < MOST_OF_ONE) {
    if (before + 1 == MOST_OF_ONE) {
      strncat(message, " (more of these are not told)", sizeof message - strlen(message) - 1);
    }
    if (file >= 0) write_line(rule, handle, &event, message);
    log_line(rule, handle, &event, message);
  }
  if (!validate_raises || innermost == NULL || innermost->finding != NULL || rule->severity != SEVERITY_ERROR)
    return;
  char* text = NULL;
  if (asprintf(&text, "%s: %s", rule->name, message) >= 0) innermost->finding = text;
}
