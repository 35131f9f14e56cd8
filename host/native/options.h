/* Options of sessions and of runs. */
#ifndef EPHOST_NATIVE_OPTIONS_H_
#define EPHOST_NATIVE_OPTIONS_H_

#include <stdatomic.h>

#include "abi.h"

/* The application's callbacks for the data of EPContext nodes, each NULL where there is none. Their state is
 * borrowed. */
typedef struct ContextData {
  OrtReadNamedBufferFunc read;
  void* read_state;
  OrtWriteNamedBufferFunc write;
  void* write_state;
} ContextData;

struct OrtSessionOptions {
  OrtKeyValuePairs* config;
  bool mem_pattern;
  ExecutionMode execution_mode;
  const void* weightless_data; /* borrowed */
  size_t weightless_size;
  OrtCustomOpDomain** domains; /* the array is owned, the domains are borrowed */
  size_t domain_count;
  ContextData context_data;
};

struct OrtRunOptions {
  OrtKeyValuePairs* config;
  char* tag;
  int log_severity;
  int log_verbosity;
  atomic_bool terminate;
  atomic_bool only_fetches;   /* run nothing but what the wanted outputs need */
  OrtSyncStream* sync_stream; /* borrowed */
};

#endif
