/* What a plugin implements (OrtEpFactory, OrtEp, compiled nodes, profiler) and the functions it gets for that
   (OrtEpApi). */
#ifndef EPHOST_EP_H_
#define EPHOST_EP_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a claimed group of nodes is fused. Zero it first; read during the call only. */
struct OrtNodeFusionOptions {
  EPHOST_SINCE(23)

  /* The API version the EP was compiled with. */
  uint32_t ort_version_supported;

  /* The fused node does not get the group's constant initialisers as inputs: Compile must copy what it needs
     of them, and the host may free them. */
  bool drop_constant_initializers;
};

/* The compiled form of one fused node. Made by Compile, freed by ReleaseNodeComputeInfos; all three members
   are required. */
struct OrtNodeComputeInfo {
  EPHOST_SINCE(23)

  /* The API version the EP was compiled with. */
  uint32_t ort_version_supported;

  /* Makes what Compute needs; called once, before the first Compute. On error *compute_state is ignored. */
  OrtStatus* (ORT_API_CALL* CreateState)(OrtNodeComputeInfo* this_ptr, OrtNodeComputeContext* compute_context,
                                         void** compute_state);

  /* Computes the fused node. Several threads may be in it at once with the same state, unless the EP said
     that it cannot. On error the outputs are ignored. */
  OrtStatus* (ORT_API_CALL* Compute)(OrtNodeComputeInfo* this_ptr, void* compute_state,
                                     OrtKernelContext* kernel_context);

  /* Frees the state, called once, after all calls of Compute. */
  void (ORT_API_CALL* ReleaseState)(OrtNodeComputeInfo* this_ptr, void* compute_state);
};

/* An EP's own profiler for one session or run. Made by OrtEp's CreateProfiler. */
struct OrtEpProfilerImpl {
  /* The API version the EP was compiled with: later members are not read. */
  uint32_t ort_version_supported;

  EPHOST_SINCE(25)

  /* Frees it, called once. */
  void (ORT_API_CALL* Release)(OrtEpProfilerImpl* this_ptr);

  /* Begins; the offset is the nanoseconds that have passed on the host's profile clock. */
  OrtStatus* (ORT_API_CALL* StartProfiling)(OrtEpProfilerImpl* this_ptr,
                                            int64_t ep_profiling_start_offset_ns);

  /* Around an event of the host, with the same number, on the thread that it happens on; ort_event is
     borrowed. They let the EP relate its events to the host's. Either may be NULL. */
  OrtStatus* (ORT_API_CALL* StartEvent)(OrtEpProfilerImpl* this_ptr, uint64_t ort_event_correlation_id);
  OrtStatus* (ORT_API_CALL* StopEvent)(OrtEpProfilerImpl* this_ptr, uint64_t ort_event_correlation_id,
                                       const OrtProfilingEvent* ort_event);

  /* Ends, and adds the EP's events to the container. */
  OrtStatus* (ORT_API_CALL* EndProfiling)(OrtEpProfilerImpl* this_ptr,
                                          OrtProfilingEventsContainer* events_container);
};

/* An amount of a resource that an EP's device has. */
struct OrtResourceCount {
  EPHOST_SINCE(26)

  /* An OrtResourceCountKind: which member of `value` counts. 0 means unknown. */
  uint32_t kind;

  /* 0. */
  uint32_t reserved;

  /* total_bytes for OrtResourceCountKind_TotalBytes; the rest is 0. Its size will not change. */
  union { uint64_t total_bytes; uint64_t reserved_words[6]; } value;
};

/* An execution provider in one session. The factory makes it in CreateEp, as the head of a struct of its own
   with all unused members zero, and frees it in ReleaseEp. GetName and GetCapability are required, and either
   Compile (with ReleaseNodeComputeInfos) or GetKernelRegistry; any other member may be NULL. The host calls
   it from one thread at a time, except where said. */
struct OrtEp {
  EPHOST_SINCE(22)

  /* The API version the plugin was compiled with (ORT_API_VERSION): later members are not read. */
  uint32_t ort_version_supported;

  /* The EP's name, the same as its factory's; valid as long as the EP. */
  const char* (ORT_API_CALL* GetName)(const OrtEp* this_ptr);

  EPHOST_SINCE(23)

  /* Claims nodes: one EpGraphSupportInfo_Add... call for each group or node the EP will compute. Called for
     the main graph and each subgraph, innermost first, and again after a change of layout. Nodes that a
     previous EP took are not in the graph. Graph and nodes are borrowed for the call. */
  OrtStatus* (ORT_API_CALL* GetCapability)(OrtEp* this_ptr, const OrtGraph* graph,
                                           OrtEpGraphSupportInfo* graph_support_info);

