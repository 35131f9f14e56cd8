/* The application's callbacks for the data of EPContext nodes, on their way from session options to EPs.
 * Version 31 has them in its tables. Versions 28 to 30 had them as experimental functions, which plugins look
 * up by name: the names below, in which the version is that of the signature. */
#include <string.h>

#include "abi.h"
#include "heap.h"
#include "options.h"
#include "python.h"
#include "status.h"

struct OrtEpContextConfig {
  ContextData data;
};

OrtStatus* ORT_API_CALL SLOT(OrtApi,
                             SessionOptions_SetEpContextDataReadFunc)(OrtSessionOptions* options,
                                                                      OrtReadNamedBufferFunc read_func,
                                                                      void* state) {
  REQUIRE_ARG(options != NULL);
  options->context_data.read = read_func;
  options->context_data.read_state = read_func != NULL ? state : NULL;
  return NULL;
}

void ephost_session_options_set_data_writer(OrtSessionOptions* options, OrtWriteNamedBufferFunc write_func,
                                            void* state) {
  options->context_data.write = write_func;
  options->context_data.write_state = state;
}

static _Thread_local size_t taken;

size_t ephost_context_configs_taken(void) { return taken; }

OrtStatus* ORT_API_CALL SLOT(OrtEpApi,
                             SessionOptions_GetEpContextConfig)(const OrtSessionOptions* session_options,
                                                                OrtEpContextConfig** config) {
  REQUIRE_ARG(config != NULL);
  REQUIRE_ARG(session_options != NULL);
  OrtEpContextConfig* made = host_calloc(1, sizeof *made);
  if (made == NULL) return status_no_memory();
  handle_count(HANDLE_OTHER, +1);
  made->data = session_options->context_data;
  ++taken;
  *config = made;
  return NULL;
}

void ORT_API_CALL SLOT(OrtEpApi, ReleaseEpContextConfig)(OrtEpContextConfig* config) {
  if (config == NULL) return;
  handle_count(HANDLE_OTHER, -1);
  host_free(config);
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi,
                             EpContextConfig_GetEpContextDataReadFunc)(const OrtEpContextConfig* config,
                                                                       OrtReadNamedBufferFunc* read_func,
                                                                       void** state) {
  REQUIRE_ARG(config != NULL && read_func != NULL && state != NULL);
  *read_func = config->data.read;
  *state = config->data.read_state;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi,
                             EpContextConfig_GetEpContextDataWriteFunc)(const OrtEpContextConfig* config,
                                                                        OrtWriteNamedBufferFunc* write_func,
                                                                        void** state) {
  REQUIRE_ARG(config != NULL && write_func != NULL && state != NULL);
  *write_func = config->data.write;
  *state = config->data.write_state;
  return NULL;
}

/* ---- functions by name ----------------------------------------------------------------------------------
 */

#define EXPERIMENTAL(table, member) \
  { #table "_" #member "_SinceV28", (OrtExperimentalFnPtr)SLOT(table, member) }

static const struct {
  const char* name;
  OrtExperimentalFnPtr function;
} experimental[] = {
    EXPERIMENTAL(OrtApi, SessionOptions_SetEpContextDataReadFunc),
    EXPERIMENTAL(OrtEpApi, SessionOptions_GetEpContextConfig),
    EXPERIMENTAL(OrtEpApi, ReleaseEpContextConfig),
    EXPERIMENTAL(OrtEpApi, EpContextConfig_GetEpContextDataReadFunc),
    EXPERIMENTAL(OrtEpApi, EpContextConfig_GetEpContextDataWriteFunc),
};

/* NULL is the ABI's answer for a name that is not known. */
OrtExperimentalFnPtr ORT_API_CALL SLOT(OrtApi, GetExperimentalFunction)(const char* name) {
  if (name == NULL) return NULL;
  for (size_t i = 0; i < sizeof experimental / sizeof experimental[0]; ++i) {
    if (strcmp(experimental[i].name, name) == 0) return experimental[i].function;
  }
  return NULL;
}
