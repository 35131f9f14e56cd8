/* Compile: from a group of nodes to a list of instructions. */
#include "program.h"

void free_program(Program* program) {
  if (program != NULL) {
    for (size_t i = 0; i < program->num_values; ++i) {
      free(program->values[i].data);
    }
    free(program->values);
    free(program->code);
    free(program);
  }
}

static OrtStatus* add_value(Program* program, Value value, size_t* number) {
  if (!reserve(&program->values, sizeof value, &program->value_room, program->num_values + 1)) {
    return out_of_memory(program->api);
  }
  *number = program->num_values;
  program->values[program->num_values++] = value;
  return NULL;
}

/* Copies a constant. The tensor belongs to the host, which may free it as soon as Compile returns (we asked
 * for that with drop_constant_initializers): a pointer into it would dangle. */
static OrtStatus* add_constant(Program* program, const OrtValueInfo* info, size_t* number) {
  const OrtApi* api = program->api;
  const OrtValue* tensor = NULL;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const int64_t* dims = NULL;
  const void* data = NULL;
  size_t rank = 0;
  Value value = {.kind = VALUE_CONSTANT, .output = NONE};
  TRY(api->ValueInfo_GetInitializerValue(info, &tensor));
  if (tensor == NULL) {
    return api->CreateStatus(ORT_EP_FAIL,
                             "sample_compiler: a value of a group is neither input, constant nor result");
  }
  TRY(api->GetTensorElementTypeAndShapeDataReference(tensor, &type, &dims, &rank));
  TRY(api->GetTensorData(tensor, &data));
  if (type != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT || !shape_from(dims, rank, &value.shape)) {
    return api->CreateStatus(ORT_EP_FAIL, "sample_compiler: a constant is not what its type said");
  }
  const size_t size = element_count(&value.shape) * sizeof(float);
  value.data = (float*)malloc(size + 1); /* An empty tensor is no failed allocation. */
  if (value.data == NULL) {
    return out_of_memory(api);
  }
  if (size > 0) {
    memcpy(value.data, data, size);
  }
  OrtStatus* status = add_value(program, value, number);
  if (status != NULL) {
    free(value.data);
  }
  return status; /* NOLINT(clang-analyzer-unix.Malloc): the program has it. */
}

/* Adds the instruction for one node. */
static OrtStatus* add_node(Program* program, const OrtNode* node, Values* values, Names* names) {
  const OrtApi* api = program->api;
  const Elementwise* op = NULL;
  TRY(find_operator(api, node, &op));
  TRY(read_values(api, node, values));
  if (op == NULL || values->inputs != op->arity || values->implicit != 0 || values->outputs != 1) {
    return api->CreateStatus(ORT_EP_FAIL, "sample_compiler: asked to compile a node that it did not claim");
  }
  size_t operands[2] = {NONE, NONE}, *number = NULL;
  for (size_t i = 0; i < op->arity; ++i) {
    TRY(number_of(api, names, values->items[i], &number));
    if (*number == NONE) {
      TRY(add_constant(program, values->items[i], number));
    }
    operands[i] = *number;
    program->values[*number].last_use = program->num_code;
  }
  TRY(number_of(api, names, values->items[op->arity], &number));
  TRY(add_value(program, (Value){.kind = VALUE_RESULT, .output = NONE, .last_use = program->num_code},
                number));
  if (!reserve(&program->code, sizeof *program->code, &program->code_room, program->num_code + 1)) {
    return out_of_memory(api);
  }
  program->code[program->num_code++] = (Instruction){op->row, operands[0], operands[1], *number};
  return NULL;
}

/* Gives each intermediate value a tile, and takes it back after the value's last use: register allocation,
 * for straight code. A result may take over the tile of an operand, because a RowFn may work in place. */
static OrtStatus* assign_tiles(Program* program) {
  size_t* spare = (size_t*)malloc((program->num_code + 1) * sizeof *spare);
  size_t num_spare = 0;
  if (spare == NULL) {
    return out_of_memory(program->api);
  }
  for (size_t i = 0; i < program->num_code; ++i) {
    const Instruction* step = &program->code[i];
    for (size_t k = 0; k < 2; ++k) {
      const size_t operand = k == 0 ? step->a : step->b;
      if (operand == NONE || (k == 1 && operand == step->a)) {
        continue;
      }
      const Value* value = &program->values[operand];
      if (value->kind == VALUE_RESULT && value->output == NONE && value->last_use == i) {
        spare[num_spare++] = value->tile;
      }
    }
    if (program->values[step->out].output == NONE) {
      program->values[step->out].tile = num_spare > 0 ? spare[--num_spare] : program->num_tiles++;
    }
  }
  free(spare);
  return NULL;
}

/* The inputs and outputs of a run are numbered as those of the fused node; the nodes are those of the graph.
 */
static OrtStatus* fill_program(Program* program, const OrtGraph* graph, const OrtNode* fused_node,
                               Values* values, Names* names) {
  const OrtApi* api = program->api;
  const OrtNode** nodes = NULL;
  size_t num_nodes = 0, *number = NULL;
  OrtStatus* status = NULL;
  TRY_OR_DONE(read_values(api, fused_node, values));
  for (size_t i = 0; i < values->inputs; ++i) {
    TRY_OR_DONE(number_of(api, names, values->items[i], &number));
    TRY_OR_DONE(add_value(program, (Value){.kind = VALUE_INPUT, .input = i, .output = NONE}, number));
  }
  TRY_OR_DONE(read_nodes(api, graph, &nodes, &num_nodes));
  for (size_t i = 0; i < num_nodes; ++i) {
    TRY_OR_DONE(add_node(program, nodes[i], values, names));
  }
  TRY_OR_DONE(read_values(api, fused_node, values)); /* Again: add_node has used the same room. */
  for (size_t i = 0; i < values->outputs; ++i) {
    TRY_OR_DONE(number_of(api, names, values->items[values->inputs + values->implicit + i], &number));
    if (*number == NONE || program->values[*number].kind != VALUE_RESULT) {
      TRY_OR_DONE(
          api->CreateStatus(ORT_EP_FAIL, "sample_compiler: no node of the group computes an output of it"));
    }
    program->values[*number].output = i;
  }
  TRY_OR_DONE(assign_tiles(program));
done:
  free((void*)nodes);
  return status;
}

OrtStatus* make_program(const OrtApi* api, const OrtGraph* graph, const OrtNode* fused_node, Program** out) {
  Values values = {0};
  Names names = {0};
  Program* program = (Program*)calloc(1, sizeof *program);
  *out = NULL;
  if (program == NULL) {
    return out_of_memory(api);
  }
  program->api = api;
  OrtStatus* status = fill_program(program, graph, fused_node, &values, &names);
  free((void*)values.items);
  free(names.entries);
  if (status != NULL) {
    free_program(program);
    return status;
  }
  *out = program;
  return NULL;
}