  /* Compiles each claimed group: graphs[i] is the group as a graph, fused_nodes[i] the node that stands for
     it. Fills node_compute_infos[0..count). When EPContext models are asked for, also ep_context_nodes, whose
     nodes the host takes over; otherwise that array may be NULL or is left as it is. Graphs and nodes are
     borrowed for the call. On error the host releases what was filled in. Required of an EP that claims
     groups. */
  OrtStatus* (ORT_API_CALL* Compile)(OrtEp* this_ptr, const OrtGraph** graphs, const OrtNode** fused_nodes,
                                     size_t count, OrtNodeComputeInfo** node_compute_infos,
                                     OrtNode** ep_context_nodes);

  /* Frees what Compile gave, after their states. Required with Compile. */
  void (ORT_API_CALL* ReleaseNodeComputeInfos)(OrtEp* this_ptr, OrtNodeComputeInfo** node_compute_infos,
                                               size_t num_node_compute_infos);

  /* NHWC to have the host convert suitable nodes and ask GetCapability again. NULL: NCHW. */
  OrtStatus* (ORT_API_CALL* GetPreferredDataLayout)(OrtEp* this_ptr, OrtEpDataLayout* preferred_data_layout);

  /* For an operator: positive to convert it to the layout, 0 not to, negative to leave it to the host. NULL:
     the host decides. */
  OrtStatus* (ORT_API_CALL* ShouldConvertDataLayoutForOp)(OrtEp* this_ptr, const char* domain,
      const char* op_type, OrtEpDataLayout target_data_layout, int* should_convert);

  /* Changes options while the session lives; texts are borrowed for the call. Unknown names: return an error.
     NULL: there are none. */
  OrtStatus* (ORT_API_CALL* SetDynamicOptions)(OrtEp* this_ptr, const char* const* option_keys,
                                               const char* const* option_values, size_t num_options);

  /* Around each call of Run, on its thread, several at once when runs overlap; sync_stream asks OnRunEnd to
     wait for the device. NULL: nothing to do. */
  OrtStatus* (ORT_API_CALL* OnRunStart)(OrtEp* this_ptr, const OrtRunOptions* run_options);
  OrtStatus* (ORT_API_CALL* OnRunEnd)(OrtEp* this_ptr, const OrtRunOptions* run_options, bool sync_stream);

  /* An allocator of this session for one of the memories that the EP device registered; released by the
     factory's ReleaseAllocator. NULL: the factory's CreateAllocator is called. */
  OrtStatus* (ORT_API_CALL* CreateAllocator)(OrtEp* this_ptr, const OrtMemoryInfo* memory_info,
                                             OrtAllocator** allocator);

  /* A stream of this session; the host owns it. NULL: the factory's is called. */
  OrtStatus* (ORT_API_CALL* CreateSyncStreamForDevice)(OrtEp* this_ptr, const OrtMemoryDevice* memory_device,
                                                       OrtSyncStreamImpl** stream);

  /* Text that says what a compiled model needs, stored in it and later given to
     ValidateCompiledModelCompatibilityInfo; belongs to the EP. NULL, as member or result: none. */
  const char* (ORT_API_CALL* GetCompiledModelCompatibilityInfo)(OrtEp* this_ptr, const OrtGraph* graph);

  EPHOST_SINCE(24)

  /* The EP's kernels; belongs to the EP or factory and outlives the session. NULL, as member or result: none.
     */
  OrtStatus* (ORT_API_CALL* GetKernelRegistry)(OrtEp* this_ptr, const OrtKernelRegistry** kernel_registry);

  /* Whether threads may run the session at the same time. NULL: yes. */
  OrtStatus* (ORT_API_CALL* IsConcurrentRunSupported)(OrtEp* this_ptr, bool* is_supported);

  EPHOST_SINCE(25)

  /* Waits until the device has done all work of this EP. NULL: nothing to wait for. */
  OrtStatus* (ORT_API_CALL* Sync)(OrtEp* this_ptr);

  /* A profiler that the host owns. NULL, as member or result: none. */
  OrtStatus* (ORT_API_CALL* CreateProfiler)(OrtEp* this_ptr, OrtEpProfilerImpl** profiler);

  EPHOST_SINCE(26)

  /* Whether the EP records runs to replay them, whether it has recorded one under a number (from the run
     option gpu_graph_id), and replaying it in place of the nodes. NULL: never. */
  bool (ORT_API_CALL* IsGraphCaptureEnabled)(const OrtEp* this_ptr);
  bool (ORT_API_CALL* IsGraphCaptured)(const OrtEp* this_ptr, int graph_annotation_id);
  OrtStatus* (ORT_API_CALL* ReplayGraph)(OrtEp* this_ptr, int graph_annotation_id);

