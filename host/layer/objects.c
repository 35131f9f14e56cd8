/* The structs of functions that a plugin has handed over, and what they held before. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "checks.h"

/* Looked up at every call, without a lock: entries are never freed, and used again only for another struct.
 * An entry's address is stored last and released, so who finds it by that sees the rest; its `next` never
 * changes. */
typedef struct Object {
  struct Object* next;
  _Atomic(const void*) address; /* NULL: released, free for another */
  size_t uses;
  size_t size;
  size_t room;
  uint32_t session; /* by which findings are told apart; 0: none */
  DeclaredOutputs* declared;
  _Atomic(const void*) original;
} Object;

enum { BUCKETS = 4096 };
static _Atomic(Object*) buckets[BUCKETS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static _Atomic(Object*)* bucket_of(const void* address) {
  uintptr_t bits = (uintptr_t)address >> 4;
  return &buckets[(bits ^ bits >> 12 ^ bits >> 24) % BUCKETS];
}

static Object* find(const void* address) {
  Object* found = atomic_load_explicit(bucket_of(address), memory_order_acquire);
  while (found != NULL && atomic_load_explicit(&found->address, memory_order_acquire) != address) {
    found = found->next;
  }
  return found;
}

const void* original_of(const void* object, const char* function) {
  const Object* found = find(object);
  if (found == NULL) {
    if (validates) check_called_after_release(object, function);
    (void)fprintf(stderr, "ephost's layer: %s is called on %p after its release\n", function, object);
    abort();
  }
  return atomic_load_explicit(&found->original, memory_order_relaxed);
}

/* An entry for the address, with room for a copy of that size; NULL without memory. With the lock. */
static Object* add(const void* address, size_t size) {
  _Atomic(Object*)* bucket = bucket_of(address);
  Object* entry = atomic_load_explicit(bucket, memory_order_relaxed);
  while (entry != NULL && (entry->uses || entry->room < size)) entry = entry->next;
  bool is_new = entry == NULL;
  if (is_new) {
    entry = calloc(1, sizeof *entry + size);
    if (entry == NULL) return NULL;
    entry->room = size;
    entry->next = atomic_load_explicit(bucket, memory_order_relaxed);
  }
  entry->uses = 1;
  entry->size = size;
  if (size) memcpy(entry + 1, address, size);
  atomic_store_explicit(&entry->original, entry + 1, memory_order_relaxed);
  if (is_new) atomic_store_explicit(bucket, entry, memory_order_release);
  atomic_store_explicit(&entry->address, address, memory_order_release);
  return entry;
}

/* Writes the struct's own bytes over it, by way of the system, which does not mind memory that is constant.
 */
static bool is_writable(void* object, size_t size) {
  struct iovec here = {object, size};
  char* copy = malloc(size);
  if (copy == NULL) return false;
  memcpy(copy, object, size);
  struct iovec bytes = {copy, size};
  ssize_t written = process_vm_writev(getpid(), &bytes, 1, &here, 1, 0);
  free(copy);
  return written == (ssize_t)size;
}

uint32_t object_session(const void* object) {
  const Object* found = find(object);
  return found != NULL ? found->session : 0;
}

bool object_is_known(const void* object) { return find(object) != NULL; }

/* Nobody calls the struct while what is attached changes: Compile makes it, and then it goes. */
DeclaredOutputs* object_attach(const void* object, DeclaredOutputs* declared) {
  Object* found = find(object);
  if (found == NULL) return declared;
  DeclaredOutputs* before = found->declared;
  found->declared = declared;
  return before;
}

const DeclaredOutputs* object_attached(const void* object) {
  const Object* found = find(object);
  return found != NULL ? found->declared : NULL;
}

static uint32_t session_of(const char* kind, const void* owner) {
  if (strcmp(kind, "OrtEp") == 0) return session_begins();
  uint32_t session = owner != NULL ? object_session(owner) : 0;
  return session != 0 || innermost == NULL ? session : innermost->session;
}

void hook(const char* kind, void* object, size_t size, uint32_t version, const void* owner, Fill fill) {
  char text[256];
  if (validates) check_struct(kind, object, version);
  pthread_mutex_lock(&mutex);
  Object* entry = find(object);
  if (entry != NULL) {
    ++entry->uses;
  } else if (!is_writable(object, size)) {
    (void)snprintf(text, sizeof text, "constant: %s %p, whose calls are not seen", kind, object);
    trace_note(text, strlen(text));
  } else if (add(object, size) != NULL) {
    (void)snprintf(text, sizeof text, "object: %s %p of %p", kind, object, owner);
    trace_note(text, strlen(text));
    if (validates) find(object)->session = session_of(kind, owner);
    fill(object, version);
  }
  pthread_mutex_unlock(&mutex);
}

void unhook(const void* object) {
  pthread_mutex_lock(&mutex);
  Object* entry = object != NULL ? find(object) : NULL;
  if (entry != NULL && --entry->uses == 0) {
    memcpy((void*)(uintptr_t)object, entry + 1, entry->size);
    outputs_undeclare(entry->declared);
    entry->declared = NULL;
    atomic_store_explicit(&entry->address, NULL, memory_order_release);
  }
  pthread_mutex_unlock(&mutex);
}

void remember_kernel(const void* kernel, const void* op) {
  const Object* owner = find(op);
  if (owner == NULL || kernel == NULL) return;
  pthread_mutex_lock(&mutex);
  Object* entry = find(kernel);
  if (entry == NULL) entry = add(kernel, 0);
  if (entry != NULL) atomic_store(&entry->original, atomic_load(&owner->original));
  pthread_mutex_unlock(&mutex);
}
