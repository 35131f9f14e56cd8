/* The worker's half of runs: lanes on which the host asks for them, each served by a thread of its own; and
 * what the process does about its end. */
#define _GNU_SOURCE
#include "isolation.h"

#ifndef _WIN32
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#if defined(__GLIBC__) || defined(__APPLE__)
#define HAS_BACKTRACE
#include <execinfo.h>
#endif

#include "abi.h"
#include "exceptions.h"
#include "forks.h"
#include "heap.h"
#include "memory.h"
#include "options.h"
#include "status.h"
#include "value.h"

/* ---- what the plugin does to the process ---- */

static struct {
  int socket;       /* on which the host asks; -1: this process is no worker */
  dev_t device;     /* of the socket */
  ino_t number;     /* likewise */
  uint32_t* status; /* the page that the host reads */
} worker = {.socket = -1};

static uint32_t forks_in;  /* the call in which the process forked last */
static uint32_t forked_in; /* the call in which the plugin made this process; 0: it did not */
static THREAD_LOCAL bool serves_lane;

bool in_worker(void) { return worker.socket >= 0; }

bool thread_is_hosts(void) {
#ifdef __linux__
  return serves_lane || thread_id() == (uint64_t)getpid();
#else
  return serves_lane;
#endif
}

/* Before: what is noted is in a page that the parent goes on to write to. */
static void before_fork(void) { forks_in = noted_call(); }
static void in_child(void) { forked_in = forks_in; }

void ephost_worker_begin(int socket, uint32_t* status) {
  struct stat about;
  if (fstat(socket, &about) != 0) return;
  worker.device = about.st_dev;
  worker.number = about.st_ino;
  worker.status = status;
  worker.socket = socket;
  (void)pthread_atfork(before_fork, NULL, in_child);
}

/* The plugin may fork, and then by mistake return in the child, which is no worker. */
static void end_child(void) {
  if (forked_in == 0) return;
  worker.socket = -1;
  fork_end_child(-1, ephost_call_name(forked_in));
}

void ephost_worker_check(void) {
  struct stat about;
  if (worker.socket < 0) return;
  end_child();
  if (fstat(worker.socket, &about) == 0 && about.st_dev == worker.device && about.st_ino == worker.number)
    return;
  worker.status[1] = EPHOST_WORKER_LOST_ITS_SOCKET;
  _exit(EXIT_FAILURE);
}

/* ---- runs ---- */

static struct {
  Mutex lock;
  Plan** plans; /* by number */
  size_t count;
} served = {.lock = MUTEX_INIT};

bool ephost_serve_plan(uint32_t number, Plan* plan) {
  bool done = true;
  mutex_lock(&served.lock);
  if (number >= served.count) {
    size_t count = (size_t)number + 16;
    Plan** plans = host_realloc(served.plans, count * sizeof(Plan*));
    done = plans != NULL;
    for (size_t i = served.count; done && i < count; ++i) plans[i] = NULL;
    if (done) {
      served.plans = plans;
      served.count = count;
    }
  }
  if (done) served.plans[number] = plan;
  if (plan != NULL) plan->is_served = true;
  mutex_unlock(&served.lock);
  return done;
}

static Plan* served_plan(uint32_t number) {
  mutex_lock(&served.lock);
  Plan* plan = number < served.count ? served.plans[number] : NULL;
  mutex_unlock(&served.lock);
  return plan;
}

typedef struct ServedOutput {
  uint64_t* offer; /* the words of the body that describe it, its kind first; NULL: it has none */
  bool is_given;   /* it has memory that the host knows, or a block that it is to hear of */
} ServedOutput;

typedef struct Serving {
  SharedPool* pool;
  LaneBlock* lane;
  LaneSide side;
  bool closed;           /* the host has gone, or given up */
  const uint64_t* end;   /* of the body */
  ServedOutput* outputs; /* of the plan */
  size_t output_room;
  size_t next;     /* of the outputs, the one that is asked for next if they come in order */
  uint32_t device; /* of the inputs that are on one */
} Serving;

/* Notes where each output is described, from the first on. What is not described, or not whole, has no offer.
 */
