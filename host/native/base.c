/* The way in: OrtApiBase, and the getters of the other tables. */
#include "native.h"
#include "python.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const OrtApi* ORT_API_CALL SLOT(OrtApiBase, GetApi)(uint32_t version) {
  if (version >= 1 && version <= EPHOST_API_VERSION_SERVED)
    return &ephost_api; /* the ABI only grows at its end */
  host_log(ORT_LOGGING_LEVEL_WARNING,
           "a plugin asked for API version %u; ephost serves versions 1 to " TEXT(EPHOST_API_VERSION_SERVED),
           (unsigned)version);
  return NULL;
}

int ephost_api_version(void) { return EPHOST_API_VERSION_SERVED; }

/* The onnxruntime release that has the ABI served here: plugins parse it. Who we are is in
 * GetBuildInfoString. */
const char* ORT_API_CALL SLOT(OrtApiBase, GetVersionString)(void) {
  return "1." TEXT(EPHOST_API_VERSION_SERVED) ".0";
}

const char* ORT_API_CALL SLOT(OrtApi, GetBuildInfoString)(void) {
  return "ephost " EPHOST_VERSION
         ", a host for plugin execution providers, API version " TEXT(EPHOST_API_VERSION_SERVED);
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

/* NULL is the ABI's answer for a name that is not known; ephost has no experimental functions. */
OrtExperimentalFnPtr ORT_API_CALL SLOT(OrtApi, GetExperimentalFunction)(const char* name) {
  (void)name;
  return NULL;
}