  /* Which nodes may be on other EPs when capturing. NULL: none. */
  OrtGraphCaptureNodeAssignmentPolicy (ORT_API_CALL* GetGraphCaptureNodeAssignmentPolicy)(
      const OrtEp* this_ptr);

  /* How much of its device's resource the EP may use. NULL: unknown. */
  OrtStatus* (ORT_API_CALL* GetAvailableResource)(const OrtEp* this_ptr, OrtResourceCount* available);

  EPHOST_SINCE(27)

  /* The session is ready: what was only needed to make it may be freed. An error fails the session. NULL:
     nothing to do. */
  OrtStatus* (ORT_API_CALL* OnSessionInitializationEnd)(OrtEp* this_ptr);

  /* The memory that its kernels' inputs and outputs are in unless said otherwise; borrowed. NULL, as member
     or result: the first one its device registered, or the CPU's. */
  OrtStatus* (ORT_API_CALL* GetDefaultMemoryDevice)(const OrtEp* this_ptr, const OrtMemoryDevice** device);

  /* Drops what was recorded under a number. NULL: nothing to do. */
  OrtStatus* (ORT_API_CALL* ReleaseCapturedGraph)(OrtEp* this_ptr, int graph_annotation_id);

  EPHOST_SINCE(30)

  /* Whether it compiles models whose weights stay outside. NULL: it does not. First seen in 1.29 or 1.30;
     taken as 30 here, so that an older plugin's memory is not read. */
  OrtStatus* (ORT_API_CALL* GetWeightlessSupport)(const OrtEp* this_ptr, OrtWeightlessSupport* support);

  EPHOST_SINCE(31)

  /* Which callbacks for EPContext data it calls where the application set them: 1 for reading, 2 for writing,
     or both. NULL: none. Asked when such data is to be read or written and there is a callback for it. */
  OrtStatus* (ORT_API_CALL* GetEpContextDataCallbackSupport)(const OrtEp* this_ptr, uint32_t* flags);
};

/* Makes EPs. CreateEpFactories returns it, as the head of a struct of the plugin's own with all unused
   members zero; it lives until ReleaseEpFactory. Members up to ReleaseEp are required, any other may be NULL.
   Sessions on several threads may use it at once. */
struct OrtEpFactory {
  EPHOST_SINCE(22)

  /* The API version the plugin was compiled with (ORT_API_VERSION): later members are not read. */
  uint32_t ort_version_supported;

  /* The EP's and the vendor's names; valid as long as the factory, never NULL or "". */
  const char* (ORT_API_CALL* GetName)(const OrtEpFactory* this_ptr);
  const char* (ORT_API_CALL* GetVendor)(const OrtEpFactory* this_ptr);

  /* Says which of the host's devices the EP can use: makes an EP device with CreateEpDevice for each and puts
     it in ep_devices, at most max_ep_devices. The host takes them over. On error, release those made. */
  OrtStatus* (ORT_API_CALL* GetSupportedDevices)(OrtEpFactory* this_ptr,
      const OrtHardwareDevice* const* devices, size_t num_devices, OrtEpDevice** ep_devices,
      size_t max_ep_devices, size_t* num_ep_devices);

  /* An EP for a new session on these of its devices, with the metadata their EP devices carry. Options are
     read from session_options (ep.NAME.KEY, in lower case); all arguments are borrowed for the call, but the
     logger lives as long as the EP. On error *ep stays NULL. */
  OrtStatus* (ORT_API_CALL* CreateEp)(OrtEpFactory* this_ptr, const OrtHardwareDevice* const* devices,
      const OrtKeyValuePairs* const* ep_metadata_pairs, size_t num_devices,
      const OrtSessionOptions* session_options, const OrtLogger* logger, OrtEp** ep);

  /* Frees an EP, after all that it made. */
  void (ORT_API_CALL* ReleaseEp)(OrtEpFactory* this_ptr, struct OrtEp* ep);

  EPHOST_SINCE(23)

  /* The vendor's PCI number. NULL: 0. */
  uint32_t (ORT_API_CALL* GetVendorId)(const OrtEpFactory* this_ptr);

  /* The EP's version, as in "1.2.3" (semantic versioning); valid as long as the factory. NULL: unknown.
     onnxruntime 1.31 calls the member without a look whether it is NULL, so better have one. */
  const char* (ORT_API_CALL* GetVersion)(const OrtEpFactory* this_ptr);

