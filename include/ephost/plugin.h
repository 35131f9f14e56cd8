/* What a plugin library exports. Include this in the one file of a plugin that defines the two functions
   below; a host must not (it finds them with dlsym or GetProcAddress, and its own functions could collide).

   Both symbols have C linkage and exactly these names. Everything else in the library should stay hidden:
   build with -fvisibility=hidden and a version script, or with ephost_add_plugin() of the CMake package. */
#ifndef EPHOST_PLUGIN_H_
#define EPHOST_PLUGIN_H_

#include "ephost/ephost.h"

/* Makes a symbol visible outside a library that hides its symbols by default. */
#if defined(_WIN32)
#define EPHOST_PLUGIN_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define EPHOST_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define EPHOST_PLUGIN_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Called once for each registration of the library, and again when it is registered under a second name.

   registered_name  the name the user chose; valid during the call only, so copy it to keep it.
   ort_api_base     the host's entry point; stays valid until the library is unloaded. GetApi(n) returns NULL
                    when the host is older than n: return an error then, or make do with a smaller n.
   default_logger   owned by the host, valid until the library is unloaded.
   factories        an array with room for max_factories; fill it from the front and set *num_factories to at
                    least 1. The plugin allocates each factory; the host hands each back to ReleaseEpFactory.

   Returns NULL for success. With an error the host ignores the array and closes the library, so release first
   what was made. No exception may leave the function. */
EPHOST_PLUGIN_EXPORT OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* ort_api_base,
                                                  const OrtLogger* default_logger, OrtEpFactory** factories,
                                                  size_t max_factories, size_t* num_factories);

/* Frees one factory from CreateEpFactories. The host calls it once for each, after everything that the
   factory made (EPs, allocators, data transfers, streams) has been released, and before it unloads the
   library. */
EPHOST_PLUGIN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory);

#ifdef __cplusplus
}
#endif

#endif
