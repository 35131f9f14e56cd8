// From the host's graph to ours.
#ifndef EPHOST_COMPILER_IMPORT_H_
#define EPHOST_COMPILER_IMPORT_H_

#include "graph.h"

namespace ephost {

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
};

// Runs a function and makes a status of what it throws.
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
  }
}

// Imports a graph with its subgraphs. Constants are not copied: their `owner` is null, their memory the
// host's. `parent` is null or the imported graph around it. Throws Error where the host fails or says what
// cannot be.
std::unique_ptr<Graph> import_graph(const Api& api, const OrtGraph* graph, Graph* parent = nullptr);

// An OrtValue that holds a tensor, not copied. Null where the element type has no whole number of bytes.
TensorPtr import_tensor(const Api& api, const OrtValue* value);

}  // namespace ephost

#endif
