/* What GetCapability claims: nodes of the graph that it was shown, each once, in groups that can be computed
 * as one. And the EPContext nodes that Compile gives. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"

typedef struct Numbered {
  const OrtNode* node;
  uint32_t at; /* in the graph's order, where each comes after what it needs */
} Numbered;

typedef struct Claims {
  struct Claims* next;
  const OrtEpGraphSupportInfo* info;
  const OrtGraph* graph;
  uint32_t session;
  size_t count;
  Numbered* nodes; /* by their addresses */
  bool* claimed;   /* by their numbers, as the next two */
  uint32_t* first_source;
  uint32_t*
      sources; /* numbers of the nodes whose outputs each reads; those of `at` from first_source[at] on */
  uint8_t* marks;
} Claims;

static Claims* all;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Whether the host did it. What it does not have, or refuses, is not checked. */
static bool good(OrtStatus* status) {
  if (status == NULL) return true;
  real_OrtApi->ReleaseStatus(status);
  return false;
}
#define GOOD(call) good(real_OrtApi->call)

static int by_address(const void* one, const void* other) {
  const OrtNode* a = ((const Numbered*)one)->node;
  const OrtNode* b = ((const Numbered*)other)->node;
  return (a > b) - (a < b);
}

static bool read_nodes(Claims* claims) {
  size_t count = 0;
  if (!GOOD(Graph_GetNumNodes(claims->graph, &count)) || count > UINT32_MAX / 2) return false;
  const OrtNode** nodes = calloc(count + 1, sizeof *nodes);
  claims->nodes = calloc(count + 1, sizeof *claims->nodes);
  claims->claimed = calloc(count + 1, sizeof *claims->claimed);
  claims->marks = calloc(count + 1, sizeof *claims->marks);
  bool read = nodes != NULL && claims->nodes != NULL && claims->claimed != NULL && claims->marks != NULL &&
              GOOD(Graph_GetNodes(claims->graph, nodes, count));
  for (size_t i = 0; read && i < count; ++i) claims->nodes[i] = (Numbered){nodes[i], (uint32_t)i};
  free((void*)nodes);
  if (!read) return false;
  qsort(claims->nodes, count, sizeof *claims->nodes, by_address);
  claims->count = count;
  return true;
}

/* ---- who reads what of whom ---- */

typedef struct Name {
  const char* text;
  uint32_t node;
} Name;

typedef struct Names {
  Name* slots;
  size_t mask;
} Names;

static Name* slot_of(const Names* names, const char* text) {
  uint64_t hash = 14695981039346656037U;
  for (const char* at = text; *at != '\0'; ++at) hash = (hash ^ (unsigned char)*at) * 1099511628211U;
  size_t slot = (size_t)(hash ^ hash >> 32) & names->mask;
  while (names->slots[slot].text != NULL && strcmp(names->slots[slot].text, text) != 0) {
    slot = (slot + 1) & names->mask;
  }
  return &names->slots[slot];
}

typedef OrtStatus*(ORT_API_CALL* Count)(const OrtNode*, size_t*);
typedef OrtStatus*(ORT_API_CALL* Values)(const OrtNode*, const OrtValueInfo**, size_t);

/* Names of a node's values, NULL for those left out; the caller frees the array. NULL: they cannot be read.
 */
static const char** read_names(const OrtNode* node, Count count_of, Values values_of, size_t* count) {
  *count = 0;
  if (!good(count_of(node, count))) return NULL;
  const OrtValueInfo** values = calloc(*count + 1, sizeof *values);
  const char** names = calloc(*count + 1, sizeof *names);
  bool read = values != NULL && names != NULL && good(values_of(node, values, *count));
  for (size_t i = 0; read && i < *count; ++i) {
    if (values[i] != NULL) read = GOOD(GetValueInfoName(values[i], &names[i]));
    if (names != NULL && names[i] != NULL && names[i][0] == '\0') names[i] = NULL;
  }
  free((void*)values);
  if (read) return names;
  free((void*)names);
  return NULL;
}

