/* The two symbols of a plugin library: the real one is opened, and what it makes is wrapped. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"

typedef OrtStatus*(ORT_API_CALL* ReleaseFunction)(OrtEpFactory*);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Settings settings; /* the texts are the last time's until they are read again */
static void* library;
static size_t factory_count; /* that were made and not released */
static CreateEpApiFactoriesFn real_create;
static ReleaseFunction real_release;
static const OrtApiBase* real_base;
static uint32_t newest;
static char problem[4096];

uint32_t host_version(void) { return newest; }

/* Versions of onnxruntime are 1.N, with the API version N. */
static uint32_t version_of(const char* text) {
  const char* dot = text != NULL ? strchr(text, '.') : NULL;
  unsigned long version = dot != NULL ? strtoul(dot + 1, NULL, 10) : 0;
  return version < ORT_API_VERSION ? (uint32_t)version : ORT_API_VERSION;
}

/* A version that is newer than the layer gets the host's own table, of which the layer sees nothing. */
static const OrtApi* ORT_API_CALL base_get_api(uint32_t version) {
  Field inputs[] = {{.integer = version}};
  CALL call = call_begin(FUNCTION_GET_API, inputs);
  const OrtApi* real = real_base->GetApi(version);
  const OrtApi* result = version <= ORT_API_VERSION ? copy_of_OrtApi(real) : real;
  if (validates) check_asked(version, real != NULL);
  if (real != NULL && result == real) {
    static const char text[] = "unseen: the plugin has a table that is newer than the layer";
    trace_note(text, sizeof text - 1);
  }
  Field outputs[] = {{.pointer = real}};
  call_end(&call, NULL, outputs);
  return result;
}

static const char* ORT_API_CALL base_get_version_string(void) {
  CALL call = call_begin(FUNCTION_GET_VERSION_STRING, NULL);
  const char* version = real_base->GetVersionString();
  Field outputs[] = {{.string = version}};
  call_end(&call, NULL, outputs);
  return version;
}

static const OrtApiBase base_copy = {.GetApi = base_get_api, .GetVersionString = base_get_version_string};

/* ---- kernels of registries ---- */

typedef struct KernelMaker {
  struct KernelMaker* next;
  OrtKernelCreateFunc function;
  void* state;
} KernelMaker;
static KernelMaker* makers; /* a registry may be read as long as the library is there */

void replace_create_func(OrtKernelCreateFunc* function, void** state) {
  if (*function == NULL) return;
  pthread_mutex_lock(&mutex);
  KernelMaker* maker = makers;
  while (maker != NULL && (maker->function != *function || maker->state != *state)) maker = maker->next;
  if (maker == NULL && (maker = malloc(sizeof *maker)) != NULL) {
    *maker = (KernelMaker){makers, *function, *state};
    makers = maker;
  }
  pthread_mutex_unlock(&mutex);
  if (maker == NULL) return;
  *function = layer_create_kernel;
  *state = maker;
}

/* The EP that a kernel is made for, which says whose it is. */
static const void* ep_of(const OrtKernelInfo* info) {
  const OrtEp* ep = NULL;
  const OrtEpApi* api = host_version() >= 24 ? real_OrtApi->GetEpApi() : NULL;
  OrtStatus* status = api != NULL ? api->KernelInfo_GetEp(info, &ep) : NULL;
  if (status != NULL) real_OrtApi->ReleaseStatus(status);
  return ep;
}

static _Thread_local const OrtKernelImpl*
    hosts_kernel; /* the last one that the plugin had made on this thread */

void remember_hosts_kernel(const OrtKernelImpl* kernel) { hosts_kernel = kernel; }

OrtStatus* ORT_API_CALL layer_create_kernel(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) {
  const KernelMaker* maker = state;
  Field inputs[] = {{.pointer = maker->state}, {.pointer = info}};
  CALL call = call_begin(FUNCTION_KERNEL_CREATE, inputs);
  CHECKED checked = {.on = validates};
  if (checked.on) (void)check_begin(&checked, FUNCTION_KERNEL_CREATE, inputs);
  OrtStatus* status = maker->function(maker->state, info, kernel);
  Field outputs[] = {{.pointer = status == NULL && kernel != NULL ? *kernel : NULL}};
  call_end(&call, status, outputs);
  /* A host may know its kernels by their members. */
  bool is_hosts = status == NULL && *kernel != NULL && (*kernel == hosts_kernel || (*kernel)->flags != 0);
  if (status == NULL && *kernel != NULL && !is_hosts) hook_OrtKernelImpl(*kernel, ep_of(info));
  hosts_kernel = NULL;
  if (checked.on) {
    if (status == NULL) check_made("the kernel", *kernel);
    if (status == NULL && *kernel != NULL) outputs_declared_of_kernel(*kernel, info);
    status = check_end(&checked, status, inputs, NULL);
  }
  return status;
}