  /* Whether a compiled model with this text runs on the devices. NULL: the host cannot tell and tries. */
  OrtStatus* (ORT_API_CALL* ValidateCompiledModelCompatibilityInfo)(OrtEpFactory* this_ptr,
      const OrtHardwareDevice* const* devices, size_t num_devices, const char* compatibility_info,
      OrtCompiledModelCompatibility* model_compatibility);

  /* An allocator for a memory that an EP device registered, shared between sessions; allocator_options may be
     NULL. Setting *allocator to NULL without an error means the EP has none of its own. Required with
     EpDevice_AddAllocatorInfo. */
  OrtStatus* (ORT_API_CALL* CreateAllocator)(OrtEpFactory* this_ptr, const OrtMemoryInfo* memory_info,
                                             const OrtKeyValuePairs* allocator_options,
                                             OrtAllocator** allocator);

  /* Frees an allocator of the factory or its EPs, when nothing it allocated is in use. Required with
     CreateAllocator. */
  void (ORT_API_CALL* ReleaseAllocator)(OrtEpFactory* this_ptr, OrtAllocator* allocator);

  /* The copier between the EP's memories and the host's; the host owns it. NULL, as member or result: the
     memory is the host's. onnxruntime 1.31 calls the member without a look whether it is NULL, so better have
     one that gives NULL. */
  OrtStatus* (ORT_API_CALL* CreateDataTransfer)(OrtEpFactory* this_ptr, OrtDataTransferImpl** data_transfer);

  /* Whether the EP queues work on streams. NULL: no. */
  bool (ORT_API_CALL* IsStreamAware)(const OrtEpFactory* this_ptr);

  /* A stream that the host owns; stream_options may be NULL. Required when IsStreamAware says yes. */
  OrtStatus* (ORT_API_CALL* CreateSyncStreamForDevice)(OrtEpFactory* this_ptr,
      const OrtMemoryDevice* memory_device, const OrtKeyValuePairs* stream_options,
      OrtSyncStreamImpl** stream);

  EPHOST_SINCE(24)

  /* Why the EP does not offer a device: fills `details` with DeviceEpIncompatibilityDetails_SetDetails. NULL:
     unknown. */
  OrtStatus* (ORT_API_CALL* GetHardwareDeviceIncompatibilityDetails)(OrtEpFactory* this_ptr,
      const OrtHardwareDevice* hw, OrtDeviceEpIncompatibilityDetails* details);

  /* An importer that the host owns. NULL, as member or result: graphics memory cannot be imported. */
  OrtStatus* (ORT_API_CALL* CreateExternalResourceImporterForDevice)(OrtEpFactory* this_ptr,
      const OrtEpDevice* ep_device, OrtExternalResourceImporterImpl** out_importer);

  /* Operators that the plugin brings; the array has room for num_domains. Domains belong to the factory. Both
     or neither; NULL: none. */
  OrtStatus* (ORT_API_CALL* GetNumCustomOpDomains)(OrtEpFactory* this_ptr, size_t* num_domains);
  OrtStatus* (ORT_API_CALL* GetCustomOpDomains)(OrtEpFactory* this_ptr, OrtCustomOpDomain** domains,
                                                size_t num_domains);

  EPHOST_SINCE(25)

  /* A graphics queue to share a device with, before streams are made and after they are gone. NULL: not
     supported. */
  OrtStatus* (ORT_API_CALL* InitGraphicsInterop)(OrtEpFactory* this_ptr, const OrtEpDevice* ep_device,
                                                 const OrtGraphicsInteropConfig* config);
  OrtStatus* (ORT_API_CALL* DeinitGraphicsInterop)(OrtEpFactory* this_ptr, const OrtEpDevice* ep_device);

  EPHOST_SINCE(28)

  /* Chooses among several compiled forms of a model, each described by pairs. NULL: the host takes the first
     that fits. */
  OrtStatus* (ORT_API_CALL* SelectBestModelCandidate)(OrtEpFactory* this_ptr, const OrtHardwareDevice* device,
      const OrtKeyValuePairs* const* candidates, size_t num_candidates,
      const OrtSessionOptions* session_options, size_t* selected_index);

  EPHOST_SINCE(32)

  /* How much memory a device has: two numbers, each wanted where its pointer is not NULL. `memory_type` is what
     the caller of EpDevice_GetMemoryCapacity gave. NULL: it cannot say. What the numbers are called is not
     published: found by calling onnxruntime 1.32 with a factory that has this member. */
  OrtStatus* (ORT_API_CALL* GetDeviceMemoryCapacity)(OrtEpFactory* this_ptr, const OrtEpDevice* ep_device,
                                                     OrtDeviceMemoryType memory_type, uint64_t* first,
                                                     uint64_t* second);
};

