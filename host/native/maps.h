/* Two small hash maps for the graph's files: from pointers and from names. Neither forgets single entries. */
#ifndef EPHOST_MAPS_H_
#define EPHOST_MAPS_H_

#include <string.h>

#include "heap.h"

/* Key NULL stands for an empty place. Start with all zeros; end with pointer_map_clear. */
typedef struct PointerMap {
  const void** keys;
  void** values;
  size_t count;
  size_t capacity; /* 0 or a power of two, at most half full */
} PointerMap;

static inline size_t pointer_map_place(const PointerMap* map, const void* key) {
  size_t place =
      (size_t)(((uint64_t)(uintptr_t)key >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (map->capacity - 1);
  while (map->keys[place] != NULL && map->keys[place] != key) place = (place + 1) & (map->capacity - 1);
  return place;
}

static inline void* pointer_map_get(const PointerMap* map, const void* key) {
  return map->capacity == 0 || key == NULL ? NULL : map->values[pointer_map_place(map, key)];
}

static inline void pointer_map_clear(PointerMap* map) {
  host_free(map->keys);
  *map = (PointerMap){0};
}

/* Room for `count` entries in all; false without memory. */
static inline bool pointer_map_reserve(PointerMap* map, size_t count) {
  if (count * 2 <= map->capacity) return true;
  PointerMap bigger = {.capacity = map->capacity > 0 ? map->capacity : 16};
  while (bigger.capacity < count * 2) bigger.capacity *= 2;
  bigger.keys = host_calloc(bigger.capacity, 2 * sizeof(void*));
  if (bigger.keys == NULL) return false;
  bigger.values = (void**)bigger.keys + bigger.capacity;
  bigger.count = map->count;
  for (size_t i = 0; i < map->capacity; ++i) {
    if (map->keys[i] == NULL) continue;
    size_t place = pointer_map_place(&bigger, map->keys[i]);
    bigger.keys[place] = map->keys[i];
    bigger.values[place] = map->values[i];
  }
  host_free(map->keys);
  *map = bigger;
  return true;
}

/* The place of the key's value, which is NULL when the key is new; NULL without memory. */
static inline void** pointer_map_at(PointerMap* map, const void* key) {
  if (!pointer_map_reserve(map, map->count + 1)) return NULL;
  size_t place = pointer_map_place(map, key);
  if (map->keys[place] == NULL) {
    map->keys[place] = key;
    ++map->count;
  }
  return &map->values[place];
}

/* Keys are borrowed. Its size is fixed when it is made: see name_map_init. */
typedef struct NameMap {
  const char** keys;
  void** values;
  size_t capacity;
} NameMap;

static inline uint64_t name_hash(const char* name) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (; *name != '\0'; ++name) hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
  return hash ^ hash >> 32;
}

/* For at most `count` different names; false without memory. */
static inline bool name_map_init(NameMap* map, size_t count) {
  map->capacity = 16;
  while (map->capacity < count * 2) map->capacity *= 2;
  map->keys = host_calloc(map->capacity, 2 * sizeof(void*));
  if (map->keys == NULL) return false;
  map->values = (void**)map->keys + map->capacity;
  return true;
}

static inline void name_map_clear(NameMap* map) {
  host_free(map->keys);
  *map = (NameMap){0};
}

/* The place of the name's value, which is NULL when the name is new. */
static inline void** name_map_at(NameMap* map, const char* name) {
  size_t place = (size_t)name_hash(name) & (map->capacity - 1);
  while (map->keys[place] != NULL && strcmp(map->keys[place], name) != 0)
    place = (place + 1) & (map->capacity - 1);
  map->keys[place] = name;
  return &map->values[place];
}

#endif
