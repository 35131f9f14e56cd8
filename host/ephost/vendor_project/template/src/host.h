// The border to the host: its tables, its statuses as exceptions here, and our exceptions as statuses there.
//
// The ABI is C. No exception may leave a function that the host calls, so each of them has its body in
// guard(); and each status that the host gives is either handed on or released, which Host::check() sees to.
#ifndef HOST_H_
#define HOST_H_

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>

#include "ephost/ephost.h"

namespace plugin {

// What users choose the execution provider by, and the prefix of its options: ep.my_ep.KEY.
inline constexpr char kName[] = "my_ep";
inline constexpr char kVendor[] = "My Company";
inline constexpr char kVersion[] = PLUGIN_VERSION;  // from pyproject.toml

// The lowest version of the API that has all we call: a host that is older gives no table for it, and one
// that is newer does. Every struct that we hand out says the same number, and the host reads no member that
// is newer.
inline constexpr uint32_t kApiVersion = 24;

// An error that the host is told: the code decides what an application sees. ORT_EP_FAIL in a run lets the
// host go on without the plugin, where the application allows it; others are raised.
class Error : public std::runtime_error {
 public:
  Error(OrtErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  OrtErrorCode code() const { return code_; }

 private:
  OrtErrorCode code_;
};

// The tables of one host. A process may have two, so nothing of this is global: it is in the factory.
struct Host {
  const OrtApi* api = nullptr;
  const OrtEpApi* ep_api = nullptr;

  // Throws Error for a status, and releases it.
  void check(OrtStatus* status) const;
  // Whether messages of this severity are of interest: ask before a long text is made.
  bool logs(const OrtLogger* logger, OrtLoggingLevel severity) const;
  // A message in the log of a session or of the host. That it cannot be written is no error.
  void log(const OrtLogger* logger, OrtLoggingLevel severity, const std::string& text) const;
};

// Pairs of the host's, released with this.
class KeyValuePairs {
 public:
  explicit KeyValuePairs(const OrtApi* api) : api_(api) { api_->CreateKeyValuePairs(&pairs_); }
  KeyValuePairs(const OrtApi* api, OrtKeyValuePairs* pairs) : api_(api), pairs_(pairs) {}
  ~KeyValuePairs() { api_->ReleaseKeyValuePairs(pairs_); }
  KeyValuePairs(const KeyValuePairs&) = delete;
  KeyValuePairs& operator=(const KeyValuePairs&) = delete;

  void add(const std::string& key, const std::string& value) {
    api_->AddKeyValuePair(pairs_, key.c_str(), value.c_str());
  }
  const OrtKeyValuePairs* get() const { return pairs_; }

 private:
  const OrtApi* api_;
  OrtKeyValuePairs* pairs_ = nullptr;
};

// Does something and makes a status of what it throws; NULL when it throws nothing. The caller owns the
// status.
template <typename Function>
OrtStatus* guard(const OrtApi* api, Function&& function) noexcept {
  try {
    function();
    return nullptr;
  } catch (const Error& error) {
    return api->CreateStatus(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return api->CreateStatus(ORT_FAIL, "my_ep: out of memory");
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return api->CreateStatus(ORT_FAIL, "my_ep: an exception of an unknown type");
  }
}

}  // namespace plugin

#endif