/* Functions of the host for plugins, from GetEpApi. May be called from any thread, on different objects at
   once. */
struct OrtEpApi {
  EPHOST_SINCE(22)

  /* Says that the factory's EP runs on a device; metadata and default options (each may be NULL) are copied,
     the device is borrowed from the host. The metadata has no key "version": the host sets it to what the
     factory's GetVersion says. GetSupportedDevices hands it to the host; release it only if that fails. */
  OrtStatus* (ORT_API_CALL* CreateEpDevice)(OrtEpFactory* ep_factory,
      const OrtHardwareDevice* hardware_device, const OrtKeyValuePairs* ep_metadata,
      const OrtKeyValuePairs* ep_options, OrtEpDevice** ep_device);
  void (ORT_API_CALL* ReleaseEpDevice)(OrtEpDevice* input);

  EPHOST_SINCE(23)

  /* Claims nodes to be compiled as one. They must be connected such that no path leaves the group and returns
     to it. Options may be NULL. */
  OrtStatus* (ORT_API_CALL* EpGraphSupportInfo_AddNodesToFuse)(OrtEpGraphSupportInfo* graph_support_info,
      const OrtNode* const* nodes, size_t num_nodes, const OrtNodeFusionOptions* node_fusion_options);

  /* Claims a node for a kernel from the EP's registry. */
  OrtStatus* (ORT_API_CALL* EpGraphSupportInfo_AddSingleNode)(OrtEpGraphSupportInfo* graph_support_info,
                                                              const OrtNode* node);

  /* The fused node's name; borrowed for the call of CreateState. */
  const char* (ORT_API_CALL* NodeComputeContext_NodeName)(const OrtNodeComputeContext* context);

  /* Registers a memory of the device, which the factory's CreateAllocator serves. Borrowed: it must live as
     long as the factory. At most one for each kind of memory and allocator. */
  OrtStatus* (ORT_API_CALL* EpDevice_AddAllocatorInfo)(OrtEpDevice* ep_device,
                                                       const OrtMemoryInfo* allocator_memory_info);

  /* Where memory or a tensor is; borrowed from the argument. */
  const OrtMemoryDevice* (ORT_API_CALL* MemoryInfo_GetMemoryDevice)(const OrtMemoryInfo* memory_info);
  const OrtMemoryDevice* (ORT_API_CALL* Value_GetMemoryDevice)(const OrtValue* value);

  /* Whether both are the same memory. */
  bool (ORT_API_CALL* MemoryDevice_AreEqual)(const OrtMemoryDevice* a, const OrtMemoryDevice* b);

  /* Its parts: kind of device, normal or host-accessible, vendor's PCI number, and the number of the unit. */
  OrtMemoryInfoDeviceType (ORT_API_CALL* MemoryDevice_GetDeviceType)(const OrtMemoryDevice* memory_device);
  OrtDeviceMemoryType (ORT_API_CALL* MemoryDevice_GetMemoryType)(const OrtMemoryDevice* memory_device);
  uint32_t (ORT_API_CALL* MemoryDevice_GetVendorId)(const OrtMemoryDevice* memory_device);
  uint32_t (ORT_API_CALL* MemoryDevice_GetDeviceId)(const OrtMemoryDevice* memory_device);

  /* The EP's own struct behind a stream; borrowed. */
  const OrtSyncStreamImpl* (ORT_API_CALL* SyncStream_GetImpl)(const OrtSyncStream* stream);

  /* A counter that grows with each synchronisation of a stream, and its value when the consumer last waited
     for the producer (0: never). They tell whether memory can be reused without waiting again. */
  uint64_t (ORT_API_CALL* SyncStream_GetSyncId)(const OrtSyncStream* stream);
  uint64_t (ORT_API_CALL* GetSyncIdForLastWaitOnSyncStream)(const OrtSyncStream* producer_stream,
                                                            const OrtSyncStream* consumer_stream);

  EPHOST_SINCE(24)

  /* A device that the host did not find itself, such as one for cross-compiling: texts and metadata (may be
     NULL) are copied. It belongs to the plugin and must outlive its EP devices. Only where the user allows
     virtual devices. */
  OrtStatus* (ORT_API_CALL* CreateHardwareDevice)(OrtHardwareDeviceType type, uint32_t vendor_id,
      uint32_t device_id, const char* vendor_name, const OrtKeyValuePairs* metadata,
      OrtHardwareDevice** hardware_device);
  void (ORT_API_CALL* ReleaseHardwareDevice)(OrtHardwareDevice* input);

