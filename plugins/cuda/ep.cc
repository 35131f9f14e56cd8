/* Sessions: what an EP is asked besides claiming and compiling. */
#include "cuda/ep.h"

#include "cuda/memory.h"
#include "toolkit/options.h"

namespace ephost::cuda {

namespace {

Ep& self(OrtEp* base) { return *reinterpret_cast<Ep*>(base); }
const Factory& self(const OrtEpFactory* base) { return *reinterpret_cast<const Factory*>(base); }

const char* ORT_API_CALL get_name(const OrtEp*) { return kEpName; }

OrtStatus* ORT_API_CALL create_allocator(OrtEp* base, const OrtMemoryInfo* info, OrtAllocator** out) {
  const Ep& ep = self(base);
  *out = nullptr;
  return guard(ep.factory->api, [&] { *out = make_allocator(*ep.factory, info, 0, ep.own_pool.get()); });
}

OrtStatus* ORT_API_CALL create_stream(OrtEp* base, const OrtMemoryDevice*, OrtSyncStreamImpl** out) {
  const Ep& ep = self(base);
  *out = nullptr;
  return guard(ep.factory->api,
               [&] { *out = make_stream(*ep.factory, ep.device(), ep.options.user_stream); });
}

/* A run on a GPU that was lost ends here, with what it was lost by. */
OrtStatus* ORT_API_CALL on_run_start(OrtEp* base, const OrtRunOptions*) {
  const Ep& ep = self(base);
  return guard(ep.factory->api, [&] { ep.device().check_alive(); });
}

/* The one place where a run waits, unless the caller asked for it not to. */
OrtStatus* ORT_API_CALL on_run_end(OrtEp* base, const OrtRunOptions*, bool sync_stream) {
  const Ep& ep = self(base);
  return guard(ep.factory->api, [&] {
    if (sync_stream) {
      const Scope scope(ep.device());
      ep.device().synchronize();
    }
  });
}

OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* base, const OrtHardwareDevice* const* hardware,
                                  const OrtKeyValuePairs* const*, size_t num_devices,
                                  const OrtSessionOptions* session_options, const OrtLogger* logger,
                                  OrtEp** out) {
  const Factory& factory = self(base);
  *out = nullptr;
  return guard(factory.api, [&] {
    if (num_devices != 1) {
      invalid("cuda: an execution provider works on one GPU; for several, add the provider once for each");
    }
    auto ep = std::make_unique<Ep>();
    Obstacle why;
    ep->factory = &factory;
    ep->logger = logger;
    ep->mine = factory.match(hardware[0], &why);
    if (ep->mine == nullptr) {
      throw Error(ORT_EP_FAIL, "cuda: " + why.text);
    }
    for (const auto& [key, value] : ep_options(factory.api, session_options, kEpName)) {
      ep->options.set(key, value);
    }
    const Scope scope(ep->device()); /* a GPU that cannot be used is an error now, not in the first run */
    if (ep->options.memory_limit != 0) {
      ep->own_pool = std::make_unique<Pool>(ep->device(), ep->options.memory_limit);
    }
    OrtEp& own = ep->base;
    own.ort_version_supported = kApiVersion;
    own.GetName = get_name;
    offer_compiling(&own);
    own.OnRunStart = on_run_start;
    own.OnRunEnd = on_run_end;
    own.CreateAllocator = create_allocator;
    own.CreateSyncStreamForDevice = create_stream;
    *out = &ep.release()->base;
  });
}

void ORT_API_CALL release_ep(OrtEpFactory*, OrtEp* base) {
  if (base == nullptr) {
    return;
  }
  Ep* ep = &self(base);
  const Scope scope(ep->device(), std::nothrow);
  delete ep;
}

}  // namespace

Ep::~Ep() {
  own_stream.reset();
  if (own_pool != nullptr) { /* what it freed may still wait for work */
    (void)device().driver().cuStreamSynchronize(device().lane_for_memory());
  }
}

void Ep::log(OrtLoggingLevel level, const std::string& text) const {
  factory->api.log(logger, level, "cuda", text);
}

void offer_sessions(OrtEpFactory* base) {
  base->CreateEp = create_ep;
  base->ReleaseEp = release_ep;
}

}  // namespace ephost::cuda
