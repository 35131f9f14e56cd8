/* The way in: OrtApiBase, and the getters of the other tables. */
#include <stdatomic.h>
#include <stdio.h>

#include "abi.h"
#include "logger.h"
#include "python.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

#define SERVED EPHOST_API_VERSION_SERVED

/* What the user says that a plugin may be given: see EPHOST_ASSUME_API_VERSION in host/ephost/library.py. */
static atomic_uint assumed = SERVED;
static atomic_uint refused; /* the highest version that a plugin was denied since somebody asked */
static char assumed_texts[EPHOST_VERSIONS_AHEAD][sizeof "1.4294967295.0"];

void ephost_assume_api_version(uint32_t version) {
  if (version > SERVED && version - SERVED <= EPHOST_VERSIONS_AHEAD) {
    char* const text = assumed_texts[version - SERVED - 1];
    (void)snprintf(text, sizeof assumed_texts[0], "1.%u.0", (unsigned)version);
  }
  atomic_store(&assumed, version);
}

uint32_t ephost_refused_api_version(void) { return atomic_exchange(&refused, 0); }

const OrtApi* ORT_API_CALL SLOT(OrtApiBase, GetApi)(uint32_t version) {
  if (version >= 1 && version <= SERVED) return &ephost_api; /* the ABI only grows at its end */
  if (version > SERVED && version <= atomic_load(&assumed)) {
    host_log(ORT_LOGGING_LEVEL_WARNING,
             "a plugin gets the functions of API version " TEXT(SERVED) " for version %u, which is unknown here, "
             "since EPHOST_ASSUME_API_VERSION says so: what it calls beyond them is an error", (unsigned)version);
    return &ephost_api;
  }
  unsigned before = atomic_load(&refused);
  while (before < version && !atomic_compare_exchange_weak(&refused, &before, version)) continue;
  host_log(ORT_LOGGING_LEVEL_WARNING,
           "a plugin asked for API version %u; ephost serves versions 1 to " TEXT(SERVED), (unsigned)version);
  return NULL;
}

const char* ephost_version(void) { return EPHOST_VERSION; }

int ephost_api_version(void) { return SERVED; }

int ephost_versions_ahead(void) { return EPHOST_VERSIONS_AHEAD; }

/* The onnxruntime release that has the ABI served here: plugins parse it. Who we are is in
 * GetBuildInfoString. */
const char* ORT_API_CALL SLOT(OrtApiBase, GetVersionString)(void) {
  const unsigned version = atomic_load(&assumed);
  return version > SERVED ? assumed_texts[version - SERVED - 1] : "1." TEXT(SERVED) ".0";
}

const char* ORT_API_CALL SLOT(OrtApi, GetBuildInfoString)(void) {
  return "ephost " EPHOST_VERSION ", a host for plugin execution providers, API version " TEXT(SERVED);
}

const OrtEpApi* ORT_API_CALL SLOT(OrtApi, GetEpApi)(void) { return &ephost_ep_api; }

const OrtModelEditorApi* ORT_API_CALL SLOT(OrtApi, GetModelEditorApi)(void) {
  return &ephost_model_editor_api;
}

const OrtCompileApi* ORT_API_CALL SLOT(OrtApi, GetCompileApi)(void) { return &ephost_compile_api; }

const OrtInteropApi* ORT_API_CALL SLOT(OrtApi, GetInteropApi)(void) { return &ephost_interop_api; }

/* NULL is the ABI's answer of a build without training. */
const OrtTrainingApi* ORT_API_CALL SLOT(OrtApi, GetTrainingApi)(uint32_t version) {
  (void)version;
  return NULL;
}