  /* A set of kernels. The plugin keeps it until its sessions are gone. */
  OrtStatus* (ORT_API_CALL* CreateKernelRegistry)(OrtKernelRegistry** kernel_registry);
  void (ORT_API_CALL* ReleaseKernelRegistry)(OrtKernelRegistry* input);

  /* Adds a kernel: its definition is copied, the function is called with the state for each node that uses
     it, maybe on several threads. An error if an equal one is there. */
  OrtStatus* (ORT_API_CALL* KernelRegistry_AddKernel)(OrtKernelRegistry* kernel_registry,
      const OrtKernelDef* kernel_def, OrtKernelCreateFunc kernel_create_func, void* kernel_create_func_state);

  /* Collects what a kernel implements. Release it after Build, which leaves it as it is. */
  OrtStatus* (ORT_API_CALL* CreateKernelDefBuilder)(OrtKernelDefBuilder** kernel_def_builder_out);
  void (ORT_API_CALL* ReleaseKernelDefBuilder)(OrtKernelDefBuilder* input);

  /* The operator, its domain ("" for ONNX's), the opset versions at which its present form began (both ends
     included; an end equal to the start means that form only), and the EP's name. All are copied and all
     needed. */
  OrtStatus* (ORT_API_CALL* KernelDefBuilder_SetOperatorType)(OrtKernelDefBuilder* kernel_def_builder,
                                                              const char* op_type);
  OrtStatus* (ORT_API_CALL* KernelDefBuilder_SetDomain)(OrtKernelDefBuilder* kernel_def_builder,
                                                        const char* domain);
  OrtStatus* (ORT_API_CALL* KernelDefBuilder_SetSinceVersion)(OrtKernelDefBuilder* kernel_def_builder,
                                                              int since_version_start, int since_version_end);
  OrtStatus* (ORT_API_CALL* KernelDefBuilder_SetExecutionProvider)(OrtKernelDefBuilder* kernel_def_builder,
                                                                   const char* ep_name);

  /* Where an input or output must be when it is not the EP's memory: CPU for shapes, say. */
  OrtStatus* (ORT_API_CALL* KernelDefBuilder_SetInputMemType)(OrtKernelDefBuilder* kernel_def_builder,
                                                              size_t input_index, OrtMemType mem_type);
  OrtStatus* (ORT_API_CALL* KernelDefBuilder_SetOutputMemType)(OrtKernelDefBuilder* kernel_def_builder,
                                                               size_t output_index, OrtMemType mem_type);

  /* Types that a type parameter of the operator's schema ("T") may take; a parameter without constraint takes
     any. */
  OrtStatus* (ORT_API_CALL* KernelDefBuilder_AddTypeConstraint)(OrtKernelDefBuilder* kernel_def_builder,
      const char* arg_name, const OrtDataType* const* types, size_t num_types);

  /* Pairs of an input and an output that are always the same memory (a Reshape, say). */
  OrtStatus* (ORT_API_CALL* KernelDefBuilder_AddInputOutputAliases)(OrtKernelDefBuilder* kernel_def_builder,
      int const* input_indices, int const* output_indices, size_t num_io_indices);

  /* Pairs where the kernel may write the output over the input when nobody else needs it. */
  OrtStatus* (ORT_API_CALL* KernelDefBuilder_AddInputOutputMutableAliases)(
      OrtKernelDefBuilder* kernel_def_builder, int const* input_indices, int const* output_indices,
      size_t num_io_indices);

  /* The definition as set so far, not checked; the caller releases it. */
  OrtStatus* (ORT_API_CALL* KernelDefBuilder_Build)(OrtKernelDefBuilder* kernel_def_builder,
                                                    OrtKernelDef** kernel_def_out);
  void (ORT_API_CALL* ReleaseKernelDef)(OrtKernelDef* input);

  /* Its parts; texts are borrowed. The memory is OrtMemTypeDefault where none was set. */
  const char* (ORT_API_CALL* KernelDef_GetOperatorType)(const OrtKernelDef* kernel_def);
  const char* (ORT_API_CALL* KernelDef_GetDomain)(const OrtKernelDef* kernel_def);
  OrtStatus* (ORT_API_CALL* KernelDef_GetSinceVersion)(const OrtKernelDef* kernel_def, int* start_version,
                                                       int* end_version);
  const char* (ORT_API_CALL* KernelDef_GetExecutionProvider)(const OrtKernelDef* kernel_def);
  OrtStatus* (ORT_API_CALL* KernelDef_GetInputMemType)(const OrtKernelDef* kernel_def, size_t input_index,
                                                       OrtMemType* mem_type);
  OrtStatus* (ORT_API_CALL* KernelDef_GetOutputMemType)(const OrtKernelDef* kernel_def, size_t output_index,
                                                        OrtMemType* mem_type);

