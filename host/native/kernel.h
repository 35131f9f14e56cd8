/* Kernels: definitions, registries, and what is known when one is made. */
#ifndef EPHOST_NATIVE_KERNEL_H_
#define EPHOST_NATIVE_KERNEL_H_

#include <stdatomic.h>

#include "abi.h"

struct OrtDataType {
  ONNXTensorElementDataType element_type;
};

typedef struct TypeConstraint {
  char* name; /* a type parameter ("T"), or an input's or output's formal name */
  ONNXTensorElementDataType* types;
  size_t type_count;
} TypeConstraint;

typedef struct IndexPair {
  int input;
  int output;
} IndexPair;

/* Shared by reference: Build hands out the builder's description, a registry keeps it alive. */
struct OrtKernelDef {
  atomic_int references;
  char* op_type;
  char* domain;
  char* ep_name;
  int since_version;
  int until_version; /* INT_MAX for open */
  TypeConstraint* constraints;
  size_t constraint_count;
  OrtMemType* input_mem_types; /* OrtMemTypeDefault beyond the array */
  size_t input_mem_type_count;
  OrtMemType* output_mem_types;
  size_t output_mem_type_count;
  IndexPair* aliases;
  size_t alias_count;
  IndexPair* may_inplace;
  size_t may_inplace_count;
};
OrtMemType kernel_def_input_mem_type(const OrtKernelDef* def, size_t index);
OrtMemType kernel_def_output_mem_type(const OrtKernelDef* def, size_t index);

typedef struct KernelEntry {
  OrtKernelDef* def;
  OrtKernelCreateFunc create;
  void* create_state;
} KernelEntry;
/* The entry whose operator, domain, version range and type constraints fit the node, and which names no other
 * EP than `ep_name` (NULL: any); NULL for none. */
const KernelEntry* kernel_registry_find(const OrtKernelRegistry* registry, const OrtNode* node,
                                        const char* ep_name);
/* When none fits: a constraint of a kernel for the node's version that the operator has no such name for;
 * else NULL. */
const char* kernel_registry_unknown_constraint(const OrtKernelRegistry* registry, const OrtNode* node,
                                               const char* ep_name);
void kernel_def_release(OrtKernelDef* def); /* drops a reference; NULL is fine */

/* Of each input of a node its constant value (maybe on the device) or NULL. The values are borrowed. */
typedef struct KernelConstants {
  atomic_int references;
  const OrtValue* values[];
} KernelConstants;

struct OrtKernelInfo {
  const OrtNode* node; /* borrowed: its graph must outlive the kernel */
  const OrtEp* ep;
  OrtKernelDef* def; /* a reference is held */
  const OrtLogger* logger;
  OrtKeyValuePairs* config; /* the session's; owned copy, may be NULL */
  OrtAllocator* cpu_allocator;
  OrtAllocator* device_allocator;    /* the EP's; the CPU's when it has none */
  void* session;                     /* Python's handle of the session, for subgraph kernels; may be NULL */
  struct KernelConstants* constants; /* shared with the info's copies; NULL for none */
};

#endif
