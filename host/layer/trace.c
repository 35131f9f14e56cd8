/* The trace: records in a file that is mapped, so that what was written is there when the process is killed.
 *
 * A header, the functions' signatures as text, then records, each written by one thread into room that it
 * took by adding to the end. A call's record is there from its beginning and is completed when it returns:
 * one that was not tells where the process ended. ephost/layers/trace.py reads it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "layer.h"

#define MAGIC "EPHTRACE"
enum { FORMAT = 2, HEADER_BYTES = 64, MOST_TEXT = 65536 };

typedef struct Header {
  char magic[8];
  uint32_t format;
  uint32_t records_at;
  _Atomic(uint64_t) used; /* where the next record goes; beyond the file's end when there was no room */
  _Atomic(uint64_t) capacity;
  _Atomic(uint64_t) dropped; /* records for which there was no room */
  int64_t start;             /* of the monotonic clock, ns */
  int64_t wall_start;        /* the same moment, ns since 1970 */
  uint32_t process;
  uint32_t signatures_bytes;
} Header;
_Static_assert(sizeof(Header) == HEADER_BYTES, "trace.py reads it by its layout");

enum RecordKind { RECORD_CALL = 1, RECORD_RESULT = 2, RECORD_NOTE = 3 };
enum { STILL_OPEN = -1, THREW = -2 }; /* in place of an error's code */

typedef struct Record {
  uint32_t bytes; /* of it all, a multiple of 8 */
  uint16_t function;
  _Atomic(uint8_t) kind; /* written last, and released: 0 is a record that nobody has filled */
  uint8_t reserved;
  uint32_t thread;
  _Atomic(int32_t) code; /* of a call: STILL_OPEN, THREW, 0, or an error's */
  int64_t start;
  _Atomic(int64_t) duration; /* ns; of a call that has returned */
  uint64_t parent;           /* of a call the one it was made in; of a result or note its call; 0: none */
} Record;
_Static_assert(sizeof(Record) == 40, "trace.py reads it by its layout");

static _Atomic(Header*) trace; /* stays mapped when it is closed: a thread may be about to write */
static char* path;
static pthread_mutex_t growing = PTHREAD_MUTEX_INITIALIZER;
static int file = -1;  /* what is mapped, while there may be more of it */
static uint64_t whole; /* as large as it may become */
static bool* wanted;
static _Thread_local uint64_t current;
static _Thread_local uint32_t own_id;

static int64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

uint32_t thread_number(void) {
  if (own_id == 0) own_id = (uint32_t)syscall(SYS_gettid);
  return own_id;
}

/* Takes room on the disk before it is written to: where there is none, that would be a SIGBUS. */
static bool grow(Header* header, uint64_t needed) {
  enum { AT_ONCE = 1 << 18 };
  pthread_mutex_lock(&growing);
  uint64_t there = atomic_load(&header->capacity);
  if (needed > there && needed <= whole && file >= 0) {
    uint64_t next = needed / AT_ONCE * AT_ONCE + AT_ONCE;
    if (next > whole) next = whole;
    if (posix_fallocate(file, (off_t)there, (off_t)(next - there)) == 0) {
      atomic_store(&header->capacity, there = next);
    } else {
      whole = there; /* the rest of the trace is dropped, and counted */
    }
  }
  pthread_mutex_unlock(&growing);
  return needed <= there;
}

static Record* take(Header* header, uint64_t bytes, uint64_t* at) {
  bytes = (sizeof(Record) + bytes + 7) & ~(uint64_t)7;
  *at = atomic_fetch_add(&header->used, bytes); /* before the load, as trace_close wants it */
  if (*at + bytes > atomic_load(&header->capacity) && !grow(header, *at + bytes)) {
    atomic_fetch_add_explicit(&header->dropped, 1, memory_order_relaxed);
    *at = 0;
    return NULL;
  }
  Record* record = (Record*)((char*)header + *at);
  record->bytes = (uint32_t)bytes;
  record->thread = thread_number();
  return record;
}

static size_t text_length(const char* text) { return text == NULL ? 0 : strnlen(text, MOST_TEXT); }
static size_t padded(size_t length) { return (length + 7) & ~(size_t)7; }

static size_t bytes_of(const char* kinds, const Field* fields) {
  size_t bytes = 0;
  for (size_t i = 0; kinds[i] != '\0'; ++i) {
    bytes += 8 + (kinds[i] == 's' ? padded(text_length(fields[i].string)) : 0);
  }
  return bytes;
}

/* A text is its length (-1: NULL) and its bytes; all else is eight bytes. */
static char* put_text(char* to, const char* text, int64_t length) {
  memcpy(to, &length, 8);
  if (length > 0) memcpy(to + 8, text, (size_t)length);
  return to + 8 + (length > 0 ? padded((size_t)length) : 0);
}

static char* put_fields(char* to, const char* kinds, const Field* fields) {
  for (size_t i = 0; kinds[i] != '\0'; ++i) {
    if (kinds[i] == 's') {
      const char* text = fields[i].string;
      to = put_text(to, text, text == NULL ? -1 : (int64_t)text_length(text));
    } else {
      memcpy(to, &fields[i], 8);
      to += 8;
    }
  }
  return to;
}

