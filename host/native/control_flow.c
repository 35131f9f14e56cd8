/* Kernels for If, Loop and Scan that the host makes for EPs with a kernel registry: the EP claims the node,
 * so that it is asked about the bodies, and the host runs it. A plan recognises them and runs the node
 * itself; a plugin never sees more of them than the handle. */
#include "abi.h"
#include "heap.h"
#include "python.h"
#include "status.h"

typedef struct ControlKernel {
  OrtKernelImpl base;
  OrtLoopKernelHelper* loop;
  OrtScanKernelHelper* scan;
} ControlKernel;

static OrtStatus* ORT_API_CALL compute(OrtKernelImpl* this_ptr, OrtKernelContext* context) {
  (void)this_ptr;
  (void)context;
  return status_new(ORT_FAIL, "the host runs its control flow kernels itself");
}

static void ORT_API_CALL release(OrtKernelImpl* this_ptr) {
  ControlKernel* kernel = (ControlKernel*)this_ptr;
  if (kernel->loop != NULL) GUARDED(OrtLoopKernelHelper, Release)(kernel->loop);
  if (kernel->scan != NULL) GUARDED(OrtScanKernelHelper, Release)(kernel->scan);
  host_free(kernel);
  handle_count(HANDLE_OTHER, -1);
}

bool ephost_is_control_kernel(const OrtKernelImpl* kernel) {
  return kernel != NULL && kernel->Compute == compute;
}

static OrtStatus* create(OrtLoopKernelHelper* loop, OrtScanKernelHelper* scan, OrtKernelImpl** out) {
  ControlKernel* kernel = host_calloc(1, sizeof *kernel);
  *out = NULL;
  if (kernel == NULL) return status_no_memory();
  kernel->base.ort_version_supported = EPHOST_API_VERSION_SERVED;
  kernel->base.Compute = compute;
  kernel->base.Release = release;
  kernel->loop = loop;
  kernel->scan = scan;
  handle_count(HANDLE_OTHER, 1);
  *out = &kernel->base;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, CreateIfKernel)(const OrtKernelInfo* kernel_info,
                                                       OrtKernelImpl** kernel_out) {
  REQUIRE_ARG(kernel_info != NULL && kernel_out != NULL);
  return create(NULL, NULL, kernel_out);
}

/* The helper is taken over, also on failure of nothing but memory: the caller then keeps it. */
OrtStatus* ORT_API_CALL SLOT(OrtEpApi, CreateLoopKernel)(const OrtKernelInfo* kernel_info,
                                                         OrtLoopKernelHelper* helper,
                                                         OrtKernelImpl** kernel_out) {
  REQUIRE_ARG(kernel_info != NULL && kernel_out != NULL);
  return create(helper, NULL, kernel_out);
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, CreateScanKernel)(const OrtKernelInfo* kernel_info,
                                                         OrtScanKernelHelper* helper,
                                                         OrtKernelImpl** kernel_out) {
  REQUIRE_ARG(kernel_info != NULL && kernel_out != NULL);
  return create(NULL, helper, kernel_out);
}

void ORT_API_CALL SLOT(OrtEpApi, ReleaseKernelImpl)(OrtKernelImpl* input) {
  if (input != NULL && input->Release != NULL) GUARDED(OrtKernelImpl, Release)(input);
}
