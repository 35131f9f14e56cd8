/* Isolated plugins: memory that the host and a plugin's worker process both map (shared_pool.c), the host's
 * half of a run in a worker (remote.c) and of a device's memory there (remote_memory.c), and the worker's
 * halves (serve.c, serve_memory.c). See docs/isolation.md. */
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
/* An error as it is, or with what did not fit into the pool before it. Takes the status over; NULL is fine.
 */
OrtStatus* pool_say_why(EphostSharedPool* pool, OrtStatus* status);
/* Copies into the pool, or from it; by all of the threads (NULL: there are none) where that is quicker. */
OrtStatus* shared_copy(ThreadPool* threads, void* target, const void* source, size_t nbytes, bool to_pool);

/* ---- what one run at a time says to the other process: a lane ----
 *
 * A lane is a block of the pool and a pair of connected sockets. Whose turn it is says the block. Who waits
 * for it sleeps on that word for a little, then on the socket, whose end tells that the other process is
 * gone. Nothing that the worker may write is trusted: the host reads each number once, and checks it. */

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
  ANSWER_PACKED,   /* memory is wanted for output `index`, packed in `result` words */
} LaneAnswer;

typedef enum LaneOperation {
  LANE_RUN,
  /* The others are about blocks of a device's memory, which have numbers from 1 on. Arguments, and result: */
  LANE_ALLOCATE, /* device, bytes; the number */
  LANE_FREE,     /* number */
  LANE_UPLOAD,   /* device, number, offset in the block, offset of the tensor in the pool; its shape in `dims`
                  */
  LANE_DOWNLOAD, /* the same */
  LANE_COPY,     /* device, number, offset, number and offset of the target */
} LaneOperation;

enum { LANE_ARGUMENTS = 5 };

typedef struct LaneBlock {
  _Atomic uint32_t turn;
  _Atomic uint32_t host_sleeps, worker_sleeps;       /* how, and 0: it does not (lane.c) */
  _Atomic uint32_t host_processor, worker_processor; /* on which each was last, from 1 on; 0: nobody knows */
  uint32_t operation;                                /* host: a LaneOperation */
  uint32_t plan;                                     /* host: which one is to run */
  uint64_t body;                      /* host: where the values are described, as 64-bit words */
  uint64_t body_words;                /* host */
  _Atomic uint32_t stop;              /* host, at any time: 1 when the run is to stop */
  uint64_t memory;                    /* host: the answer to ANSWER_OUTPUT, an offset */
  uint32_t memory_code;               /* host: 0, or the code of the error in `message` */
  uint32_t answer;                    /* worker: a LaneAnswer */
  int32_t code;                       /* worker: an OrtErrorCode; 0: it went well */
  uint64_t arguments[LANE_ARGUMENTS]; /* host: of an operation that is no run */
  uint64_t result;                    /* worker */
  uint32_t index;                     /* worker */
  uint32_t element_type;              /* worker; host: of a tensor that is copied, as are rank and dims */
  uint32_t rank;
  int64_t dims[LANE_RANK];
  char message[LANE_MESSAGE];
} LaneBlock;

/* The words of the body: the number of inputs and of outputs; the number of words that say the run's options,
 * and those: the log's severity and verbosity, the number of texts, and each text as its length and as many
 * words as hold it (the run's tag first, then its entries, key and value). Without options that number is 0.
 * Then for each input its kind, and where that is VALUE_TENSOR element type, offset, bytes, rank and
 * dimensions; then for each output its kind, and where that is VALUE_TENSOR (memory is offered) the same,
 * with a word in front that the worker sets to 1 when it has taken the offer.
 *
 * VALUE_PACKED is an input that is no tensor of numbers: the offset and the number of its words (packed.c).
 *
 * VALUE_REMOTE is a tensor in a device's memory in the worker: the words of RemoteWord. Of an output the
 * number is that of the block to write to, or 0: the worker says then in which it is, and of which shape. */
enum { VALUE_ABSENT, VALUE_TENSOR, VALUE_OPEN, VALUE_REMOTE, VALUE_PACKED };

