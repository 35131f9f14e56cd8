/* What Python calls in the C half, through cffi. Parsed by cffi: plain declarations only. */
#ifndef EPHOST_PYTHON_H_
#define EPHOST_PYTHON_H_

/* ---- tables (generated) ---- */

typedef struct EphostSlot {
  const char* table;
  const char* member;
  const char* implementation; /* "native", "python" or "missing" */
  uint32_t since;             /* the API version in which the slot appeared */
} EphostSlot;
size_t ephost_slot_count(void);
const EphostSlot* ephost_slot(size_t index);
uint64_t ephost_stub_calls(size_t index);

typedef struct EphostMember {
  const char* structure;
  const char* member;
  uint32_t since;
} EphostMember;
size_t ephost_member_count(void);
const EphostMember* ephost_member(size_t index);

/* ---- status, handles ---- */
int64_t ephost_live_handles(int kind);

/* ---- objects: values, type infos, memory, devices, options, loggers ---- */

/* ---- graphs, kernel registry ---- */

/* ---- plans and runs ---- */

#endif
