/* trace_plugin's import of external memory. */
#ifndef TRACE_PLUGIN_INTEROP_H_
#define TRACE_PLUGIN_INTEROP_H_

#include "trace.h"

/* For OrtEpFactory. */
OrtStatus* ORT_API_CALL importer_create(OrtEpFactory* this_ptr, const OrtEpDevice* ep_device,
                                        OrtExternalResourceImporterImpl** out);
OrtStatus* ORT_API_CALL interop_init(OrtEpFactory* this_ptr, const OrtEpDevice* ep_device,
                                     const OrtGraphicsInteropConfig* config);
OrtStatus* ORT_API_CALL interop_deinit(OrtEpFactory* this_ptr, const OrtEpDevice* ep_device);

/* What an application would do with the device, through the host's OrtInteropApi; written down. */
void interop_use(const OrtApi* api, const OrtEpDevice* ep_device);

#endif
