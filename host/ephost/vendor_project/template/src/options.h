// What an application asks of the execution provider, as the session's options say it.
#ifndef OPTIONS_H_
#define OPTIONS_H_

#include "host.h"

namespace plugin {

struct Options {
  // min_group: groups of fewer nodes than this are left to others. A device that is far away wants more than
  // one.
  size_t min_group = 1;
};

// Puts the options with their defaults into pairs, which devices publish: tools show them, and refuse others.
void publish_defaults(KeyValuePairs* pairs);

// Reads the entries "ep.my_ep.KEY". One that we do not know is a warning in the log.
// Throws Error (ORT_INVALID_ARGUMENT) that names the option, what it is, and what it may be.
Options read_options(const Host& host, const OrtSessionOptions* session_options, const OrtLogger* logger);

}  // namespace plugin

#endif