static bool name_outputs(const Claims* claims, const OrtNode* const* in_order, Names* names) {
  size_t total = 0;
  for (size_t i = 0; i < claims->count; ++i) {
    size_t count = 0;
    if (!GOOD(Node_GetNumOutputs(in_order[i], &count))) return false;
    total += count;
  }
  names->mask = 15;
  while (names->mask < 2 * total) names->mask = names->mask * 2 + 1;
  names->slots = calloc(names->mask + 1, sizeof *names->slots);
  if (names->slots == NULL) return false;
  for (size_t i = 0; i < claims->count; ++i) {
    size_t count = 0;
    const char** outputs =
        read_names(in_order[i], real_OrtApi->Node_GetNumOutputs, real_OrtApi->Node_GetOutputs, &count);
    if (outputs == NULL) return false;
    for (size_t at = 0; at < count; ++at) {
      if (outputs[at] != NULL) *slot_of(names, outputs[at]) = (Name){outputs[at], (uint32_t)i};
    }
    free((void*)outputs);
  }
  return true;
}

static bool add_sources(Claims* claims, const OrtNode* node, const Names* names, size_t* used, size_t* room,
                        bool implicit) {
  size_t count = 0;
  const char** inputs =
      implicit ? read_names(node, real_OrtApi->Node_GetNumImplicitInputs, real_OrtApi->Node_GetImplicitInputs,
                            &count)
               : read_names(node, real_OrtApi->Node_GetNumInputs, real_OrtApi->Node_GetInputs, &count);
  if (inputs == NULL) return false;
  if (*used + count > *room) {
    size_t wanted = 2 * (*used + count) + 64;
    uint32_t* grown = realloc(claims->sources, wanted * sizeof *grown);
    if (grown == NULL) {
      free((void*)inputs);
      return false;
    }
    claims->sources = grown;
    *room = wanted;
  }
  for (size_t i = 0; i < count; ++i) {
    const Name* found_name = inputs[i] != NULL ? slot_of(names, inputs[i]) : NULL;
    if (found_name != NULL && found_name->text != NULL) claims->sources[(*used)++] = found_name->node;
  }
  free((void*)inputs);
  return true;
}

/* Once for a graph, when a first group of several nodes is claimed. */
static bool read_sources(Claims* claims) {
  if (claims->first_source != NULL) return true;
  const OrtNode** in_order = calloc(claims->count + 1, sizeof *in_order);
  claims->first_source = calloc(claims->count + 1, sizeof *claims->first_source);
  Names names = {0};
  bool read = in_order != NULL && claims->first_source != NULL;
  for (size_t i = 0; read && i < claims->count; ++i) in_order[claims->nodes[i].at] = claims->nodes[i].node;
  read = read && name_outputs(claims, in_order, &names);
  size_t used = 0;
  size_t room = 0;
  for (size_t i = 0; read && i < claims->count; ++i) {
    claims->first_source[i] = (uint32_t)used;
    read = add_sources(claims, in_order[i], &names, &used, &room, false) &&
           add_sources(claims, in_order[i], &names, &used, &room, true);
    claims->first_source[i + 1] = (uint32_t)used;
  }
  free(names.slots);
  free((void*)in_order);
  if (read) return true;
  free(claims->first_source);
  claims->first_source = NULL;
  return false;
}

enum Mark { OUTSIDE, INSIDE, BETWEEN }; /* the last reads what the group computes, and is not of it */

/* The number of a node outside of the group that needs the group and that the group needs; or -1. */
static int64_t node_between(Claims* claims, uint32_t first, uint32_t last) {
  for (uint32_t at = first; at <= last; ++at) {
    bool after = false; /* whether it reads, by way of others, what the group computes outside of the group */
    bool reads = false;
    int64_t between = -1;
    for (uint32_t i = claims->first_source[at]; i < claims->first_source[at + 1]; ++i) {
      uint32_t source = claims->sources[i];
      if (claims->marks[source] == BETWEEN) {
        after = true;
        between = source;
      }
      reads = reads || claims->marks[source] == INSIDE;
    }
    if (claims->marks[at] == INSIDE && after) return between;
    if (claims->marks[at] == OUTSIDE && (after || reads)) claims->marks[at] = BETWEEN;
  }
  return -1;
}

/* ---- claims ---- */

static void free_claims(Claims* claims) {
  free(claims->nodes);
  free(claims->claimed);
  free(claims->first_source);
  free(claims->sources);
  free(claims->marks);
  free(claims);
}

