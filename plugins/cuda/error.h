/* Errors inside the plugin are exceptions; none leaves it: every function that the host calls has its body in
 * `guarded`, which turns them into statuses. */
#ifndef EPHOST_CUDA_ERROR_H_
#define EPHOST_CUDA_ERROR_H_

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "../compiler/types.h"

namespace ephost_cuda {

/* The lowest API version that has all we call; see plugins/common/factory.h. */
constexpr uint32_t kApiVersion = 24;

class Error : public ephost::Error {
 public:
  explicit Error(const std::string& text, OrtErrorCode code = ORT_EP_FAIL) : ephost::Error(code, text) {}
};

/* Calls `body`. Returns NULL, or a status that the caller owns. */
template <typename Body>
OrtStatus* guarded(const OrtApi* api, Body body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const ephost::Error& error) {
    return api->CreateStatus(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return api->CreateStatus(ORT_FAIL, "cuda: the host's memory is full");
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_EP_FAIL, error.what());
  } catch (...) {
    return api->CreateStatus(ORT_EP_FAIL, "cuda: an unknown exception");
  }
}

/* Throws what a status of the host says, and releases it. */
inline void check(const OrtApi* api, OrtStatus* status) {
  if (status == nullptr) {
    return;
  }
  const std::string text = api->GetErrorMessage(status);
  const OrtErrorCode code = api->GetErrorCode(status);
  api->ReleaseStatus(status);
  throw Error(text, code);
}

}  // namespace ephost_cuda

#endif
