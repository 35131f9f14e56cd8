// Visible in its object file on purpose, as functions of linked static libraries often are.
#include "ephost/ephost.h"

#if defined(__GNUC__) && !defined(_WIN32)
#define VISIBLE __attribute__((visibility("default")))
#else
#define VISIBLE
#endif

extern "C" VISIBLE int helper(void) { return 42; }