static void find_offers(Serving* serving, uint64_t* at, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint64_t left = (uint64_t)(serving->end - at), words = 1;
    serving->outputs[i].offer = NULL;
    if (left == 0) continue;
    if (*at == VALUE_REMOTE) words += REMOTE_WORDS;
    if (*at == VALUE_TENSOR) words = left > 5 && at[5] <= LANE_RANK ? 6 + at[5] : left + 1;
    if (words > left) {
      at += left;
      continue;
    }
    serving->outputs[i].offer = at;
    at += words;
  }
}

/* What one thread wrote in the shared memory, another may be given by the host later. The host orders the
 * two, in its own process; here it is said again, for the memory model of this one, and for sanitizers. */
static atomic_uint turns;

static void begin_turn(void) { (void)atomic_load_explicit(&turns, memory_order_acquire); }
static void end_turn(void) { (void)atomic_fetch_add_explicit(&turns, 1, memory_order_release); }

/* Has the host say in the lane where an output has its memory. */
static OrtStatus* ask_memory(Serving* serving, LaneAnswer what, size_t index) {
  LaneBlock* lane = serving->lane;
  end_child();
  lane->answer = what;
  lane->index = (uint32_t)index;
  end_turn();
  lane_pass(lane, TURN_HOST, &serving->side);
  if (lane_wait(lane, TURN_WORKER, &serving->side, -1) != WAITED_TURN) {
    serving->closed = true;
    return status_new(ORT_FAIL, "the host has gone");
  }
  begin_turn();
  if (lane->memory_code == 0) return NULL;
  return status_new((OrtErrorCode)(int)lane->memory_code, "%s", lane->message);
}

static OrtStatus* provide(Frame* frame, int32_t slot, ONNXTensorElementDataType element_type,
                          const int64_t* dims, size_t rank, void** data) {
  Serving* serving = frame->provider;
  const Plan* plan = frame->plan;
  LaneBlock* lane = serving->lane;
  size_t index = serving->next, looked = 0, nbytes = 0;
  for (; looked < plan->output_count; ++looked, ++index) {
    if (index >= plan->output_count) index = 0;
    if (plan->outputs[index] == slot) break;
  }
  if (looked == plan->output_count || element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) return NULL;
  serving->next = index + 1;
  if (!tensor_nbytes(element_type, dims, rank, NULL, &nbytes)) return NULL;
  uint64_t* offer = serving->outputs[index].offer;
  if (offer != NULL && offer[0] == VALUE_TENSOR && offer[2] == (uint64_t)element_type &&
      dims_equal((const int64_t*)offer + 6, offer[5], dims, rank)) {
    offer[1] = 1;
    serving->outputs[index].is_given = true;
    *data = nbytes ? pool_at(serving->pool, offer[3], nbytes) : NULL;
    return NULL;
  }
  if (rank > LANE_RANK) return status_new(ORT_INVALID_ARGUMENT, "an output of rank %zu", rank);
  lane->element_type = (uint32_t)element_type;
  lane->rank = (uint32_t)rank;
  if (rank) memcpy(lane->dims, dims, rank * sizeof *dims);
  OrtStatus* status = ask_memory(serving, ANSWER_OUTPUT, index);
  if (status != NULL) return status;
  serving->outputs[index].is_given = true;
  *data = nbytes ? pool_at(serving->pool, lane->memory, nbytes) : NULL;
  return NULL;
}

static OrtStatus* bad_body(void) {
  return status_new(ORT_FAIL, "a message for an isolated plugin is damaged");
}

/* The next of the texts that say a run's options, and where it ends; NULL when it does not end in time. */
static char* next_text(uint64_t** at, const uint64_t* end) {
  if (*at >= end || **at > (uint64_t)(end - *at - 1) * sizeof **at) return NULL;
  size_t nbytes = (size_t) * *at;
  char* text = host_malloc(nbytes + 1);
  if (text == NULL) return NULL;
  memcpy(text, *at + 1, nbytes);
  text[nbytes] = '\0';
  *at += 1 + (nbytes + sizeof **at - 1) / sizeof **at;
  return text;
}

