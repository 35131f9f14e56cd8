/* OrtStatus, and the counts of live handles. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "abi.h"
#include "heap.h"
#include "logger.h"
#include "python.h"
#include "status.h"

static atomic_int_least64_t live_handles[HANDLE_KINDS]; /* relaxed: they count, and order nothing */

void handle_count(HandleKind kind, int delta) {
  atomic_fetch_add_explicit(&live_handles[kind], delta, memory_order_relaxed);
}

int64_t ephost_live_handles(int kind) {
  return kind >= 0 && kind < HANDLE_KINDS ? atomic_load(&live_handles[kind]) : -1;
}

/* Laid out as an OrtStatus with room for its message. */
static struct {
  OrtErrorCode code;
  bool is_of_node;
  char message[16];
} no_memory = {ORT_FAIL, false, "out of memory"};

OrtStatus* status_no_memory(void) { return (OrtStatus*)(void*)&no_memory; }

static OrtStatus* status_of_length(OrtErrorCode code, size_t length) {
  OrtStatus* status = host_malloc(sizeof(OrtStatus) + length + 1);
  if (status == NULL) return status_no_memory();
  status->code = code;
  status->is_of_node = false;
  status->message[0] = '\0';
  handle_count(HANDLE_STATUS, +1);
  return status;
}

OrtStatus* status_new(OrtErrorCode code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (length < 0) length = 0; /* a malformed multibyte argument: an empty message is what is left to say */
  OrtStatus* status = status_of_length(code, (size_t)length);
  if (status == status_no_memory()) return status;
  va_start(arguments, format);
  (void)vsnprintf(status->message, (size_t)length + 1, format, arguments);
  va_end(arguments);
  return status;
}

OrtStatus* status_not_implemented(const char* table, const char* member) {
  return status_new(ORT_NOT_IMPLEMENTED, "%s::%s is not implemented by ephost", table, member);
}

OrtStatus* status_beyond(const char* table, unsigned slot) {
  OrtStatus* status =
      status_new(ORT_NOT_IMPLEMENTED, "slot %u of %s is beyond API version %d, the newest that ephost knows",
                 slot, table, EPHOST_API_VERSION_SERVED);
  host_log(ORT_LOGGING_LEVEL_ERROR, "a plugin called %s", status->message);
  return status;
}

OrtStatus* sized_out(const char* function, const void* source, size_t count, size_t element_size, void* out,
                     size_t* size) {
  size_t room = *size;
  *size = count;
  if (out == NULL) return NULL;
  if (room < count) {
    return status_new(ORT_INVALID_ARGUMENT, "%s: %zu are needed, there is room for %zu: too small", function,
                      count, room);
  }
  if (count > 0) memcpy(out, source, count * element_size);
  return NULL;
}

void end_at_character(char* text) {
  const size_t end = strlen(text);
  size_t at = end;
  while (at > 0 && end - at < 3 && ((unsigned char)text[at - 1] & 0xC0) == 0x80) --at;
  const unsigned char lead = at > 0 ? (unsigned char)text[at - 1] : 0;
  const size_t size = lead < 0xC0 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (size > end - at + 1) text[at - 1] = '\0';
}

OrtStatus* text_out(const char* function, const char* text, char* out, size_t* size) {
  return sized_out(function, text, strlen(text) + 1, 1, out, size);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateStatus)(OrtErrorCode code, const char* msg) {
  if (msg == NULL) msg = "";
  size_t length = strlen(msg);
  OrtStatus* status = status_of_length(code, length);
  if (status != status_no_memory()) memcpy(status->message, msg, length + 1);
  return status;
}

OrtErrorCode ORT_API_CALL SLOT(OrtApi, GetErrorCode)(const OrtStatus* status) {
  return status != NULL ? status->code : ORT_OK;
}

const char* ORT_API_CALL SLOT(OrtApi, GetErrorMessage)(const OrtStatus* status) {
  return status != NULL ? status->message : "";
}

void ORT_API_CALL SLOT(OrtApi, ReleaseStatus)(OrtStatus* input) {
  if (input == NULL || input == status_no_memory()) return;
  handle_count(HANDLE_STATUS, -1);
  host_free(input);
}
