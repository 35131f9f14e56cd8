// The execution provider of one session.
#ifndef EP_H_
#define EP_H_

#include "host.h"
#include "options.h"

namespace plugin {

// The host's pointer to an OrtEp is a pointer to one of these.
struct Ep : OrtEp {
  // The logger is the session's; it lives as long as the execution provider. Throws Error for wrong options.
  Ep(const Host& host, const OrtSessionOptions* session_options, const OrtLogger* logger);

  const Host* host;
  const OrtLogger* logger;
  Options options;
};

}  // namespace plugin

#endif