/* What the caller says of the run; `out` stays NULL where that is nothing. */
static OrtStatus* take_options(const Serving* serving, OrtRunOptions** out) {
  LaneBlock* lane = serving->lane;
  uint64_t* at = pool_at(serving->pool, lane->body, lane->body_words * sizeof *at);
  if (at == NULL || lane->body_words < 3 || at[2] > lane->body_words - 3) return bad_body();
  uint64_t* end = at + 3 + at[2];
  if (at[2] == 0) return NULL;
  at += 3;
  if (end - at < 3) return bad_body();
  OrtStatus* status = ephost_api.CreateRunOptions(out);
  if (status != NULL) return status;
  (*out)->log_severity = (int)(int64_t)at[0];
  (*out)->log_verbosity = (int)(int64_t)at[1];
  (*out)->stop_elsewhere = &lane->stop;
  uint64_t count = at[2];
  at += 3;
  char* tag = next_text(&at, end);
  status = tag == NULL ? bad_body() : ephost_api.RunOptionsSetRunTag(*out, tag);
  host_free(tag);
  for (uint64_t i = 1; status == NULL && i < count; i += 2) {
    char* key = next_text(&at, end);
    char* value = next_text(&at, end);
    status = key == NULL || value == NULL ? bad_body() : ephost_api.AddRunConfigEntry(*out, key, value);
    host_free(key);
    host_free(value);
  }
  if (status != NULL) {
    ephost_api.ReleaseRunOptions(*out);
    *out = NULL;
  }
  return status;
}

/* A tensor over the block of the device that the host names, whose memory is said to be `info`. */
static OrtStatus* init_remote(OrtValue* value, const uint64_t* words, const OrtMemoryInfo* info) {
  int64_t dims[LANE_RANK];
  Buffer* block = served_block(words[REMOTE_NUMBER]);
  if (block == NULL || info == NULL || words[REMOTE_RANK] > LANE_RANK) {
    buffer_release(block);
    return bad_body();
  }
  memcpy(dims, words + REMOTE_DIMS, sizeof dims);
  if (!value_init_tensor(value, (ONNXTensorElementDataType)(int)words[REMOTE_TYPE], dims,
                         (size_t)words[REMOTE_RANK], block, NULL, info)) {
    buffer_release(block);
    return status_no_memory();
  }
  value->data = (char*)value->data + words[REMOTE_OFFSET];
  return NULL;
}

/* Brings an input from its device to where the CPU reads it. */
static OrtStatus* download_input(Frame* frame, size_t index, uint32_t device, const OrtValue* source) {
  OrtValue* target = &frame->storage[frame->plan->inputs[index]];
  if (!value_alloc_tensor(target, source->element_type, source->dims, source->rank, NULL)) {
    return status_no_memory();
  }
  frame->values[frame->plan->inputs[index]] = target;
  return source->nbytes ? served_copy(device, source, target) : NULL;
}

/* An input on a device: read there, or (no step of the plan does) copied to the CPU. */
static OrtStatus* take_remote_input(Frame* frame, size_t index, const uint64_t* words) {
  uint32_t device = (uint32_t)words[REMOTE_DEVICE];
  int32_t slot = frame->plan->device_inputs[index];
  if (slot >= 0) {
    frame->given[index] = true;
    ++frame->given_count;
    return init_remote(&frame->storage[slot], words, frame->plan->slots[slot].memory);
  }
  OrtValue source = {.type = ONNX_TYPE_UNKNOWN};
  OrtStatus* status = init_remote(&source, words, served_memory(device));
  if (status == NULL) status = download_input(frame, index, device, &source);
  value_clear(&source);
  return status;
}

/* Outputs that are to stay on the device, where the plan makes them there: what is bound to them, and which
 * steps the run needs then. */
