"""The keys of configuration entries that are known, so that a misspelt one does not go unnoticed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache

from ephost._bindings import lib, text
from ephost.host_log import HostLog
from ephost.isolation.settings import ENTRIES
from ephost.suggestions import closest

_LOG = HostLog("ephost.options")
_SESSION, _RUN = "kOrtSessionOption", "kOrtRunOption"  # what the constants of their keys begin with
_ALIKE = 0.85  # from there on a key that is not known is taken for another one
_OWN = ("ephost.enable_fallback", "ephost.offer_subgraphs", "ephost.record_refusals", *ENTRIES)
# Keys that onnxruntime 1.32.0 and plugins for it know, and no published header of the ABI has.
_ONNXRUNTIMES = (
    "ep.context_source_model_path",
    "ep.cpu.qmoe_deferred_scale",
    "ep.cuda.fpa_intb_dequant_gemm_min_m",
    "ep.cuda.fpa_intb_gemm",
    "ep.cuda.fpa_intb_profile_m",
    "ep.cuda.gqa_workspace_max_total_sequence_length",
    "ep.cuda.matmul_nbits_m_chunk_size",
    "ep.cuda.moe_packed_gpu_experts",
    "ep.cuda.runtime_fusion.causal_conv_with_state",
    "ep.cuda.runtime_fusion.unit_swish",
    "ep.enable_weightless",
    "mlas.disable_kleidiai",
    "mlas.kleidiai.conv_igemm_max_work",
    "mlas.nchwc_depthwise_sliding",
    "mlas.nchwc_pointwise_conv_max_input_channel_batch",
    "mlas.qnbit.force_fp32",
    "optimization.constant_folding_max_output_size_in_bytes",
    "session.compile_only",
    "session.disable_qdq_constant_folding",
    "session.enable_cpu_mem_arena",
    "session.enable_dq_matmulnbits_fusion",
    "session.enable_mem_pattern",
    "session.enable_moe_expert_counting",
    "session.enable_moe_expert_statistics",
    "session.enable_profiling",
    "session.enable_saved_runtime_optimizations",
    "session.execution_mode",
    "session.external_data_loader.chunk_bytes",
    "session.external_data_loader.min_size_bytes",
    "session.external_data_loader.pinned_memory_bytes",
    "session.external_data_loader.threads",
    "session.function_expansion_byte_limit",
    "session.function_expansion_node_limit",
    "session.gqa_value_layout",
    "session.graph_optimization_level",
    "session.inter_op.spin_backoff_max",
    "session.inter_op.spin_duration_us",
    "session.inter_op_num_threads",
    "session.intra_op.spin_backoff_max",
    "session.intra_op.spin_duration_us",
    "session.intra_op_num_threads",
    "session.kernel_dispatch_policy",
    "session.layer_assignment_settings",
    "session.log_id",
    "session.log_severity_level",
    "session.log_verbosity_level",
    "session.max_shape_override",
    "session.moe.offload.allow_file_backing",
    "session.moe.offload.async_max_tokens",
    "session.moe.offload.budget_group",
    "session.moe.offload.cpu_execution",
    "session.moe.offload.cpu_threads",
    "session.moe.offload.derived_cache_dir",
    "session.moe.offload.device_expert_bytes",
    "session.moe.offload.device_working_bytes",
    "session.moe.offload.gpu_budget_bytes",
    "session.moe.offload.gpu_device_mem_limit",
    "session.moe.offload.host_expert_bytes",
    "session.moe.offload.host_working_bytes",
    "session.moe.offload.min_expert_weight",
    "session.moe.offload.mode",
    "session.moe.offload.node_overrides",
    "session.moe.offload.pinned_bytes",
    "session.moe.offload.placement",
    "session.moe.offload.popularity_file",
    "session.moe.offload.prefill_wave_experts",
    "session.moe.offload.reserve_device_bytes",
    "session.moe.offload.skip_tail_cold_only",
    "session.moe.offload.skip_zero_cold_doorbell",
    "session.moe.offload.source_root",
    "session.moe.offload.tail_substitution_min_rank",
    "session.moe.offload.tail_substitution_threshold",
    "session.moe_expert_counter_alpha",
    "session.moe_expert_counter_beta",
    "session.moe_expert_counter_state_file",
    "session.name_based_layer_assignment",
    "session.optimized_model_filepath",
    "session.prepack.enable_parallel",
    "session.qdq_matmulnbits_block_size",
    "session.strict_workspace_verification",
    "session.use_deterministic_compute",
    "session.use_external_initializer_file_buffers_directly",
    "session.use_per_session_threads",
)
_told: set[str] = set()


@cache
def _published() -> dict[str, str]:
    """The keys of the ABI's headers with the names of their constants."""
    rows = (lib.ephost_config_key(at) for at in range(lib.ephost_config_key_count()))
    return {text(row.key): text(row.constant) for row in rows}


@cache
def session_keys() -> frozenset[str]:
    """What ``add_session_config_entry`` is known to take, options of execution providers apart."""
    published = (key for key, constant in _published().items() if constant.startswith(_SESSION))
    return frozenset([*published, *_ONNXRUNTIMES, *_OWN])


@cache
def run_keys() -> frozenset[str]:
    """What ``add_run_config_entry`` is known to take."""
    return frozenset(key for key, constant in _published().items() if constant.startswith(_RUN))


@lru_cache(maxsize=1 << 10)  # a program has few keys of its own, and gives them again and again
def _meant(key: str, of_run: bool = False) -> str | None:
    """The known key that another one is nearly."""
    return closest(key, run_keys() if of_run else session_keys(), _ALIKE)


def warn_of_session_keys(keys: Iterable[str], ep_prefixes: Iterable[str]) -> None:
    """Log a warning, once in a process, of each key that seems to be a mistake.

    That is any that is nearly a known one, and all others that begin as the session's own keys do. Other keys
    are a plugin's affair.

    Args:
        keys: of a session's entries.
        ep_prefixes: what the options of registered execution providers begin with, ``ep.<name>.``.
    """
    known, prefixes = session_keys(), tuple(ep_prefixes)
    for key in keys:
        if key in known or key.startswith(prefixes) or key in _told:
            continue
        meant = _meant(key)
        head, _, option = key.removeprefix("ep.").partition(".")
        if meant is None and key.startswith("ep.") and option:
            prefix = closest(f"ep.{head}.", prefixes, _ALIKE)
            meant = None if prefix is None else prefix + option
        if meant is not None:
            _tell("session", key, f": did you mean '{meant}'?")
        elif key.startswith("session."):
            _tell("session", key, "; plugins see it, and nobody else")


def warn_of_run_key(key: str) -> None:
    """The same of an entry of run options; those of plugins begin as they like."""
    if key not in run_keys() and key not in _told and (meant := _meant(key, of_run=True)):
        _tell("run", key, f": did you mean '{meant}'?")


def _tell(kind: str, key: str, rest: str) -> None:
    _told.add(key)
    _LOG.warning("no %s configuration entry '%s' is known%s", kind, key, rest)
