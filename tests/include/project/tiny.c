/* Refuses to be loaded, with a number from the C++ half. */
#ifdef _WIN32
/* Without the attribute that plugin.h gives the two functions, the package's list of symbols must export
 * them. */
#include "ephost/ephost.h"
#else
#include "ephost/plugin.h"
#endif

extern int helper(void);

OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* ort_api_base,
                             const OrtLogger* default_logger, OrtEpFactory** factories, size_t max_factories,
                             size_t* num_factories) {
  (void)registered_name, (void)default_logger, (void)factories, (void)max_factories;
  *num_factories = 0;
  return helper() == 42 ? ort_api_base->GetApi(ORT_API_VERSION)->CreateStatus(ORT_FAIL, "42") : NULL;
}

OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  (void)factory;
  return NULL;
}
