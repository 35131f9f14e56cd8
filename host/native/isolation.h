/* Isolated plugins: memory that the host and a plugin's worker process both map (shared_pool.c), the host's
 * half of a run in a worker (remote.c), and the worker's (serve.c). See docs/isolation.md. */
#ifndef EPHOST_NATIVE_ISOLATION_H_
#define EPHOST_NATIVE_ISOLATION_H_

#include <stdatomic.h>
#include <stdint.h>

#include "plan.h"
#include "python.h"

typedef struct SharedPool SharedPool;
typedef struct Remote Remote;

/* Where a block of memory lies in the pool; false when it does not lie there whole. */
bool pool_offset(const EphostSharedPool* pool, const void* data, size_t nbytes, uint64_t* offset);
/* The memory at an offset that the other process named; NULL when it is not in the pool. */
void* pool_at(const EphostSharedPool* pool, uint64_t offset, uint64_t nbytes);
void* pool_alloc(EphostSharedPool* pool, size_t nbytes); /* NULL without memory; 0 gives a block as well */
void pool_free(EphostSharedPool* pool, void* block);     /* NULL is fine */
void pool_retain(EphostSharedPool* pool);

/* ---- what one run at a time says to the other process: a lane ----
 *
 * A lane is a block of the pool and a pair of connected sockets. Whose turn it is says the block; the socket
 * wakes who sleeps until it is his, and tells by its end that the other process is gone. Nothing that the
 * worker may write is trusted: the host reads each number once, and checks it. */

enum {
  LANE_RANK = 64,
  LANE_MESSAGE = 2048,
};

typedef enum LaneTurn {
  TURN_NOBODY, /* a new lane */
  TURN_WORKER,
  TURN_HOST,
} LaneTurn;

typedef enum LaneAnswer {
  ANSWER_DONE = 1, /* the run has ended; `code` says how */
  ANSWER_OUTPUT,   /* memory is wanted for output `index` of the shape `dims` */
} LaneAnswer;

typedef struct LaneBlock {
  _Atomic uint32_t turn;
  _Atomic uint32_t host_sleeps, worker_sleeps;
  uint32_t plan;         /* host: which one is to run */
  uint64_t body;         /* host: where the values are described, as 64-bit words */
  uint64_t body_words;   /* host */
  _Atomic uint32_t stop; /* host, at any time: 1 when the run is to stop */
  uint64_t memory;       /* host: the answer to ANSWER_OUTPUT, an offset */
  uint32_t memory_code;  /* host: 0, or the code of the error in `message` */
  uint32_t answer;       /* worker: a LaneAnswer */
  int32_t code;          /* worker: an OrtErrorCode; 0: it went well */
  uint32_t index;        /* worker */
  uint32_t element_type;
  uint32_t rank;
  int64_t dims[LANE_RANK];
  char message[LANE_MESSAGE];
} LaneBlock;

/* The words of the body: the number of inputs and of outputs; the number of words that say the run's options,
 * and those: the log's severity and verbosity, the number of texts, and each text as its length and as many
 * words as hold it (the run's tag first, then its entries, key and value). Without options that number is 0.
 * Then for each input its kind, and where that is VALUE_TENSOR element type, offset, bytes, rank and
 * dimensions; then for each output its kind, and where that is VALUE_TENSOR (memory is offered) the same,
 * with a word in front that the worker sets to 1 when it has taken the offer. */
enum { VALUE_ABSENT, VALUE_TENSOR, VALUE_OPEN };

typedef enum Waited { WAITED_TURN, WAITED_CLOSED, WAITED_TIMEOUT } Waited;

/* Until it is `mine` to go on: by looking for a little, and then asleep. `timeout_ns` negative: for ever. */
Waited lane_wait(LaneBlock* lane, LaneTurn mine, int socket, int64_t timeout_ns);
void lane_pass(LaneBlock* lane, LaneTurn to, int socket);

#endif