static OrtStatus* take_remote_outputs(const Serving* serving, Frame* frame) {
  const Plan* plan = frame->plan;
  bool any = frame->given_count > 0;
  int32_t* wanted = host_malloc((plan->output_count ? plan->output_count : 1) * sizeof *wanted);
  OrtStatus* status = wanted == NULL ? status_no_memory() : NULL;
  for (size_t i = 0; status == NULL && i < plan->output_count; ++i) {
    const uint64_t* offer = serving->outputs[i].offer;
    int32_t slot = plan->device_outputs[i];
    wanted[i] = plan->outputs[i];
    if (offer == NULL || offer[0] != VALUE_REMOTE || slot < 0) continue;
    wanted[i] = slot;
    any = true;
    OrtValue* value = &frame->storage[slot];
    if (offer[1 + REMOTE_NUMBER] == 0 || frame->values[slot] != value || value->type != ONNX_TYPE_UNKNOWN) {
      continue; /* a constant, or an input as it is, is copied in the end */
    }
    status = init_remote(value, offer + 1, plan->slots[slot].memory);
    if (status == NULL) frame->preallocated[slot] = PREALLOCATED_BOUND;
  }
  if (status == NULL && any && !frame_fetch_only(frame, wanted, plan->output_count)) {
    status = status_no_memory();
  }
  /* What is read on the CPU as well. */
  for (size_t i = 0; status == NULL && frame->given_count && i < plan->input_count; ++i) {
    if (!frame->given[i] || !frame->needed[plan->inputs[i]]) continue;
    status = download_input(frame, i, serving->device, &frame->storage[plan->device_inputs[i]]);
  }
  host_free(wanted);
  return status;
}

/* An output that stays on the device, in a block that the host frees; or written to the one that it named. */
static OrtStatus* give_remote(Serving* serving, Frame* frame, size_t index, uint64_t* words) {
  const Plan* plan = frame->plan;
  int32_t slot = plan->device_outputs[index] >= 0 ? plan->device_outputs[index] : plan->outputs[index];
  const OrtValue* value = frame->values[slot];
  uint32_t device = (uint32_t)words[REMOTE_DEVICE];
  if (value->type == ONNX_TYPE_UNKNOWN) return NULL; /* the host says that it is missing */
  if (value->type != ONNX_TYPE_TENSOR || value->rank > LANE_RANK) {
    return status_new(ORT_NOT_IMPLEMENTED, "output %zu is no tensor that can stay on its device", index);
  }
  OrtValue target = {.type = ONNX_TYPE_UNKNOWN};
  OrtStatus* status = NULL;
  bool is_there = !memory_info_is_cpu(value->memory_info);
  if (words[REMOTE_NUMBER] != 0) {
    status = init_remote(&target, words, served_memory(device));
    bool fits = status != NULL || (target.element_type == value->element_type &&
                                   dims_equal(target.dims, target.rank, value->dims, value->rank));
    if (!fits) {
      status = status_new(ORT_INVALID_ARGUMENT,
                          "output %zu has another type or shape than what is bound to it", index);
    }
    if (status == NULL && value->nbytes && !(is_there && target.data == value->data)) {
      status = served_copy(device, value, &target);
    }
    value_clear(&target);
    if (status == NULL) words[REMOTE_DONE] = 1;
    return status;
  }
  if (is_there && value->buffer != NULL && value->data == value->buffer->data) {
    buffer_retain(value->buffer);
    words[REMOTE_NUMBER] = served_keep(value->buffer);
    if (words[REMOTE_NUMBER] == 0) buffer_release(value->buffer);
  } else {
    status = served_new(device, value->nbytes, &words[REMOTE_NUMBER]);
    if (status == NULL && value->nbytes) {
      words[REMOTE_TYPE] = (uint64_t)value->element_type;
      words[REMOTE_RANK] = value->rank;
      memcpy(words + REMOTE_DIMS, value->dims, value->rank * sizeof *words);
      status = init_remote(&target, words, served_memory(device));
      if (status == NULL) status = served_copy(device, value, &target);
      value_clear(&target);
    }
  }
  serving->outputs[index].is_given = words[REMOTE_NUMBER] != 0;
  if (status == NULL && words[REMOTE_NUMBER] == 0) status = status_no_memory();
  if (status != NULL) return status;
  words[REMOTE_TYPE] = (uint64_t)value->element_type;
  words[REMOTE_OFFSET] = 0;
  words[REMOTE_NBYTES] = value->nbytes;
  words[REMOTE_RANK] = value->rank;
  if (value->rank) memcpy(words + REMOTE_DIMS, value->dims, value->rank * sizeof *words);
  words[REMOTE_DONE] = 1;
  return NULL;
}