void claims_begin(const OrtGraph* graph, const OrtEpGraphSupportInfo* info, const OrtEp* ep) {
  Claims* claims = graph != NULL ? calloc(1, sizeof *claims) : NULL;
  if (claims == NULL) return;
  claims->graph = graph;
  claims->info = info;
  claims->session = object_session(ep);
  if (!read_nodes(claims)) {
    free_claims(claims);
    return;
  }
  pthread_mutex_lock(&mutex);
  claims->next = all;
  all = claims;
  pthread_mutex_unlock(&mutex);
}

void claims_end(const OrtEpGraphSupportInfo* info) {
  pthread_mutex_lock(&mutex);
  for (Claims** at = &all; *at != NULL; at = &(*at)->next) {
    Claims* claims = *at;
    if (claims->info == info) {
      *at = claims->next;
      free_claims(claims);
      break;
    }
  }
  pthread_mutex_unlock(&mutex);
}

static Claims* claims_of(const OrtEpGraphSupportInfo* info) {
  pthread_mutex_lock(&mutex);
  Claims* claims = all;
  while (claims != NULL && claims->info != info) claims = claims->next;
  pthread_mutex_unlock(&mutex);
  return claims;
}

/* The text of an attribute, into `text`; false where there is none. */
static bool read_text(const OrtOpAttr* attribute, char* text, size_t room) {
  size_t length = 0;
  if (!GOOD(ReadOpAttr(attribute, ORT_OP_ATTR_STRING, text, room - 1, &length)) || length >= room)
    return false;
  text[length] = '\0';
  return true;
}

static const char* name_of(const OrtNode* node) {
  const char* name = NULL;
  return GOOD(Node_GetName(node, &name)) && name != NULL ? name : "";
}

static void check_owner(const Claims* claims, const OrtNode* node) {
  const char* type = NULL;
  const OrtOpAttr* attribute = NULL;
  char source[256];
  char ep[128];
  session_name(claims->session, ep, sizeof ep);
  if (ep[0] == '\0' || !GOOD(Node_GetOperatorType(node, &type)) || strcmp(type, "EPContext") != 0) return;
  if (!GOOD(Node_GetAttributeByName(node, "source", &attribute)) || attribute == NULL) return;
  if (read_text(attribute, source, sizeof source) && source[0] != '\0' && strcmp(source, ep) != 0) {
    found(EPV_CLAIM_005, NULL, "the EP '%s' claims the EPContext node '%s', whose source is '%s'", ep,
          name_of(node), source);
  }
}

/* The node's number in the graph, or -1. Says what is wrong with the claim. */
static int64_t claim(Claims* claims, const OrtNode* node) {
  Numbered wanted = {node, 0};
  const Numbered* known =
      node != NULL ? bsearch(&wanted, claims->nodes, claims->count, sizeof wanted, by_address) : NULL;
  if (known == NULL) {
    found(EPV_CLAIM_001, NULL, "the node %p that is claimed is not one of the graph's %zu nodes",
          (const void*)node, claims->count);
    return -1;
  }
  if (claims->claimed[known->at]) {
    found(EPV_CLAIM_002, NULL, "the node '%s' is claimed twice", name_of(node));
    return known->at;
  }
  claims->claimed[known->at] = true;
  check_owner(claims, node);
  return known->at;
}

void claim_group(const OrtEpGraphSupportInfo* info, const OrtNode* const* nodes, size_t count) {
  Claims* claims = claims_of(info);
  if (claims == NULL) return;
  if (count == 0 || nodes == NULL) {
    found(EPV_CLAIM_003, NULL, "a group of no nodes is claimed");
    return;
  }
  int64_t first = INT64_MAX;
  int64_t last = -1;
  bool whole = true;
  memset(claims->marks, OUTSIDE, claims->count + 1);
  for (size_t i = 0; i < count; ++i) {
    int64_t at = claim(claims, nodes[i]);
    whole = whole && at >= 0;
    if (at < 0) continue;
    claims->marks[at] = INSIDE;
    if (at < first) first = at;
    if (at > last) last = at;
  }
  if (!whole || first == last || !read_sources(claims)) return;
  int64_t between = node_between(claims, (uint32_t)first, (uint32_t)last);
  for (size_t i = 0; between >= 0 && i < claims->count; ++i) {
    if (claims->nodes[i].at != between) continue;
    found(EPV_CLAIM_004, NULL,
          "a group of %zu nodes with '%s' is claimed without '%s', which needs the group and which the group "
          "needs",
          count, name_of(nodes[0]), name_of(claims->nodes[i].node));
  }
}

