// What a session's options say to an EP.
#ifndef EPHOST_TOOLKIT_OPTIONS_H_
#define EPHOST_TOOLKIT_OPTIONS_H_

#include <map>

#include "toolkit/api.h"

namespace ephost {

// The options of one EP, by key: hosts keep them as "ep.<the EP's name in lower case>.<key>".
std::map<std::string, std::string> ep_options(const Api& api, const OrtSessionOptions* options,
                                              const std::string& ep_name);

// An entry of the session's configuration; "" if it is not set.
std::string config_entry(const Api& api, const OrtSessionOptions* options, const char* key);

// The whole number from 0 to `most` that an option is; `otherwise` where it is not set. Throws Error
// (ORT_INVALID_ARGUMENT) that names the key.
int64_t number_option(const std::map<std::string, std::string>& options, const char* key, int64_t otherwise,
                      int64_t most);

}  // namespace ephost

#endif