/* What has been given so far of a run that fails in the end: the host hears of no number. */
static void take_back(const Serving* serving, const Plan* plan) {
  for (size_t i = 0; i < plan->output_count; ++i) {
    const uint64_t* offer = serving->outputs[i].offer;
    if (offer != NULL && offer[0] == VALUE_REMOTE && serving->outputs[i].is_given)
      served_drop(offer[1 + REMOTE_NUMBER]);
  }
}

/* Puts the inputs into the frame; what the host offers for outputs lies behind them. */
static OrtStatus* take_inputs(Serving* serving, Frame* frame) {
  const Plan* plan = frame->plan;
  LaneBlock* lane = serving->lane;
  uint64_t* at = pool_at(serving->pool, lane->body, lane->body_words * sizeof *at);
  if (at == NULL) return bad_body();
  serving->end = at + lane->body_words;
  if (at + 3 > serving->end || at[0] != plan->input_count || at[1] != plan->output_count) return bad_body();
  if (at[2] > (uint64_t)(serving->end - at - 3)) return bad_body();
  at += 3 + at[2];
  for (size_t i = 0; i < plan->input_count; ++i) {
    if (at >= serving->end) return bad_body();
    uint64_t kind = *at++;
    if (kind == VALUE_ABSENT) continue;
    if (kind == VALUE_PACKED) {
      if (serving->end - at < 2 || at[1] > SIZE_MAX / sizeof *at) return bad_body();
      const uint64_t* words = pool_at(serving->pool, at[0], at[1] * sizeof *at);
      if (words == NULL) return bad_body();
      OrtValue* value = frame->values[plan->inputs[i]] = &frame->storage[plan->inputs[i]];
      OrtStatus* status = ephost_unpack_value(words, at[1], value);
      if (status != NULL) return status;
      at += 2;
      continue;
    }
    if (kind == VALUE_REMOTE) {
      if (serving->end - at < REMOTE_WORDS) return bad_body();
      serving->device = (uint32_t)at[REMOTE_DEVICE];
      OrtStatus* status = take_remote_input(frame, i, at);
      if (status != NULL) return status;
      at += REMOTE_WORDS;
      continue;
    }
    if (at + 4 > serving->end || at + 4 + at[3] > serving->end) return bad_body();
    OrtValue* value = &frame->storage[plan->inputs[i]];
    void* data = pool_at(serving->pool, at[1], at[2]); /* somewhere also without a byte */
    if (data == NULL) return bad_body();
    frame->values[plan->inputs[i]] = value;
    if (!value_init_tensor(value, (ONNXTensorElementDataType)(int)at[0], (const int64_t*)(at + 4),
                           (size_t)at[3], NULL, data, &ephost_cpu_memory_info)) {
      return status_no_memory();
    }
    at += 4 + at[3];
  }
  find_offers(serving, at, plan->output_count);
  return take_remote_outputs(serving, frame);
}

static OrtStatus* put_strings(Serving* serving, size_t index, const OrtValue* value) {
  uint64_t words = ephost_packed_words(value);
  serving->lane->result = words;
  OrtStatus* status = ask_memory(serving, ANSWER_PACKED, index);
  uint64_t* at = status == NULL ? pool_at(serving->pool, serving->lane->memory, words * sizeof *at) : NULL;
  if (at != NULL) (void)ephost_pack_value(at, value);
  return status == NULL && at == NULL ? bad_body() : status;
}

