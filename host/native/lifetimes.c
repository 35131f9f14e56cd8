/* How long each value of a plan is needed, and whose memory it gets until then: a place in the frame's arena,
 * a block that is used again as soon as nobody reads the value in it any more, best fit first. */
#define _GNU_SOURCE
#include <string.h>

#include "heap.h"
#include "kernel.h"
#include "plan.h"
#include "status.h"

#define ARENA_ALIGNMENT 64
#define NOBODY (-1)

/* ---- the arena ----------------------------------------------------------------------------------------- */

typedef struct Block {
  size_t offset;
  size_t nbytes; /* a multiple of the alignment */
} Block;

typedef struct Arena {
  size_t size;
  Block* gaps; /* by offset, none beside another */
  size_t gap_count;
  size_t capacity;
} Arena;

/* The size of the block for so many bytes; 0 where there is none so large. */
static size_t round_up(size_t nbytes) {
  if (nbytes > SIZE_MAX / 2) return 0;
  return nbytes == 0 ? ARENA_ALIGNMENT : (nbytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
}

static void remove_gap(Arena* arena, size_t at) {
  memmove(arena->gaps + at, arena->gaps + at + 1, (--arena->gap_count - at) * sizeof *arena->gaps);
}

/* The smallest gap that is large enough, else the end, with the gap that may be there. False: the arena would
 * be larger than memory can be. */
static bool take(Arena* arena, size_t nbytes, size_t* offset) {
  size_t best = SIZE_MAX;
  for (size_t i = 0; i < arena->gap_count; ++i) {
    const size_t size = arena->gaps[i].nbytes;
    if (size < nbytes || (best != SIZE_MAX && size >= arena->gaps[best].nbytes)) continue;
    best = i;
    if (size == nbytes) break;
  }
  if (best != SIZE_MAX) {
    Block* gap = &arena->gaps[best];
    *offset = gap->offset;
    gap->offset += nbytes;
    gap->nbytes -= nbytes;
    if (gap->nbytes == 0) remove_gap(arena, best);
    return true;
  }
  const Block* last = arena->gap_count ? &arena->gaps[arena->gap_count - 1] : NULL;
  *offset = last != NULL && last->offset + last->nbytes == arena->size ? last->offset : arena->size;
  if (nbytes > SIZE_MAX / 2 - *offset) return false;
  if (*offset < arena->size) --arena->gap_count;
  arena->size = *offset + nbytes;
  return true;
}

/* Takes a block back and joins it with its neighbours; false without memory. */
static bool give(Arena* arena, Block block) {
  size_t low = 0, high = arena->gap_count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (arena->gaps[middle].offset < block.offset)
      low = middle + 1;
    else
      high = middle;
  }
  Block* before = low > 0 ? &arena->gaps[low - 1] : NULL;
  Block* behind = low < arena->gap_count ? &arena->gaps[low] : NULL;
  if (before != NULL && before->offset + before->nbytes != block.offset) before = NULL;
  if (behind != NULL && block.offset + block.nbytes != behind->offset) behind = NULL;
  if (before != NULL) {
    before->nbytes += block.nbytes + (behind != NULL ? behind->nbytes : 0);
    if (behind != NULL) remove_gap(arena, low);
    return true;
  }
  if (behind != NULL) {
    behind->offset = block.offset;
    behind->nbytes += block.nbytes;
    return true;
  }
  if (arena->gap_count == arena->capacity) {
    const size_t capacity = arena->capacity ? 2 * arena->capacity : 16;
    Block* grown = host_realloc(arena->gaps, capacity * sizeof *grown);
    if (grown == NULL) return false;
    arena->gaps = grown;
    arena->capacity = capacity;
  }
  memmove(arena->gaps + low + 1, arena->gaps + low, (arena->gap_count++ - low) * sizeof *arena->gaps);
  arena->gaps[low] = block;
  return true;
}

/* ---- lifetimes ----------------------------------------------------------------------------------------- */

