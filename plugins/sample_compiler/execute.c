/* Compute: one run of a program. */
#include "program.h"

/* A value in one run. */
typedef struct Slot {
  Shape shape;
  size_t loop;    /* The loop that computes it: see plan_loops. */
  bool in_memory; /* As a whole, at `data`; otherwise it only ever exists as a tile. */
  bool ours;      /* `data` is to be freed. */
  float* data;    /* Only results are written to. */
} Slot;

/* An operand in one run: a tile, or a tensor in memory. */
typedef struct Source {
  const float* tile;
  Operand operand;
} Source;

/* All that a run needs, in one allocation: it ends with the tiles. */
typedef struct Frame {
  Slot* slots;     /* One for each value. */
  Source* sources; /* Two for each instruction. */
  float* scratch;  /* Two tiles for expanded operands. */
  float* tiles;
} Frame;

static OrtStatus* make_frame(const Program* program, Frame* frame) {
  const size_t slots = program->num_values * sizeof(Slot), sources = 2 * program->num_code * sizeof(Source);
  char* block = (char*)malloc(slots + sources + (program->num_tiles + 2) * TILE * sizeof(float));
  if (block == NULL) {
    return out_of_memory(program->api);
  }
  memset(block, 0, slots);
  frame->slots = (Slot*)(void*)block;
  frame->sources = (Source*)(void*)(block + slots);
  frame->scratch = (float*)(void*)(block + slots + sources);
  frame->tiles = frame->scratch + (size_t)2 * TILE;
  return NULL;
}

static void free_frame(const Program* program, Frame* frame) {
  for (size_t i = 0; frame->slots != NULL && i < program->num_values; ++i) {
    if (frame->slots[i].ours) {
      free(frame->slots[i].data);
    }
  }
  free(frame->slots);
}

static OrtStatus* load_operands(const Program* program, const OrtKernelContext* context, Frame* frame) {
  const OrtApi* api = program->api;
  for (size_t i = 0; i < program->num_values; ++i) {
    const Value* value = &program->values[i];
    Slot* slot = &frame->slots[i];
    if (value->kind == VALUE_CONSTANT) {
      slot->shape = value->shape;
      slot->data = value->data;
    } else if (value->kind == VALUE_INPUT) {
      const OrtValue* tensor = NULL;
      ONNXTensorElementDataType type;
      const int64_t* dims = NULL;
      const void* data = NULL;
      size_t rank = 0;
      TRY(api->KernelContext_GetInput(context, value->input, &tensor));
      TRY(api->GetTensorElementTypeAndShapeDataReference(tensor, &type, &dims, &rank));
      TRY(api->GetTensorData(tensor, &data));
      if (!shape_from(dims, rank, &slot->shape)) {
        return api->CreateStatus(ORT_INVALID_ARGUMENT,
                                 "sample_compiler: an input has more than 16 dimensions");
      }
      memcpy(&slot->data, &data, sizeof data); /* Drops the const: an input's data is never written to. */
    }
    slot->in_memory = value->kind != VALUE_RESULT || value->output != NONE;
    slot->loop = NONE;
  }
  return NULL;
}

/* Finds the shape of each result and the loop that it is computed in. A loop goes over elements of one shape,
 * so neighbouring instructions with results of the same shape share one. A result that a later loop reads has
 * to be in memory, since a tile lives no longer than one turn of its loop. */
static OrtStatus* plan_loops(const Program* program, Frame* frame) {
  Slot* slots = frame->slots;
  size_t loop = 0;
  for (size_t i = 0; i < program->num_code; ++i) {
    const Instruction* step = &program->code[i];
    const size_t b = step->b == NONE ? step->a : step->b;
    Slot* out = &slots[step->out];
    if (!broadcast_shapes(&slots[step->a].shape, &slots[b].shape, &out->shape)) {
      return program->api->CreateStatus(ORT_INVALID_ARGUMENT,
                                        "sample_compiler: the shapes of the inputs do not fit together");
    }
    if (i > 0) {
      const Shape *now = &out->shape, *before = &slots[program->code[i - 1].out].shape;
      loop +=
          now->rank != before->rank || memcmp(now->dims, before->dims, now->rank * sizeof *now->dims) != 0;
    }
    out->loop = loop;
    slots[step->a].in_memory |= slots[step->a].loop != loop;
    slots[b].in_memory |= slots[b].loop != loop;
  }
  return NULL;
}