void claim_single(const OrtEpGraphSupportInfo* info, const OrtNode* node) {
  Claims* claims = claims_of(info);
  if (claims == NULL || claim(claims, node) < 0) return;
  const OrtEpApi* api = host_version() >= 24 ? real_OrtApi->GetEpApi() : NULL;
  const OrtKernelDef* kernel = NULL;
  /* The host knows; it takes the argument as its own. */
  OrtEpGraphSupportInfo* own = (OrtEpGraphSupportInfo*)(uintptr_t)info;
  if (api != NULL && good(api->EpGraphSupportInfo_LookUpKernel(own, node, &kernel)) && kernel == NULL) {
    found(EPV_CLAIM_006, NULL, "the node '%s' is claimed as a single one, and there is no kernel for it",
          name_of(node));
  }
}

/* ---- EPContext nodes ---- */

static const OrtOpAttr* attribute_named(OrtOpAttr* const* attributes, size_t count, const char* wanted) {
  for (size_t i = 0; i < count; ++i) {
    const char* name = NULL;
    if (attributes[i] != NULL && GOOD(OpAttr_GetName(attributes[i], &name)) && strcmp(name, wanted) == 0) {
      return attributes[i];
    }
  }
  return NULL;
}

static bool read_number(const OrtOpAttr* attribute, int64_t* value) {
  size_t length = 0;
  return attribute != NULL && GOOD(ReadOpAttr(attribute, ORT_OP_ATTR_INT, value, sizeof *value, &length));
}

void check_context_node(const char* type, const char* domain, const char* node, OrtOpAttr* const* attributes,
                        size_t count) {
  if (type == NULL || strcmp(type, "EPContext") != 0) return;
  const char* name = node != NULL ? node : "";
  if (domain == NULL || strcmp(domain, "com.microsoft") != 0) {
    found(EPV_CTX_001, NULL, "the EPContext node '%s' is of the domain '%s', not com.microsoft", name,
          domain != NULL ? domain : "");
    return;
  }
  if (attributes == NULL) count = 0;
  int64_t main_context = 1;
  const OrtOpAttr* is_main = attribute_named(attributes, count, "main_context");
  if (is_main != NULL && !read_number(is_main, &main_context)) {
    found(EPV_CTX_002, NULL, "the EPContext node '%s' has a main_context that is no integer", name);
  }
  if (main_context != 0 && attribute_named(attributes, count, "ep_cache_context") == NULL) {
    found(EPV_CTX_002, NULL, "the EPContext node '%s' is a main context without ep_cache_context", name);
  }
  char source[256] = "";
  const OrtOpAttr* attribute = attribute_named(attributes, count, "source");
  if (attribute == NULL || !read_text(attribute, source, sizeof source)) {
    found(EPV_CTX_002, NULL, "the EPContext node '%s' has no source", name);
    return;
  }
  char ep[128];
  const Checked* call = innermost;
  while (call != NULL && call->session == 0) call = call->outer;
  session_name(call != NULL ? call->session : 0, ep, sizeof ep);
  if (ep[0] != '\0' && strcmp(source, ep) != 0) {
    found(EPV_CTX_003, NULL, "the EPContext node '%s' says the source '%s', and the EP is '%s'", name, source,
          ep);
  }
}

void check_context_nodes(OrtNode* const* nodes, size_t count) {
  for (size_t i = 0; nodes != NULL && i < count; ++i) {
    const char* type = NULL;
    if (nodes[i] == NULL || !GOOD(Node_GetOperatorType(nodes[i], &type)) || type == NULL) continue;
    if (strcmp(type, "EPContext") != 0) {
      found(EPV_CTX_001, NULL, "Compile gives a node of the type '%s' as an EPContext node", type);
    }
    (void)handle_handed_over(handle_type_node, nodes[i]);
  }
}
