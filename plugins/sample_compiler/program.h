/* A program: what a group of nodes is compiled to. */
#ifndef SAMPLE_COMPILER_PROGRAM_H_
#define SAMPLE_COMPILER_PROGRAM_H_

#include "graph.h"

/* A tensor that a program works with. */
typedef struct Value {
  enum { VALUE_INPUT, VALUE_CONSTANT, VALUE_RESULT } kind;
  size_t input;    /* VALUE_INPUT: which input of the fused node. */
  size_t output;   /* VALUE_RESULT: which output of the fused node, or NONE for an intermediate value. */
  size_t last_use; /* VALUE_RESULT: the last instruction that reads it. */
  size_t tile; /* VALUE_RESULT: which of the program's tiles holds it, unless it is in memory as a whole. */
  Shape shape; /* VALUE_CONSTANT */
  float* data; /* VALUE_CONSTANT: our copy. */
} Value;

typedef struct Instruction {
  RowFn row;
  size_t a, b, out; /* Numbers of values; b is NONE for a unary operator. */
} Instruction;

/* What Compile makes of a group. The host sees `base`. A program never changes after Compile, so runs may
 * overlap. */
typedef struct Program {
  OrtNodeComputeInfo base; /* First, as in Factory. */
  const OrtApi* api;
  Value* values;
  size_t num_values, value_room;
  Instruction* code;
  size_t num_code, code_room;
  size_t num_tiles;
} Program;

/* Compiles one group: `graph` holds its nodes, `fused_node` its inputs and outputs. Leaves `base` zeroed. */
OrtStatus* make_program(const OrtApi* api, const OrtGraph* graph, const OrtNode* fused_node, Program** out);

/* NULL is allowed. */
void free_program(Program* program);

/* Runs a program once. Any number of threads may run the same one. */
OrtStatus* run_program(const Program* program, OrtKernelContext* context);

#endif
