// A plugin around another one, whose functions throw on request, for testing hosts. It never ships.
//
// THROW_AROUND is the path of the other plugin's library. Its factory and what that makes keep working, with
// each of their functions replaced by one that throws if THROW_AT names it ("OrtEp::Compile"), and calls the
// original otherwise. THROW_WHAT says what is thrown (see `fling`). Both are read at each call.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "ephost/ephost.h"

namespace {

struct NotUtf8 : std::exception {
  const char* what() const noexcept override { return "\xff\xfe is no text"; }
};
struct First {
  virtual ~First() = default;
  int number = 1;
};
struct Deep : First, virtual std::runtime_error {
  Deep() : std::runtime_error("from below") {}
};
struct Hidden : private std::runtime_error {
  Hidden() : std::runtime_error("private") {}
};

const char* env(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

[[noreturn]] void fling() {
  const std::string what = env("THROW_WHAT");
  if (what == "number") throw 7;
  if (what == "text") throw "just text";
  if (what == "bytes") throw NotUtf8();
  if (what == "deep") throw Deep();
  if (what == "hidden") throw Hidden();
  if (what == "again") {
    try {
      throw std::invalid_argument("the second time");
    } catch (...) {
      std::rethrow_exception(std::current_exception());
    }
  }
  throw std::runtime_error("no more cheese");
}

bool is_named(const char* function) { return std::strcmp(env("THROW_AT"), function) == 0; }

void throw_if_named(const char* function) {
  if (is_named(function)) fling();
}

template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&from)[N]) {
    for (size_t i = 0; i < N; ++i) text[i] = from[i];
  }
};

template <class T>
void take(T) {}  // of arguments that are no objects of the plugin's to hand out
void take(OrtEp** ep);
void take(OrtNodeComputeInfo** infos);
void take(OrtAllocator** allocator);
void take(OrtDataTransferImpl** transfer);
void take(OrtSyncStreamImpl** stream);
void take(OrtSyncNotificationImpl** notification);

const OrtApi* api;

template <auto Member, Name kName>
struct Hook;
template <class S, class R, class... A, R (*S::*Member)(A...), Name kName>
struct Hook<Member, kName> {
  static inline R (*original)(A...);
  static R call(A... arguments) {
    if constexpr (std::is_void_v<R>) {
      original(arguments...);  // A release does so in any case: nothing else would.
      throw_if_named(kName.text);
    } else {
      throw_if_named(kName.text);
      R result = original(arguments...);
      (take(arguments), ...);
      return result;
    }
  }
  static void into(S* object) {
    if (object->*Member == nullptr || object->*Member == call) return;
    original = object->*Member;
    object->*Member = call;
  }
};
#define HOOK(object, S, member) Hook<&S::member, #S "::" #member>::into(object)

// A region of the host's thread pool, of which one part throws.
OrtStatus* compute_in_parallel(OrtKernelContext* context) {
  return api->KernelContext_ParallelFor(
      context,
      [](void*, size_t index) {
        if (index == 40) fling();
      },
      64, 8, nullptr);
}

OrtStatus* (*compute)(OrtNodeComputeInfo*, void*, OrtKernelContext*);
OrtStatus* compute_or_throw(OrtNodeComputeInfo* info, void* state, OrtKernelContext* context) {
  throw_if_named("OrtNodeComputeInfo::Compute");
  if (is_named("ParallelFor")) return compute_in_parallel(context);
  if (is_named("std::uncaught_exceptions") && std::uncaught_exceptions() != 0) {
    return api->CreateStatus(ORT_FAIL, "an exception counts as not caught");
  }
  return compute(info, state, context);
}

template <class T>
bool is_there(T** out) {
  return out != nullptr && *out != nullptr;
}

void take(OrtEp** out) {
  if (!is_there(out)) return;
  HOOK(*out, OrtEp, GetName);
  HOOK(*out, OrtEp, GetCapability);
  HOOK(*out, OrtEp, Compile);
  HOOK(*out, OrtEp, ReleaseNodeComputeInfos);
  HOOK(*out, OrtEp, OnRunStart);
  HOOK(*out, OrtEp, OnRunEnd);
  HOOK(*out, OrtEp, GetKernelRegistry);
  HOOK(*out, OrtEp, CreateAllocator);
}

