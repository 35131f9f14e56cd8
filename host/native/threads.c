/* The thread pool behind KernelContext_ParallelFor.
 *
 * A job lives on its caller's stack. Workers and the caller take pieces of it by an atomic counter; the
 * caller leaves when the counter has run out and no worker is inside any more. Several jobs may be open at
 * once, since runs of one session overlap: a worker takes the newest one that has pieces left. */
#define _GNU_SOURCE
#include <stdatomic.h>

#include "exceptions.h"
#include "forks.h"
#include "heap.h"
#include "logger.h"
#include "platform.h"
#include "python.h"
#include "threads.h"

typedef struct Job {
  void (*fn)(void*, size_t);
  void* context;
  size_t total;
  size_t piece;       /* indices in one piece */
  atomic_size_t next; /* deals out indices, no more: the pool's lock orders what the pieces read and write */
  _Atomic(OrtStatus*) status; /* of the first piece that failed */
  int workers;                /* inside this job; under the pool's lock */
  struct Job* link;
} Job;

struct ThreadPool {
  Mutex lock;
  ForkWatch watch;
  Condition work; /* a job was added, or the pool stops */
  Condition left; /* a worker left a job */
  Job* jobs;
  bool stopping;
  bool started;
  int helpers;      /* threads to start, not counting callers */
  int thread_count; /* threads that were started */
  Thread threads[];
};

static THREAD_LOCAL bool inside_job;

static void job_run_pieces(Job* job) {
  OrtStatus* none = NULL;
  for (;;) {
    size_t begin = atomic_fetch_add_explicit(&job->next, job->piece, memory_order_relaxed);
    if (begin >= job->total) return;
    size_t end = job->total - begin < job->piece ? job->total : begin + job->piece;
    OrtStatus* status = outcome(guard_indices(job->fn, job->context, begin, end));
    if (status == NULL) continue;
    atomic_store_explicit(&job->next, job->total, memory_order_relaxed);
    if (!atomic_compare_exchange_strong(&job->status, &none, status)) ephost_api.ReleaseStatus(status);
    return;
  }
}

static Job* find_job(ThreadPool* pool) {
  for (Job* job = pool->jobs; job != NULL; job = job->link) {
    if (atomic_load_explicit(&job->next, memory_order_relaxed) < job->total) return job;
  }
  return NULL;
}

static THREAD_RESULT worker(void* argument) {
  ThreadPool* pool = argument;
  inside_job = true;
  mutex_lock(&pool->lock);
  while (!pool->stopping) {
    Job* job = find_job(pool);
    if (job == NULL) {
      condition_wait(&pool->work, &pool->lock);
      continue;
    }
    ++job->workers;
    mutex_unlock(&pool->lock);
    job_run_pieces(job);
    mutex_lock(&pool->lock);
    if (--job->workers == 0) condition_broadcast(&pool->left);
  }
  mutex_unlock(&pool->lock);
  THREAD_RETURN;
}

ThreadPool* ephost_thread_pool_new(int threads) {
  if (threads <= 0) threads = processor_count();
  int helpers = threads - 1;
  ThreadPool* pool = host_calloc(1, sizeof *pool + (size_t)helpers * sizeof(Thread));
  if (pool == NULL) return NULL;
  pool->helpers = helpers;
  mutex_init(&pool->lock);
  fork_watch(&pool->watch, &pool->lock);
  condition_init(&pool->work);
  condition_init(&pool->left);
  return pool;
}

/* Under the pool's lock, by the first job that can use threads: many a session never has one. What the system
 * refuses is not asked for again. */
static void start_threads(ThreadPool* pool) {
  pool->started = true;
  while (pool->thread_count < pool->helpers) {
    if (thread_start(&pool->threads[pool->thread_count], worker, pool)) {
      host_log(ORT_LOGGING_LEVEL_WARNING, "the system gave %d of %d threads to the thread pool",
               pool->thread_count, pool->helpers);
      break;
    }
    ++pool->thread_count;
  }
}

void ephost_thread_pool_free(ThreadPool* pool) {
  if (pool == NULL) return;
  mutex_lock(&pool->lock);
  pool->stopping = true;
  condition_broadcast(&pool->work);
  mutex_unlock(&pool->lock);
  for (int i = 0; i < pool->thread_count; ++i) thread_join(pool->threads[i]);
  condition_destroy(&pool->left);
  condition_destroy(&pool->work);
  fork_unwatch(&pool->watch);
  mutex_destroy(&pool->lock);
  host_free(pool);
}

OrtStatus* thread_pool_parallel_for(ThreadPool* pool, void (*fn)(void*, size_t), size_t total, size_t batches,
                                    void* context) {
  if (total == 0) return NULL;
  size_t threads = pool != NULL ? (size_t)pool->helpers + 1 : 1;
  if (batches == 0) batches = threads;
  if (batches > total) batches = total;
  if (threads == 1 || batches == 1 || inside_job) {
    return outcome(guard_indices(fn, context, 0, total));
  }
  Job job = {.fn = fn, .context = context, .total = total, .piece = (total + batches - 1) / batches};
  mutex_lock(&pool->lock);
  if (!pool->started) start_threads(pool);
  job.link = pool->jobs;
  pool->jobs = &job;
  if (batches == 2) {
    condition_signal(&pool->work);
  } else {
    condition_broadcast(&pool->work);
  }
  mutex_unlock(&pool->lock);
  inside_job = true;
  job_run_pieces(&job);
  inside_job = false;
  mutex_lock(&pool->lock);
  Job** place = &pool->jobs;
  while (*place != &job) place = &(*place)->link;
  *place = job.link;
  while (job.workers > 0) condition_wait(&pool->left, &pool->lock);
  mutex_unlock(&pool->lock);
  return atomic_load(&job.status);
}