/* The host allocates outputs; what else must be in memory is ours. Empty outputs are asked for as well. */
static OrtStatus* allocate_results(const Program* program, OrtKernelContext* context, Frame* frame) {
  const OrtApi* api = program->api;
  for (size_t i = 0; i < program->num_values; ++i) {
    Slot* slot = &frame->slots[i];
    if (program->values[i].output != NONE) {
      OrtValue* tensor = NULL;
      void* data = NULL;
      TRY(api->KernelContext_GetOutput(context, program->values[i].output, slot->shape.dims, slot->shape.rank,
                                       &tensor));
      TRY(api->GetTensorMutableData(tensor, &data));
      slot->data = (float*)data;
    } else if (program->values[i].kind == VALUE_RESULT && slot->in_memory) {
      slot->data = (float*)malloc(element_count(&slot->shape) * sizeof(float) + 1);
      slot->ours = slot->data != NULL;
      if (!slot->ours) {
        return out_of_memory(api);
      }
    }
  }
  return NULL;
}

static void bind(const Program* program, Frame* frame, size_t operand, const Shape* shape, Source* source) {
  const Slot* slot = &frame->slots[operand];
  source->tile = slot->in_memory ? NULL : frame->tiles + program->values[operand].tile * TILE;
  if (slot->in_memory) {
    operand_bind(&source->operand, slot->data, &slot->shape, shape);
  }
}

static const float* fetch(const Source* source, size_t start, size_t n, float* scratch, bool* steps) {
  *steps = true;
  return source->tile != NULL ? source->tile : operand_tile(&source->operand, start, n, scratch, steps);
}

/* The inner loop of it all: instructions [first, end) on one tile after the other. */
static void run_loop(const Program* program, Frame* frame, size_t first, size_t end) {
  const Shape* shape = &frame->slots[program->code[first].out].shape;
  const size_t count = element_count(shape);
  if (count == 0) {
    return;
  }
  for (size_t i = first; i < end; ++i) {
    const Instruction* step = &program->code[i];
    bind(program, frame, step->a, shape, &frame->sources[2 * i]);
    bind(program, frame, step->b == NONE ? step->a : step->b, shape, &frame->sources[2 * i + 1]);
  }
  for (size_t start = 0; start < count; start += TILE) {
    const size_t n = count - start < TILE ? count - start : TILE;
    for (size_t i = first; i < end; ++i) {
      const Instruction* step = &program->code[i];
      const Slot* out = &frame->slots[step->out];
      bool a_steps, b_steps = false;
      const float* a = fetch(&frame->sources[2 * i], start, n, frame->scratch, &a_steps);
      const float* b = step->b == NONE
                           ? NULL
                           : fetch(&frame->sources[2 * i + 1], start, n, frame->scratch + TILE, &b_steps);
      step->row(a, a_steps, b, b_steps,
                out->in_memory ? out->data + start : frame->tiles + program->values[step->out].tile * TILE,
                n);
    }
  }
}

OrtStatus* run_program(const Program* program, OrtKernelContext* context) {
  Frame frame = {0};
  OrtStatus* status = NULL;
  TRY_OR_DONE(make_frame(program, &frame));
  TRY_OR_DONE(load_operands(program, context, &frame));
  TRY_OR_DONE(plan_loops(program, &frame));
  TRY_OR_DONE(allocate_results(program, context, &frame));
  for (size_t first = 0, end = 0; first < program->num_code; first = end) {
    const size_t loop = frame.slots[program->code[first].out].loop;
    while (end < program->num_code && frame.slots[program->code[end].out].loop == loop) {
      ++end;
    }
    run_loop(program, &frame, first, end);
  }
done:
  free_frame(program, &frame);
  return status;
}
