/* Names of options and of metadata, as strings. Values are strings too; a yes is "1", a no is "0" or not set.
   A host need not know them all. Macros, so that a plugin that uses a few carries only those. */
#ifndef EPHOST_CONFIG_KEYS_H_
#define EPHOST_CONFIG_KEYS_H_

/* ---- Environment (OrtEnvCreationOptions::config_entries) ---- */

/* "1": plugins may make hardware devices that the machine does not have. */
#define kOrtEnvAllowVirtualDevices "allow_virtual_devices"

/* ---- Metadata of EP devices, hardware devices and models ---- */

/* The EP's version, and that of the driver it uses. */
#define kOrtEpDevice_EpMetadataKey_Version "version"
#define kOrtEpDevice_EpMetadataKey_OSDriverVersion "os_driver_version"

/* In a compiled model: this, followed by the EP's name, holds its compatibility text. */
#define kOrtModelMetadata_EpCompatibilityInfoPrefix "ep_compatibility_info."

/* The file that the plugin was loaded from; added by the host. */
#define kOrtEpDevice_EpMetadataKey_LibraryPath "library_path"

/* "1" on a device that a plugin made. */
#define kOrtHardwareDevice_MetadataKey_IsVirtual "is_virtual"

/* ---- Runs (AddRunConfigEntry) ---- */

/* Devices ("cpu:0;gpu:0") whose arenas give unused memory back after the run. */
#define kOrtRunOptionsConfigEnableMemoryArenaShrinkage "memory.enable_memory_arena_shrinkage"

/* "1": do not wait for the devices at the end of the run. */
#define kOrtRunOptionsConfigDisableSynchronizeExecutionProviders "disable_synchronize_execution_providers"

/* For the QNN EP: power modes during and after the run, latency in microseconds, adapter file. */
#define kOrtRunOptionsConfigQnnPerfMode "qnn.htp_perf_mode"
#define kOrtRunOptionsConfigQnnPerfModePostRun "qnn.htp_perf_mode_post_run"
#define kOrtRunOptionsConfigQnnRpcControlLatency "qnn.rpc_control_latency"
#define kOrtRunOptionsConfigQnnLoraConfig "qnn.lora_config"

/* The number under which an EP records and replays the run as a graph; "-1": neither. */
#define kOrtRunOptionsConfigCudaGraphAnnotation "gpu_graph_id"

/* ---- Sessions (AddSessionConfigEntry) ---- */

/* "1": kernels are not offered their weights for packing. */
#define kOrtSessionOptionsConfigDisablePrepacking "session.disable_prepacking"

/* "1": use the allocators registered with the environment. */
#define kOrtSessionOptionsConfigUseEnvAllocators "session.use_env_allocators"

/* "ONNX" or "ORT"; told from the file's name when not set. */
#define kOrtSessionOptionsConfigLoadModelFormat "session.load_model_format"
#define kOrtSessionOptionsConfigSaveModelFormat "session.save_model_format"

/* "1": treat denormal floats as zero. */
#define kOrtSessionOptionsConfigSetDenormalAsZero "session.set_denormal_as_zero"

/* "1": leave quantised operators in their QDQ form; keep doubled pairs; remove pairs that are left over.
   */
#define kOrtSessionOptionsDisableQuantQDQ "session.disable_quant_qdq"
#define kOrtSessionOptionsDisableDoubleQDQRemover "session.disable_double_qdq_remover"
#define kOrtSessionOptionsEnableQuantQDQCleanup "session.enable_quant_qdq_cleanup"

/* "1": allow these rewrites, which change results slightly. */
#define kOrtSessionOptionsEnableGeluApproximation "optimization.enable_gelu_approximation"
#define kOrtSessionOptionsEnableCastChainElimination "optimization.enable_cast_chain_elimination"

/* "1": EPs see function nodes; their bodies are expanded only for those that nobody takes. */
#define kOrtSessionOptionsDisableAheadOfTimeFunctionInlining "session.disable_aot_function_inlining"

/* For training: recompute instead of keeping. */
#define kOrtSessionOptionsMemoryOptimizerApplyConfig "optimization.memory_optimizer_config"
#define kOrtSessionOptionsMemoryOptimizerProbeConfig "optimization.enable_memory_probe_recompute_config"

/* Names of rewrites not to apply, separated by ";". */
#define kOrtSessionOptionsDisableSpecifiedOptimizers "optimization.disable_specified_optimizers"

/* "0", "1" or "2": how often the rewrites are repeated. */
#define kOrtSessionOptionsGraphOptimizationsLoopLevel "session.graph_optimizations_loop_level"

/* "1": initialisers come from Reserve or the device's plain allocator instead of its arena. */
#define kOrtSessionOptionsUseDeviceAllocatorForInitializers "session.use_device_allocator_for_initializers"

/* "0": idle threads sleep at once. */
#define kOrtSessionOptionsConfigAllowInterOpSpinning "session.inter_op.allow_spinning"
#define kOrtSessionOptionsConfigAllowIntraOpSpinning "session.intra_op.allow_spinning"

/* "1": do not copy an ORT-format model's bytes, which must then outlive the session. */
#define kOrtSessionOptionsConfigUseORTModelBytesDirectly "session.use_ort_model_bytes_directly"
#define kOrtSessionOptionsConfigUseORTModelBytesForInitializers "session.use_ort_model_bytes_for_initializers"

