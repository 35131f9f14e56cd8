/* What Python calls in the C half, through cffi. Parsed by cffi: plain declarations only. */
#ifndef EPHOST_PYTHON_H_
#define EPHOST_PYTHON_H_

/* ---- status, handles ---- */
int64_t ephost_live_handles(int kind);
void ephost_fail_allocation_after(int64_t count);

/* ---- objects: values, type infos, memory, devices, options, loggers ---- */

/* ---- graphs, kernel registry ---- */

/* ---- plans and runs ---- */

#endif
