#include "options.h"

#include <charconv>

namespace plugin {
namespace {

constexpr char kMinGroup[] = "min_group";

size_t read_number(const std::string& key, const std::string& text, size_t least) {
  size_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end || number < least) {
    throw Error(ORT_INVALID_ARGUMENT, "my_ep: the option " + key + " is '" + text +
                                          "', and should be a whole number from " + std::to_string(least) +
                                          " on");
  }
  return number;
}

}  // namespace

void publish_defaults(KeyValuePairs* pairs) { pairs->add(kMinGroup, std::to_string(Options().min_group)); }

Options read_options(const Host& host, const OrtSessionOptions* session_options, const OrtLogger* logger) {
  OrtKeyValuePairs* entries = nullptr;
  host.check(host.api->GetSessionOptionsConfigEntries(session_options, &entries));
  const KeyValuePairs owned(host.api, entries);
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  host.api->GetKeyValuePairs(owned.get(), &keys, &values, &count);

  Options options;
  const std::string prefix = std::string("ep.") + kName + ".";
  for (size_t i = 0; i < count; ++i) {
    const std::string entry = keys[i];
    if (entry.compare(0, prefix.size(), prefix) != 0) {
      continue;  // the session's own, or another execution provider's
    }
    const std::string key = entry.substr(prefix.size());
    if (key == kMinGroup) {
      options.min_group = read_number(key, values[i], 1);
    } else {
      host.log(logger, ORT_LOGGING_LEVEL_WARNING, "my_ep: there is no option " + key.substr(0, 100));
    }
  }
  return options;
}

}  // namespace plugin
