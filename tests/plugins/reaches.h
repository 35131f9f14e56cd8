/* What a plugin may try to reach beyond its own: files in the folders EPHOST_REACH_IN and EPHOST_REACH_OUT,
 * sockets, other processes. Each attempt is told with the number of its error, 0 when it succeeds. */
#ifndef EPHOST_TESTS_REACHES_H_
#define EPHOST_TESTS_REACHES_H_

#ifdef __linux__
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int outcome_of(long result) {
  if (result < 0) return errno;
  return 0;
}

static inline int closed(int file) {
  const int outcome = outcome_of(file);
  if (file >= 0) (void)close(file);
  return outcome;
}

static inline const char* below(const char* folder, const char* name) {
  static char path[2][4096];
  static int at;
  const char* known = getenv(folder);
  at = !at;
  (void)snprintf(path[at], sizeof path[at], "%s/%s", known != NULL ? known : "", name);
  return path[at];
}

/* Says what EPHOST_BABBLE has, in hexadecimal digits, on all sockets of the process. */
static inline void babble(void) {
  static unsigned char bytes[1 << 17];
  struct stat about;
  size_t count = 0;
  unsigned byte = 0;
  const char* text = getenv("EPHOST_BABBLE");
  while (text != NULL && count < sizeof bytes && sscanf(text + 2 * count, "%2x", &byte) == 1) {
    bytes[count++] = (unsigned char)byte;
  }
  for (int file = 3; file < 256; ++file) {
    if (fstat(file, &about) == 0 && S_ISSOCK(about.st_mode)) (void)!send(file, bytes, count, MSG_NOSIGNAL);
  }
}

static inline void reach(char* text, size_t size) {
  int pair[2] = {-1, -1};
  char byte;
  const int made = closed(open(below("EPHOST_REACH_IN", "made"), O_CREAT | O_WRONLY, 0600));
  const int read_outside = closed(open(below("EPHOST_REACH_OUT", "there"), O_RDONLY));
  const int written = closed(open(below("EPHOST_REACH_OUT", "there"), O_WRONLY));
  const int truncated = outcome_of(truncate(below("EPHOST_REACH_OUT", "there"), 0));
  const int made_outside = closed(open(below("EPHOST_REACH_OUT", "made"), O_CREAT | O_WRONLY, 0600));
  const int moved = outcome_of(rename(below("EPHOST_REACH_OUT", "there"), below("EPHOST_REACH_IN", "moved")));
  const int removed = outcome_of(unlink(below("EPHOST_REACH_OUT", "there")));
  const int linked = outcome_of(link(below("EPHOST_REACH_OUT", "there"), below("EPHOST_REACH_IN", "linked")));
  const int changed = outcome_of(chmod(below("EPHOST_REACH_OUT", "there"), 0777));
  const int null_device = closed(open("/dev/null", O_WRONLY));
  const int inet = closed(socket(AF_INET, SOCK_STREAM, 0));
  const int local = closed(socket(AF_UNIX, SOCK_DGRAM, 0));
  const int stream_pair = outcome_of(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
  const int told = stream_pair != 0 ? -1 : write(pair[0], "", 1) == 1 && read(pair[1], &byte, 1) == 1 ? 0 : 1;
  if (stream_pair == 0) (void)close(pair[0]), (void)close(pair[1]);
  const int datagram_pair = outcome_of(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
  if (datagram_pair == 0) (void)close(pair[0]), (void)close(pair[1]);
  const int signalled = outcome_of(kill(getppid(), 0));
  const int traced = outcome_of(syscall(SYS_ptrace, 16 /* PTRACE_ATTACH */, 0, 0, 0));
  const int ring = closed((int)syscall(425 /* io_uring_setup */, 0, NULL));
  (void)snprintf(text, size,
                 "made %d, read outside %d, written %d, truncated %d, made outside %d, moved %d, removed %d, "
                 "linked %d, changed %d, null device %d, inet %d, local %d, stream pair %d, told %d, "
                 "datagram pair %d, signalled %d, traced %d, ring %d",
                 made, read_outside, written, truncated, made_outside, moved, removed, linked, changed,
                 null_device, inet, local, stream_pair, told, datagram_pair, signalled, traced, ring);
}
#else
static inline void reach(char* text, size_t size) { (void)snprintf(text, size, "not on this system"); }
static inline void babble(void) {}
#endif
#endif