const char* trace_open(const Settings* settings) {
  if (settings->trace == NULL || trace_is_open()) return NULL;
  size_t records_at = padded(HEADER_BYTES + layer_signatures_size);
  size_t capacity = settings->trace_bytes;
  if (capacity < records_at + 4096) return "the layer's trace_megabytes leaves no room for a trace";
  free(wanted);
  free(path);
  wanted = calloc(layer_function_count, sizeof *wanted);
  path = strdup(settings->trace);
  if (wanted == NULL || path == NULL) return "the layer has no memory for its settings";
  char* patterns = strdup(settings->only != NULL ? settings->only : "*");
  if (patterns == NULL) return "the layer has no memory for its settings";
  char* rest = NULL;
  for (char* one = strtok_r(patterns, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest)) {
    for (size_t i = 0; i < layer_function_count; ++i) {
      if (fnmatch(one, layer_functions[i].name, 0) == 0) wanted[i] = true;
    }
  }
  free(patterns);
  if (file >= 0) close(file);
  file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return "the layer cannot write the file of its trace";
  /* A hole takes no room: what is not written does not exist. */
  if (ftruncate(file, (off_t)capacity) != 0 || posix_fallocate(file, 0, (off_t)(records_at + 4096)) != 0) {
    (void)!ftruncate(file, 0);
    return "there is no room on the disk for the layer's trace";
  }
  void* map = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (map == MAP_FAILED) return "the layer cannot map the file of its trace";
  whole = capacity;
  Header* made = map;
  memcpy(made->magic, MAGIC, sizeof made->magic);
  made->format = FORMAT;
  made->records_at = (uint32_t)records_at;
  atomic_store(&made->capacity, records_at + 4096);
  made->start = clock_ns(CLOCK_MONOTONIC);
  made->wall_start = clock_ns(CLOCK_REALTIME);
  made->process = (uint32_t)getpid();
  made->signatures_bytes = (uint32_t)layer_signatures_size;
  memcpy((char*)map + HEADER_BYTES, layer_signatures, layer_signatures_size);
  atomic_store(&made->used, records_at);
  atomic_store(&trace, made);
  return NULL;
}

/* The file becomes as long as what is in it. */
void trace_close(void) {
  Header* header = atomic_exchange(&trace, NULL);
  if (header == NULL) return;
  /* Room for what is still to come, up to a page's end: beyond it a write would be a SIGBUS. A thread that
   * found room under the old limit counts itself in `used` before it reads the limit, and so is seen here. */
  pthread_mutex_lock(&growing); /* it grows no more */
  close(file);
  file = -1;
  pthread_mutex_unlock(&growing);
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), room = atomic_load(&header->capacity), end = 0, used;
  while ((used = atomic_load(&header->used)) > end) {
    end = (used + page - 1) / page * page;
    if (end > room) end = room;
    atomic_store(&header->capacity, end);
    if (end == room) break;
  }
  if (truncate(path, (off_t)end) != 0) return; /* then it stays as long as it was */
}

bool trace_is_open(void) { return atomic_load_explicit(&trace, memory_order_acquire) != NULL; }

Call call_begin(uint32_t function, const Field* inputs) {
  Header* header = atomic_load_explicit(&trace, memory_order_acquire);
  Call call = {.parent = current, .function = function, .trace = header};
  if (header == NULL || !wanted[function]) return call;
  const char* kinds = layer_functions[function].inputs;
  Record* record = take(header, bytes_of(kinds, inputs), &call.at);
  if (record == NULL) return call;
  record->function = (uint16_t)function;
  record->parent = call.parent;
  atomic_store_explicit(&record->code, STILL_OPEN, memory_order_relaxed);
  put_fields((char*)(record + 1), kinds, inputs);
  record->start = call.start = clock_ns(CLOCK_MONOTONIC);
  atomic_store_explicit(&record->kind, RECORD_CALL, memory_order_release);
  current = call.at;
  return call;
}

void call_end(Call* call, const OrtStatus* status, const Field* outputs) {
  if (call->at == 0) return;
  int64_t end = clock_ns(CLOCK_MONOTONIC);
  current = call->parent;
  Record* record = (Record*)((char*)call->trace + call->at);
  const char* kinds = layer_functions[call->function].outputs;
  const char* message = status != NULL ? real_OrtApi->GetErrorMessage(status) : NULL;
  if (message != NULL || (status == NULL && outputs != NULL && kinds[0] != '\0')) {
    uint64_t at;
    size_t length = text_length(message);
    Record* result = take(call->trace, message != NULL ? 8 + padded(length) : bytes_of(kinds, outputs), &at);
    if (result != NULL) {
      result->function = (uint16_t)call->function;
      result->parent = call->at;
      if (message != NULL) {
        put_text((char*)(result + 1), message, (int64_t)length);
      } else {
        put_fields((char*)(result + 1), kinds, outputs);
      }
      atomic_store_explicit(&result->kind, RECORD_RESULT, memory_order_release);
    }
  }
  atomic_store_explicit(&record->duration, end - call->start, memory_order_relaxed);
  int32_t code = status != NULL ? (int32_t)real_OrtApi->GetErrorCode(status) : 0;
  atomic_store_explicit(&record->code, code, memory_order_release);
  call->at = 0;
}

void call_left(Call* call) {
  if (call->at == 0) return;
  Record* record = (Record*)((char*)call->trace + call->at);
  current = call->parent;
  atomic_store_explicit(&record->duration, clock_ns(CLOCK_MONOTONIC) - call->start, memory_order_relaxed);
  atomic_store_explicit(&record->code, THREW, memory_order_release);
}

void trace_note(const char* text, size_t length) {
  uint64_t at;
  Header* header = atomic_load_explicit(&trace, memory_order_acquire);
  if (header == NULL) return;
  Record* record = take(header, 8 + padded(length), &at);
  if (record == NULL) return;
  record->parent = current;
  record->start = clock_ns(CLOCK_MONOTONIC);
  put_text((char*)(record + 1), text, (int64_t)length);
  atomic_store_explicit(&record->kind, RECORD_NOTE, memory_order_release);
}
