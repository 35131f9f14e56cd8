/* What Python calls in the C half, through cffi. Parsed by cffi: plain declarations only. */
#ifndef EPHOST_PYTHON_H_
#define EPHOST_PYTHON_H_

/* ---- tables (generated) ---- */

typedef struct EphostSlot {
  const char* table;
  const char* member;
  const char* implementation; /* "native", "python" or "missing" */
  uint32_t since;             /* the API version in which the slot appeared */
} EphostSlot;
size_t ephost_slot_count(void);
const EphostSlot* ephost_slot(size_t index);
uint64_t ephost_stub_calls(size_t index);

typedef struct EphostMember {
  const char* structure;
  const char* member;
  uint32_t since;
} EphostMember;
size_t ephost_member_count(void);
const EphostMember* ephost_member(size_t index);

/* ---- status, handles ---- */
int64_t ephost_live_handles(int kind);
void ephost_fail_allocation_after(int64_t count);

/* ---- objects: values, type infos, memory, devices, options, loggers ---- */

void ephost_set_log_callback(void (*callback)(int level, const char* logger, const char* message, const char* file,
                                              int line, const char* function));
void ephost_set_log_level(int level);
OrtLogger* ephost_logger_new(const char* name, OrtLoggingLevel level);
void ephost_logger_free(OrtLogger* logger);

OrtAllocator* ephost_cpu_allocator(void);
void ephost_set_cpu_cache_limit(size_t bytes);
void ephost_trim_cpu_cache(void);

/* Called once for each owner given to ephost_value_wrap, from any thread, when nobody uses its memory any more. */
void ephost_set_release_callback(void (*callback)(void* owner));
/* A tensor over memory of the caller's (memory_info NULL: the CPU's). With an owner, the callback above gets it when
 * the last sharer is gone; without one the memory must outlive the value. On failure the callback is not called. */
OrtStatus* ephost_value_wrap(int element_type, const int64_t* dims, size_t rank, void* data, size_t nbytes,
                             const OrtMemoryInfo* memory_info, void* owner, OrtValue** out);
/* Strings from one block of bytes: text i is packed[offsets[i]] up to packed[offsets[i + 1]]. To read them, use
 * OrtApi's GetStringTensorDataLength and GetStringTensorContent. */
OrtStatus* ephost_value_strings(const char* packed, const size_t* offsets, const int64_t* dims, size_t rank,
                                OrtValue** out);
/* Sequences share their items' data. element_type: of the tensors, also when there is none. */
OrtStatus* ephost_value_sequence(OrtValue* const* items, size_t count, int element_type, OrtValue** out);
OrtStatus* ephost_value_empty_optional(int element_type, OrtValue** out);
OrtStatus* ephost_value_share(const OrtValue* value, OrtValue** out); /* a second value over the same data */
const OrtValue* ephost_value_item(const OrtValue* value, size_t index); /* lent; NULL beyond the last */

typedef struct EphostValueView {
  int type; /* ONNXType */
  int element_type;
  size_t rank;
  const int64_t* dims; /* lent, like data and memory_info */
  size_t element_count;
  void* data;
  size_t nbytes;
  size_t item_count;
  const OrtMemoryInfo* memory_info;
} EphostValueView;
void ephost_value_view(const OrtValue* value, EphostValueView* out);

OrtStatus* ephost_type_tensor(int element_type, bool has_shape, const int64_t* dims, const char* const* symbols,
                              size_t rank, OrtTypeInfo** out); /* symbols: NULL, or one for each dimension, or NULL */
OrtStatus* ephost_type_set_denotation(OrtTypeInfo* type_info, const char* denotation);

OrtStatus* ephost_env_config_set(const char* key, const char* value); /* NULL removes; see OrtEpApi.GetEnvConfigEntries */

const OrtMemoryInfo* ephost_ep_device_read_only_memory(const OrtEpDevice* ep_device);
OrtEpFactory* ephost_ep_device_factory(const OrtEpDevice* ep_device);
OrtDeviceEpIncompatibilityDetails* ephost_incompatibility_details_new(void); /* NULL without memory */

/* ---- graphs, kernel registry ---- */

/* ---- libraries ---- */

void* ephost_library_open(const char* path, char* error, size_t error_size); /* NULL: error says why */
void* ephost_library_symbol(void* library, const char* name);               /* NULL when absent */
void ephost_library_close(void* library);

/* ---- plans and runs ---- */

OrtNodeComputeContext* ephost_compute_context_new(const char* node_name); /* for CreateState; NULL without memory */
void ephost_compute_context_free(OrtNodeComputeContext* context);

/* Making a plan: see plan.c. A status that is not NULL is released by ReleaseStatus. Pointers to EPs, allocators,
 * memory infos, kernels and compute infos are borrowed and must outlive the plan. */
typedef struct Plan EphostPlan;
typedef struct ThreadPool EphostThreadPool;
EphostThreadPool* ephost_thread_pool_new(int threads);
void ephost_thread_pool_free(EphostThreadPool* pool);
int ephost_thread_pool_size(const EphostThreadPool* pool);
EphostPlan* ephost_plan_new(size_t slot_count, EphostThreadPool* threads, const OrtLogger* logger, bool exclusive);
void ephost_plan_free(EphostPlan* plan);
void ephost_plan_free_frames(EphostPlan* plan);
int ephost_plan_active_runs(EphostPlan* plan);
OrtStatus* ephost_plan_set_slot(EphostPlan* plan, size_t slot, ONNXTensorElementDataType element_type,
                                const int64_t* dims, size_t rank, const OrtMemoryInfo* memory,
                                OrtAllocator* allocator);
OrtStatus* ephost_plan_set_constant(EphostPlan* plan, size_t slot, OrtValue* value); /* takes the value over */
OrtStatus* ephost_plan_set_arena(EphostPlan* plan, size_t slot, size_t offset, size_t nbytes);
OrtStatus* ephost_plan_add_ep(EphostPlan* plan, OrtEp* ep, const char* name, const OrtMemoryInfo* memory,
                              OrtAllocator* allocator);
OrtStatus* ephost_plan_add_step(EphostPlan* plan, int kind, int ep, void* object, void* state, const char* node_name,
                                const char* op_type, const int32_t* inputs, size_t input_count,
                                const int32_t* outputs, size_t output_count, const int32_t* releases,
                                size_t release_count);
OrtStatus* ephost_plan_set_interface(EphostPlan* plan, const int32_t* inputs, size_t input_count,
                                     const int32_t* outputs, size_t output_count);
typedef struct EphostStepTime {
  int32_t step;
  uint64_t thread;
  int64_t start_ns;
  int64_t duration_ns;
} EphostStepTime;
void ephost_plan_profile(EphostPlan* plan, bool enabled);
size_t ephost_plan_times(EphostPlan* plan, EphostStepTime* out, size_t capacity); /* capacity 0: only counts */
int64_t ephost_clock_ns(void);

#endif
