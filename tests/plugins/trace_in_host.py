"""Does with trace_plugin what a list of actions says, inside one host, in a process of its own.

usage: trace_in_host.py HOST LIBRARY FOLDER

FOLDER holds ``actions.json``, a list of [name, arguments], and the files that they name. ``result.json`` has
for each action the lines that the plugin wrote meanwhile, and what came of it: a value, or the error.
"""

import ctypes
import gc
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

NAMES = ("trace", "CUDAExecutionProvider")  # what the EP may be called


def _number(pointer: Any) -> int:
    from ephost._bindings import ffi

    return int(ffi.cast("uintptr_t", pointer))


def _native(host: Any) -> Any:
    return importlib.import_module(f"{host.__name__}.capi.onnxruntime_pybind11_state")


class Actions:
    """What a test may ask for; sessions are numbered in the order in which they were opened."""

    def __init__(self, host: Any, library: str, folder: Path) -> None:
        self.host, self.library, self.folder = host, library, folder
        self.sessions: list[Any] = []
        self.container: Any = None
        self.name = "tracing"

    def rename(self, name: str) -> None:
        self.name = name

    def register(self) -> list[str]:
        self.host.register_execution_provider_library(self.name, self.library)
        return [f"{d.ep_name} {d.device.type.name}" for d in self.devices()]

    def unregister(self) -> None:
        self.host.unregister_execution_provider_library(self.name)

    def devices(self) -> list[Any]:
        return [device for device in self.host.get_ep_devices() if device.ep_name in NAMES]

    def options(
        self,
        config: dict[str, str],
        on: bool = True,
        weights: str = "",
        custom: bool = False,
        which: int = 0,
        ep_options: dict[str, str] | None = None,
        delegate: bool = False,
        **sets: Any,
    ) -> Any:
        options = self.host.SessionOptions()
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        options.graph_optimization_level = self.host.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        for key, value in config.items():
            options.add_session_config_entry(key, value)
        for key, value in sets.items():
            setattr(options, key, value)
        if weights:
            if not hasattr(self, "weights"):
                with np.load(self.folder / weights) as held:
                    self.weights = {n: self.host.OrtValue.ortvalue_from_numpy(a) for n, a in held.items()}
            for name, value in self.weights.items():
                options.add_initializer(name, value)
        if custom:
            options.register_custom_ops_library(self.library)
        if on:
            options.add_provider_for_devices([self.devices()[which]], ep_options or {})
        if delegate:
            options.set_provider_selection_policy_delegate(lambda *_: [self.devices()[which]])
        return options

    def open(
        self,
        model: str,
        config: dict[str, str] | None = None,
        shared: bool = False,
        providers: list[Any] | None = None,
        **more: Any,
    ) -> Any:
        options = self.options(config or {}, **more)
        path = str(self.folder / model)
        if shared:
            self.container = self.container or self.host.PrepackedWeightsContainer()
            session = self.host.InferenceSession(
                path, options, enable_fallback=0, prepacked_weights_container=self.container
            )
        else:
            named = [tuple(entry) if isinstance(entry, list) else entry for entry in providers or ()]
            session = self.host.InferenceSession(path, options, named or None, enable_fallback=0)
        self.sessions.append(session)
        return [
            [group.ep_name, [node.op_type for node in group.get_nodes()]]
            for group in session.get_provider_graph_assignment_info()
        ]

    def run(self, feeds: str, at: int = 0, config: dict[str, str] | None = None, times: int = 1) -> Any:
        session, options = self.sessions[at], self.host.RunOptions()
        for key, value in (config or {}).items():
            options.add_run_config_entry(key, value)
        with np.load(self.folder / feeds) as held:
            fed = dict(held)
        for _ in range(times):
            outputs = session.run(None, fed, options)
        return [np.asarray(output).tolist() for output in outputs]

    def shapes(self, at: int = 0) -> Any:
        return [[o.name, o.type, o.shape] for o in self.sessions[at].get_outputs()]

    def run_bound(
        self,
        feeds: str,
        at: int = 0,
        config: dict[str, str] | None = None,
        keep: bool = False,
        times: int = 1,
    ) -> Any:
        """A run on an IO binding; ``keep`` takes the binding of the last one as it is."""
        session, options = self.sessions[at], self.host.RunOptions()
        for key, value in (config or {}).items():
            options.add_run_config_entry(key, value)
        if not keep:
            self.binding = session.io_binding()
            with np.load(self.folder / feeds) as held:
                for name, array in dict(held).items():
                    self.binding.bind_cpu_input(name, array)
            for output in session.get_outputs():
                self.binding.bind_output(output.name)
        for _ in range(times):
            session.run_with_iobinding(self.binding, options)
        return [np.asarray(output).tolist() for output in self.binding.copy_outputs_to_cpu()]

    def synchronize(self, outputs: bool) -> None:
        """On the binding of the last :meth:`run_bound`."""
        if outputs:
            self.binding.synchronize_outputs()
        else:
            self.binding.synchronize_inputs()

    def profile(self, at: int = 0) -> Any:
        events = json.loads(Path(self.sessions[at].end_profiling()).read_text())
        return [event["name"] for event in events]

    def set_dynamic(self, entries: dict[str, str], at: int = 0) -> None:
        self.sessions[at].set_ep_dynamic_options(entries)

    def provider_options(self, at: int = 0) -> dict[str, dict[str, str]]:
        return self.sessions[at].get_provider_options()

    def release_captured(self, number: int, at: int = 0) -> None:
        self.sessions[at].release_captured_graph(number)

    def misfit(self) -> Any:
        device = next(d.device for d in self.devices())
        return _native(self.host).get_hardware_device_ep_incompatibility_details("trace", device)

    def interop(self) -> None:
        ctypes.CDLL(self.library).trace_plugin_interop()

    def refused(self, at: int = 0) -> Any:
        """Of each refused claim of the EP the first node's name, and the reason."""
        assignments = self.sessions[at]._resources.assignments
        return [[nodes[0].name, reason] for a in assignments[:1] for nodes, reason in a.refused]

    def hardware(self) -> Any:
        return [[d.device.type.name, d.device.vendor, dict(d.device.metadata)] for d in self.devices()]

    def close(self, at: int = 0) -> None:
        self.sessions[at] = None
        gc.collect()

    def packed_weights(self) -> list[int]:
        """Weights and bytes in the container; in how many places the sessions' first kernels' weights are."""
        held = self.container
        lent = [s._resources.assignments[0].kernels[0].shared[0].pointer for s in self.sessions]
        return [len(held or ()), held.nbytes if held else 0, len({int(p) for p in map(_number, lent)})]

    def drop_container(self) -> None:
        self.container = None
        gc.collect()


def main(host_name: str, library: str, folder: Path) -> None:
    """See the module's docstring."""
    host = importlib.import_module(host_name)
    host.set_default_logger_severity(3)
    lines = Path(os.environ["TRACE_PLUGIN_LINES"])
    actions, results, told = Actions(host, library, folder), [], 0
    for name, arguments in json.loads((folder / "actions.json").read_text()):
        result: dict[str, Any] = {}
        try:
            result["value"] = getattr(actions, name)(**arguments)
        except Exception as error:
            result["error"], result["message"] = type(error).__name__, str(error)
        written = lines.read_bytes() if lines.exists() else b""
        result["lines"], told = written[told:].decode().splitlines(), len(written)
        results.append(result)
    (folder / "result.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
