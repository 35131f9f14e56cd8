/* A group of nodes that a worker process computes, as the host's plan runs it: one message a run, by a lane.
 */
#define _GNU_SOURCE
#include "isolation.h"

#ifndef _WIN32
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "abi.h"
#include "heap.h"
#include "key_values.h"
#include "logger.h"
#include "memory.h"
#include "signals.h"
#include "status.h"
#include "value.h"

struct Remote {
  SharedPool* pool;
  void* handle; /* Python's */
  EphostLaneOpener open_lane;
  EphostFaultCallback fault;
  int64_t timeout_ns;
  int process; /* a descriptor of the worker; -1: its lanes' sockets alone tell of its end */
  pid_t owner; /* a forked child may not touch what is its parent's */
  Mutex lock;
  Lane* free_lanes;
};

typedef struct RemoteInfo {
  OrtNodeComputeInfo base;
  Remote* remote;
  uint32_t plan;
} RemoteInfo;

enum { LEAVE_MS = 10000 };

/* Whether the worker's thread has left the lane, whose block it may look at until then: it ends its
 * side last. */
static bool lane_is_left(const Lane* lane) {
  char drained[64];
  (void)shutdown(lane->side.socket, SHUT_WR);
  for (int64_t start = clock_ns(); clock_ns() - start < (int64_t)LEAVE_MS * 1000000;) {
    struct pollfd polled[2] = {{.fd = lane->side.socket, .events = POLLIN},
                               {.fd = lane->side.process, .events = POLLIN}}; /* a negative one is left out */
    (void)poll(polled, 2, LEAVE_MS);
    if (polled[1].revents != 0) return true;
    ssize_t count = recv(lane->side.socket, drained, sizeof drained, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return true;
  }
  return false;
}

void lane_free(Remote* remote, Lane* lane) {
  /* A forked child's copy is of the parent's lane, which goes on. */
  bool is_left = lane->side.socket < 0 || remote->owner != getpid() || lane_is_left(lane);
  if (lane->side.socket >= 0) (void)close(lane->side.socket);
  if (is_left) {
    pool_free(remote->pool, lane->body);
    pool_free(remote->pool, lane->block);
  } else { /* lost rather than shared, until the pool goes with its last user */
    host_log(ORT_LOGGING_LEVEL_WARNING,
             "a thread of an isolated plugin's worker has not left its run within %d s: the run's memory is "
             "not used again",
             LEAVE_MS / 1000);
    if (lane->body != NULL) ephost_pool_release(remote->pool);
    if (lane->block != NULL) ephost_pool_release(remote->pool);
  }
  host_free(lane);
}

OrtStatus* lane_open(Remote* remote, Lane** out) {
  Lane* lane = host_calloc(1, sizeof *lane);
  if (lane == NULL) return status_no_memory();
  lane->side = (LaneSide){.socket = -1, .process = remote->process};
  lane->block = pool_alloc(remote->pool, sizeof *lane->block);
  lane->body_words = 512;
  lane->body = pool_alloc(remote->pool, lane->body_words * sizeof *lane->body);
  if (lane->block == NULL || lane->body == NULL) {
    lane_free(remote, lane);
    return status_no_memory();
  }
  memset(lane->block, 0, sizeof *lane->block);
  uint64_t offset = 0;
  (void)pool_offset(remote->pool, lane->block, sizeof *lane->block, &offset);
  OrtStatus* status = remote->open_lane(remote->handle, offset, &lane->side.socket);
  if (status != NULL) {
    lane_free(remote, lane);
    return status;
  }
  *out = lane;
  return NULL;
}

static OrtStatus* lane_take(Remote* remote, Lane** out) {
  mutex_lock(&remote->lock);
  Lane* lane = remote->free_lanes;
  if (lane != NULL) remote->free_lanes = lane->next;
  mutex_unlock(&remote->lock);
  if (lane == NULL) return lane_open(remote, out);
  *out = lane;
  return NULL;
}

static void lane_give(Remote* remote, Lane* lane) {
  mutex_lock(&remote->lock);
  lane->next = remote->free_lanes;
  remote->free_lanes = lane;
  mutex_unlock(&remote->lock);
}

/* ---- a run ---- */

/* What a run holds until it has ended: copies of what does not lie in the pool. */
typedef struct Loan {
  void* block;  /* in the pool */
  void* target; /* where an output's bytes go in the end; NULL for an input */
  size_t nbytes;
} Loan;

/* An output whose memory was offered. */
typedef struct Offer {
  size_t taken_word;      /* of the body: the worker sets it; 0: there was no offer */
  bool is_remote;         /* the output stays on a device there: where its RemoteWords begin */
  bool is_guess;          /* the memory is what the graph says, and was not there before */
  const uint64_t* packed; /* where the worker writes it, when it is a tensor of strings */
  uint64_t packed_words;
} Offer;

enum { STACK_OFFERS = 16 };

typedef struct Run {
  Remote* remote;
  Lane* lane;
  OrtKernelContext* context;
  bool is_lost; /* nobody will answer on the lane any more */
  size_t words;
  Loan* loans;
  size_t loan_count, loan_room;
  Offer* offers; /* of each output */
  Offer stack_offers[STACK_OFFERS];
} Run;

static bool put(Run* run, uint64_t word) {
  Lane* lane = run->lane;
  if (run->words == lane->body_words) {
    uint64_t* larger = pool_alloc(run->remote->pool, lane->body_words * 2 * sizeof *larger);
    if (larger == NULL) return false;
    memcpy(larger, lane->body, lane->body_words * sizeof *larger);
    pool_free(run->remote->pool, lane->body);
    lane->body = larger;
    lane->body_words *= 2;
  }
  lane->body[run->words++] = word;
  return true;
}

static void* borrow(Run* run, void* target, size_t nbytes) {
  if (run->loan_count == run->loan_room) {
    size_t room = run->loan_room ? run->loan_room * 2 : 8;
    Loan* loans = host_realloc(run->loans, room * sizeof *loans);
    if (loans == NULL) return NULL;
    run->loans = loans;
    run->loan_room = room;
  }
  void* block = pool_alloc(run->remote->pool, nbytes);
  if (block != NULL) run->loans[run->loan_count++] = (Loan){block, target, nbytes};
  return block;
}

static OrtStatus* copy_tensor(const Run* run, void* target, const void* source, size_t nbytes, bool to_pool) {
  return shared_copy(run->context->frame->plan->threads, target, source, nbytes, to_pool);
}

static bool put_tensor(Run* run, const OrtValue* value, uint64_t offset) {
  bool done = put(run, (uint64_t)value->element_type) && put(run, offset) && put(run, value->nbytes) &&
              put(run, value->rank);
  for (size_t i = 0; done && i < value->rank; ++i) done = put(run, (uint64_t)value->dims[i]);
  return done;
}

/* Where the worker writes a value: its own memory, or memory that is copied from in the end. */
static bool place_output(Run* run, const OrtValue* value, uint64_t* offset) {
  SharedPool* pool = run->remote->pool;
  if (value->nbytes == 0) return *offset = 0, true;
  if (pool_offset(pool, value->data, value->nbytes, offset)) return true;
  void* block = borrow(run, value->data, value->nbytes);
  return block != NULL && pool_offset(pool, block, value->nbytes, offset);
}

/* An input that is no tensor of numbers. */
static OrtStatus* put_packed(Run* run, const OrtValue* value, size_t index) {
  uint64_t words = ephost_packed_words(value), offset = 0;
  if (words == 0) {
    return status_new(ORT_NOT_IMPLEMENTED, "input %zu of %s '%s' is a value that cannot go to a process",
                      index, NODES_OF(run->context->step));
  }
  uint64_t* block = words > SIZE_MAX / sizeof *block ? NULL : borrow(run, NULL, words * sizeof *block);
  if (block == NULL) return status_no_memory();
  (void)ephost_pack_value(block, value);
  (void)pool_offset(run->remote->pool, block, words * sizeof *block, &offset);
  return put(run, VALUE_PACKED) && put(run, offset) && put(run, words) ? NULL : status_no_memory();
}

static bool put_text(Run* run, const char* text) {
  size_t nbytes = strlen(text);
  if (!put(run, nbytes)) return false;
  for (size_t at = 0; at < nbytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    memcpy(&word, text + at, nbytes - at < sizeof word ? nbytes - at : sizeof word);
    if (!put(run, word)) return false;
  }
  return true;
}

/* What the caller says of the run, for the plugin to be shown it there. */
static bool put_options(Run* run, const OrtRunOptions* options) {
  size_t count_at = run->words;
  if (!put(run, 0)) return false;
  if (options == NULL) return true;
  const OrtKeyValuePairs* config = options->config;
  bool done = put(run, (uint64_t)(int64_t)options->log_severity) &&
              put(run, (uint64_t)(int64_t)options->log_verbosity) && put(run, 1 + 2 * config->count) &&
              put_text(run, options->tag);
  for (size_t i = 0; done && i < config->count; ++i) {
    done = put_text(run, config->keys[i]) && put_text(run, config->values[i]);
  }
  run->lane->body[count_at] = run->words - count_at - 1;
  return done;
}

/* A tensor on a device in the worker, or (NULL, of an output) what is to stay there. */
static bool put_remote(Run* run, const OrtValue* value, const RemotePlace* place) {
  uint64_t words[REMOTE_WORDS] = {[REMOTE_DEVICE] = place->device};
  if (value != NULL) {
    words[REMOTE_TYPE] = (uint64_t)value->element_type;
    words[REMOTE_NUMBER] = place->number;
    words[REMOTE_OFFSET] = place->offset;
    words[REMOTE_NBYTES] = value->nbytes;
    words[REMOTE_RANK] = value->rank;
    for (size_t i = 0; i < value->rank; ++i) words[REMOTE_DIMS + i] = (uint64_t)value->dims[i];
  }
  bool done = put(run, VALUE_REMOTE);
  for (size_t i = 0; done && i < REMOTE_WORDS; ++i) done = put(run, words[i]);
  return done;
}

/* Where a tensor lies in this worker's devices; a plan lets no other in. */
static OrtStatus* find_place(const Run* run, const OrtValue* value, RemotePlace* place) {
  if (value->rank <= LANE_RANK && remote_find(value->data, value->nbytes, place) &&
      remote_pool(run->remote) == remote_memory_pool(place->memory)) {
    return NULL;
  }
  return status_new(ORT_EP_FAIL, "a tensor at %p for %s '%s' is not in the memory of its worker", value->data,
                    NODES_OF(run->context->step));
}

static OrtStatus* put_inputs(Run* run) {
  const Step* step = run->context->step;
  SharedPool* pool = run->remote->pool;
  for (size_t i = 0; i < step->input_count; ++i) {
    const OrtValue* value = step->inputs[i] < 0 ? NULL : run->context->frame->values[step->inputs[i]];
    uint64_t offset = 0;
    if (value == NULL || value->type == ONNX_TYPE_UNKNOWN) {
      if (!put(run, VALUE_ABSENT)) return status_no_memory();
      continue;
    }
    if (value->type != ONNX_TYPE_TENSOR || has_strings(value)) {
      OrtStatus* status = put_packed(run, value, i);
      if (status != NULL) return status;
      continue;
    }
    if (!memory_info_is_cpu(value->memory_info)) {
      RemotePlace place = {0};
      OrtStatus* status = find_place(run, value, &place);
      if (status != NULL) return status;
      if (!put_remote(run, value, &place)) return status_no_memory();
      continue;
    }
    if (value->nbytes && !pool_offset(pool, value->data, value->nbytes, &offset)) {
      void* block = borrow(run, NULL, value->nbytes);
      if (block == NULL) return status_no_memory();
      OrtStatus* status = copy_tensor(run, block, value->data, value->nbytes, true);
      if (status != NULL) return status;
      (void)pool_offset(pool, block, value->nbytes, &offset);
    }
    if (!put(run, VALUE_TENSOR) || !put_tensor(run, value, offset)) return status_no_memory();
  }
  return NULL;
}

/* The slot in which an output is wanted on its device; -1: it is wanted on the CPU. */
static int32_t wanted_remote(const Frame* frame, int32_t slot) {
  int32_t remote = frame->plan->slots[slot].remote_slot - 1;
  return remote >= 0 && frame->needed != NULL && frame->needed[remote] ? remote : -1;
}

static OrtStatus* put_remote_output(Run* run, size_t index, int32_t slot) {
  Frame* frame = run->context->frame;
  const OrtValue* bound = &frame->storage[slot];
  RemotePlace place = {.device = 0};
  if (bound->type == ONNX_TYPE_TENSOR) {
    OrtStatus* status = find_place(run, bound, &place);
    if (status != NULL) return status;
  } else {
    place.device = remote_memory_device(remote_memory_of(frame->plan->slots[slot].allocator));
    bound = NULL;
  }
  run->offers[index].is_remote = true;
  run->offers[index].taken_word = run->words + 1;
  return put_remote(run, bound, &place) ? NULL : status_no_memory();
}

/* Memory for outputs whose shape is known is offered at once: the worker need not ask. */
static OrtStatus* put_outputs(Run* run) {
  const Step* step = run->context->step;
  Frame* frame = run->context->frame;
  for (size_t i = 0; i < step->output_count; ++i) {
    int32_t at = step->outputs[i];
    uint64_t offset = 0;
    if (at < 0) {
      if (!put(run, VALUE_ABSENT)) return status_no_memory();
      continue;
    }
    int32_t remote = wanted_remote(frame, at);
    if (remote >= 0) {
      OrtStatus* status = put_remote_output(run, i, remote);
      if (status != NULL) return status;
      continue;
    }
    const Slot* slot = &frame->plan->slots[at];
    OrtValue* value = &frame->storage[at];
    bool is_text = slot->element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
    if (value->type == ONNX_TYPE_UNKNOWN && slot->dims != NULL && !is_text &&
        slot->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) {
      OrtStatus* status = frame_output(frame, step, i, slot->element_type, slot->dims, slot->rank, &value);
      if (status != NULL) return status;
      frame->preallocated[at] = PREALLOCATED_GUESS; /* given up when it is asked for in another shape */
      run->offers[i].is_guess = true;
    }
    if (value->type != ONNX_TYPE_TENSOR || is_text) {
      if (!put(run, VALUE_OPEN)) return status_no_memory();
      continue;
    }
    if (!place_output(run, value, &offset)) return status_no_memory();
    if (!put(run, VALUE_TENSOR)) return status_no_memory();
    run->offers[i].taken_word = run->words;
    if (!put(run, 0) || !put_tensor(run, value, offset)) return status_no_memory();
  }
  return NULL;
}

/* Whoever reads an output takes it for what the plan says. */
static bool may_have_type(const Run* run, size_t index, ONNXTensorElementDataType type) {
  const Plan* plan = run->context->frame->plan;
  const ONNXTensorElementDataType wanted = plan->slots[run->context->step->outputs[index]].element_type;
  return wanted == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED || wanted == type;
}

static OrtStatus* wrong_type(const Step* step, size_t index) {
  return status_new(ORT_EP_FAIL, "a worker gives output %zu of %s '%s' a type that it cannot have", index,
                    NODES_OF(step));
}

/* The worker asks for the memory of an output. Its error is the answer, and comes back as the run's. */
static void answer_output(Run* run) {
  LaneBlock* block = run->lane->block;
  const Step* step = run->context->step;
  int64_t dims[LANE_RANK];
  size_t index = *(volatile uint32_t*)&block->index, rank = *(volatile uint32_t*)&block->rank;
  ONNXTensorElementDataType type = (ONNXTensorElementDataType)(int)*(volatile uint32_t*)&block->element_type;
  OrtStatus* status = NULL;
  OrtValue* value = NULL;
  uint64_t offset = 0;
  if (index >= step->output_count || step->outputs[index] < 0 || rank > LANE_RANK ||
      type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING || type <= ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) {
    status =
        status_new(ORT_EP_FAIL, "a worker asks for an output that %s '%s' does not have", NODES_OF(step));
  } else if (!may_have_type(run, index, type)) {
    status = wrong_type(step, index);
  } else {
    memcpy(dims, block->dims, rank * sizeof *dims);
    /* A copy of what was offered in another shape must not be taken for the output in the end. */
    Frame* frame = run->context->frame;
    const void* before = frame->storage[step->outputs[index]].data;
    status = frame_output(frame, step, index, type, dims, rank, &value);
    for (size_t i = 0; status == NULL && before != NULL && i < run->loan_count; ++i) {
      if (run->loans[i].target == before && value->data != before) run->loans[i].target = NULL;
    }
    if (status == NULL && !place_output(run, value, &offset)) status = status_no_memory();
  }
  block->memory = offset;
  block->memory_code = 0;
  if (status == NULL) return;
  block->memory_code = (uint32_t)status->code;
  lane_write_message(block, status->message);
  ephost_api.ReleaseStatus(status);
}

/* The worker asks for memory to which it writes an output of strings. */
static void answer_packed(Run* run) {
  LaneBlock* block = run->lane->block;
  const Step* step = run->context->step;
  size_t index = *(volatile uint32_t*)&block->index;
  uint64_t words = *(volatile uint64_t*)&block->result, offset = 0;
  Offer* offer = index < step->output_count && step->outputs[index] >= 0 ? &run->offers[index] : NULL;
  block->memory_code = ORT_EP_FAIL;
  (void)snprintf(block->message, sizeof block->message, "no memory for output %zu of %s '%s', %llu bytes",
                 index, NODES_OF(step), (unsigned long long)words * sizeof words);
  if (offer == NULL || offer->packed != NULL || offer->taken_word != 0 || words > SIZE_MAX / sizeof words)
    return;
  uint64_t* memory = borrow(run, NULL, words * sizeof words);
  if (memory == NULL) return;
  (void)pool_offset(run->remote->pool, memory, words * sizeof words, &offset);
  offer->packed = memory;
  offer->packed_words = words;
  block->memory = offset;
  block->memory_code = 0;
}

/* An output of strings, into what is bound, or as it came. */
static OrtStatus* take_packed(Run* run, size_t index) {
  const Step* step = run->context->step;
  Frame* frame = run->context->frame;
  int32_t at = step->outputs[index];
  OrtValue made = {.type = ONNX_TYPE_UNKNOWN}, *value = NULL;
  OrtStatus* status = ephost_unpack_value(run->offers[index].packed, run->offers[index].packed_words, &made);
  if (status != NULL) return status;
  if (made.type != ONNX_TYPE_TENSOR || !has_strings(&made) || !may_have_type(run, index, made.element_type))
    status = wrong_type(step, index);
  if (status == NULL) {
    status = frame_output(frame, step, index, made.element_type, made.dims, made.rank, &value);
  }
  if (status == NULL && frame->preallocated[at]) {
    if (!copy_strings(value->data, made.data, made.element_count)) status = status_no_memory();
  } else if (status == NULL) {
    value_clear(value);
    value_move(value, &made);
  }
  value_clear(&made);
  return status;
}

/* What the worker has left on its device, as a value that frees it there. */
static OrtStatus* take_remote(Run* run, size_t index) {
  const Step* step = run->context->step;
  Frame* frame = run->context->frame;
  const Slot* slots = frame->plan->slots;
  int32_t slot = slots[step->outputs[index]].remote_slot - 1;
  uint64_t words[REMOTE_WORDS];
  memcpy(words, run->lane->body + run->offers[index].taken_word, sizeof words);
  if (words[REMOTE_DONE] != 1) {
    return status_new(ORT_EP_FAIL, "%s '%s' ended without setting its output %zu", NODES_OF(step), index);
  }
  if (frame->preallocated[slot]) { /* what is bound was written to */
    frame->preallocated[slot] |= PREALLOCATED_GIVEN;
    return NULL;
  }
  EphostRemoteMemory* memory = (EphostRemoteMemory*)(uintptr_t)remote_memory_of(slots[slot].allocator);
  Buffer* buffer = remote_adopt(memory, words[REMOTE_NUMBER], (size_t)words[REMOTE_NBYTES]);
  size_t nbytes = 0;
  int64_t dims[LANE_RANK];
  bool fits = words[REMOTE_RANK] <= LANE_RANK && words[REMOTE_OFFSET] == 0;
  if (buffer == NULL) return status_no_memory();
  memcpy(dims, words + REMOTE_DIMS, sizeof dims);
  ONNXTensorElementDataType type = (ONNXTensorElementDataType)(int)words[REMOTE_TYPE];
  fits = fits && type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING &&
         tensor_nbytes(type, dims, (size_t)words[REMOTE_RANK], NULL, &nbytes) &&
         nbytes == words[REMOTE_NBYTES] &&
         (slots[slot].element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED ||
          slots[slot].element_type == type);
  if (fits && value_init_tensor(&frame->storage[slot], type, dims, (size_t)words[REMOTE_RANK], buffer, NULL,
                                slots[slot].memory)) {
    return NULL;
  }
  buffer_release(buffer);
  return status_new(ORT_EP_FAIL, "a worker gives output %zu of %s '%s' a type or shape that it cannot have",
                    index, NODES_OF(step));
}

/* Tells the frame which of the offered outputs were taken, and copies those that lie elsewhere. */
static OrtStatus* take_outputs(Run* run) {
  const Step* step = run->context->step;
  Frame* frame = run->context->frame;
  for (size_t i = 0; i < step->output_count; ++i) {
    const Offer* offer = &run->offers[i];
    int32_t at = step->outputs[i];
    if (offer->is_remote) {
      OrtStatus* status = take_remote(run, i);
      if (status != NULL) return status;
      continue;
    }
    if (offer->packed != NULL) {
      OrtStatus* status = take_packed(run, i);
      if (status != NULL) return status;
      continue;
    }
    if (offer->taken_word == 0 || *(volatile uint64_t*)&run->lane->body[offer->taken_word] != 1) continue;
    OrtValue* value = &frame->storage[at];
    int64_t dims[LANE_RANK];
    if (value->type != ONNX_TYPE_TENSOR || value->rank > LANE_RANK) continue;
    memcpy(dims, value->dims, value->rank * sizeof *dims);
    OrtStatus* status = frame_output(frame, step, i, value->element_type, dims, value->rank, &value);
    if (status != NULL) return status;
  }
  for (size_t i = 0; i < run->loan_count; ++i) {
    const Loan* loan = &run->loans[i];
    if (loan->target == NULL) continue;
    OrtStatus* status = copy_tensor(run, loan->target, loan->block, loan->nbytes, false);
    if (status != NULL) return status;
  }
  return NULL;
}

/* What was offered by the graph's word, and not taken, is no value: the plan says so. */
static void withdraw_guesses(Run* run) {
  const Step* step = run->context->step;
  Frame* frame = run->context->frame;
  for (size_t i = 0; i < step->output_count; ++i) {
    if (!run->offers[i].is_guess) continue;
    int32_t at = step->outputs[i];
    if (frame->preallocated[at] == PREALLOCATED_GUESS) drop_value(&frame->storage[at]);
    frame->preallocated[at] = 0;
  }
}

static OrtStatus* converse(Run* run, const RemoteInfo* info);

/* A whole run, which the run's options can stop on its way. */
static OrtStatus* talk(Run* run, const RemoteInfo* info) {
  const OrtRunOptions* options = run->context->frame->options;
  RunWatch watch;
  atomic_store(&run->lane->block->stop, 0); /* a signal may have ended the run before */
  if (options == NULL) return converse(run, info);
  options_watch(&watch, options, &run->lane->block->stop);
  OrtStatus* status = converse(run, info);
  options_unwatch(&watch);
  return status;
}

/* Waits for the worker, no longer than `limit` from `started` on, or for ever where that is negative. A
 * signal that ends the run tells the worker to stop, which then answers. */
static Waited wait_and_look(Lane* lane, int64_t started, int64_t limit) {
  for (;;) {
    const int64_t left = limit < 0 ? INT64_MAX : limit - (clock_ns() - started);
    const int64_t most = left < 0 ? 0 : left < SIGNAL_LOOK_NS ? left : SIGNAL_LOOK_NS;
    const Waited waited = lane_wait(lane->block, TURN_HOST, &lane->side, most);
    if (waited != WAITED_TIMEOUT || left <= SIGNAL_LOOK_NS) return waited;
    if (run_is_interrupted()) atomic_store(&lane->block->stop, 1);
  }
}

static OrtStatus* converse(Run* run, const RemoteInfo* info) {
  Remote* remote = run->remote;
  Lane* lane = run->lane;
  LaneBlock* block = lane->block;
  const Step* step = run->context->step;
  if (!put(run, step->input_count) || !put(run, step->output_count) ||
      !put_options(run, run->context->frame->options)) {
    return status_no_memory();
  }
  OrtStatus* status = put_inputs(run);
  if (status == NULL) status = put_outputs(run);
  if (status != NULL) return status;
  (void)pool_offset(remote->pool, lane->body, run->words * sizeof *lane->body, &block->body);
  block->body_words = run->words;
  block->operation = LANE_RUN;
  block->plan = info->plan;
  int64_t started = clock_ns(), limit = remote->timeout_ns;
  for (;;) {
    lane_pass(block, TURN_WORKER, &lane->side);
    Waited waited = wait_and_look(lane, started, limit);
    if (waited != WAITED_TURN) {
      run->is_lost = true;
      return remote->fault(remote->handle, waited == WAITED_TIMEOUT, step->node_name);
    }
    uint32_t answer = *(volatile uint32_t*)&block->answer;
    if (answer == ANSWER_DONE) break;
    if (answer != ANSWER_OUTPUT && answer != ANSWER_PACKED) {
      run->is_lost = true;
      return status_new(ORT_EP_FAIL, "the worker of %s '%s' answers %u, which is no answer", NODES_OF(step),
                        answer);
    }
    if (answer == ANSWER_PACKED) {
      answer_packed(run);
    } else {
      answer_output(run);
    }
  }
  int32_t code = *(volatile int32_t*)&block->code;
  return code == 0 ? take_outputs(run) : lane_error(block, code);
}

OrtStatus* lane_error(const LaneBlock* block, int32_t code) {
  char message[LANE_MESSAGE];
  memcpy(message, block->message, sizeof message - 1);
  message[sizeof message - 1] = '\0';
  return status_new(code > 0 && code < 100 ? (OrtErrorCode)code : ORT_EP_FAIL, "%s", message);
}

OrtStatus* remote_fault(const Remote* remote, bool timed_out, const char* what) {
  return remote->fault(remote->handle, timed_out, what);
}

int64_t remote_timeout(const Remote* remote) { return remote->timeout_ns; }

SharedPool* remote_pool(const Remote* remote) { return remote->pool; }

OrtStatus* remote_check_owner(const Remote* remote) {
  if (remote->owner == getpid()) return NULL;
  return status_new(ORT_EP_FAIL,
                    "the session was opened before fork(): its worker is the parent's; open it again");
}

static OrtStatus* ORT_API_CALL remote_compute(OrtNodeComputeInfo* this_ptr, void* state,
                                              OrtKernelContext* context) {
  const RemoteInfo* info = (const RemoteInfo*)(const void*)this_ptr;
  Run run = {.remote = info->remote, .context = context};
  (void)state;
  OrtStatus* status = remote_check_owner(run.remote);
  if (status != NULL) return status;
  size_t outputs = context->step->output_count;
  run.offers = outputs <= STACK_OFFERS ? run.stack_offers : host_calloc(outputs, sizeof *run.offers);
  if (run.offers == NULL) return status_no_memory();
  status = lane_take(run.remote, &run.lane);
  if (status == NULL) {
    status = talk(&run, info);
    withdraw_guesses(&run);
  }
  if (run.offers != run.stack_offers) host_free(run.offers);
  for (size_t i = 0; i < run.loan_count; ++i) pool_free(run.remote->pool, run.loans[i].block);
  host_free(run.loans);
  if (run.is_lost) {
    lane_free(run.remote, run.lane);
  } else if (run.lane != NULL) {
    lane_give(run.remote, run.lane);
  }
  return pool_say_why(run.remote->pool, status);
}

static OrtStatus* ORT_API_CALL remote_create_state(OrtNodeComputeInfo* this_ptr,
                                                   OrtNodeComputeContext* context, void** state) {
  (void)this_ptr, (void)context;
  *state = NULL; /* the worker made one when it compiled */
  return NULL;
}

static void ORT_API_CALL remote_release_state(OrtNodeComputeInfo* this_ptr, void* state) {
  (void)this_ptr, (void)state;
}

Remote* ephost_remote_new(SharedPool* pool, int process, void* handle, EphostLaneOpener open_lane,
                          EphostFaultCallback fault) {
  Remote* remote = host_calloc(1, sizeof *remote);
  if (remote == NULL) return NULL;
  remote->process = process < 0 ? -1 : fcntl(process, F_DUPFD_CLOEXEC, 0);
  remote->pool = pool;
  pool_retain(pool);
  remote->handle = handle;
  remote->open_lane = open_lane;
  remote->fault = fault;
  remote->timeout_ns = -1;
  remote->owner = getpid();
  mutex_init(&remote->lock);
  handle_count(HANDLE_OTHER, +1);
  return remote;
}

void ephost_remote_set_timeout(Remote* remote, double seconds) {
  remote->timeout_ns = seconds <= 0 || seconds > 1e9 ? -1 : (int64_t)(seconds * 1e9);
}

void ephost_remote_end(Remote* remote) {
  if (remote == NULL) return;
  while (remote->free_lanes != NULL) {
    Lane* lane = remote->free_lanes;
    remote->free_lanes = lane->next;
    lane_free(remote, lane);
  }
  if (remote->process >= 0) (void)close(remote->process);
  ephost_pool_release(remote->pool);
  mutex_destroy(&remote->lock);
  handle_count(HANDLE_OTHER, -1);
  host_free(remote);
}

OrtNodeComputeInfo* ephost_remote_info_new(Remote* remote, uint32_t plan) {
  RemoteInfo* info = host_calloc(1, sizeof *info);
  if (info == NULL) return NULL;
  info->base.ort_version_supported = EPHOST_API_VERSION_SERVED;
  info->base.CreateState = remote_create_state;
  info->base.Compute = remote_compute;
  info->base.ReleaseState = remote_release_state;
  info->remote = remote;
  info->plan = plan;
  handle_count(HANDLE_OTHER, +1);
  return &info->base;
}

void ephost_remote_info_free(OrtNodeComputeInfo* info) {
  if (info == NULL) return;
  handle_count(HANDLE_OTHER, -1);
  host_free(info);
}
#else
Remote* ephost_remote_new(SharedPool* pool, int process, void* handle, EphostLaneOpener open_lane,
                          EphostFaultCallback fault) {
  (void)pool, (void)process, (void)handle, (void)open_lane, (void)fault;
  return NULL;
}
void ephost_remote_set_timeout(Remote* remote, double seconds) { (void)remote, (void)seconds; }
void ephost_remote_end(Remote* remote) { (void)remote; }
OrtNodeComputeInfo* ephost_remote_info_new(Remote* remote, uint32_t plan) {
  (void)remote, (void)plan;
  return NULL;
}
void ephost_remote_info_free(OrtNodeComputeInfo* info) { (void)info; }
#endif
