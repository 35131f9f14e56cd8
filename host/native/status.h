/* OrtStatus, checks of arguments, and counts of live handles. */
#ifndef EPHOST_NATIVE_STATUS_H_
#define EPHOST_NATIVE_STATUS_H_

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"

struct OrtStatus {
  OrtErrorCode code;
  bool is_of_node; /* a node of the host's own cannot compute what it was given: errors.NodeFailed */
  char message[];  /* NUL-terminated */
};

#if defined(__GNUC__)
/* MinGW's printf is C11's, as CMakeLists.txt asks for it; its compiler goes by Microsoft's unless it is told.
 */
#if defined(__MINGW32__) && !defined(__clang__)
#define EPHOST_PRINTF(string, first) __attribute__((format(gnu_printf, string, first)))
#else
#define EPHOST_PRINTF(string, first) __attribute__((format(printf, string, first)))
#endif
#else
#define EPHOST_PRINTF(string, first)
#endif

/* Never returns NULL: without memory it gives a shared "out of memory" status that ReleaseStatus leaves
 * alone. */
OrtStatus* status_new(OrtErrorCode code, const char* format, ...) EPHOST_PRINTF(2, 3);
OrtStatus* status_no_memory(void);
/* Answers for a slot that nobody implements: says the table's and the function's name. */
OrtStatus* status_not_implemented(const char* table, const char* member);
/* The same for a slot behind the end of a table, with a message in the log: it may return no status. */
OrtStatus* status_beyond(const char* table, unsigned slot);

/* The ABI's protocol for what has a size: *size becomes what is needed; with `out` NULL that is all that is
 * asked for, else *size says first for how many there is room, and too little of it is an error. */
OrtStatus* sized_out(const char* function, const void* source, size_t count, size_t element_size, void* out,
                     size_t* size);
void end_at_character(char* text); /* of a text that was cut: drops what is left of a character in UTF-8 */
OrtStatus* text_out(const char* function, const char* text, char* out, size_t* size); /* with its NUL */

/* For the argument checks at the top of a slot. */
#define REQUIRE_ARG(condition)                                                                               \
  do {                                                                                                       \
    if (!(condition)) return status_new(ORT_INVALID_ARGUMENT, "%s: " #condition " does not hold", __func__); \
  } while (0)

/* Live handles by kind, for tests and leak reports: every create counts +1, every release -1. */
typedef enum HandleKind {
  HANDLE_STATUS,
  HANDLE_VALUE,
  HANDLE_BUFFER,
  HANDLE_MEMORY_INFO,
  HANDLE_TYPE_INFO,
  HANDLE_TENSOR_INFO,
  HANDLE_KEY_VALUE_PAIRS,
  HANDLE_GRAPH,
  HANDLE_KERNEL_REGISTRY,
  HANDLE_KERNEL_DEF,
  HANDLE_KERNEL_INFO,
  HANDLE_EP_DEVICE,
  HANDLE_HARDWARE_DEVICE,
  HANDLE_ALLOCATOR,
  HANDLE_SYNC_STREAM,
  HANDLE_SESSION_OPTIONS,
  HANDLE_RUN_OPTIONS,
  HANDLE_PLAN,
  HANDLE_OTHER,
  HANDLE_KINDS
} HandleKind;
void handle_count(HandleKind kind, int delta);
int64_t ephost_live_handles(int kind); /* a HandleKind; -1 for what is none */

#endif
