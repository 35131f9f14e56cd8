/* What an EP claims. */
#ifndef EPHOST_NATIVE_SUPPORT_INFO_H_
#define EPHOST_NATIVE_SUPPORT_INFO_H_

#include "abi.h"

/* What an EP claims in one GetCapability, collected for Python, which reads it when the call has returned. */
typedef struct Claim {
  /* of the graph that the EP was asked about, in the order in which the plugin gave them */
  const OrtNode** nodes;
  size_t node_count;
  bool single;                     /* through AddSingleNode: a kernel from the EP's registry runs it */
  bool drop_constant_initializers; /* of a group */
} Claim;
struct OrtEpGraphSupportInfo {
  const OrtGraph* graph;
  const OrtEp* ep;
  const OrtKernelRegistry* registry; /* for LookUpKernel; NULL when the EP has none */
  struct PointerMap* members;        /* origin of each node of the graph -> the node */
  Claim* claims;
  size_t claim_count;
  size_t claim_capacity;
};

#endif