enum {
  KEPT = 1,      /* as long as the run, or the plan */
  LENT = 2,      /* a caller may see it, or has given it: it is not written over */
  RELEASED = 4,  /* some step has it among its releases */
  HANDED_ON = 8, /* its block is another slot's from some step on */
};

typedef struct Layout {
  Plan* plan;
  Arena arena;
  size_t planned_bytes;
  int32_t* last_use; /* of each slot the last step that reads or writes it, or NOBODY */
  uint8_t* flags;    /* of each slot */
  int32_t* next;     /* where the next step's releases begin */
} Layout;

static void flag_slots(Layout* layout, const int32_t* slots, size_t count, uint8_t flags) {
  for (size_t i = 0; i < count; ++i) {
    if (slots[i] >= 0) layout->flags[slots[i]] |= flags;
  }
}

static void find_lifetimes(Layout* layout) {
  const Plan* plan = layout->plan;
  for (size_t i = 0; i < plan->slot_count; ++i) {
    layout->last_use[i] = NOBODY;
    if (plan->slots[i].constant != NULL) layout->flags[i] = KEPT | LENT;
  }
  /* A body lets go of what it is given: its sequences may be handed over, to grow in their place. */
  flag_slots(layout, plan->inputs, plan->input_count, plan->is_body ? LENT : KEPT | LENT);
  flag_slots(layout, plan->outputs, plan->output_count, KEPT | LENT);
  flag_slots(layout, plan->device_inputs, plan->input_count, LENT);
  flag_slots(layout, plan->device_outputs, plan->output_count, LENT);
  for (size_t at = 0; at < plan->step_count; ++at) {
    const Step* step = &plan->steps[at];
    for (size_t i = 0; i < step->input_count + step->output_count; ++i) { /* one array */
      if (step->inputs[i] >= 0) layout->last_use[step->inputs[i]] = (int32_t)at;
    }
  }
}

static size_t times_read(const Step* step, int32_t slot) {
  size_t times = 0;
  for (size_t i = 0; i < step->input_count; ++i) times += step->inputs[i] == slot;
  return times;
}

static bool is_taken_over(const Step* step, int32_t slot) {
  for (size_t i = 0; i < step->output_count; ++i) {
    if (step->reuses[i] == slot) return true;
  }
  return false;
}

/* Lets outputs of a kernel take over inputs' memory, where its definition allows it and nobody needs the
 * input after the step. */
static void take_over(const Layout* layout, Step* step, const IndexPair* pairs, size_t count) {
  const Plan* plan = layout->plan;
  const int32_t at = (int32_t)(step - plan->steps);
  for (size_t i = 0; i < count; ++i) {
    const size_t source = (size_t)pairs[i].input, target = (size_t)pairs[i].output;
    if (source >= step->input_count || target >= step->output_count)
      continue; /* left out, as the last may be */
    const int32_t slot = step->inputs[source], output = step->outputs[target];
    if (slot < 0 || output < 0 || step->reuses[target] >= 0 || is_taken_over(step, slot)) continue;
    if ((layout->flags[slot] & LENT) != 0 || layout->last_use[slot] != at) continue;
    /* It would be overwritten while the kernel still reads it as another input. */
    if (times_read(step, slot) != 1) continue;
    if (plan->slots[slot].memory == plan->slots[output].memory) step->reuses[target] = slot;
  }
}

/* The bytes of a slot's value, where they are known and may lie in the arena. */
static bool plannable(const Slot* slot, size_t* nbytes) {
  return slot->dims != NULL && slot->memory == NULL &&
         slot->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING &&
         tensor_nbytes(slot->element_type, slot->dims, slot->rank, NULL, nbytes);
}

