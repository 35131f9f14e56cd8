#include "toolkit/options.h"

#include <cstdlib>
#include <cstring>

namespace ephost {

std::map<std::string, std::string> ep_options(const Api& api, const OrtSessionOptions* options,
                                              const std::string& ep_name) {
  std::string prefix = "ep.";
  for (char c : ep_name) {
    prefix += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  prefix += '.';
  OrtKeyValuePairs* entries = nullptr;
  api.check(api.ort->GetSessionOptionsConfigEntries(options, &entries));
  const std::unique_ptr<OrtKeyValuePairs, void(ORT_API_CALL*)(OrtKeyValuePairs*)> held(
      entries, api.ort->ReleaseKeyValuePairs);
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  api.ort->GetKeyValuePairs(entries, &keys, &values, &count);
  std::map<std::string, std::string> found;
  for (size_t i = 0; i < count; ++i) {
    if (std::strncmp(keys[i], prefix.c_str(), prefix.size()) == 0) {
      found.emplace(keys[i] + prefix.size(), values[i]);
    }
  }
  return found;
}

std::string config_entry(const Api& api, const OrtSessionOptions* options, const char* key) {
  int found = 0;
  api.check(api.ort->HasSessionConfigEntry(options, key, &found));
  if (found == 0) {
    return "";
  }
  size_t size = 0;
  api.check(api.ort->GetSessionConfigEntry(options, key, nullptr, &size));
  std::string value(size, '\0');
  api.check(api.ort->GetSessionConfigEntry(options, key, value.data(), &size));
  value.resize(strnlen(value.data(), value.size()));
  return value;
}

int64_t number_option(const std::map<std::string, std::string>& options, const char* key, int64_t otherwise,
                      int64_t most) {
  const auto set = options.find(key);
  if (set == options.end() || set->second.empty()) {
    return otherwise;
  }
  char* end = nullptr;
  const long long value = std::strtoll(set->second.c_str(), &end, 10);
  if (*end != '\0' || value < 0 || value > most) {
    invalid(std::string("option ") + key + " is '" + set->second + "', not a number from 0 to " +
            std::to_string(most));
  }
  return value;
}

}  // namespace ephost
