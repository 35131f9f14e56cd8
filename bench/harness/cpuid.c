/* Hides instruction sets from a library that is loaded already, for harness/lowered.py: its CPUID
 * instructions become ones that fault, and the handler of the fault answers as an older processor would.
 * x86-64, Linux. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* CPUID is 0f a2, UD2 is 0f 0b: an instruction takes the place of the other. */
static const unsigned char kCpuid[2] = {0x0f, 0xa2}, kUd2[2] = {0x0f, 0x0b};

/* What leaves 1, 7 and 7.1 are not to say, of EAX, EBX, ECX and EDX. */
static uint32_t hidden[3][4];
static const uintptr_t* places;
static long count;
static volatile long answers;
static struct sigaction before;

static int is_ours(uintptr_t at) {
  for (long i = 0; i < count; ++i) {
    if (places[i] == at) return 1;
  }
  return 0;
}

static void answer(int number, siginfo_t* info, void* context) {
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  if (!is_ours((uintptr_t)registers[REG_RIP])) {
    if ((before.sa_flags & SA_SIGINFO) && before.sa_sigaction != NULL) {
      before.sa_sigaction(number, info, context);
    } else {
      signal(SIGILL, SIG_DFL); /* the instruction faults again, and ends the process */
    }
    return;
  }
  const uint32_t leaf = (uint32_t)registers[REG_RAX], part = (uint32_t)registers[REG_RCX];
  uint32_t told[4];
  __cpuid_count(leaf, part, told[0], told[1], told[2], told[3]);
  const uint32_t* less = leaf == 1 ? hidden[0] : leaf != 7 || part > 1 ? NULL : hidden[1 + part];
  static const int order[4] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX};
  for (int i = 0; i < 4; ++i) registers[order[i]] = told[i] & ~(less == NULL ? 0u : less[i]);
  registers[REG_RIP] += sizeof kCpuid;
  ++answers;
}

/* Change the instructions at these places, which must stay in memory; bits are the 12 words of `hidden`.
 * 0, or -1 if one of them is no CPUID or its page cannot be written: then none of those from it on is
 * changed. */
int hide(const uintptr_t* at, long number, const uint32_t* bits) {
  places = at;
  count = number;
  memcpy(hidden, bits, sizeof hidden);
  struct sigaction ours;
  memset(&ours, 0, sizeof ours);
  ours.sa_sigaction = answer;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGILL, &ours, &before) != 0) return -1;
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (long i = 0; i < number; ++i) {
    const uintptr_t first = at[i] / page * page, end = at[i] + sizeof kCpuid;
    if (memcmp((void*)at[i], kCpuid, sizeof kCpuid) != 0) return -1;
    if (mprotect((void*)first, end - first, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return -1;
    memcpy((void*)at[i], kUd2, sizeof kUd2);
    if (mprotect((void*)first, end - first, PROT_READ | PROT_EXEC) != 0) return -1;
  }
  return 0;
}

/* How many have been answered. */
long answered(void) { return answers; }
