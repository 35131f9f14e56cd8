#include "host.h"

namespace plugin {

void Host::check(OrtStatus* status) const {
  if (status == nullptr) {
    return;
  }
  const OrtErrorCode code = api->GetErrorCode(status);
  std::string message;
  try {
    message = api->GetErrorMessage(status);
  } catch (...) {
    api->ReleaseStatus(status);
    throw;
  }
  api->ReleaseStatus(status);
  throw Error(code, message);
}

bool Host::logs(const OrtLogger* logger, OrtLoggingLevel severity) const {
  OrtLoggingLevel least = ORT_LOGGING_LEVEL_WARNING;
  if (OrtStatus* status = api->Logger_GetLoggingSeverityLevel(logger, &least)) {
    api->ReleaseStatus(status);
  }
  return severity >= least;
}

void Host::log(const OrtLogger* logger, OrtLoggingLevel severity, const std::string& text) const {
  const std::string file = std::string(kName);
  const std::basic_string<ORTCHAR_T> path(file.begin(), file.end());  // paths are wide on Windows
  if (OrtStatus* status = api->Logger_LogMessage(logger, severity, text.c_str(), path.c_str(), 0, kName)) {
    api->ReleaseStatus(status);
  }
}

}  // namespace plugin