static OrtStatus* place_outputs(Layout* layout, const Step* step) {
  Slot* slots = layout->plan->slots;
  for (size_t i = 0; i < step->output_count; ++i) {
    const int32_t index = step->outputs[i], source = step->reuses[i];
    size_t nbytes, from;
    if (index < 0 || (layout->flags[index] & KEPT) != 0 || slots[index].planned) continue;
    if (!plannable(&slots[index], &nbytes)) continue;
    if (source >= 0 && slots[source].planned && plannable(&slots[source], &from) && from == nbytes) {
      slots[index].arena_offset = slots[source].arena_offset;
      slots[index].arena_bytes = slots[source].arena_bytes;
      layout->flags[source] |= HANDED_ON;
    } else {
      const size_t size = round_up(nbytes);
      if (size == 0 || !take(&layout->arena, size, &slots[index].arena_offset))
        return status_new(ORT_INVALID_ARGUMENT, "plan: the values of a run are larger than memory can be");
      slots[index].arena_bytes = size;
      layout->planned_bytes += size;
    }
    slots[index].planned = true;
  }
  return NULL;
}

static OrtStatus* release_last_used(Layout* layout, Step* step) {
  const Plan* plan = layout->plan;
  const int32_t at = (int32_t)(step - plan->steps);
  step->releases = layout->next;
  for (size_t i = 0; i < step->input_count + step->output_count; ++i) {
    const int32_t index = step->inputs[i];
    if (index < 0 || layout->last_use[index] != at || (layout->flags[index] & (KEPT | RELEASED)) != 0)
      continue;
    layout->flags[index] |= RELEASED;
    step->releases[step->release_count++] = index;
    if (i >= step->input_count) step->is_read[i - step->input_count] = false;
    const Slot* slot = &plan->slots[index];
    if (slot->planned && (layout->flags[index] & HANDED_ON) == 0 &&
        !give(&layout->arena, (Block){slot->arena_offset, slot->arena_bytes})) {
      return status_no_memory();
    }
  }
  layout->next += step->release_count;
  return NULL;
}

static OrtStatus* lay_out(Layout* layout) {
  Plan* plan = layout->plan;
  find_lifetimes(layout);
  for (size_t at = 0; at < plan->step_count; ++at) {
    Step* step = &plan->steps[at];
    OrtStatus* status = NULL;
    if (step->kind < STEP_PYTHON || step->kind == STEP_COPY) { /* others make their outputs' memory */
      const OrtKernelDef* def = step->definition;
      if (def != NULL) {
        take_over(layout, step, def->aliases, def->alias_count);
        take_over(layout, step, def->may_inplace, def->may_inplace_count);
      }
      status = place_outputs(layout, step);
    }
    if (status == NULL) status = release_last_used(layout, step);
    if (status != NULL) return status;
  }
  plan->arena_bytes = layout->arena.size;
  return NULL;
}

OrtStatus* ephost_plan_share_memory(Plan* plan, size_t* arena_bytes, size_t* planned_bytes) {
  REQUIRE_ARG(plan != NULL && arena_bytes != NULL && planned_bytes != NULL);
  REQUIRE_ARG(plan->releases == NULL); /* once */
  Layout layout = {.plan = plan};
  const size_t count = plan->slot_count;
  layout.last_use = host_malloc(count * sizeof *layout.last_use);
  layout.flags = host_calloc(count ? count : 1, sizeof *layout.flags);
  plan->releases = layout.next = host_malloc(count * sizeof *plan->releases); /* each slot ends once */
  OrtStatus* status = layout.last_use != NULL && layout.flags != NULL && plan->releases != NULL
                          ? lay_out(&layout)
                          : status_no_memory();
  host_free(layout.last_use);
  host_free(layout.flags);
  host_free(layout.arena.gaps);
  *arena_bytes = layout.arena.size;
  *planned_bytes = layout.planned_bytes;
  return status;
}

bool ephost_plan_place(const Plan* plan, size_t slot, size_t* offset, size_t* nbytes) {
  if (slot >= plan->slot_count || !plan->slots[slot].planned) return false;
  *offset = plan->slots[slot].arena_offset;
  *nbytes = plan->slots[slot].arena_bytes;
  return true;
}
