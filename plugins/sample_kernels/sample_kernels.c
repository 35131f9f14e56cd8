/* sample_kernels: a plugin EP that brings one kernel for each operator it knows, and claims single nodes.
 *
 * Write an EP this way for a library of ready operators (a BLAS, say). The host keeps the graph, plans the
 * memory and calls one kernel after the other. An EP that wants to see several nodes at once compiles
 * instead: see sample_compiler.
 *
 * What happens, in this order:
 *
 * 1. The library is registered. CreateEpFactories makes a factory and the kernel registry.
 *
 * 2. A session asks the factory for an EP: create_ep. The EP says which nodes it takes (get_capability) and
 *    where their kernels are (get_kernel_registry).
 *
 * 3. The host asks for a kernel for each node that it gives us: create_kernel. Whatever can be found out
 *    once, such as attributes, is found out here.
 *
 * 4. Each run calls each kernel's Compute.
 *
 * The file is written from the bottom of that list to its top: kernels first, the library's two exported
 * functions last. */
#include "../common/elementwise.h"
#include "../common/registry.h"

static const char kEpName[] = "sample_kernels";

/* ---- Kernels ------------------------------------------------------------------------------------------- */

typedef struct Kernel Kernel;
typedef struct KernelState KernelState;

/* One row of the table below: an operator, and what its kernel does. */
typedef struct KernelSpec {
  const char* type;
  int since_first, since_last;
  const char* type_parameter; /* What the operator's schema calls the type of its tensors. */
  OrtStatus*(ORT_API_CALL* compute)(OrtKernelImpl* this_ptr, OrtKernelContext* context);
  OrtStatus* (*prepare)(Kernel* kernel,
                        const OrtKernelInfo* info); /* Reads attributes; NULL: there are none. */
  size_t reusable_inputs; /* The output may be written over any of so many first inputs. */
} KernelSpec;

/* A kernel belongs to one node of one session. The host may run it on many threads at once, so Compute only
 * reads it. */
struct Kernel {
  OrtKernelImpl base; /* First, as in Factory. */
  const OrtApi* api;
  RowFn row;
  float alpha;
};

/* A tensor as the API describes it: everything points into the host's memory and is valid during Compute. */
typedef struct Tensor {
  const float* data;
  const int64_t* dims;
  size_t rank;
} Tensor;

/* Three calls for an input and two for an output (below): all that a kernel needs to ask in a run. The
 * element type is not checked, because the registry has promised that this kernel only meets float32. */
static OrtStatus* get_input(const OrtApi* api, const OrtKernelContext* context, size_t index,
                            Tensor* tensor) {
  const OrtValue* value = NULL;
  const void* data = NULL;
  ONNXTensorElementDataType type;
  TRY(api->KernelContext_GetInput(context, index, &value)); /* Borrowed: never release it. */
  TRY(api->GetTensorElementTypeAndShapeDataReference(value, &type, &tensor->dims, &tensor->rank));
  TRY(api->GetTensorData(value, &data));
  tensor->data = (const float*)data;
  return NULL;
}

static OrtStatus* get_output(const OrtApi* api, OrtKernelContext* context, const int64_t* dims, size_t rank,
                             float** data) {
  OrtValue* value = NULL;
  void* memory = NULL;
  TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &value)); /* Allocates; the host owns it. */
  TRY(api->GetTensorMutableData(value, &memory));
  *data = (float*)memory;
  return NULL;
}

static OrtStatus* shape_mismatch(const OrtApi* api) {
  return api->CreateStatus(ORT_INVALID_ARGUMENT,
                           "sample_kernels: the shapes of the inputs do not fit together");
}

static bool same_shape(const Tensor* a, const Tensor* b) {
  return a->rank == b->rank && (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0);
}

static size_t count_of(const int64_t* dims, size_t rank) {
  size_t count = 1;
  for (size_t i = 0; i < rank; ++i) {
    count *= (size_t)dims[i];
  }
  return count;
}