void take(OrtNodeComputeInfo** out) {
  if (!is_there(out)) return;
  HOOK(*out, OrtNodeComputeInfo, CreateState);
  HOOK(*out, OrtNodeComputeInfo, ReleaseState);
  if ((*out)->Compute != compute_or_throw) compute = (*out)->Compute;
  (*out)->Compute = compute_or_throw;
}

void take(OrtAllocator** out) {
  if (!is_there(out)) return;
  HOOK(*out, OrtAllocator, Alloc);
  HOOK(*out, OrtAllocator, Free);
  HOOK(*out, OrtAllocator, Info);
}

void take(OrtDataTransferImpl** out) {
  if (!is_there(out)) return;
  HOOK(*out, OrtDataTransferImpl, Release);
  HOOK(*out, OrtDataTransferImpl, CanCopy);
  HOOK(*out, OrtDataTransferImpl, CopyTensors);
}

void take(OrtSyncStreamImpl** out) {
  if (!is_there(out)) return;
  HOOK(*out, OrtSyncStreamImpl, Release);
  HOOK(*out, OrtSyncStreamImpl, GetHandle);
  HOOK(*out, OrtSyncStreamImpl, CreateNotification);
  HOOK(*out, OrtSyncStreamImpl, Flush);
  HOOK(*out, OrtSyncStreamImpl, OnSessionRunEnd);
}

void take(OrtSyncNotificationImpl** out) {
  if (!is_there(out)) return;
  HOOK(*out, OrtSyncNotificationImpl, Release);
  HOOK(*out, OrtSyncNotificationImpl, Activate);
  HOOK(*out, OrtSyncNotificationImpl, WaitOnHost);
}

void* around;
template <class T>
T find(const char* name) {
  if (around == nullptr) around = dlopen(env("THROW_AROUND"), RTLD_NOW | RTLD_LOCAL);
  if (around == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<T>(dlsym(around, name));
}

#ifdef THROW_STATIC
struct Static {
  Static() { fling(); }
} const made_when_loaded;
#endif

}  // namespace

extern "C" __attribute__((visibility("default"))) OrtStatus* CreateEpFactories(const char* name,
                                                                               const OrtApiBase* base,
                                                                               const OrtLogger* logger,
                                                                               OrtEpFactory** factories,
                                                                               size_t room, size_t* count) {
  throw_if_named("CreateEpFactories");
  api = base->GetApi(23);
  OrtStatus* status =
      find<CreateEpApiFactoriesFn>("CreateEpFactories")(name, base, logger, factories, room, count);
  if (status != nullptr) return status;
  OrtEpFactory* factory = factories[0];
  HOOK(factory, OrtEpFactory, GetName);
  HOOK(factory, OrtEpFactory, GetVendor);
  HOOK(factory, OrtEpFactory, GetVersion);
  HOOK(factory, OrtEpFactory, GetSupportedDevices);
  HOOK(factory, OrtEpFactory, CreateEp);
  HOOK(factory, OrtEpFactory, ReleaseEp);
  HOOK(factory, OrtEpFactory, CreateAllocator);
  HOOK(factory, OrtEpFactory, ReleaseAllocator);
  HOOK(factory, OrtEpFactory, CreateDataTransfer);
  HOOK(factory, OrtEpFactory, IsStreamAware);
  HOOK(factory, OrtEpFactory, CreateSyncStreamForDevice);
  return nullptr;
}

extern "C" __attribute__((visibility("default"))) OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  OrtStatus* status = find<ReleaseEpApiFactoryFn>("ReleaseEpFactory")(factory);
  throw_if_named("ReleaseEpFactory");
  return status;
}

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(OrtSessionOptions*,
                                                                               const OrtApiBase*) {
  throw_if_named("RegisterCustomOps");
  return nullptr;
}
