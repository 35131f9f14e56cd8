"""SessionOptions and RunOptions, under onnxruntime's names."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ephost._bindings import api, check, ffi, text
from ephost.environment import OrtEpDevice
from ephost.errors import InvalidArgument, RuntimeException


class GraphOptimizationLevel(enum.IntEnum):
    """How much the host rewrites a model before plugins see it; below ENABLE_BASIC nothing is folded."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Whether nodes of one run may run side by side. The host runs them in order either way."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


def _entries(pairs: Mapping[str, Any] | None, what: str) -> dict[str, str]:
    checked = {}
    for key, value in (pairs or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"{what}: keys and values are str, not {key!r}: {value!r}")
        if not key or "\0" in key or "\0" in value:
            raise InvalidArgument(f"{what}: the entry {key!r}: {value!r} has an empty key, or a NUL")
        checked[key] = value
    return checked


class SessionOptions:
    """How a session is made. A session copies what it needs: later changes do not reach it."""

    def __init__(self) -> None:
        self.enable_cpu_mem_arena: bool = True
        self.enable_mem_pattern: bool = True
        self.enable_mem_reuse: bool = True
        self.enable_profiling: bool = False
        self.execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
        self.execution_order: int = 0
        self.graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.inter_op_num_threads: int = 0
        self.intra_op_num_threads: int = 0
        self.log_severity_level: int = -1
        self.log_verbosity_level: int = 0
        self.logid: str = ""
        self.optimized_model_filepath: str = ""
        self.profile_file_prefix: str = "onnxruntime_profile_"
        self.use_deterministic_compute: bool = False
        self._config: dict[str, str] = {}
        self._free_dimensions: dict[str, int] = {}
        self._free_denotations: dict[str, int] = {}
        self._providers: list[tuple[list[OrtEpDevice], dict[str, str]]] = []

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Set an option by its key, such as ``session.disable_cpu_ep_fallback``; plugins see all of them.

        Raises:
            TypeError: a key or value that is no str.
            InvalidArgument: an empty key.
        """
        self._config.update(_entries({key: value}, "add_session_config_entry"))

    def get_session_config_entry(self, key: str) -> str:
        """The value of an option.

        Raises:
            RuntimeException: it was not set.
        """
        if key not in self._config:
            raise RuntimeException(f"SessionOptions does not have configuration with key: {key}")
        return self._config[key]

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fix the dimensions of the model's inputs that bear this name."""
        self._free_dimensions[name] = _dimension(name, value)

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        """Fix the dimensions of the model's inputs that have this denotation."""
        self._free_denotations[denotation] = _dimension(denotation, value)

    def add_provider_for_devices(
        self, ep_devices: Sequence[OrtEpDevice], provider_options: Mapping[str, str]
    ) -> None:
        """Give the session an execution provider, behind those given before.

        Args:
            ep_devices: from :func:`ephost.get_ep_devices`, all of the same EP of the same library.
            provider_options: the EP's own options; it sees them as ``ep.<name in lower case>.<key>``.

        Raises:
            InvalidArgument: no device, devices of several EPs, or a device whose library is gone.
            TypeError: an option that is no str.
        """
        devices = list(ep_devices)
        if not devices:
            raise InvalidArgument("Must provide one or more OrtEpDevice instances.")
        for device in devices:
            if not isinstance(device, OrtEpDevice):
                raise TypeError(f"add_provider_for_devices takes OrtEpDevices, not {type(device).__name__}")
            if not device.is_registered:
                raise InvalidArgument(
                    f"the device of {device.ep_name} is of the library '{device.registration_name}', "
                    "which is not registered any more"
                )
        if len({(d.ep_name, int(_address(d._factory))) for d in devices}) > 1:
            names = ", ".join(dict.fromkeys(f"{d.ep_name} of '{d.registration_name}'" for d in devices))
            raise InvalidArgument(
                f"All OrtEpDevice values in ep_devices must have the same execution provider; these are of "
                f"{names}."
            )
        options = _entries(provider_options, f"options of {devices[0].ep_name}")
        self._providers.append((devices, options))

    def has_providers(self) -> bool:
        """Whether an execution provider was given."""
        return bool(self._providers)


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


def _dimension(name: str, value: int) -> int:
    if not isinstance(value, int) or value < 0:
        raise InvalidArgument(f"the dimension '{name}' cannot be {value!r}")
    return value


class RunOptions:
    """How one run is made. Runs may share it; ``terminate = True`` from any thread stops those under way."""

    def __init__(self) -> None:
        out = ffi.new("OrtRunOptions**")
        check(api.CreateRunOptions(out))
        self._pointer = ffi.gc(out[0], api.ReleaseRunOptions)
        self._address = _address(out[0])
        self.only_execute_path_to_fetches: bool = False
        self._terminate = False

    @property
    def terminate(self) -> bool:
        """Set to stop the runs that use these options before their next node."""
        return self._terminate

    @terminate.setter
    def terminate(self, value: bool) -> None:
        self._terminate = bool(value)
        check((api.RunOptionsSetTerminate if value else api.RunOptionsUnsetTerminate)(self._pointer))

    @property
    def logid(self) -> str:
        """A tag for the log messages of a run."""
        out = ffi.new("char**")
        check(api.RunOptionsGetRunTag(self._pointer, out))
        return text(out[0])

    @logid.setter
    def logid(self, value: str) -> None:
        check(api.RunOptionsSetRunTag(self._pointer, value.encode()))

    @property
    def log_severity_level(self) -> int:
        """Severity from which a run's messages are logged; plugins can ask for it."""
        out = ffi.new("int*")
        check(api.RunOptionsGetRunLogSeverityLevel(self._pointer, out))
        return int(out[0])

    @log_severity_level.setter
    def log_severity_level(self, value: int) -> None:
        check(api.RunOptionsSetRunLogSeverityLevel(self._pointer, value))

    @property
    def log_verbosity_level(self) -> int:
        """Verbosity of a run's messages; plugins can ask for it."""
        out = ffi.new("int*")
        check(api.RunOptionsGetRunLogVerbosityLevel(self._pointer, out))
        return int(out[0])

    @log_verbosity_level.setter
    def log_verbosity_level(self, value: int) -> None:
        check(api.RunOptionsSetRunLogVerbosityLevel(self._pointer, value))

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Set an option of the run by its string key; plugins see it."""
        for name, content in _entries({key: value}, "add_run_config_entry").items():
            check(api.AddRunConfigEntry(self._pointer, name.encode(), content.encode()))

    def get_run_config_entry(self, key: str) -> str:
        """The value of an option of the run.

        Raises:
            RuntimeException: it was not set.
        """
        found = api.GetRunConfigEntry(self._pointer, key.encode())
        if not found:
            raise RuntimeException(f"RunOptions does not have configuration with key: {key}")
        return text(found)


def thread_count(options: SessionOptions) -> int:
    """Threads of a session's pool: the user's number, or that of the processors this process may use."""
    if options.intra_op_num_threads > 0:
        return options.intra_op_num_threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
