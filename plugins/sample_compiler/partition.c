/* GetCapability: which nodes we take, and in which groups. */
#include "partition.h"

#include "graph.h"

/* A partition of a graph's nodes into units. At first each node is a unit; units of nodes that we can compile
 * are then merged. The host will run a unit as a whole, so it must be a convex group: no path from one of its
 * nodes to another may lead through a node of another unit. A unit is known by the index of its first node.
 */
typedef struct Units {
  size_t count;
  const Elementwise** ops; /* For each node, the operator if we can compile it. */
  size_t* edges; /* The nodes that a node depends on: edges[edge_begin[i]] to edges[edge_begin[i + 1]]. */
  size_t* edge_begin;
  size_t edge_room;
  size_t* unit; /* For each node, its unit. */
  size_t* next; /* The next node of the same unit, or NONE. */
  size_t* tail; /* For each unit, its last node in the order of `next`. */
  size_t* stack;
  size_t* seen; /* For each unit, the walk that last met it. */
  size_t walk;
} Units;

/* True when `to` depends on `from` by way of a third unit. If the two were merged, that unit would depend on
 * the result of the merged one, and the merged one on it. This looks at all that `to` depends on, so a graph
 * of n nodes may take n * n steps; for chains it takes n. */
static bool has_detour(Units* units, size_t from, size_t to) {
  size_t depth = 0;
  ++units->walk;
  units->seen[to] = units->walk;
  units->stack[depth++] = to;
  while (depth > 0) {
    const size_t unit = units->stack[--depth];
    for (size_t node = unit; node != NONE; node = units->next[node]) {
      for (size_t e = units->edge_begin[node]; e < units->edge_begin[node + 1]; ++e) {
        const size_t before = units->unit[units->edges[e]];
        if (before == from) {
          if (unit != to) {
            return true;
          }
        } else if (units->seen[before] != units->walk) {
          units->seen[before] = units->walk;
          units->stack[depth++] = before;
        }
      }
    }
  }
  return false;
}

static void merge_units(Units* units, size_t a, size_t b) {
  const size_t first = a < b ? a : b, second = a < b ? b : a;
  for (size_t node = second; node != NONE; node = units->next[node]) {
    units->unit[node] = first;
  }
  units->next[units->tail[first]] = second;
  units->tail[first] = units->tail[second];
}

/* Merges each node with the units that its inputs come from, as far as that makes no circle. The nodes are in
 * topological order, so nothing depends yet on a node that is still alone, and the second walk can be left
 * out. */
static void grow_units(Units* units) {
  for (size_t node = 0; node < units->count; ++node) {
    for (size_t e = units->edge_begin[node]; units->ops[node] != NULL && e < units->edge_begin[node + 1];
         ++e) {
      const size_t mine = units->unit[node], other = units->unit[units->edges[e]];
      if (other != mine && units->ops[units->edges[e]] != NULL && !has_detour(units, other, mine) &&
          (mine == node || !has_detour(units, mine, other))) {
        merge_units(units, mine, other);
      }
    }
  }
}

/* Whether we can compile a node: an operator of the table, on float32 tensors of known rank. Where the model
 * leaves a type or a rank open we don't guess: the node is somebody else's. */
static OrtStatus* classify(const OrtApi* api, const char* ep_name, const OrtNode* node, const Values* values,
                           const Elementwise** op) {
  const Elementwise* found = NULL;
  const char* owner = NULL;
  *op = NULL;
  TRY(find_operator(api, node, &found));
  if (found == NULL || values->inputs != found->arity || values->outputs != 1) {
    return NULL;
  }
  TRY(api->Node_GetEpName(node, &owner));
  if (owner != NULL && owner[0] != '\0' && strcmp(owner, ep_name) != 0) {
    return NULL; /* An EP with a higher priority has it. */
  }
  for (size_t i = 0; i < values->inputs + values->outputs; ++i) {
    bool fits = false;
    TRY(is_float_tensor(api, values->items[i], MAX_RANK, &fits));
    if (!fits) {
      return NULL;
    }
  }
  *op = found;
  return NULL;
}

/* Fills in `ops`, `edges` and `edge_begin`. */
static OrtStatus* read_units(const Factory* factory, const OrtNode* const* nodes, Units* units, Names* names,
                             Values* values) {
  const OrtApi* api = factory->api;
  size_t num_edges = 0;
  for (size_t i = 0; i < units->count; ++i) {
    units->edge_begin[i] = num_edges;
    TRY(read_values(api, nodes[i], values));
    TRY(classify(api, factory->ep_name, nodes[i], values, &units->ops[i]));
    const size_t first_output = values->inputs + values->implicit;
    if (!reserve(&units->edges, sizeof *units->edges, &units->edge_room, num_edges + first_output)) {
      return out_of_memory(api);
    }
    for (size_t v = 0; v < first_output + values->outputs; ++v) {
      size_t* producer = NULL;
      if (values->items[v] == NULL) {
        continue;
      }
      TRY(number_of(api, names, values->items[v], &producer));
      if (v >= first_output) {
        *producer = i;
      } else if (*producer != NONE) { /* NONE: an input or a constant of the graph. */
        units->edges[num_edges++] = *producer;
      }
    }
  }
  units->edge_begin[units->count] = num_edges;
  return NULL;
}

static OrtStatus* claim_units(const Factory* factory, OrtEpGraphSupportInfo* support,
                              const OrtNode* const* nodes, Units* units) {
  /* Constants need not be inputs of the fused nodes: Compile copies them, and the host may then drop its own.
   */
  const OrtNodeFusionOptions options = {API_VERSION, true};
  const OrtNode** group = (const OrtNode**)calloc(units->count + 1, sizeof *group);
  OrtStatus* status = NULL;
  if (group == NULL) {
    return out_of_memory(factory->api);
  }
  for (size_t i = 0; i < units->count; ++i) {
    if (units->ops[i] == NULL || units->unit[i] != i) {
      continue;
    }
    size_t size = 0;
    for (size_t node = i; node != NONE; node = units->next[node]) {
      group[size++] = nodes[node];
    }
    TRY_OR_DONE(factory->ep_api->EpGraphSupportInfo_AddNodesToFuse(support, group, size, &options));
  }
done:
  free((void*)group);
  return status;
}

OrtStatus* partition_graph(const Factory* factory, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  const OrtApi* api = factory->api;
  const OrtNode** nodes = NULL;
  size_t* numbers = NULL;
  Values values = {0};
  Names names = {0};
  Units units = {0};
  OrtStatus* status = NULL;
  TRY_OR_DONE(read_nodes(api, graph, &nodes, &units.count));
  const size_t n = units.count + 1;
  numbers = (size_t*)calloc(n, 6 * sizeof *numbers);
  units.ops = (const Elementwise**)calloc(n, sizeof *units.ops);
  if (numbers == NULL || units.ops == NULL) {
    TRY_OR_DONE(out_of_memory(api));
  }
  units.edge_begin = numbers;
  units.unit = numbers + n;
  units.next = numbers + 2 * n;
  units.tail = numbers + 3 * n;
  units.stack = numbers + 4 * n;
  units.seen = numbers + 5 * n;
  for (size_t i = 0; i < units.count; ++i) {
    units.unit[i] = units.tail[i] = i;
    units.next[i] = NONE;
  }
  TRY_OR_DONE(read_units(factory, nodes, &units, &names, &values));
  grow_units(&units);
  TRY_OR_DONE(claim_units(factory, support, nodes, &units));
done:
  free((void*)nodes);
  free(numbers);
  free((void*)units.ops);
  free(units.edges);
  free((void*)values.items);
  free(names.entries);
  return status;
}
