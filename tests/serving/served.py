"""A model server in a process of its own, for the tests, and folders of small models for it."""

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

for needed in ("starlette", "uvicorn", "grpc", "prometheus_client"):
    pytest.importorskip(needed, reason="the extra ephost[serve] is not installed")

START_SECONDS = 120.0
KINDS = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BF16": TensorProto.BFLOAT16,
    "BYTES": TensorProto.STRING,
}


def save(folder: Path, name: str, model: onnx.ModelProto, version: int = 1, config: str = "") -> None:
    """Put a model into a repository."""
    (folder / name / str(version)).mkdir(parents=True, exist_ok=True)
    (folder / name / str(version) / "model.onnx").write_bytes(model.SerializeToString())
    if config:
        (folder / name / "config.toml").write_text(config, encoding="utf-8")


def make_model(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: Any = ()
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "served", inputs, outputs, list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def identity(kind: int, dims: Any = ("n", "m")) -> onnx.ModelProto:
    """One input x, and the same as output y."""
    return make_model(
        [helper.make_node("Identity", ["x"], ["y"])],
        [helper.make_tensor_value_info("x", kind, dims)],
        [helper.make_tensor_value_info("y", kind, dims)],
    )


def add_and_subtract(dims: Any = ("n", 4)) -> onnx.ModelProto:
    """a, b float: sum and difference."""
    return make_model(
        [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Sub", ["a", "b"], ["difference"])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in "ab"],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in ("sum", "difference")],
    )


def scaled(factor: float, dims: Any = ("n", 4)) -> onnx.ModelProto:
    """y = x * factor."""
    constant = helper.make_tensor("factor", TensorProto.FLOAT, (), [factor])
    return make_model(
        [helper.make_node("Mul", ["x", "factor"], ["y"])],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)],
        [constant],
    )


def looked_up() -> onnx.ModelProto:
    """y[i] = table[index[i]] of three rows: an index of 7 fails in the run."""
    table = helper.make_tensor("table", TensorProto.FLOAT, (3, 2), range(6))
    return make_model(
        [helper.make_node("Gather", ["table", "index"], ["y"])],
        [helper.make_tensor_value_info("index", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [table],
    )


def endless(dims: Any = ("n",)) -> onnx.ModelProto:
    """Counts to rounds[0]: a run that takes as long as it is told."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_out"]),
            helper.make_node("Add", ["value", "one"], ["value_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("value", TensorProto.INT64, []),
        ],
        [
            helper.make_tensor_value_info("go_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("value_out", TensorProto.INT64, []),
        ],
    )
    return make_model(
        [
            helper.make_node("ReduceMax", ["rounds"], ["most"], keepdims=0),
            helper.make_node("Loop", ["most", "", "zero"], ["count"], body=body),
            helper.make_node("Expand", ["count", "shape"], ["y"]),
        ],
        [helper.make_tensor_value_info("rounds", TensorProto.INT64, dims)],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [1])],
        [
            helper.make_tensor("zero", TensorProto.INT64, (), [0]),
            helper.make_tensor("one", TensorProto.INT64, (), [1]),
            helper.make_tensor("shape", TensorProto.INT64, (1,), [1]),
        ],
    )


class Served:
    """``ephost serve`` on a folder, with ports of its own; what it logs is in ``logged``."""

    def __init__(self, folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
        command = [
            sys.executable,
            "-m",
            "ephost",
            "serve",
            str(folder),
            "--http-port",
            "0",
            "--grpc-port",
            "0",
        ]
        self.process = subprocess.Popen(
            [*command, *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.logged: list[dict[str, Any]] = []
        self.texts: list[str] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._ready.wait(START_SECONDS)
        ready = [each for each in self.logged if each.get("event") == "ready"]
        if not ready:
            self.process.kill()
            raise RuntimeError("the server did not start:\n" + "".join(self.texts))
        self.http_port = ready[0].get("http_port")
        self.grpc_port = ready[0].get("grpc_port")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.texts.append(line)
            try:
                self.logged.append(json.loads(line))
            except ValueError:
                continue
            if self.logged[-1].get("event") == "ready":
                self._ready.set()
        self._ready.set()

    def ask(
        self,
        path: str,
        body: bytes | dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        method: str | None = None,
    ) -> tuple[int, Any, Any]:
        """A request: the status, the body (parsed, if it is JSON alone) and the headers of the answer."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        url = f"http://127.0.0.1:{self.http_port}{path}"
        request = urllib.request.Request(url, data, headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return _answer(answer)
        except urllib.error.HTTPError as answer:
            with answer:
                return _answer(answer)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Tell it to end; its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join(10)
        return code

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)
        self._reader.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()


def _answer(answer: Any) -> tuple[int, Any, Any]:
    data = answer.read()
    if answer.headers.get("Content-Type") == "application/json":
        data = json.loads(data)
    return answer.status, data, answer.headers