/* An output that lies elsewhere, since nobody asked for its memory: a constant, or an input as it is. */
static OrtStatus* put_output(Frame* frame, size_t index) {
  int32_t slot = frame->plan->outputs[index];
  const OrtValue* value = frame->values[slot];
  Serving* serving = frame->provider;
  uint64_t* offer = serving->outputs[index].offer;
  if (offer != NULL && offer[0] == VALUE_REMOTE) return give_remote(serving, frame, index, offer + 1);
  void* target = NULL;
  if (value->type == ONNX_TYPE_UNKNOWN) return NULL; /* the host says that it is missing */
  if (value->type != ONNX_TYPE_TENSOR) {
    return status_new(ORT_NOT_IMPLEMENTED, "output %zu is no tensor, which no isolated plugin can give",
                      index);
  }
  if (has_strings(value)) return put_strings(serving, index, value);
  if (serving->outputs[index].is_given && (value->nbytes == 0 || value->buffer == NULL)) return NULL;
  OrtStatus* status = provide(frame, slot, value->element_type, value->dims, value->rank, &target);
  if (status == NULL && target != NULL) memmove(target, value->data, value->nbytes);
  return status;
}

static void answer(LaneBlock* lane, OrtStatus* status) {
  end_child();
  lane->code = 0;
  if (status != NULL) {
    lane->code = (int32_t)status->code > 0 ? (int32_t)status->code : ORT_FAIL;
    lane_write_message(lane, status->message);
    ephost_api.ReleaseStatus(status);
  }
  lane->answer = ANSWER_DONE;
}

/* The thread that began a run last; 0 once it is over. */
static _Atomic(pid_t) running_thread;

static pid_t this_thread(void) {
#ifdef __linux__
  static THREAD_LOCAL pid_t id;
  if (id == 0) id = (pid_t)syscall(SYS_gettid);
  return id;
#else
  return 0;
#endif
}

static void serve_once(Serving* serving) {
  Plan* plan = served_plan(serving->lane->plan);
  OrtStatus* status = NULL;
  if (plan == NULL) {
    answer(serving->lane, status_new(ORT_FAIL, "there is no such group any more"));
    return;
  }
  Frame* frame = frame_acquire(plan, &status);
  if (frame == NULL) {
    answer(serving->lane, status != NULL ? status : status_no_memory());
    return;
  }
  if (plan->output_count > serving->output_room) {
    ServedOutput* outputs = host_realloc(serving->outputs, plan->output_count * sizeof *outputs);
    if (outputs == NULL) {
      frame_release(frame);
      answer(serving->lane, status_no_memory());
      return;
    }
    serving->outputs = outputs;
    serving->output_room = plan->output_count;
  }
  if (plan->output_count) memset(serving->outputs, 0, plan->output_count * sizeof *serving->outputs);
  serving->next = 0;
  frame->provide = provide;
  frame->provider = serving;
  OrtRunOptions* options = NULL;
  status = take_options(serving, &options);
  if (status == NULL) status = take_inputs(serving, frame);
  atomic_store(&running_thread, this_thread());
  if (status == NULL) status = plan_execute(frame, options);
  pid_t own = this_thread();
  (void)atomic_compare_exchange_strong(&running_thread, &own, 0);
  bool has_run = status == NULL;
  for (size_t i = 0; status == NULL && i < plan->output_count; ++i) status = put_output(frame, i);
  if (has_run && status != NULL) take_back(serving, plan);
  frame->provide = NULL;
  frame_release(frame);
  if (options != NULL) ephost_api.ReleaseRunOptions(options);
  answer(serving->lane, status);
}

static void use_own_stack_for_signals(void* memory, size_t nbytes) {
  stack_t stack = {.ss_sp = memory, .ss_size = nbytes};
  (void)sigaltstack(&stack, NULL);
}

enum { SIGNAL_STACK = 65536 };

