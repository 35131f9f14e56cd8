"""Single operators on a GPU, in PyTorch and on the CUDA plugin, in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ephost
import numpy as np
import onnx
from ephost.plugins import cuda
from harness.report import Row
from onnx import helper

NVIDIA = 0x10DE
node = helper.make_node
Queue = Callable[[], object]


@dataclass
class Case:
    """Nodes from arrays to ``y``, and the same in PyTorch; memory has to move ``x`` so many ``passes``."""

    name: str
    nodes: list[onnx.NodeProto]
    feeds: dict[str, np.ndarray]
    theirs: Callable[..., Any]
    passes: float = 0
    weights: dict[str, np.ndarray] = field(default_factory=dict)


class Gpu:
    """The first GPU of the plugin."""

    def __init__(self) -> None:
        ephost.register_execution_provider_library("cuda", cuda.get_library_path())
        self.devices = [device for device in ephost.get_ep_devices() if device.ep_name == "cuda"]
        if not self.devices:
            ask = ephost.get_hardware_device_ep_incompatibility_details
            notes = {ask("cuda", hardware)["notes"] for hardware in ephost.get_hardware_devices()}
            raise SystemExit(f"there is no GPU to measure: {'; '.join(sorted(filter(None, notes)))}")

    @property
    def name(self) -> str:
        """As its driver calls it."""
        return self.devices[0].ep_metadata["name"]

    def value(self, array: np.ndarray) -> Any:
        """A copy on the GPU."""
        return ephost.OrtValue.ortvalue_from_numpy(array, "gpu", 0, NVIDIA)

    def bound(self, case: Case) -> tuple[Queue, Queue, np.ndarray]:
        """A function that queues a run, one that waits for what is queued, and what a run gives."""
        options = ephost.SessionOptions()
        options.add_provider_for_devices(self.devices[:1], {})
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        session = ephost.InferenceSession(_model(case), options)
        binding = session.io_binding()
        for name, array in case.feeds.items():
            binding.bind_ortvalue_input(name, self.value(array))
        found = session.run(None, case.feeds)[0]
        binding.bind_ortvalue_output("y", self.value(found))
        unwaited = ephost.RunOptions()
        unwaited.add_run_config_entry("disable_synchronize_execution_providers", "1")
        return (
            lambda: session.run_with_iobinding(binding, unwaited),
            lambda: session.run_with_iobinding(binding),
            found,
        )

    def copies(self, array: np.ndarray) -> tuple[Queue, Queue]:
        """The same for copies of an array on the GPU."""
        stream = self.devices[0].create_sync_stream()
        source, target = self.value(array), self.value(array)
        return lambda: ephost.copy_tensors([source], [target], stream), stream.synchronize


def _model(case: Case) -> bytes:
    def described(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    kind = helper.np_dtype_to_tensor_dtype(case.feeds["x"].dtype)
    graph = helper.make_graph(
        case.nodes,
        "bench",
        [described(name, array) for name, array in case.feeds.items()],
        [helper.make_tensor_value_info("y", kind, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in case.weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return onnx.shape_inference.infer_shapes(made).SerializeToString()


def cases(size: int) -> Iterator[Case]:
    """What is measured, on arrays of so many bytes where memory is the limit."""
    import torch
    from torch.nn import functional as f

    random = np.random.default_rng(0)

    def real(*dims: int) -> np.ndarray:
        return random.standard_normal(dims, np.float32)

    for dtype in (np.float32, np.float16):
        kind = np.dtype(dtype).name
        x = real(size // np.dtype(dtype).itemsize // 1024, 1024).astype(dtype)
        s, b = real(1024).astype(dtype), real(1024).astype(dtype)
        yield Case(f"Relu, {kind}", [node("Relu", ["x"], ["y"])], {"x": x}, torch.relu, 2)
        yield Case(f"Add, {kind}", [node("Add", ["x", "z"], ["y"])], {"x": x, "z": x}, torch.add, 3)
        nodes = [node("Add", ["x", "b"], ["a"]), node("Gelu", ["a"], ["y"])]
        yield Case(f"bias and Gelu, {kind}", nodes, {"x": x}, lambda x, b: f.gelu(x + b), 2, {"b": b})
        yield Case(
            f"Softmax, {kind}", [node("Softmax", ["x"], ["y"])], {"x": x}, lambda x: torch.softmax(x, -1), 2
        )
        nodes = [node("LayerNormalization", ["x", "s", "b"], ["y"])]
        yield Case(
            f"LayerNormalization, {kind}",
            nodes,
            {"x": x},
            lambda x, s, b: f.layer_norm(x, (1024,), s, b),
            2,
            {"s": s, "b": b},
        )
        nodes = [node("ReduceMean", ["x", "a"], ["y"], keepdims=0)]
        yield Case(f"ReduceMean, {kind}", nodes, {"x": x}, lambda x, _: x.mean(1), 1, {"a": np.array([1])})
        nodes = [node("Transpose", ["x"], ["y"], perm=[1, 0])]
        yield Case(f"Transpose, {kind}", nodes, {"x": x}, lambda x: x.t().contiguous(), 2)
        nodes = [node("MatMul", ["x", "z"], ["y"])]
        for m, k, n in ((128, 768, 3072), (4096, 4096, 4096), (8192, 8192, 8192)):
            feeds = {"x": real(m, k).astype(dtype), "z": real(k, n).astype(dtype)}
            yield Case(f"MatMul {m} x {k} x {n}, {kind}", nodes, feeds, torch.matmul)
        feeds = {"x": real(96, 512, 64).astype(dtype), "z": real(96, 64, 512).astype(dtype)}
        yield Case(f"MatMul 96 of 512 x 64 x 512, {kind}", nodes, feeds, torch.matmul)
        for channels, side, window, group in (
            (64, 56, 3, 1),
            (256, 14, 3, 1),
            (256, 56, 1, 1),
            (96, 112, 3, 96),
        ):
            pads = window // 2
            weights = {"w": real(channels, channels // group, window, window).astype(dtype) / 24}
            yield Case(
                f"Conv 8 x {channels} x {side} x {side}, {window} x {window}, {group} groups, {kind}",
                [node("Conv", ["x", "w"], ["y"], pads=[pads] * 4, group=group)],
                {"x": real(8, channels, side, side).astype(dtype)},
                lambda x, w, pads=pads, group=group: f.conv2d(x, w, padding=pads, groups=group),
                weights=weights,
            )
        yield Case(f"Relu of 16 elements, {kind}", [node("Relu", ["x"], ["y"])], {"x": x[0, :16]}, torch.relu)


def _times(queue: Queue, wait: Queue) -> Callable[[], float]:
    """Measures seconds of what is queued once, without what the wait itself takes."""

    def span(calls: int) -> float:
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            queue()
        wait()
        return time.perf_counter() - start

    span(3)
    calls = max(2, min(2000, int(0.005 / (span(5) / 5))))
    return lambda: (span(3 * calls) - span(calls)) / (2 * calls)


def measure(gpu: Gpu, size: int, rounds: int, wanted: Callable[[str], bool]) -> list[Row]:
    """Rows of PyTorch's and our seconds, in turns; memory's limit is the better of two copies of an array."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False

    def in_turns(one: Callable[[], float], other: Callable[[], float]) -> tuple[float, float]:
        samples = [(one(), other()) for _ in range(rounds)]
        return statistics.median(a for a, _ in samples), statistics.median(b for _, b in samples)

    array = np.zeros(size // 4, np.float32)
    source, target = (torch.from_numpy(array).cuda() for _ in range(2))
    pair = _times(lambda: target.copy_(source), torch.cuda.synchronize), _times(*gpu.copies(array))
    copy = in_turns(*pair)
    rate = 2 * size / min(copy)
    rows = [Row(f"copy of {size >> 20} MB", *copy, least=min(copy))]
    for case in cases(size):
        if not wanted(case.name):
            continue
        queue, wait, found = gpu.bound(case)
        given = [torch.from_numpy(a).cuda() for a in (*case.feeds.values(), *case.weights.values())]
        theirs = case.theirs
        expected = theirs(*given).cpu().numpy().astype(np.float32)
        scale = np.abs(expected).max()
        if not np.allclose(found.astype(np.float32) / scale, expected / scale, atol=5e-3, rtol=5e-3):
            raise SystemExit(f"{case.name}: PyTorch gives something else")
        with torch.no_grad():
            one = _times(lambda theirs=theirs, given=given: theirs(*given), torch.cuda.synchronize)
            times = in_turns(one, _times(queue, wait))
        least = case.passes * case.feeds["x"].nbytes / rate if case.passes else None
        rows.append(Row(case.name, *times, limit=1.0, least=least))
    return rows
