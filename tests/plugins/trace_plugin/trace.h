/* What trace_plugin's files share: the list of what the host has called, and the modes. */
#ifndef TRACE_PLUGIN_TRACE_H_
#define TRACE_PLUGIN_TRACE_H_

#define API_VERSION 30
#include "../../../plugins/common/registry.h"

/* Adds a line to the list. */
void trace(const char* format, ...) __attribute__((format(printf, 1, 2)));

/* Whether TRACE_PLUGIN in the environment has that word; `number_of` gives the number in "word=number". */
bool mode(const char* word);
int number_of(const char* word, int otherwise);

#endif
