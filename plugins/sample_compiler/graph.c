#include "graph.h"

bool reserve(void* items, size_t item_size, size_t* room, size_t need) {
  if (need <= *room) {
    return true;
  }
  void* old = NULL;
  memcpy(&old, items, sizeof old);
  const size_t new_room = need < 8 ? 16 : need * 2;
  void* grown = new_room < SIZE_MAX / item_size ? realloc(old, new_room * item_size) : NULL;
  if (grown == NULL) {
    return false;
  }
  memcpy(items, &grown, sizeof grown);
  *room = new_room;
  return true;
}

OrtStatus* read_values(const OrtApi* api, const OrtNode* node, Values* values) {
  TRY(api->Node_GetNumInputs(node, &values->inputs));
  TRY(api->Node_GetNumImplicitInputs(node, &values->implicit));
  TRY(api->Node_GetNumOutputs(node, &values->outputs));
  const size_t first_output = values->inputs + values->implicit;
  if (!reserve(&values->items, sizeof *values->items, &values->room, first_output + values->outputs)) {
    return out_of_memory(api);
  }
  if (values->inputs > 0) {
    TRY(api->Node_GetInputs(node, values->items, values->inputs));
  }
  if (values->implicit > 0) {
    TRY(api->Node_GetImplicitInputs(node, values->items + values->inputs, values->implicit));
  }
  return values->outputs == 0 ? NULL
                              : api->Node_GetOutputs(node, values->items + first_output, values->outputs);
}

static NameEntry* find_entry(NameEntry* entries, size_t room, const char* name) {
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  for (const char* c = name; *c != '\0'; ++c) {
    hash = (hash ^ (uint8_t)*c) * 1099511628211u;
  }
  size_t i = (size_t)hash & (room - 1);
  while (entries[i].name != NULL && strcmp(entries[i].name, name) != 0) {
    i = (i + 1) & (room - 1);
  }
  return &entries[i];
}

OrtStatus* number_of(const OrtApi* api, Names* names, const OrtValueInfo* value, size_t** number) {
  const char* name = NULL;
  TRY(api->GetValueInfoName(value, &name));
  if (names->count * 2 >= names->room) {
    const size_t room = names->room == 0 ? 64 : names->room * 2;
    NameEntry* entries = (NameEntry*)calloc(room, sizeof *entries);
    if (entries == NULL) {
      return out_of_memory(api);
    }
    for (size_t i = 0; i < names->room; ++i) {
      if (names->entries[i].name != NULL) {
        *find_entry(entries, room, names->entries[i].name) = names->entries[i];
      }
    }
    free(names->entries);
    names->entries = entries;
    names->room = room;
  }
  NameEntry* entry = find_entry(names->entries, names->room, name);
  if (entry->name == NULL) {
    *entry = (NameEntry){name, NONE};
    ++names->count;
  }
  *number = &entry->number;
  return NULL;
}

OrtStatus* read_nodes(const OrtApi* api, const OrtGraph* graph, const OrtNode*** nodes, size_t* count) {
  TRY(api->Graph_GetNumNodes(graph, count));
  *nodes = (const OrtNode**)calloc(*count + 1, sizeof **nodes);
  return *nodes == NULL ? out_of_memory(api) : api->Graph_GetNodes(graph, *nodes, *count);
}

OrtStatus* find_operator(const OrtApi* api, const OrtNode* node, const Elementwise** op) {
  const char *domain = NULL, *type = NULL;
  int since = 0;
  *op = NULL;
  TRY(api->Node_GetDomain(node, &domain));
  TRY(api->Node_GetOperatorType(node, &type));
  TRY(api->Node_GetSinceVersion(node, &since));
  for (size_t i = 0; i < NUM_ELEMENTWISE; ++i) {
    const Elementwise* row = &kElementwise[i];
    if (domain[0] == '\0' && strcmp(row->type, type) == 0 && since >= row->since_first &&
        since <= row->since_last) {
      *op = row;
    }
  }
  return NULL;
}