  /* The tensor type of an element type; static. An error for types the host does not know. */
  OrtStatus* (ORT_API_CALL* GetTensorDataType)(ONNXTensorElementDataType elem_type, const OrtDataType** out);

  /* The definition in the EP's registry that fits a node, borrowed; NULL without an error when there is none.
     For GetCapability. */
  OrtStatus* (ORT_API_CALL* EpGraphSupportInfo_LookUpKernel)(OrtEpGraphSupportInfo* graph_support_info,
                                                             const OrtNode* node,
                                                             const OrtKernelDef** out_kernel_def);

  /* Hands over packed buffers, which the cache frees with the allocator that PrePackWeight got, even after an
     error. Once for each call of PrePackWeight. */
  OrtStatus* (ORT_API_CALL* SharedPrePackedWeightCache_StoreWeightData)(
      OrtSharedPrePackedWeightCache* prepacked_weight_cache, void** buffer_data_ptrs,
      size_t* buffer_data_sizes, size_t num_buffers);

  /* The EP that a kernel is made for; borrowed. */
  OrtStatus* (ORT_API_CALL* KernelInfo_GetEp)(const OrtKernelInfo* info, const OrtEp** ep);

  /* Fills in reasons (bits), the EP's own error number (0: none) and text (copied; NULL: none). */
  OrtStatus* (ORT_API_CALL* DeviceEpIncompatibilityDetails_SetDetails)(
      OrtDeviceEpIncompatibilityDetails* details, uint32_t reasons_bitmask, int32_t error_code,
      const char* notes);

  /* The host's own kernels for control flow, to be returned by an OrtKernelCreateFunc; the helpers are taken
     over on success. */
  OrtStatus* (ORT_API_CALL* CreateIfKernel)(const OrtKernelInfo* kernel_info, OrtKernelImpl** kernel_out);
  OrtStatus* (ORT_API_CALL* CreateLoopKernel)(const OrtKernelInfo* kernel_info, OrtLoopKernelHelper* helper,
                                              OrtKernelImpl** kernel_out);
  OrtStatus* (ORT_API_CALL* CreateScanKernel)(const OrtKernelInfo* kernel_info, OrtScanKernelHelper* helper,
                                              OrtKernelImpl** kernel_out);

  /* Calls a kernel's Release; NULL does nothing. */
  void (ORT_API_CALL* ReleaseKernelImpl)(OrtKernelImpl* input);

  /* A copy of the environment's options by name; the caller releases it. */
  OrtStatus* (ORT_API_CALL* GetEnvConfigEntries)(OrtKeyValuePairs** config_entries);

  EPHOST_SINCE(25)

  /* An operator's schema as of an opset version; NULL without an error when the host has none. The caller
     releases it. */
  OrtStatus* (ORT_API_CALL* GetOpSchema)(const char* name, int max_inclusive_version, const char* domain,
                                         OrtOpSchema** out_schema);
  void (ORT_API_CALL* ReleaseOpSchema)(OrtOpSchema* input);

  /* Its version, and its formal inputs; names are borrowed from the schema. */
  OrtStatus* (ORT_API_CALL* OpSchema_GetSinceVersion)(const OrtOpSchema* schema, int* out);
  OrtStatus* (ORT_API_CALL* OpSchema_GetNumInputs)(const OrtOpSchema* schema, size_t* out);
  OrtStatus* (ORT_API_CALL* OpSchema_GetInputName)(const OrtOpSchema* schema, size_t index, const char** out);

  /* The type parameter of an input, borrowed; NULL when its type is fixed. */
  OrtStatus* (ORT_API_CALL* OpSchema_GetInputTypeConstraint)(const OrtOpSchema* schema, size_t index,
                                                             const OrtOpSchemaTypeConstraint** out);

  /* The same for its formal outputs. */
  OrtStatus* (ORT_API_CALL* OpSchema_GetNumOutputs)(const OrtOpSchema* schema, size_t* out);
  OrtStatus* (ORT_API_CALL* OpSchema_GetOutputName)(const OrtOpSchema* schema, size_t index,
                                                    const char** out);
  OrtStatus* (ORT_API_CALL* OpSchema_GetOutputTypeConstraint)(const OrtOpSchema* schema, size_t index,
                                                              const OrtOpSchemaTypeConstraint** out);