void ephost_serve_lane(SharedPool* pool, uint64_t offset, int socket) {
  Serving serving = {.pool = pool,
                     .lane = pool_at(pool, offset, sizeof(LaneBlock)),
                     .side = {.socket = socket, .process = -1}};
  serves_lane = true;
  begin_turn();
  void* stack = malloc(SIGNAL_STACK);
  if (stack != NULL) use_own_stack_for_signals(stack, SIGNAL_STACK);
  while (serving.lane != NULL && !serving.closed &&
         lane_wait(serving.lane, TURN_WORKER, &serving.side, -1) == WAITED_TURN) {
    begin_turn();
    if (serving.lane->operation == LANE_RUN) {
      serve_once(&serving);
    } else {
      pid_t own = this_thread();
      atomic_store(&running_thread, own);
      OrtStatus* status = served_operation(pool, serving.lane);
      (void)atomic_compare_exchange_strong(&running_thread, &own, 0);
      answer(serving.lane, status);
    }
    end_turn();
    if (!serving.closed) lane_pass(serving.lane, TURN_HOST, &serving.side);
  }
  (void)shutdown(socket, SHUT_RDWR); /* a process that the plugin has started may hold it open */
  (void)close(socket);
  host_free(serving.outputs);
  if (stack == NULL) return;
  stack_t none = {.ss_flags = SS_DISABLE};
  (void)sigaltstack(&none, NULL);
  free(stack);
}

/* ---- the end of the process ---- */

static int report_file = -1;

static void say(const char* text) { (void)!write(report_file, text, strlen(text)); }

/* Writes what the process was at, then lets the signal do what it does to processes. */
static void on_fatal_signal(int number, siginfo_t* info, void* context) {
  (void)context;
#ifdef __linux__
  /* The host sends one when a call takes too long: it concerns the thread that is in it. */
  pid_t running = atomic_load(&running_thread);
  if (number == SIGABRT && info->si_code == SI_USER && running != 0 && running != this_thread()) {
    (void)syscall(SYS_tgkill, getpid(), running, SIGABRT);
    return;
  }
#else
  (void)info;
#endif
  (void)signal(number, SIG_DFL);
  say("last call: ");
  say(ephost_call_name(noted_call()));
  say("\n");
#ifdef HAS_BACKTRACE
  void* frames[64];
  int count = backtrace(frames, 64);
  backtrace_symbols_fd(frames, count, report_file);
#endif
  (void)raise(number);
}

void ephost_worker_report(int file, uint32_t* last_call) {
  static char stack[SIGNAL_STACK];
  static const int kFatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  report_file = file;
  note_calls_in(last_call);
#ifdef HAS_BACKTRACE
  void* frames[1];
  (void)backtrace(frames, 1); /* loads what it needs, which a signal's handler could not */
#endif
  use_own_stack_for_signals(stack, sizeof stack);
  struct sigaction action = {.sa_sigaction = on_fatal_signal,
                             .sa_flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO};
  (void)sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof kFatal / sizeof kFatal[0]; ++i) (void)sigaction(kFatal[i], &action, NULL);
}

uint32_t* ephost_status_map(int file) {
  void* place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return place == MAP_FAILED ? NULL : place;
}

static THREAD_RESULT watch(void* argument) {
  struct pollfd polled = {.fd = (int)(intptr_t)argument, .events = POLLIN};
  char byte;
  for (;;) {
    bool is_over = poll(&polled, 1, -1) > 0 && recv(polled.fd, &byte, 1, MSG_DONTWAIT) == 0;
    if (!is_over && !(polled.revents & (POLLERR | POLLNVAL))) continue;
    /* With what the plugin has started: the host put this process into a group of its own. */
    if (getpgrp() == getpid()) (void)kill(0, SIGKILL);
    _exit(0);
  }
  THREAD_RETURN;
}

bool ephost_worker_watch(int socket) {
  Thread thread;
  if (thread_start(&thread, watch, (void*)(intptr_t)socket) != 0) return false;
  (void)pthread_detach(thread);
  return true;
}
#else
bool ephost_serve_plan(uint32_t number, Plan* plan) {
  (void)number, (void)plan;
  return false;
}
void ephost_serve_lane(SharedPool* pool, uint64_t offset, int socket) {
  (void)pool, (void)offset, (void)socket;
}
void ephost_worker_report(int file, uint32_t* last_call) { (void)file, (void)last_call; }
bool in_worker(void) { return false; }
bool thread_is_hosts(void) { return false; }
void ephost_worker_begin(int socket, uint32_t* status) { (void)socket, (void)status; }
void ephost_worker_check(void) {}
uint32_t* ephost_status_map(int file) {
  (void)file;
  return NULL;
}
bool ephost_worker_watch(int socket) {
  (void)socket;
  return false;
}
#endif
