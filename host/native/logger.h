/* OrtLogger, and the host's own messages. */
#ifndef EPHOST_NATIVE_LOGGER_H_
#define EPHOST_NATIVE_LOGGER_H_

#include <stdatomic.h>

#include "abi.h"
#include "status.h"

/* Messages go to the callback of ephost_set_log_callback (without one, errors go to stderr, the rest
 * nowhere); below `level` they are dropped before any Python runs. */
struct OrtLogger {
  char* name;       /* the registration name, or a session's log id */
  atomic_int level; /* an OrtLoggingLevel; may change while plugins' threads log */
};
OrtLogger* ephost_logger_new(const char* name, OrtLoggingLevel level);
void ephost_logger_free(OrtLogger* logger);
void ephost_set_log_callback(void (*callback)(int level, const char* logger, const char* message,
                                              const char* file, int line, const char* function));
void ephost_set_log_level(int level); /* of the host's own messages; warnings and above unless it is set */
/* the host's own messages */
void host_log(OrtLoggingLevel level, const char* format, ...) EPHOST_PRINTF(2, 3);

#endif
