/* The frame of a run: one OrtValue for each slot, and one arena for the values whose size was known when the
 * session was opened. Frames are kept for the next run, so that in the steady state a run allocates nothing
 * but outputs and values of unknown size. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <string.h>

#include "abi.h"
#include "exceptions.h"
#include "heap.h"
#include "memory.h"
#include "plan.h"
#include "status.h"
#include "streams.h"

static void frame_free(Frame* frame) {
  for (size_t i = 0; frame->streams != NULL && i < frame->plan->ep_count; ++i) {
    if (frame->streams[i] != NULL) ephost_api.ReleaseSyncStream(frame->streams[i]);
  }
  host_free(frame->streams);
  if (frame->plan->pool != NULL) {
    GUARDED(OrtAllocator, Free)(ephost_pool_allocator(frame->plan->pool), frame->arena);
  } else {
    cpu_free(frame->arena);
  }
  host_free(frame->values);
  host_free(frame->preallocated);
  host_free(frame->held);
  host_free(frame->given);
  host_free(frame->needs);
  host_free(frame->route);
  host_free(frame);
}

void ephost_plan_free_frames(Plan* plan) {
  Frame* spare = atomic_exchange(&plan->spare_frame, NULL);
  if (spare != NULL) frame_free(spare);
  mutex_lock(&plan->frames_lock);
  Frame* frame = plan->free_frames;
  plan->free_frames = NULL;
  mutex_unlock(&plan->frames_lock);
  while (frame != NULL) {
    Frame* next = frame->link;
    frame_free(frame);
    frame = next;
  }
}

static OrtStatus* make_streams(Frame* frame) {
  for (size_t i = 0; i < frame->plan->ep_count; ++i) {
    const PlanEp* ep = &frame->plan->eps[i];
    if (ep->factory == NULL || ep->memory == NULL) continue;
    OrtStatus* status = stream_for(ep->ep, ep->factory, &ep->memory->device, NULL, NULL, &frame->streams[i]);
    status = outcome(status);
    if (status == NULL) continue;
    OrtStatus* named = status_new(status->code, "%s cannot make a stream: %s", ep->name, status->message);
    ephost_api.ReleaseStatus(status);
    return named;
  }
  return NULL;
}

OrtSyncStream* frame_stream(const Frame* frame, int ep) {
  if (ep < 0) return NULL;
  OrtSyncStream* given = frame->options != NULL ? frame->options->sync_stream : NULL;
  const OrtMemoryInfo* memory = frame->plan->eps[ep].memory;
  bool is_its = given != NULL && given->device != NULL && memory != NULL &&
                memory_device_equal(given->device, &memory->device);
  return is_its ? given : frame_streams(frame)[ep];
}

static Frame* frame_new(Plan* plan, OrtStatus** failed) {
  Frame* frame = host_calloc(1, sizeof *frame + plan->slot_count * sizeof(OrtValue));
  if (frame == NULL) return NULL;
  frame->plan = plan;
  frame->context.frame = frame;
  size_t count = plan->slot_count ? plan->slot_count : 1;
  frame->values = host_malloc(count * sizeof(OrtValue*));
  frame->preallocated = host_calloc(count, 1);
  frame->held = host_calloc(plan->input_count ? plan->input_count : 1, sizeof *frame->held);
  frame->given = host_calloc(plan->input_count ? plan->input_count : 1, sizeof *frame->given);
  if (plan->arena_bytes) {
    frame->arena = plan->pool != NULL
                       ? GUARDED(OrtAllocator, Alloc)(ephost_pool_allocator(plan->pool), plan->arena_bytes)
                       : cpu_alloc(plan->arena_bytes);
  }
  frame->streams = host_calloc(plan->ep_count ? plan->ep_count : 1, sizeof *frame->streams);
  if (frame->values == NULL || frame->preallocated == NULL || frame->held == NULL || frame->given == NULL ||
      frame->streams == NULL || (plan->arena_bytes && frame->arena == NULL) ||
      (*failed = make_streams(frame)) != NULL) {
    frame_free(frame);
    return NULL;
  }
  for (size_t i = 0; i < plan->slot_count; ++i) {
    frame->values[i] = plan->slots[i].constant != NULL ? plan->slots[i].constant : &frame->storage[i];
  }
  return frame;
}

Frame* frame_acquire(Plan* plan, OrtStatus** failed) {
  *failed = NULL;
  Frame* frame = atomic_exchange(&plan->spare_frame, NULL);
  if (frame == NULL) {
    mutex_lock(&plan->frames_lock);
    frame = plan->free_frames;
    if (frame != NULL) plan->free_frames = frame->link;
    mutex_unlock(&plan->frames_lock);
    if (frame == NULL) frame = frame_new(plan, failed);
  }
  return frame;
}

void frame_release(Frame* frame) {
  Plan* plan = frame->plan;
  for (size_t i = 0; i < plan->slot_count; ++i) drop_value(&frame->storage[i]);
  for (size_t i = 0; i < plan->input_count; ++i) {
    size_t slot = (size_t)plan->inputs[i]; /* the run may have had it elsewhere */
    frame->values[slot] =
        plan->slots[slot].constant != NULL ? plan->slots[slot].constant : &frame->storage[slot];
  }
  for (size_t i = 0; i < plan->output_count; ++i) {
    frame->preallocated[plan->outputs[i]] = 0;
    if (plan->device_outputs[i] >= 0) frame->preallocated[plan->device_outputs[i]] = 0;
  }
  frame->options = NULL;
  frame->lent_streams = NULL;
  frame->has_uploaded = false;
  frame->replayed = false;
  frame->needed = NULL;
  if (frame->given_count) memset(frame->given, 0, plan->input_count * sizeof *frame->given);
  frame->given_count = 0;
  Frame* none = NULL;
  if (!atomic_compare_exchange_strong(&plan->spare_frame, &none, frame)) {
    mutex_lock(&plan->frames_lock);
    frame->link = plan->free_frames;
    plan->free_frames = frame;
    mutex_unlock(&plan->frames_lock);
  }
}

