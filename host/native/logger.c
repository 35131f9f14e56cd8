/* OrtLogger, and the way of every message, a plugin's or the host's own, to Python. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "abi.h"
#include "heap.h"
#include "lock.h"
#include "logger.h"
#include "python.h"
#include "status.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#endif

typedef void (*LogCallback)(int level, const char* logger, const char* message, const char* file, int line,
                            const char* function);

static _Atomic(LogCallback) log_callback;
static atomic_int host_level = ORT_LOGGING_LEVEL_WARNING; /* relaxed, as loggers' own: nothing hangs on it */
static atomic_int calls_under_way;
static _Thread_local int own_calls_under_way; /* so that the callback itself may change the callback */

/* NULL takes the callback away. When this returns, no other thread is inside the old one any more. */
void ephost_set_log_callback(void (*callback)(int level, const char* logger, const char* message,
                                              const char* file, int line, const char* function)) {
  atomic_store(&log_callback, callback);
  while (atomic_load(&calls_under_way) > own_calls_under_way) host_yield();
}

void ephost_log_after_fork(void) { atomic_store(&calls_under_way, own_calls_under_way); }

void ephost_set_log_level(int level) { atomic_store(&host_level, level); }

#ifdef _WIN32
/* To the standard error that the process has now: the C library that this is linked to may have another one
 * than Python's, which does not hear when that is led elsewhere. */
static void say(const char* logger, const char* message) {
  HANDLE standard_error = GetStdHandle(STD_ERROR_HANDLE);
  const char* parts[] = {"[", logger, "] ", message, "\n"};
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
    DWORD written;
    (void)WriteFile(standard_error, parts[i], (DWORD)strlen(parts[i]), &written, NULL);
  }
}
#else
static void say(const char* logger, const char* message) {
  (void)fprintf(stderr, "[%s] %s\n", logger, message);
}
#endif

static void deliver(OrtLoggingLevel level, const char* logger, const char* message, const char* file,
                    int line, const char* function) {
  atomic_fetch_add(&calls_under_way, 1);
  own_calls_under_way++;
  LogCallback callback = atomic_load(&log_callback);
  if (callback != NULL) {
    callback((int)level, logger, message, file, line, function);
  } else if (level >= ORT_LOGGING_LEVEL_ERROR) {
    say(logger, message); /* nobody else is there to say it */
  }
  own_calls_under_way--;
  atomic_fetch_sub(&calls_under_way, 1);
}

void host_log(OrtLoggingLevel level, const char* format, ...) {
  if ((int)level < atomic_load_explicit(&host_level, memory_order_relaxed)) return;
  char message[1024]; /* on the stack, because "out of memory" is one of the things to say; longer ones are
                         cut */
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  if (length >= (int)sizeof(message)) end_at_character(message);
  if (length >= 0) deliver(level, "ephost", message, "", 0, "");
}

OrtLogger* ephost_logger_new(const char* name, OrtLoggingLevel level) {
  OrtLogger* logger = host_malloc(sizeof(*logger));
  if (logger == NULL) return NULL;
  logger->name = host_strdup(name != NULL ? name : "");
  if (logger->name == NULL) {
    host_free(logger);
    return NULL;
  }
  atomic_init(&logger->level, (int)level);
  handle_count(HANDLE_OTHER, +1);
  return logger;
}

void ephost_logger_set_level(OrtLogger* logger, OrtLoggingLevel level) {
  if (logger != NULL) atomic_store_explicit(&logger->level, (int)level, memory_order_relaxed);
}

void ephost_log(int level, const char* message) { host_log((OrtLoggingLevel)level, "%s", message); }

void ephost_logger_free(OrtLogger* logger) {
  if (logger == NULL) return;
  handle_count(HANDLE_OTHER, -1);
  host_free(logger->name);
  host_free(logger);
}

#ifdef _WIN32
/* A source file's name is ASCII in practice; what is not becomes '?'. */
static const char* narrow(const wchar_t* text, char* room, size_t size) {
  size_t i = 0;
  for (; text != NULL && text[i] != 0 && i + 1 < size; i++) room[i] = text[i] < 128 ? (char)text[i] : '?';
  room[i] = '\0';
  return room;
}
#endif

OrtStatus* ORT_API_CALL SLOT(OrtApi, Logger_LogMessage)(const OrtLogger* logger,
                                                        OrtLoggingLevel log_severity_level,
                                                        const char* message, const ORTCHAR_T* file_path,
                                                        int line_number, const char* func_name) {
  REQUIRE_ARG(logger != NULL);
  REQUIRE_ARG(message != NULL);
  if ((int)log_severity_level < atomic_load_explicit(&logger->level, memory_order_relaxed)) return NULL;
#ifdef _WIN32
  char room[260];
  const char* file = narrow(file_path, room, sizeof(room));
#else
  const char* file = file_path != NULL ? file_path : "";
#endif
  deliver(log_severity_level, logger->name, message, file, line_number, func_name != NULL ? func_name : "");
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Logger_GetLoggingSeverityLevel)(const OrtLogger* logger,
                                                                     OrtLoggingLevel* out) {
  REQUIRE_ARG(out != NULL);
  *out = ORT_LOGGING_LEVEL_FATAL;
  REQUIRE_ARG(logger != NULL);
  *out = (OrtLoggingLevel)atomic_load_explicit(&logger->level, memory_order_relaxed);
  return NULL;
}