/* ---- the symbols ---- */

/* Opens the trace and the real plugin; returns what went wrong, or NULL. With the lock. */
static const char* start(void) {
  if (library != NULL) return NULL;
  const char* wrong = settings_read(&settings);
  if (wrong == NULL) wrong = trace_open(&settings);
  if (wrong == NULL) wrong = findings_open(&settings);
  if (wrong != NULL) return wrong;
  shows = settings.graphs;
  void* opened = dlopen(settings.plugin, RTLD_NOW | RTLD_LOCAL);
  if (opened == NULL) {
    (void)snprintf(problem, sizeof problem, "%s", dlerror());
    return problem;
  }
  void* create = dlsym(opened, "CreateEpFactories");
  void* release = dlsym(opened, "ReleaseEpFactory");
  if (create == NULL || release == NULL) {
    (void)snprintf(problem, sizeof problem, "%.4000s has no symbol %s", settings.plugin,
                   create == NULL ? "CreateEpFactories" : "ReleaseEpFactory");
    dlclose(opened);
    return problem;
  }
  memcpy(&real_create, &create, sizeof create);
  memcpy(&real_release, &release, sizeof release);
  library = opened;
  return NULL;
}

/* With the last factory the plugin goes. The layer itself stays in the process (-z nodelete): a plugin that
 * does, too, keeps the tables that it got. */
static void stop(void) {
  dlclose(library);
  library = NULL;
  if (validates) {
    void* still = dlopen(settings.plugin, RTLD_NOW | RTLD_NOLOAD);
    if (still != NULL) dlclose(still);
    handles_end(still == NULL);
    findings_close();
  }
  trace_close();
}

OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* ort_api_base,
                             const OrtLogger* default_logger, OrtEpFactory** factories, size_t max_factories,
                             size_t* num_factories) {
  pthread_mutex_lock(&mutex);
  real_base = ort_api_base;
  newest = version_of(ort_api_base->GetVersionString());
  const char* wrong = start();
  pthread_mutex_unlock(&mutex);
  if (wrong != NULL) return ort_api_base->GetApi(1)->CreateStatus(ORT_FAIL, wrong);
  if (real_OrtApi == NULL) (void)copy_of_OrtApi(ort_api_base->GetApi(newest));
  Field inputs[] = {{.string = registered_name}, {.integer = (int64_t)max_factories}};
  CALL call = call_begin(FUNCTION_CREATE_EP_FACTORIES, inputs);
  CHECKED checked = {.on = validates};
  if (checked.on) {
    findings_log_to(default_logger);
    (void)check_begin(&checked, FUNCTION_CREATE_EP_FACTORIES, inputs);
  }
  OrtStatus* status =
      real_create(registered_name, &base_copy, default_logger, factories, max_factories, num_factories);
  Field outputs[] = {{.integer = status == NULL ? (int64_t)*num_factories : 0}};
  call_end(&call, status, outputs);
  for (size_t i = 0; status == NULL && i < *num_factories && i < max_factories; ++i) {
    if (checked.on) {
      check_made("a factory", factories[i]);
      check_once(factories[i], (const void* const*)factories, i);
    }
    if (factories[i] != NULL) hook_OrtEpFactory(factories[i], NULL);
  }
  if (checked.on) {
    if (status == NULL) check_room("factories", *num_factories, max_factories);
    status = check_end(&checked, status, inputs, NULL);
  }
  pthread_mutex_lock(&mutex);
  factory_count += status == NULL ? *num_factories : 0;
  if (factory_count == 0) stop();
  pthread_mutex_unlock(&mutex);
  return status;
}

OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  Field inputs[] = {{.pointer = factory}};
  CALL call = call_begin(FUNCTION_RELEASE_EP_FACTORY, inputs);
  CHECKED checked = {.on = validates};
  if (checked.on) (void)check_begin(&checked, FUNCTION_RELEASE_EP_FACTORY, inputs);
  unhook(factory);
  OrtStatus* status = real_release(factory);
  call_end(&call, status, NULL);
  if (checked.on) status = check_end(&checked, status, inputs, NULL);
  pthread_mutex_lock(&mutex);
  if (factory_count > 0 && --factory_count == 0) stop();
  pthread_mutex_unlock(&mutex);
  return status;
}