/* A step runs when a slot that it writes is needed, and needs what it reads then. A copy needs just what it
 * copies to slots that are needed. */
bool step_needed(const Plan* plan, const Step* step, const uint8_t* needed) {
  for (size_t i = 0; i < step->output_count; ++i) {
    int32_t slot = step->outputs[i];
    if (slot < 0) continue;
    int32_t remote = plan->slots[slot].remote_slot - 1;
    if (needed[slot] || (remote >= 0 && needed[remote])) return true;
  }
  return false;
}

static void mark_inputs(const Step* step, uint8_t* needed) {
  for (size_t i = 0; i < step->input_count; ++i) {
    int32_t slot = step->inputs[i];
    if (slot < 0 || needed[slot] || (step->kind == STEP_COPY && !needed[step->outputs[i]])) continue;
    needed[slot] = NEED_READ;
  }
}

/* Writes what this run's route is for; false when the route that the frame has is for the same. Frames go
 * from one run to the next, which mostly asks for the same. */
static bool route_changes(Frame* frame, const int32_t* slots, size_t count) {
  const Plan* plan = frame->plan;
  bool same = frame->route_fetched == count && frame->route_given == frame->given_count && count > 0 &&
              memcmp(frame->route, slots, count * sizeof *slots) == 0;
  if (count > plan->output_count) { /* one that is asked for twice: not kept */
    frame->route_fetched = 0;
    return true;
  }
  int32_t* next = frame->route + count;
  for (size_t i = 0; frame->given_count && i < plan->input_count; ++i) {
    if (!frame->given[i]) continue;
    same = same && *next == plan->device_inputs[i];
    *next++ = plan->device_inputs[i];
  }
  if (same) return false;
  if (count) memcpy(frame->route, slots, count * sizeof *slots);
  frame->route_fetched = count;
  frame->route_given = frame->given_count;
  return true;
}

bool frame_fetch_only(Frame* frame, const int32_t* slots, size_t count) {
  const Plan* plan = frame->plan;
  if (frame->needs == NULL) frame->needs = host_malloc(plan->slot_count ? plan->slot_count : 1);
  if (frame->route == NULL) {
    frame->route = host_calloc(plan->output_count + plan->input_count + 1, sizeof *frame->route);
  }
  if (frame->needs == NULL || frame->route == NULL) return false;
  uint8_t* needed = frame->needed = frame->needs;
  if (!route_changes(frame, slots, count)) return true;
  memset(needed, NEED_NOT, plan->slot_count);
  for (size_t i = 0; i < count; ++i) needed[slots[i]] = NEED_KEPT;
  for (size_t i = plan->step_count; i-- > 0;) {
    const Step* step = &plan->steps[i];
    /* All that reads what this uploads lies behind it: it need not upload what is on the device. */
    for (size_t k = 0; step->kind == STEP_COPY && frame->given_count && k < plan->input_count; ++k) {
      for (size_t o = 0; frame->given[k] && o < step->output_count; ++o) {
        if (step->outputs[o] == plan->device_inputs[k]) needed[step->outputs[o]] = NEED_NOT;
      }
    }
    if (step_needed(plan, step, needed)) mark_inputs(step, needed);
  }
  return true;
}

bool frame_ends(const Frame* frame, const Step* step, size_t index) {
  const int32_t slot = step->inputs[index];
  if (frame->values[slot] != &frame->storage[slot]) return false;
  if (frame->needed != NULL && frame->needed[slot] == NEED_KEPT) return false;
  for (size_t i = 0; i < step->input_count; ++i) {
    if (i != index && step->inputs[i] == slot) return false;
  }
  for (size_t i = 0; i < step->release_count; ++i) {
    if (step->releases[i] == slot) return true;
  }
  return false;
}

/* What is bound stays where it is. */
static OrtStatus* fill_bound(Frame* frame, size_t index, int32_t slot, const OrtValue* made) {
  OrtValue* target = &frame->storage[slot];
  if (made->type != ONNX_TYPE_TENSOR || made->element_type != target->element_type ||
      !dims_equal(made->dims, made->rank, target->dims, target->rank)) {
    return status_new(ORT_INVALID_ARGUMENT, "output %zu has another type or shape than the value bound to it",
                      index);
  }
  if (has_strings(made)) {
    if (!copy_strings(target->data, made->data, made->element_count)) return status_no_memory();
  } else if (made->nbytes) {
    memcpy(target->data, made->data, made->nbytes);
  }
  frame->preallocated[slot] |= PREALLOCATED_GIVEN;
  return NULL;
}

OrtStatus* frame_give(Frame* frame, const Step* step, size_t index, OrtValue* made) {
  const int32_t slot = step->outputs[index];
  if (frame->preallocated[slot] & PREALLOCATED_BOUND) {
    OrtStatus* status = fill_bound(frame, index, slot, made);
    value_clear(made);
    return status;
  }
  frame->preallocated[slot] = 0;
  value_clear(&frame->storage[slot]);
  value_move(&frame->storage[slot], made);
  return NULL;
}

bool frame_borrows(const Frame* frame, int32_t slot) {
  const OrtValue* value = frame->values[slot];
  return value->buffer == NULL || value != &frame->storage[slot] ||
         atomic_load(&value->buffer->references) > 1;
}