enum RemoteWord {
  REMOTE_DONE, /* of an output: the worker sets it to 1 */
  REMOTE_DEVICE,
  REMOTE_TYPE,
  REMOTE_NUMBER,
  REMOTE_OFFSET,
  REMOTE_NBYTES,
  REMOTE_RANK,
  REMOTE_DIMS,
  REMOTE_WORDS = REMOTE_DIMS + LANE_RANK,
};

typedef enum Waited { WAITED_TURN, WAITED_CLOSED, WAITED_TIMEOUT } Waited;

/* What one side has of a lane for itself. */
typedef struct LaneSide {
  int socket;
  int process; /* a descriptor of the other side's process, borrowed; -1: the socket alone tells of its end */
  int64_t usual_ns; /* that waits for the other side took of late */
} LaneSide;

/* Until it is `mine` to go on: by looking for a little, and then asleep. `timeout_ns` negative: for ever.
 * lane.c
 */
Waited lane_wait(LaneBlock* lane, LaneTurn mine, LaneSide* side, int64_t timeout_ns);
void lane_pass(LaneBlock* lane, LaneTurn to, const LaneSide* side);

/* ---- the host's lanes to one worker: remote.c ---- */

typedef struct Lane {
  struct Lane* next;
  LaneBlock* block;
  uint64_t* body;
  size_t body_words;
  LaneSide side;
} Lane;

OrtStatus* lane_open(Remote* remote, Lane** out);
void lane_free(Remote* remote, Lane* lane);
OrtStatus* remote_fault(const Remote* remote, bool timed_out, const char* what); /* never NULL */
OrtStatus* lane_error(const LaneBlock* block, int32_t code);                     /* what a worker answered */
void lane_write_message(LaneBlock* block, const char* message); /* as much as there is room for */
int64_t remote_timeout(const Remote* remote);                   /* ns; negative: none */
SharedPool* remote_pool(const Remote* remote);
/* An error in a process that the worker is not of: a child of the host's. */
OrtStatus* remote_check_owner(const Remote* remote);

/* ---- a device's memory in a worker, as the host has it: remote_memory.c ---- */

/* Where a tensor's memory is: the block that the worker knows by a number. */
typedef struct RemotePlace {
  const EphostRemoteMemory* memory;
  uint64_t number, offset;
  uint32_t device;
} RemotePlace;

/* False for an address that is in no such block, or not with all the bytes. */
bool remote_find(const void* data, size_t nbytes, RemotePlace* place);
/* The memory that an allocator is of; NULL for all other allocators. */
const EphostRemoteMemory* remote_memory_of(const OrtAllocator* allocator);
SharedPool* remote_memory_pool(const EphostRemoteMemory* memory); /* which says whose worker it is */
uint32_t remote_memory_device(const EphostRemoteMemory* memory);  /* its number in the worker */
/* Whether a tensor lies in that worker's memory. */
bool remote_memory_has(const EphostRemoteMemory* memory, const OrtValue* value);
/* A block that the worker has made and given a number, as the buffer of a tensor. NULL without memory: the
 * block is freed. */
struct Buffer* remote_adopt(EphostRemoteMemory* memory, uint64_t number, size_t nbytes);

/* ---- the worker's process: serve.c ---- */

bool in_worker(void); /* whether this process is one */
/* Whether the calling thread is the host's for certain, and goes on with it: the process' first one, or that
 * of a lane. */
bool thread_is_hosts(void);

/* ---- a device's memory in the worker: serve_memory.c ---- */

/* A number for a block, whose reference it takes over; 0 without memory, and the reference stays. */
uint64_t served_keep(struct Buffer* block);
OrtStatus* served_new(uint32_t device, size_t nbytes,
                      uint64_t* number);      /* a block of the device's allocator */
struct Buffer* served_block(uint64_t number); /* a reference to it; NULL: there is none of that number */
void served_drop(uint64_t number);
/* Copies a tensor from or to the device, and waits for it. */
OrtStatus* served_copy(uint32_t device, const OrtValue* source, OrtValue* target);
const OrtMemoryInfo* served_memory(uint32_t device); /* NULL: there is none */
/* Does what the lane asks for, which is no run. */
OrtStatus* served_operation(SharedPool* pool, LaneBlock* lane);

#endif
