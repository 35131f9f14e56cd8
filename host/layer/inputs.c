/* Inputs behind which nothing can be read.
 *
 * An input in the processor's memory is lent to the plugin as another tensor: a copy that ends, as nearly as
 * its alignment lets it, where pages begin that nobody may touch. What touches them is noted, and then may go
 * on. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checks.h"

enum { GUARD = 64 << 10, MOST_ALIGNED = 64, SLOTS = 1024, SLACK = 0x5A };

_Atomic(bool) checks_reads;

/* The guards that are there, for the signal's handler: `start` is 0 in a free place. */
typedef struct Slot {
  _Atomic(uintptr_t) start;
  _Atomic(uintptr_t) touched;
} Slot;

static Slot slots[SLOTS];
static struct sigaction before; /* ours */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

struct LentInput {
  OrtValue* value;
  char* mapping;
  size_t mapped;
  char* data;
  Slot* slot;
};

static void on_fault(int number, siginfo_t* info, void* context) {
  uintptr_t address = (uintptr_t)info->si_addr;
  for (size_t i = 0; info->si_code > 0 && i < SLOTS; ++i) {
    uintptr_t start = atomic_load(&slots[i].start);
    if (start == 0 || address < start || address >= start + GUARD) continue;
    uintptr_t none = 0;
    atomic_compare_exchange_strong(&slots[i].touched, &none, address);
    if (mprotect((void*)start, GUARD, PROT_READ | PROT_WRITE) == 0)
      return; /* what was tried is tried again */
  }
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  } else {
    (void)signal(number, SIG_DFL); /* it happens again, and ends the process */
  }
}

/* Others may have put a handler of theirs before ours since: it is asked after ours then. */
static void handle_faults(void) {
  struct sigaction now;
  pthread_mutex_lock(&mutex);
  if (sigaction(SIGSEGV, NULL, &now) == 0 &&
      ((now.sa_flags & SA_SIGINFO) == 0 || now.sa_sigaction != on_fault)) {
    before = now;
    struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    (void)sigaction(SIGSEGV, &ours, NULL);
  }
  pthread_mutex_unlock(&mutex);
}

static Slot* take_slot(uintptr_t start) {
  for (size_t i = 0; i < SLOTS; ++i) {
    uintptr_t none = 0;
    if (atomic_compare_exchange_strong(&slots[i].start, &none, start)) return &slots[i];
  }
  return NULL;
}

/* No better aligned than the host's: plugins get what they would get. */
static size_t alignment_of(const char* data) {
  size_t alignment = (uintptr_t)data & (~(uintptr_t)data + 1);
  return alignment == 0 || alignment > MOST_ALIGNED ? MOST_ALIGNED : alignment;
}

static bool map(LentInput* input, const char* data, size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t alignment = alignment_of(data);
  if (bytes > SIZE_MAX / 2) return false;
  size_t padded = (bytes + alignment - 1) / alignment * alignment;
  size_t room = (padded + page - 1) / page * page;
  char* mapping = mmap(NULL, room + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return false;
  input->mapping = mapping;
  input->mapped = room + GUARD;
  input->data = mapping + room - padded;
  memcpy(input->data, data, bytes);
  memset(input->data + bytes, SLACK, padded - bytes);
  input->slot = take_slot((uintptr_t)(mapping + room));
  return input->slot != NULL && mprotect(mapping + room, GUARD, PROT_NONE) == 0;
}

LentInput* input_lend(const OrtValue* real, const char* data, size_t bytes) {
  LentInput* input = calloc(1, sizeof *input);
  if (input == NULL) return NULL;
  handle_faults();
  if (!map(input, data, bytes) || (input->value = value_over(real, input->data, bytes)) == NULL) {
    input_give_back(input, 0, bytes);
    return NULL;
  }
  return input;
}

OrtValue* input_value(const LentInput* input) { return input->value; }
const char* input_data(const LentInput* input) { return input->data; }

void input_give_back(LentInput* input, size_t index, size_t bytes) {
  if (input == NULL) return;
  if (input->value != NULL) real_OrtApi->ReleaseValue(input->value);
  if (input->slot != NULL) {
    uintptr_t touched = atomic_exchange(&input->slot->touched, 0);
    atomic_store(&input->slot->start, 0);
    if (touched != 0) {
      found(EPV_BOUND_005, NULL, "byte %zu behind input %zu, which has %zu bytes, is read or written",
            (size_t)(touched - (uintptr_t)input->data) - bytes + 1, index, bytes);
    }
  }
  if (input->mapping != NULL) munmap(input->mapping, input->mapped);
  free(input);
}
