/* Whose turn it is on a lane, between the threads of two processes: looking, sleeping, waking. */
#define _GNU_SOURCE
#include "isolation.h"

#ifndef _WIN32
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#endif

#include "status.h"
#include "threads.h"

enum {
  SPIN_NS = 60000,         /* how long to look */
  IN_VAIN_NS = 20000,      /* how long where that was not enough of late */
  YIELD_NS = 8000,         /* from when on others go first */
  ON_TURN_NS = 10000000,   /* how long to sleep on the turn: so late is the end of the other process heard */
  MOST_USUAL_NS = 1000000, /* one wait that takes long says little of the next */
};

/* How the side that waits sleeps. */
enum { AWAKE, SLEEPS_ON_TURN, SLEEPS_ON_SOCKET };

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

/* Relaxed: all that find it out find the same. */
static _Atomic(int) spin_ns = -1;

/* How long to look. Waits that took longer of late will again, and who looks keeps a processor from the
 * plugin's threads; but to sleep at once, while these are still waking up, takes small models longer. */
static int64_t spin_time(int64_t usual_ns) {
  int found = atomic_load_explicit(&spin_ns, memory_order_relaxed);
  if (found < 0) {
    found = processor_count() > 1 ? SPIN_NS : 0; /* alone, who looks keeps the other from working */
    atomic_store_explicit(&spin_ns, found, memory_order_relaxed);
  }
  return usual_ns > found && found > IN_VAIN_NS ? IN_VAIN_NS : found;
}

/* Who sees its turn sees all that the other wrote before it passed the turn: it reads what that wrote last.
 */
static bool is_turn(LaneBlock* lane, LaneTurn mine) {
  return atomic_load_explicit(&lane->turn, memory_order_acquire) == (uint32_t)mine;
}

/* Says on which processor this side is, for the other to see; from 1 on, and 0 where nobody knows. Relaxed: a
 * hint, of which an old one costs time alone. */
static uint32_t note_processor(LaneBlock* lane, LaneTurn mine) {
#ifdef __linux__
  uint32_t here = (uint32_t)sched_getcpu() + 1;
#else
  uint32_t here = 0;
#endif
  atomic_store_explicit(mine == TURN_HOST ? &lane->host_processor : &lane->worker_processor, here,
                        memory_order_relaxed);
  return here;
}

/* Whether the other side was last seen on the processor that this thread is on. */
static bool shares_processor(LaneBlock* lane, LaneTurn mine) {
  uint32_t here = note_processor(lane, mine);
  _Atomic uint32_t* other = mine == TURN_HOST ? &lane->worker_processor : &lane->host_processor;
  return here != 0 && atomic_load_explicit(other, memory_order_relaxed) == here;
}

#ifdef __linux__
/* Sleeps while the turn is the one that was seen. A byte on the socket takes more than twice as long to wake,
 * but its end is heard, and not here. */
static void sleep_on_turn(LaneBlock* lane, uint32_t seen, int64_t ns) {
  struct timespec most = {.tv_nsec = (long)ns};
  (void)syscall(SYS_futex, &lane->turn, FUTEX_WAIT, seen, &most, NULL, 0);
}

static void wake_from_turn(LaneBlock* lane) {
  (void)syscall(SYS_futex, &lane->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}
#endif

/* Looks for the turn for a little. */
static bool look(LaneBlock* lane, LaneTurn mine, const LaneSide* side, int64_t start) {
  int64_t spin = spin_time(side->usual_ns);
  /* Where both are on one processor, the other cannot go on before this one sleeps; to yield might let
   * anybody else go first. */
  while (!shares_processor(lane, mine) && clock_ns() - start < spin) {
    for (int i = 0; i < 32; ++i) {
      if (is_turn(lane, mine)) return true;
      relax();
    }
    /* The plugin's own threads may want this processor. */
    if (clock_ns() - start > YIELD_NS) (void)sched_yield();
  }
  return is_turn(lane, mine);
}

/* Sleeps on the socket; false when the other process is gone. */
static bool sleep_on_socket(const LaneSide* side, int64_t ns) {
  char drained[64];
  struct pollfd polled[2] = {{.fd = side->socket, .events = POLLIN},
                             {.fd = side->process, .events = POLLIN}}; /* a negative one is left out */
  int64_t wait_ms = ns / 1000000 + 1;
  (void)poll(polled, 2, wait_ms > 60000 ? 60000 : (int)wait_ms);
  ssize_t count = recv(side->socket, drained, sizeof drained, MSG_DONTWAIT);
  if (count > 0) return true;
  if (polled[1].revents != 0) return false; /* a child of its may hold the socket open */
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

static Waited sleep_until(LaneBlock* lane, LaneTurn mine, const LaneSide* side, int64_t start,
                          int64_t timeout_ns) {
  _Atomic uint32_t* sleeps = mine == TURN_HOST ? &lane->host_sleeps : &lane->worker_sleeps;
  Waited waited = WAITED_TURN;
  for (;;) {
    int64_t passed = clock_ns() - start, left = timeout_ns < 0 ? INT64_MAX : timeout_ns - passed;
    uint32_t how = SLEEPS_ON_SOCKET;
#ifdef __linux__
    if (passed < ON_TURN_NS) how = SLEEPS_ON_TURN;
#endif
    /* One order of all four: this store and load, and those of lane_pass. Either this sees the turn or that
     * sees who sleeps, and how. A load that only acquires may come before the store. */
    atomic_store(sleeps, how);
    uint32_t seen = atomic_load(&lane->turn);
    if (seen == (uint32_t)mine) break;
    if (left <= 0) {
      waited = WAITED_TIMEOUT;
      break;
    }
#ifdef __linux__
    if (how == SLEEPS_ON_TURN) {
      int64_t most = ON_TURN_NS - passed;
      sleep_on_turn(lane, seen, left < most ? left : most);
      continue;
    }
#endif
    bool is_there = sleep_on_socket(side, left);
    if (is_turn(lane, mine)) break;
    if (!is_there) {
      waited = WAITED_CLOSED;
      break;
    }
  }
  atomic_store(sleeps, AWAKE);
  return waited;
}

Waited lane_wait(LaneBlock* lane, LaneTurn mine, LaneSide* side, int64_t timeout_ns) {
  int64_t start = clock_ns();
  Waited waited =
      look(lane, mine, side, start) ? WAITED_TURN : sleep_until(lane, mine, side, start, timeout_ns);
  int64_t took = clock_ns() - start;
  side->usual_ns += ((took < MOST_USUAL_NS ? took : MOST_USUAL_NS) - side->usual_ns) / 4;
  return waited;
}

void lane_write_message(LaneBlock* block, const char* message) {
  const int length = snprintf(block->message, sizeof block->message, "%s", message);
  if (length >= (int)sizeof block->message) end_at_character(block->message);
}

void lane_pass(LaneBlock* lane, LaneTurn to, const LaneSide* side) {
  _Atomic uint32_t* sleeps = to == TURN_HOST ? &lane->host_sleeps : &lane->worker_sleeps;
  (void)note_processor(lane, to == TURN_HOST ? TURN_WORKER : TURN_HOST);
  atomic_store(&lane->turn, (uint32_t)to); /* before the load, as sleep_until wants it */
  uint32_t how = atomic_load(sleeps);
#ifdef __linux__
  if (how == SLEEPS_ON_TURN) {
    wake_from_turn(lane);
    return;
  }
#endif
  /* A byte that does not fit is none that anybody waits for, and a closed socket is found out by the wait. */
  if (how != AWAKE) (void)!send(side->socket, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}
#endif
