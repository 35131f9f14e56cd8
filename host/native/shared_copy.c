/* Copies between memory of one process and memory that two processes map. */
#define _GNU_SOURCE
#include "isolation.h"

#ifndef _WIN32
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "threads.h"

enum {
  COPY_PIECE = 1 << 18,
  COPY_TOGETHER = 1 << 20, /* bytes; what is less takes one thread less time */
  STREAM_FROM = 16 << 10,  /* what is less stays near both processors */
};

/* The other process has read these lines last, or written them: before an ordinary store the processor
 * fetches each from the other's cache, which takes longer than all else here. A store that goes past the
 * caches does not ask what was there. */
static void copy_to_pool(char* target, const char* source, size_t nbytes) {
#ifdef __SSE2__
  enum { LINE = 64 };
  if (nbytes >= STREAM_FROM && (uintptr_t)target % sizeof(__m128i) == 0) {
    for (; nbytes >= LINE; nbytes -= LINE, source += LINE, target += LINE) {
      const __m128i* from = (const __m128i*)(const void*)source;
      __m128i* to = (__m128i*)(void*)target;
      __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1), c = _mm_loadu_si128(from + 2),
              d = _mm_loadu_si128(from + 3);
      _mm_stream_si128(to, a);
      _mm_stream_si128(to + 1, b);
      _mm_stream_si128(to + 2, c);
      _mm_stream_si128(to + 3, d);
    }
    _mm_sfence(); /* such stores may come after later ones: the turn is passed by one */
  }
#endif
  memcpy(target, source, nbytes);
}

typedef struct CopyJob {
  char* target;
  const char* source;
  size_t nbytes;
  bool to_pool;
} CopyJob;

static void copy(const CopyJob* job, size_t at, size_t nbytes) {
  if (job->to_pool) {
    copy_to_pool(job->target + at, job->source + at, nbytes);
  } else {
    memcpy(job->target + at, job->source + at, nbytes);
  }
}

static void copy_piece(void* context, size_t index) {
  const CopyJob* job = context;
  size_t at = index * COPY_PIECE, left = job->nbytes - at;
  copy(job, at, left < COPY_PIECE ? left : COPY_PIECE);
}

/* A large tensor takes all threads of the session: nothing else can go on meanwhile. */
OrtStatus* shared_copy(ThreadPool* threads, void* target, const void* source, size_t nbytes, bool to_pool) {
  CopyJob job = {target, source, nbytes, to_pool};
  if (threads == NULL || nbytes < COPY_TOGETHER) {
    copy(&job, 0, nbytes);
    return NULL;
  }
  size_t pieces = (nbytes + COPY_PIECE - 1) / COPY_PIECE;
  return thread_pool_parallel_for(threads, copy_piece, pieces, pieces, &job);
}
#endif
