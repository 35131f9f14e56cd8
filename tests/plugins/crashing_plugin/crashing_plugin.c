/* A plugin that ends its process while it makes its factories. */
#include <stdlib.h>

#include "ephost/plugin.h"

OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* ort_api_base,
                             const OrtLogger* default_logger, OrtEpFactory** factories, size_t max_factories,
                             size_t* num_factories) {
  (void)registered_name, (void)default_logger, (void)factories, (void)max_factories, (void)num_factories;
  (void)ort_api_base->GetApi(22)->CreateStatus(ORT_FAIL, "the last words");
  abort();
}

OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  (void)factory;
  return NULL;
}