static OrtStatus* ORT_API_CALL compute_unary(OrtKernelImpl* this_ptr, OrtKernelContext* context) {
  const Kernel* kernel = (const Kernel*)this_ptr;
  Tensor x;
  float* out = NULL;
  TRY(get_input(kernel->api, context, 0, &x));
  TRY(get_output(kernel->api, context, x.dims, x.rank, &out));
  kernel->row(x.data, true, NULL, false, out, count_of(x.dims, x.rank));
  return NULL;
}

static OrtStatus* ORT_API_CALL compute_binary(OrtKernelImpl* this_ptr, OrtKernelContext* context) {
  const Kernel* kernel = (const Kernel*)this_ptr;
  const OrtApi* api = kernel->api;
  Tensor a, b;
  float* out = NULL;
  TRY(get_input(api, context, 0, &a));
  TRY(get_input(api, context, 1, &b));
  if (same_shape(&a, &b)) { /* Most nodes of most models: no shape to work out and nothing to expand. */
    TRY(get_output(api, context, a.dims, a.rank, &out));
    kernel->row(a.data, true, b.data, true, out, count_of(a.dims, a.rank));
    return NULL;
  }

  Shape a_shape, b_shape, out_shape;
  if (!shape_from(a.dims, a.rank, &a_shape) || !shape_from(b.dims, b.rank, &b_shape) ||
      !broadcast_shapes(&a_shape, &b_shape, &out_shape)) {
    return shape_mismatch(api);
  }
  TRY(get_output(api, context, out_shape.dims, out_shape.rank, &out));
  const size_t count = element_count(&out_shape);
  if (count == 0) {
    return NULL;
  }
  Operand a_operand, b_operand;
  operand_bind(&a_operand, a.data, &a_shape, &out_shape);
  operand_bind(&b_operand, b.data, &b_shape, &out_shape);
  float a_scratch[TILE], b_scratch[TILE];
  for (size_t start = 0; start < count; start += TILE) {
    const size_t n = count - start < TILE ? count - start : TILE;
    bool a_steps, b_steps;
    const float* a_tile = operand_tile(&a_operand, start, n, a_scratch, &a_steps);
    const float* b_tile = operand_tile(&b_operand, start, n, b_scratch, &b_steps);
    kernel->row(a_tile, a_steps, b_tile, b_steps, out + start, n);
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL compute_identity(OrtKernelImpl* this_ptr, OrtKernelContext* context) {
  const Kernel* kernel = (const Kernel*)this_ptr;
  Tensor x;
  float* out = NULL;
  TRY(get_input(kernel->api, context, 0, &x));
  TRY(get_output(kernel->api, context, x.dims, x.rank, &out));
  const size_t count = count_of(x.dims, x.rank);
  if (count > 0 &&
      out != x.data) { /* They are the same where the host took up our offer to reuse the input. */
    memcpy(out, x.data, count * sizeof *out);
  }
  return NULL;
}

/* How attributes are read: once, when the kernel is made. The host fills in the schema's default, but an
 * error is no disaster here, since we know the default too. A status that is not passed on must be released.
 */
static OrtStatus* prepare_leaky_relu(Kernel* kernel, const OrtKernelInfo* info) {
  OrtStatus* status = kernel->api->KernelInfoGetAttribute_float(info, "alpha", &kernel->alpha);
  if (status != NULL) {
    kernel->api->ReleaseStatus(status);
    kernel->alpha = 0.01f;
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL compute_leaky_relu(OrtKernelImpl* this_ptr, OrtKernelContext* context) {
  const Kernel* kernel = (const Kernel*)this_ptr;
  Tensor x;
  float* out = NULL;
  TRY(get_input(kernel->api, context, 0, &x));
  TRY(get_output(kernel->api, context, x.dims, x.rank, &out));
  const size_t count = count_of(x.dims, x.rank);
  for (size_t i = 0; i < count; ++i) {
    out[i] = x.data[i] < 0.0f ? kernel->alpha * x.data[i] : x.data[i];
  }
  return NULL;
}

/* out[m, n] = a[m, k] @ b[k, n]. The innermost loop walks along rows of `b` and `out`, which vector units
 * like. */
static void multiply(const float* a, const float* b, float* out, size_t m, size_t k, size_t n) {
  for (size_t i = 0; i < m; ++i, a += k, out += n) {
    for (size_t j = 0; j < n; ++j) {
      out[j] = 0.0f;
    }
    for (size_t p = 0; p < k; ++p) {
      const float factor = a[p];
      const float* row = b + p * n;
      for (size_t j = 0; j < n; ++j) {
        out[j] += factor * row[j];
      }
    }
  }
}

/* numpy.matmul: the last two dimensions are matrices, those before them broadcast; a vector counts as a
 * matrix of one row (left) or one column (right), and that dimension is then missing in the output. */
static OrtStatus* ORT_API_CALL compute_matmul(OrtKernelImpl* this_ptr, OrtKernelContext* context) {
  const OrtApi* api = ((const Kernel*)this_ptr)->api;
  Tensor a, b;
  TRY(get_input(api, context, 0, &a));
  TRY(get_input(api, context, 1, &b));
  Shape a_batch, b_batch, out_shape;
  if (a.rank == 0 || b.rank == 0 || !shape_from(a.dims, a.rank < 2 ? 0 : a.rank - 2, &a_batch) ||
      !shape_from(b.dims, b.rank < 2 ? 0 : b.rank - 2, &b_batch) ||
      !broadcast_shapes(&a_batch, &b_batch, &out_shape) || out_shape.rank + 2 > MAX_RANK) {
    return shape_mismatch(api);
  }
  const int64_t m = a.rank == 1 ? 1 : a.dims[a.rank - 2], k = a.dims[a.rank - 1];
  const int64_t n = b.rank == 1 ? 1 : b.dims[b.rank - 1],
                k_of_b = b.rank == 1 ? b.dims[0] : b.dims[b.rank - 2];
  if (k != k_of_b) {
    return shape_mismatch(api);
  }
  const Shape batch = out_shape;
  if (a.rank > 1) {
    out_shape.dims[out_shape.rank++] = m;
  }
  if (b.rank > 1) {
    out_shape.dims[out_shape.rank++] = n;
  }
  float* out = NULL;
  TRY(get_output(api, context, out_shape.dims, out_shape.rank, &out));

  const size_t matrices = element_count(&batch);
  for (size_t i = 0; i < matrices; ++i) {
    /* Where in the batches of `a` and `b` is matrix i? A dimension of 1 stays at its only index. */
    size_t a_index = 0, b_index = 0, a_step = 1, b_step = 1, rest = i;
    for (size_t d = 0; d < batch.rank; ++d) { /* d counts from the last dimension. */
      const size_t dim = (size_t)batch.dims[batch.rank - 1 - d], index = rest % dim;
      rest /= dim;
      const size_t a_dim = d < a_batch.rank ? (size_t)a_batch.dims[a_batch.rank - 1 - d] : 1;
      const size_t b_dim = d < b_batch.rank ? (size_t)b_batch.dims[b_batch.rank - 1 - d] : 1;
      a_index += a_dim == 1 ? 0 : index * a_step;
      b_index += b_dim == 1 ? 0 : index * b_step;
      a_step *= a_dim;
      b_step *= b_dim;
    }
    multiply(a.data + a_index * (size_t)(m * k), b.data + b_index * (size_t)(k * n),
             out + i * (size_t)(m * n), (size_t)m, (size_t)k, (size_t)n);
  }
  return NULL;
}

static const KernelSpec kOtherKernels[] = {
    {"Identity", 1, 13, "T", compute_identity, NULL, 1},
    {"Identity", 14, 25, "V", compute_identity, NULL, 1},
    {"LeakyRelu", 6, 16, "T", compute_leaky_relu, prepare_leaky_relu, 1},
    {"MatMul", 1, 13, "T", compute_matmul, NULL, 0},
};
enum {
  NUM_OTHER = sizeof kOtherKernels / sizeof kOtherKernels[0],
  NUM_KERNELS = NUM_ELEMENTWISE + NUM_OTHER
};

/* ---- Making kernels ------------------------------------------------------------------------------------ */

/* What create_kernel is given for each row: there is no global variable to find the API in. */
struct KernelState {
  const OrtApi* api;
  KernelSpec spec;
  RowFn row;
};

static void ORT_API_CALL release_kernel(OrtKernelImpl* this_ptr) { free(this_ptr); }

static OrtStatus* ORT_API_CALL create_kernel(void* state, const OrtKernelInfo* info,
                                             OrtKernelImpl** kernel_out) {
  const KernelState* own = (const KernelState*)state;
  Kernel* kernel = (Kernel*)calloc(1, sizeof *kernel);
  if (kernel == NULL) {
    return out_of_memory(own->api);
  }
  kernel->base.ort_version_supported = API_VERSION;
  kernel->base.Compute = own->spec.compute;
  kernel->base.Release = release_kernel; /* PrePackWeight stays NULL: we use weights as they are. */
  kernel->api = own->api;
  kernel->row = own->row;
  if (own->spec.prepare != NULL) {
    OrtStatus* status = own->spec.prepare(kernel, info);
    if (status != NULL) {
      free(kernel);
      return status;
    }
  }
  *kernel_out = &kernel->base;
  return NULL;
}

typedef struct KernelFactory {
  Factory factory; /* First: a KernelFactory is a Factory is an OrtEpFactory. */
  OrtKernelRegistry* registry;
  KernelState states[NUM_KERNELS];
} KernelFactory;

static OrtStatus* build_registry(KernelFactory* owner) {
  const OrtEpApi* ep_api = owner->factory.ep_api;
  TRY(ep_api->CreateKernelRegistry(&owner->registry));
  for (size_t i = 0; i < NUM_KERNELS; ++i) {
    KernelState* state = &owner->states[i];
    state->api = owner->factory.api;
    if (i < NUM_ELEMENTWISE) {
      const Elementwise* op = &kElementwise[i];
      state->spec = (KernelSpec){
          op->type, op->since_first, op->since_last, "T", op->arity == 1 ? compute_unary : compute_binary,
          NULL,     op->arity};
      state->row = op->row;
    } else {
      state->spec = kOtherKernels[i - NUM_ELEMENTWISE];
    }
    const KernelSpec* spec = &state->spec;
    const KernelRow row = {.type = spec->type,
                           .domain = "",
                           .since_first = spec->since_first,
                           .since_last = spec->since_last,
                           .type_parameter = spec->type_parameter,
                           .reusable_inputs = spec->reusable_inputs};
    /* On failure our caller releases the registry with the factory. */
    TRY(register_kernel(ep_api, owner->registry, kEpName, &row, create_kernel, state));
  }
  return NULL;
}

/* ---- The EP -------------------------------------------------------------------------------------------- */

typedef struct Ep {
  OrtEp base;
  const KernelFactory* factory;
} Ep;

static const char* ORT_API_CALL ep_name(const OrtEp* this_ptr) {
  (void)this_ptr;
  return kEpName;
}

/* Claims each node of a graph for which there is a kernel. The registry does the matching (operator, version,
 * types); what is left to us is what a definition can't express: here, the rank. A node that we leave alone
 * is not an error, some other EP will run it. */
static OrtStatus* claim_if_supported(const void* owner, OrtEpGraphSupportInfo* support, const OrtNode* node) {
  const Factory* factory = (const Factory*)owner;
  const OrtApi* api = factory->api;
  const OrtKernelDef* definition = NULL;
  TRY(factory->ep_api->EpGraphSupportInfo_LookUpKernel(support, node, &definition));
  if (definition == NULL) {
    return NULL;
  }
  const OrtValueInfo* inputs[2] = {NULL, NULL};
  size_t num_inputs = 0;
  TRY(api->Node_GetNumInputs(node, &num_inputs));
  if (num_inputs > 2) {
    return NULL;
  }
  TRY(api->Node_GetInputs(node, inputs, num_inputs));
  for (size_t i = 0; i < num_inputs; ++i) {
    bool fits = false;
    TRY(is_float_tensor(api, inputs[i], MAX_RANK, &fits));
    if (!fits) {
      return NULL;
    }
  }
  return factory->ep_api->EpGraphSupportInfo_AddSingleNode(support, node);
}

/* Called once for the main graph and once for each subgraph of an If, Loop or Scan. */
static OrtStatus* ORT_API_CALL ep_get_capability(OrtEp* this_ptr, const OrtGraph* graph,
                                                 OrtEpGraphSupportInfo* support) {
  const Factory* factory = &((const Ep*)this_ptr)->factory->factory;
  return claim_each(factory->api, graph, support, claim_if_supported, factory);
}

/* The registry stays ours: the host reads it while the session lives. */
static OrtStatus* ORT_API_CALL ep_get_kernel_registry(OrtEp* this_ptr, const OrtKernelRegistry** registry) {
  *registry = ((const Ep*)this_ptr)->factory->registry;
  return NULL;
}

static OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* this_ptr, const OrtHardwareDevice* const* devices,
                                         const OrtKeyValuePairs* const* ep_metadata, size_t num_devices,
                                         const OrtSessionOptions* session_options, const OrtLogger* logger,
                                         OrtEp** out) {
  const KernelFactory* factory = (const KernelFactory*)this_ptr;
  (void)devices, (void)ep_metadata, (void)num_devices, (void)session_options, (void)logger;
  Ep* ep = (Ep*)calloc(1, sizeof *ep); /* Zeroed: what we don't set is NULL, and NULL means "the default". */
  if (ep == NULL) {
    return out_of_memory(factory->factory.api);
  }
  ep->base.ort_version_supported = API_VERSION;
  ep->base.GetName = ep_name;
  ep->base.GetCapability = ep_get_capability;
  ep->base.GetKernelRegistry = ep_get_kernel_registry;
  ep->factory = factory;
  *out = &ep->base;
  return NULL;
}

static void ORT_API_CALL release_ep(OrtEpFactory* this_ptr, OrtEp* ep) {
  (void)this_ptr;
  free(ep);
}

/* ---- The two exported functions ------------------------------------------------------------------------ */

EPHOST_PLUGIN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  KernelFactory* own = (KernelFactory*)factory;
  if (own->registry != NULL) {
    own->factory.ep_api->ReleaseKernelRegistry(own->registry);
  }
  free(own);
  return NULL;
}

EPHOST_PLUGIN_EXPORT OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* ort_api_base,
                                                  const OrtLogger* default_logger, OrtEpFactory** factories,
                                                  size_t max_factories, size_t* num_factories) {
  (void)registered_name, (void)default_logger;
  *num_factories = 0;
  const OrtApi* api = ort_api_base->GetApi(API_VERSION);
  if (api == NULL) {
    return host_too_old(ort_api_base);
  }
  if (max_factories < 1) {
    return api->CreateStatus(ORT_INVALID_ARGUMENT, "sample_kernels needs room for one factory");
  }
  KernelFactory* own = (KernelFactory*)calloc(1, sizeof *own);
  if (own == NULL) {
    return out_of_memory(api);
  }
  factory_init(&own->factory, api, kEpName);
  own->factory.base.CreateEp = create_ep;
  own->factory.base.ReleaseEp = release_ep;
  OrtStatus* status = build_registry(own);
  if (status != NULL) {
    ReleaseEpFactory(&own->factory.base);
    return status;
  }
  factories[0] = &own->factory.base;
  *num_factories = 1;
  return NULL;
}