/* "1": signed 8-bit quantised operators on the CPU; exact ones on AVX2. */
#define kOrtSessionOptionsQDQIsInt8Allowed "session.qdqisint8allowed"
#define kOrtSessionOptionsAvx2PrecisionMode "session.x64quantprecision"

/* "save" or "apply": rewrites kept for a minimal build. */
#define kOrtSessionOptionsConfigMinimalBuildOptimizations "optimization.minimal_build_optimizations"

/* Operators, separated by ",", after which the NNAPI EP takes nothing. */
#define kOrtSessionOptionsConfigNnapiEpPartitioningStopOps "ep.nnapi.partitioning_stop_ops"

/* A number: split parallel work in shrinking blocks; "0": equal blocks. */
#define kOrtSessionOptionsConfigDynamicBlockBase "session.dynamic_block_base"

/* "1": threads stop spinning when the last run ends. */
#define kOrtSessionOptionsConfigForceSpinningStop "session.force_spinning_stop"

/* "1": a shape or type that contradicts the inferred one is an error, not a warning. */
#define kOrtSessionOptionsConfigStrictShapeTypeInference "session.strict_shape_type_inference"

/* "1": refuse models whose opset is not released yet. */
#define kOrtSessionOptionsConfigStrictAllowReleasedOpsetsOnly "session.allow_released_opsets_only"

/* A file that assigns nodes to devices. */
#define kNodePartitionConfigFile "session.node_partition_config_file"

/* Processors of each thread but the first: "1,2;3,4" or "1-4;5-8", counted from 1. */
#define kOrtSessionOptionsConfigIntraOpThreadAffinities "session.intra_op_thread_affinities"

/* "1": save the model after each step of layout conversion. */
#define kDebugLayoutTransformation "session.debug_layout_transformation"

/* "1": a node that no chosen EP takes is an error. */
#define kOrtSessionOptionsDisableCPUEPFallback "session.disable_cpu_ep_fallback"

/* Where the saved optimised model puts initialisers, and from which size in bytes. */
#define kOrtSessionOptionsOptimizedModelExternalInitializersFileName \
  "session.optimized_model_external_initializers_file_name"
#define kOrtSessionOptionsOptimizedModelExternalInitializersMinSizeInBytes \
  "session.optimized_model_external_initializers_min_size_in_bytes"

/* Folder of a model's external data when the model itself came as bytes. */
#define kOrtSessionOptionsModelExternalInitializersFileFolderPath \
  "session.model_external_initializers_file_folder_path"

/* "1": save packed weights with the optimised model. */
#define kOrtSessionOptionsSavePrePackedConstantInitializers \
  "session.save_external_prepacked_constant_initializers"

/* Measure the memory of each node into a file, and partition by such a file and a limit ("KB,FILE"). */
#define kOrtSessionOptionsCollectNodeMemoryStatsToFile "session.collect_node_memory_stats_to_file"
#define kOrtSessionOptionsResourceCudaPartitioningSettings "session.resource_cuda_partitioning_settings"

/* "1": save the compiled model; where; "1" with the EP's binary inside it; a prefix for the names of its
   nodes. */
#define kOrtSessionOptionEpContextEnable "ep.context_enable"
#define kOrtSessionOptionEpContextFilePath "ep.context_file_path"
#define kOrtSessionOptionEpContextEmbedMode "ep.context_embed_mode"
#define kOrtSessionOptionEpContextNodeNamePrefix "ep.context_node_name_prefix"

/* "1": share compiled binaries between sessions; end sharing after this one. */
#define kOrtSessionOptionShareEpContexts "ep.share_ep_contexts"
#define kOrtSessionOptionStopShareEpContexts "ep.stop_share_ep_contexts"

/* Where a compiled model puts the initialisers left in it. */
#define kOrtSessionOptionsEpContextModelExternalInitializersFileName \
  "ep.context_model_external_initializers_file_name"

/* Faster, less exact matrix products on the CPU. */
#define kOrtSessionOptionsMlasGemmFastMathArm64Bfloat16 "mlas.enable_gemm_fastmath_arm64_bfloat16"
#define kOrtSessionOptionsMlasLutGemm "mlas.use_lut_gemm"
#define kOrtSessionOptionsQDQMatMulNBitsAccuracyLevel "session.qdq_matmulnbits_accuracy_level"

/* For SetEpDynamicOptions: "Default" or "Efficient". */
#define kOrtEpDynamicOptionsWorkloadType "ep.dynamic.workload_type"

/* "1": an error (ORT_MODEL_REQUIRES_COMPILATION) instead of compiling when the session opens. */
#define kOrtSessionOptionsDisableModelCompile "session.disable_model_compile"

/* "1": an error when a compiled model runs but should be compiled anew. */
#define kOrtSessionOptionsFailOnSuboptimalCompiledModel "session.fail_on_suboptimal_compiled_model"

/* For SetEpDynamicOptions of the QNN EP: its power mode. */
#define kOrtEpDynamicOptionsQnnHtpPerformanceMode "ep.dynamic.qnn_htp_performance_mode"

/* "1": Session_GetEpGraphAssignmentInfo answers. */
#define kOrtSessionOptionsRecordEpGraphAssignmentInfo "session.record_ep_graph_assignment_info"

#endif
