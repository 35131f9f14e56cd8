/* The ABI as the C half sees it: the public headers, the tables, and how slots and members of plugins'
 * structs are named. */
#ifndef EPHOST_NATIVE_ABI_H_
#define EPHOST_NATIVE_ABI_H_

#include <stdint.h>

#include "ephost/ephost.h"
#include "guards.h" /* generated: GUARDED(struct, member), through which every call of a plugin goes */
#include "slots.h"  /* generated: prototypes that hold the implemented slots to the ABI */

/* The name under which a slot of a table is implemented. Writing a function under this name puts it into the
 * table; the build finds it by this macro (see tools/generate.py). */
#define SLOT(table, member) ephost_##table##_##member

/* A member of a struct that a plugin filled; NULL when the plugin is older than the member, or left it out.
 * What is newer than the version that the struct says may lie behind its end: it is never read. */
#define PLUGIN_MEMBER(structure, pointer, member) \
  ((pointer)->ort_version_supported >= EPHOST_SINCE_##structure##_##member ? (pointer)->member : NULL)
/* The same of those structs that call it `version`: OrtAllocator and OrtCustomOp. */
#define VERSIONED_MEMBER(structure, pointer, member) \
  ((pointer)->version >= EPHOST_SINCE_##structure##_##member ? (pointer)->member : NULL)

#define EPHOST_API_VERSION_SERVED 32 /* the highest version that GetApi serves; newer slots are stubs */
#define EPHOST_VERSIONS_AHEAD 8      /* so many more may be assumed: EPHOST_SLOTS_BEYOND is room for them */

/* ---- tables.c (generated) ---- */

/* Behind each table lie stubs for slots of versions that nobody knows yet: a plugin that calls one gets an
 * error and not what happens to lie in memory there. */
#define EPHOST_SLOTS_BEYOND 128
#define EPHOST_TABLE(type, name)                                  \
  extern const struct name##_and_beyond {                         \
    type known;                                                   \
    OrtStatus*(ORT_API_CALL * beyond[EPHOST_SLOTS_BEYOND])(void); \
  } name##_table
EPHOST_TABLE(OrtApiBase, ephost_api_base);
EPHOST_TABLE(OrtApi, ephost_api);
EPHOST_TABLE(OrtEpApi, ephost_ep_api);
EPHOST_TABLE(OrtModelEditorApi, ephost_model_editor_api);
EPHOST_TABLE(OrtCompileApi, ephost_compile_api);
EPHOST_TABLE(OrtInteropApi, ephost_interop_api);
#define ephost_api_base (ephost_api_base_table.known)
#define ephost_api (ephost_api_table.known)
#define ephost_ep_api (ephost_ep_api_table.known)
#define ephost_model_editor_api (ephost_model_editor_api_table.known)
#define ephost_compile_api (ephost_compile_api_table.known)
#define ephost_interop_api (ephost_interop_api_table.known)

#endif