  /* Its type parameters, borrowed. */
  OrtStatus* (ORT_API_CALL* OpSchema_GetTypeConstraintCount)(const OrtOpSchema* schema, size_t* out);
  OrtStatus* (ORT_API_CALL* OpSchema_GetTypeConstraint)(const OrtOpSchema* schema, size_t index,
                                                        const OrtOpSchemaTypeConstraint** out);

  /* A parameter's name ("T"), types as in "tensor(float)", and the inputs and outputs that have it. All
     borrowed from the schema. */
  OrtStatus* (ORT_API_CALL* OpSchemaTypeConstraint_GetTypeParamName)(
      const OrtOpSchemaTypeConstraint* type_constraint, const char** out);
  OrtStatus* (ORT_API_CALL* OpSchemaTypeConstraint_GetAllowedTypes)(
      const OrtOpSchemaTypeConstraint* type_constraint, const char* const** out_types, size_t* num_types);
  OrtStatus* (ORT_API_CALL* OpSchemaTypeConstraint_GetInputIndices)(
      const OrtOpSchemaTypeConstraint* type_constraint, const size_t** out_indices, size_t* count);
  OrtStatus* (ORT_API_CALL* OpSchemaTypeConstraint_GetOutputIndices)(
      const OrtOpSchemaTypeConstraint* type_constraint, const size_t** out_indices, size_t* count);

  /* An event with its place in time (microseconds since profiling began), and arguments. Texts are copied; -1
     for a process or thread that is not known. */
  OrtStatus* (ORT_API_CALL* CreateProfilingEvent)(OrtProfilingEventCategory category, int32_t process_id,
      int32_t thread_id, const char* event_name, int64_t timestamp_us, int64_t duration_us,
      const char* const* arg_keys, const char* const* arg_values, size_t num_args, OrtProfilingEvent** out);
  void (ORT_API_CALL* ReleaseProfilingEvent)(OrtProfilingEvent* input);

  /* Its parts, borrowed. */
  OrtStatus* (ORT_API_CALL* ProfilingEvent_GetCategory)(const OrtProfilingEvent* event,
                                                        OrtProfilingEventCategory* out);
  OrtStatus* (ORT_API_CALL* ProfilingEvent_GetName)(const OrtProfilingEvent* event, const char** out);
  OrtStatus* (ORT_API_CALL* ProfilingEvent_GetTimestampUs)(const OrtProfilingEvent* event, int64_t* out);
  OrtStatus* (ORT_API_CALL* ProfilingEvent_GetDurationUs)(const OrtProfilingEvent* event, int64_t* out);

  /* An argument's text, borrowed; NULL when there is no such argument. */
  OrtStatus* (ORT_API_CALL* ProfilingEvent_GetArgValue)(const OrtProfilingEvent* event, const char* key,
                                                        const char** out);

  /* Adds copies of events; they stay the caller's. */
  OrtStatus* (ORT_API_CALL* ProfilingEventsContainer_AddEvents)(OrtProfilingEventsContainer* events_container,
                                                                const OrtProfilingEvent* const* events,
                                                                size_t num_events);

  EPHOST_SINCE(30)

  /* What SessionOptionsSetWeightlessSourceModelBuffer set, borrowed; NULL and 0 when nothing was. First seen
     in 1.29 or 1.30; taken as 30 here. */
  OrtStatus* (ORT_API_CALL* SessionOptionsGetWeightlessSourceModelBuffer)(
      const OrtSessionOptions* session_options, const void** source_model_data,
      size_t* source_model_data_length);

  EPHOST_SINCE(31)

  /* What a session's options say of EPContext data, for an EP that calls it in CreateEp and keeps it for
     Compile. The EP's to release; it does not own the callbacks' state. */
  OrtStatus* (ORT_API_CALL* SessionOptions_GetEpContextConfig)(const OrtSessionOptions* session_options,
                                                               OrtEpContextConfig** config);
  void (ORT_API_CALL* ReleaseEpContextConfig)(OrtEpContextConfig* config);

  /* The callback and its state, both NULL where there is none: the EP then reads or writes a file. */
  OrtStatus* (ORT_API_CALL* EpContextConfig_GetEpContextDataReadFunc)(const OrtEpContextConfig* config,
                                                                      OrtReadNamedBufferFunc* read_func,
                                                                      void** state);
  OrtStatus* (ORT_API_CALL* EpContextConfig_GetEpContextDataWriteFunc)(const OrtEpContextConfig* config,
                                                                       OrtWriteNamedBufferFunc* write_func,
                                                                       void** state);
};

#ifdef __cplusplus
}
#endif

#endif
