/* Reading the host's graph: what partition.c and program.c both need. */
#ifndef SAMPLE_COMPILER_GRAPH_H_
#define SAMPLE_COMPILER_GRAPH_H_

#include "../common/elementwise.h"
#include "../common/factory.h"

#define NONE SIZE_MAX

/* Makes room for `need` items in an array of which `*items` is the start. False when there is no memory; the
 * old array is then still there. */
bool reserve(void* items, size_t item_size, size_t* room, size_t need);

/* The values of a node. One of these is read into again and again, so that a graph costs few allocations. */
typedef struct Values {
  const OrtValueInfo** items; /* Inputs, implicit inputs (what subgraphs use from outside), outputs. */
  size_t room, inputs, implicit, outputs;
} Values;

/* A value that is left out (an optional input, an unused output) is NULL. */
OrtStatus* read_values(const OrtApi* api, const OrtNode* node, Values* values);

typedef struct NameEntry {
  const char* name;
  size_t number;
} NameEntry;

/* A hash table from a value's name to a number. Names identify values throughout a graph; OrtValueInfo
 * pointers do not, since a fused node has its own. The names are the host's, and valid during the call in
 * which we got them. Starts zeroed; the caller frees `entries`. */
typedef struct Names {
  NameEntry* entries;
  size_t room, count; /* `room` is a power of two. */
} Names;

/* The number that belongs to a value, NONE at first, for the caller to read or set; valid until the next
 * call. */
OrtStatus* number_of(const OrtApi* api, Names* names, const OrtValueInfo* value, size_t** number);

/* The nodes of a graph, which hosts list so that each comes after those it depends on. The caller frees the
 * array, also after an error. */
OrtStatus* read_nodes(const OrtApi* api, const OrtGraph* graph, const OrtNode*** nodes, size_t* count);

/* The operator of a node that we can compile, else NULL. The three things to check are the three that
 * identify an operator: its domain, its type and the version of its definition. */
OrtStatus* find_operator(const OrtApi* api, const OrtNode* node, const Elementwise** op);

#endif
