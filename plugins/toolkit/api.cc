#include "toolkit/api.h"

namespace ephost {

void unsupported(const std::string& message) { throw Error(ORT_NOT_IMPLEMENTED, message); }

void Api::check(OrtStatus* status) const {
  if (status != nullptr) {
    const std::string message = ort->GetErrorMessage(status);
    const OrtErrorCode code = ort->GetErrorCode(status);
    ort->ReleaseStatus(status);
    throw Error(code, message);
  }
}

void Api::log(const OrtLogger* logger, OrtLoggingLevel level, const char* plugin,
              const std::string& text) const {
  const std::basic_string<ORTCHAR_T> file(plugin, plugin + std::char_traits<char>::length(plugin));
  if (OrtStatus* status = ort->Logger_LogMessage(logger, level, text.c_str(), file.c_str(), 0, plugin)) {
    ort->ReleaseStatus(status);
  }
}

Api api_of(const OrtApiBase* base, const char* plugin, OrtStatus** refusal) {
  *refusal = nullptr;
  const OrtApi* ort = base->GetApi(kApiVersion);
  if (ort != nullptr) {
    return {ort, ort->GetEpApi()};
  }
  if (const OrtApi* oldest = base->GetApi(1)) {
    const std::string version = std::to_string(kApiVersion);
    *refusal =
        oldest->CreateStatus(ORT_FAIL, (std::string(plugin) + ": this plugin needs a host with API version " +
                                        version + " (1." + version + ")")
                                           .c_str());
  }
  return {};
}

}  // namespace ephost
