"""Does with throwing_plugin what sessions do, inside one host, in a process of its own.

usage: throw_in_host.py HOST LIBRARY FOLDER FUNCTION [THREADS]

FOLDER holds ``model.onnx``, with an input ``x`` and one output. Everything is done twice: while FUNCTION
throws, and after that. What is written to stdout as JSON says of each time how far it came, the error, and
what was logged as a warning or an error meanwhile.
"""

import concurrent.futures
import gc
import importlib
import json
import logging
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def run(host: Any, model: str, threads: int, done: dict[str, Any]) -> None:
    """A session, runs on several threads, and its end; ``done`` says what is under way."""
    done["stage"] = "open"
    known = ("CPUExecutionProvider", "CPU")
    devices = [device for device in host.get_ep_devices() if device.ep_name not in known]
    options = host.SessionOptions()
    options.graph_optimization_level = host.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_provider_for_devices(devices[-1:], {})
    options.intra_op_num_threads = threads
    session = host.InferenceSession(model, options, enable_fallback=0)
    done["stage"] = "run"
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        runs = [pool.submit(session.run, None, {"x": X}) for _ in range(2 * threads)]
    done["outputs"] = [run.result()[0].tolist() for run in runs]
    done["stage"] = "close"


def use(host: Any, library: str, model: str, threads: int, done: dict[str, Any]) -> None:
    """From registering to unregistering."""
    done["stage"] = "register"
    try:
        host.register_execution_provider_library("throwing", library)
    except Exception as error:
        done["error"], done["message"] = type(error).__name__, str(error)
        return
    try:
        run(host, model, threads, done)
        gc.collect()
        done["stage"] = "end"
    except Exception as error:
        done["error"], done["message"] = type(error).__name__, str(error)
        traceback.clear_frames(error.__traceback__)  # they hold the session
    gc.collect()
    host.unregister_execution_provider_library("throwing")


class Heard(logging.Handler):
    """Keeps warnings and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def main(host_name: str, library: str, folder: str, function: str, threads: str = "1") -> None:
    """See the module's docstring."""
    host = importlib.import_module(host_name)
    heard = Heard()
    logging.getLogger().addHandler(heard)
    times = []
    for name in (function, "std::uncaught_exceptions"):
        os.environ["THROW_AT"] = name
        done: dict[str, Any] = {}
        use(host, library, str(Path(folder) / "model.onnx"), int(threads), done)
        done["logged"] = heard.messages[:]
        heard.messages.clear()
        times.append(done)
    print(json.dumps(times))


if __name__ == "__main__":
    main(*sys.argv[1:])
