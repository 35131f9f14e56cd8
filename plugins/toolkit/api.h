// The host's tables, and the border between its statuses and our exceptions.
#ifndef EPHOST_TOOLKIT_API_H_
#define EPHOST_TOOLKIT_API_H_

#include <new>

#include "toolkit/types.h"

namespace ephost {

// The lowest API version that has all functions that the toolkit calls.
inline constexpr uint32_t kApiVersion = 24;

[[noreturn]] void unsupported(const std::string& message);  // Throws Error: ORT_NOT_IMPLEMENTED.

// The host's tables, with errors as exceptions.
struct Api {
  const OrtApi* ort = nullptr;
  const OrtEpApi* ep = nullptr;

  // Throws Error for a status, and releases it.
  void check(OrtStatus* status) const;
  // The other way, for the end of each function that the host calls: never throws.
  OrtStatus* status(OrtErrorCode code, const char* message) const noexcept {
    return ort->CreateStatus(code, message);
  }
  // Writes to a log of the host's, under the plugin's name. What the host answers is of no interest.
  void log(const OrtLogger* logger, OrtLoggingLevel level, const char* plugin, const std::string& text) const;
};

// Pairs for the host, released with this.
class KeyValuePairs {
 public:
  explicit KeyValuePairs(const Api& api) : api_(api.ort) { api_->CreateKeyValuePairs(&pairs_); }
  ~KeyValuePairs() { api_->ReleaseKeyValuePairs(pairs_); }
  KeyValuePairs(const KeyValuePairs&) = delete;
  KeyValuePairs& operator=(const KeyValuePairs&) = delete;
  void add(const char* key, const std::string& value) { api_->AddKeyValuePair(pairs_, key, value.c_str()); }
  const OrtKeyValuePairs* get() const { return pairs_; }

 private:
  const OrtApi* api_;
  OrtKeyValuePairs* pairs_ = nullptr;
};

// The tables, from what CreateEpFactories gets; their `ort` is null where the host is too old. `refusal` is
// then the status to return, or null where there is not even a way to make one.
Api api_of(const OrtApiBase* base, const char* plugin, OrtStatus** refusal);

// Runs a function and makes a status of what it throws. Each function that the host calls has its body in
// this.
template <typename Function>
OrtStatus* guard(const Api& api, Function&& function) noexcept {
  try {
    function();
    return nullptr;
  } catch (const Error& error) {
    return api.status(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return api.status(ORT_FAIL, "out of memory");
  } catch (const std::exception& error) {
    return api.status(ORT_FAIL, error.what());
  } catch (...) {
    return api.status(ORT_FAIL, "an exception of an unknown type");
  }
}

}  // namespace ephost

#endif
