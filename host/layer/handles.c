/* Handles of the host's, by address and type: whose they are, and what became of them.
 *
 * Memory is used again, and the layer does not see what the host makes and frees for itself. So an address
 * says something only until the host gives it out once more: whatever it gives is alive. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"

typedef enum State { UNKNOWN, LIVE, HANDED_OVER, RELEASED, EXPIRED } State;

typedef struct Entry {
  struct Entry* next;
  const void* address;
  Event made, ended;
  uint64_t last_frame;
  uint32_t owned; /* how often the plugin has to release it; more than once where releasing counts */
  uint32_t loans; /* of calls that are under way */
  uint8_t type;
  uint8_t state;
  bool stays; /* lent for longer than a call */
  bool looked_at;
} Entry;

enum { BUCKETS = 1 << 14, LOCKS = 64, MOST_GROUPS = 256 };
static Entry* buckets[BUCKETS];
static pthread_mutex_t locks[LOCKS] = {[0 ... LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER};
static _Atomic(bool) stopped; /* relaxed where each call looks: entries have locks of their own */

static size_t bucket_of(uint8_t type, const void* address) {
  uint64_t bits = ((uint64_t)(uintptr_t)address >> 3) * 0x9E3779B97F4A7C15U + type * 0x85EBCA77C2B2AE63U;
  return (size_t)(bits >> 40) % BUCKETS;
}

static pthread_mutex_t* lock_of(size_t bucket) { return &locks[bucket % LOCKS]; }

/* With the bucket's lock. */
static Entry* find(size_t bucket, uint8_t type, const void* address) {
  Entry* entry = buckets[bucket];
  while (entry != NULL && (entry->address != address || entry->type != type)) entry = entry->next;
  return entry;
}

static Entry* find_or_add(size_t bucket, uint8_t type, const void* address) {
  Entry* entry = find(bucket, type, address);
  if (entry == NULL && (entry = calloc(1, sizeof *entry)) != NULL) {
    entry->address = address;
    entry->type = type;
    entry->next = buckets[bucket];
    buckets[bucket] = entry;
  }
  return entry;
}

void handles_stop(void) { atomic_store(&stopped, true); }

static Handle told(const Entry* entry) {
  Handle handle = {.type = handle_types[entry->type].name, .address = entry->address};
  if (entry->made.what != NULL) handle.events[handle.event_count++] = entry->made;
  if (entry->ended.what != NULL) handle.events[handle.event_count++] = entry->ended;
  return handle;
}

/* The address is that of something new, of which nothing is known any more. */
static void begin_anew(Entry* entry, const char* what) {
  if (entry->state == LIVE && (entry->owned != 0 || entry->loans != 0 || entry->stays)) return;
  entry->state = LIVE;
  entry->owned = 0;
  entry->looked_at = false;
  entry->made = event_now(what);
  entry->ended = (Event){0};
}

void handle_made(uint8_t type, const void* address) {
  size_t bucket = bucket_of(type, address);
  pthread_mutex_lock(lock_of(bucket));
  Entry* entry = find_or_add(bucket, type, address);
  if (entry != NULL && !handle_types[type].counted) {
    entry->state = UNKNOWN;
    entry->stays = false;
  }
  if (entry != NULL) {
    begin_anew(entry, "made");
    ++entry->owned;
  }
  pthread_mutex_unlock(lock_of(bucket));
}

static bool add_to(Checked* frame, Entry* entry) {
  if (frame->few_count < FEW) {
    frame->few[frame->few_count++] = entry;
    return true;
  }
  Lent* lent = malloc(sizeof *lent);
  if (lent == NULL) return false;
  *lent = (Lent){frame->lent, entry};
  frame->lent = lent;
  return true;
}

void handle_lent(uint8_t type, const void* address, Checked* frame, bool for_call) {
  bool passes = frame != NULL && (for_call || handle_types[type].expires);
  size_t bucket = bucket_of(type, address);
  pthread_mutex_lock(lock_of(bucket));
  Entry* entry = find_or_add(bucket, type, address);
  if (entry != NULL) {
    begin_anew(entry, "lent");
    if (!passes) {
      entry->stays = true;
    } else if (entry->last_frame != frame->number) {
      if (add_to(frame, entry)) {
        entry->last_frame = frame->number;
        ++entry->loans;
      } else {
        entry->stays = true;
      }
    }
  }
  pthread_mutex_unlock(lock_of(bucket));
}

static void expire(Entry* entry, const Checked* frame) {
  size_t bucket = bucket_of(entry->type, entry->address);
  pthread_mutex_lock(lock_of(bucket));
  if (entry->last_frame == frame->number) entry->last_frame = 0;
  if (--entry->loans == 0 && entry->state == LIVE && entry->owned == 0 && !entry->stays) {
    entry->state = EXPIRED;
    entry->ended = event_now("lent until the end");
  }
  pthread_mutex_unlock(lock_of(bucket));
}

void handles_expire(Checked* frame) {
  while (frame->few_count > 0) expire(frame->few[--frame->few_count], frame);
  for (Lent* lent = frame->lent; lent != NULL;) {
    expire(lent->entry, frame);
    Lent* next = lent->next;
    free(lent);
    lent = next;
  }
  frame->lent = NULL;
}

bool handle_handed_over(uint8_t type, const void* address) {
  return handle_may(type, address, ACTION_HAND_OVER);
}

void handle_taken_back(uint8_t type, const void* address) {
  size_t bucket = bucket_of(type, address);
  pthread_mutex_lock(lock_of(bucket));
  Entry* entry = find(bucket, type, address);
  if (entry != NULL && entry->state == HANDED_OVER) {
    entry->state = LIVE;
    entry->owned = 1;
    entry->ended = (Event){0};
  }
  pthread_mutex_unlock(lock_of(bucket));
}

static enum RuleNumber expired_rule(uint8_t type) {
  if (type == handle_type_context) return EPV_PHASE_001;
  return type == handle_type_value ? EPV_PHASE_002 : EPV_PHASE_003;
}

/* Which rule the action breaks; -1: none. */
static int broken_rule(const Entry* entry, Action action) {
  switch (entry->state) {
    case RELEASED:
      return action == ACTION_RELEASE ? EPV_OWN_001 : EPV_OWN_002;
    case EXPIRED:
      return action == ACTION_USE ? (int)expired_rule(entry->type) : EPV_OWN_003;
    case HANDED_OVER:
      return action == ACTION_RELEASE ? EPV_OWN_004 : -1;
    case LIVE:
      /* A type that counts may be lent and owned at once. */
      return action == ACTION_RELEASE && entry->owned == 0 ? EPV_OWN_003 : -1;
    default:
      return -1;
  }
}

static void act(Entry* entry, Action action) {
  if (action == ACTION_USE) {
    entry->looked_at = true;
    return;
  }
  if (entry->owned > 0) --entry->owned;
  bool stays = entry->owned > 0 || (handle_types[entry->type].counted && entry->stays);
  if (action == ACTION_RELEASE && stays) return;
  entry->state = action == ACTION_RELEASE ? RELEASED : HANDED_OVER;
  entry->owned = 0;
  entry->stays = false;
  entry->ended = event_now(action == ACTION_RELEASE ? "released" : "handed over");
}

bool handle_may(uint8_t type, const void* address, Action action) {
  if (atomic_load_explicit(&stopped, memory_order_relaxed)) return true;
  size_t bucket = bucket_of(type, address);
  pthread_mutex_lock(lock_of(bucket));
  Entry* entry = action == ACTION_USE ? find(bucket, type, address) : find_or_add(bucket, type, address);
  int rule = entry != NULL ? broken_rule(entry, action) : -1;
  Handle handle = {0};
  if (rule >= 0) {
    handle = told(entry);
  } else if (entry != NULL) {
    act(entry, action);
  }
  pthread_mutex_unlock(lock_of(bucket));
  if (rule < 0) return true;
  static const char* const done[] = {"uses", "releases", "takes over", "returns"};
  const Event* ended = &handle.events[handle.event_count - 1];
  found((enum RuleNumber)rule, &handle, "%s %s the %s %p, which was %s%s%s",
        function_name(innermost->function), done[action], handle.type, address, ended->what,
        ended->function != NO_FUNCTION ? " by " : "", function_name(ended->function));
  /* What may work by luck goes on as it would without the layer. */
  return rule == EPV_PHASE_003 && !validate_raises;
}

/* ---- what is left ---- */

typedef struct Group {
  Handle first;
  size_t count;
  size_t not_looked_at;
  bool is_status;
} Group;

static void add_to_groups(Group* groups, size_t* group_count, const Entry* entry) {
  size_t at = 0;
  while (at < *group_count) {
    const Handle* first = &groups[at].first;
    if (first->type == handle_types[entry->type].name && first->events[0].function == entry->made.function &&
        first->events[0].during == entry->made.during) {
      break;
    }
    ++at;
  }
  if (at == MOST_GROUPS) return;
  if (at == *group_count) {
    groups[(*group_count)++] = (Group){.first = told(entry), .is_status = entry->type == handle_type_status};
  }
  ++groups[at].count;
  groups[at].not_looked_at += !entry->looked_at;
}

void handles_end(bool is_gone) {
  static Group groups[MOST_GROUPS];
  size_t group_count = 0;
  for (size_t i = 0; i < BUCKETS; ++i) {
    pthread_mutex_lock(lock_of(i));
    for (Entry** at = &buckets[i]; *at != NULL;) {
      Entry* entry = *at;
      bool is_left = entry->state == LIVE && entry->owned > 0;
      if (is_left) add_to_groups(groups, &group_count, entry);
      if (is_gone) {
        *at = entry->next;
        free(entry);
      } else {
        at = &entry->next;
      }
    }
    pthread_mutex_unlock(lock_of(i));
  }
  for (size_t i = 0; i < group_count && !atomic_load(&stopped); ++i) {
    const Group* group = &groups[i];
    const Event* made = &group->first.events[0];
    if (group->is_status) {
      found(EPV_OWN_006, &group->first, "%zu status(es) of %s%s%s are neither released nor returned%s",
            group->count, function_name(made->function), made->during != NO_FUNCTION ? " in " : "",
            function_name(made->during), group->not_looked_at == group->count ? ", and never looked at" : "");
    } else {
      found(is_gone ? EPV_OWN_005 : EPV_OWN_008, &group->first, "%zu %s made by %s%s%s is not released",
            group->count, group->first.type, function_name(made->function),
            made->during != NO_FUNCTION ? " in " : "", function_name(made->during));
    }
  }
  atomic_store(&stopped, false);
}
