/* Operators of the host that kernels call. */
#ifndef EPHOST_NATIVE_CALLED_OPS_H_
#define EPHOST_NATIVE_CALLED_OPS_H_

/* Has Python say, by ephost_set_op_calls, what makes and runs them; if it can. call.c's. */
extern void (*called_ops_load)(void);

#endif
