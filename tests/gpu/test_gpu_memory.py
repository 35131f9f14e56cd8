"""Memory, copies and streams on a real GPU."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import ephost
import numpy as np
import pytest
from ephost.errors import OnnxRuntimeException
from onnx import TensorProto, helper


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.bool_])
def test_values_go_there_and_back(gpus: list[ephost.OrtEpDevice], dtype: type) -> None:
    x = (np.arange(1_000_003) % 7).astype(dtype)
    for number in range(len(gpus)):
        value = ephost.OrtValue.ortvalue_from_numpy(x, "gpu", number, 0x10DE)
        assert np.array_equal(value.numpy(), x)


def test_queued_copies_are_in_order(gpus: list[ephost.OrtEpDevice]) -> None:
    stream = gpus[0].create_sync_stream()
    target = ephost.OrtValue.ortvalue_from_numpy(np.zeros(1 << 20, np.float32), "gpu", 0, 0x10DE)
    for i in range(50):
        source = ephost.OrtValue.ortvalue_from_numpy(np.full(1 << 20, i, np.float32), "gpu", 0, 0x10DE)
        ephost.copy_tensors([source], [target], stream)
        del source  # while the copy may still be queued
    assert (target.numpy() == 49).all()


def test_metadata_describe_the_gpu(gpus: list[ephost.OrtEpDevice]) -> None:
    for device in gpus:
        metadata = device.ep_metadata
        assert int(metadata["memory"]) > 1 << 30
        assert float(metadata["compute_capability"]) >= 7.5
        assert metadata["name"] and metadata["uuid"].startswith("GPU-")


def softmax_on(gpus: list[ephost.OrtEpDevice], **options: str) -> ephost.InferenceSession:
    nodes = [
        helper.make_node("Softmax", ["x"], ["s"]),
        helper.make_node("Transpose", ["s"], ["y"], perm=[1, 0]),
    ]
    info = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"])]
    graph = helper.make_graph(nodes, "g", info, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    settings = ephost.SessionOptions()
    settings.add_provider_for_devices(gpus[:1], options)
    return ephost.InferenceSession(model.SerializeToString(), settings, enable_fallback=0)


def check_softmax(session: ephost.InferenceSession, rows: int, columns: int) -> None:
    x = np.random.default_rng(rows).standard_normal((rows, columns), np.float32)
    parts = np.exp(x - x.max(1, keepdims=True))
    got = session.run(None, {"x": x})[0]
    np.testing.assert_allclose(got, (parts / parts.sum(1, keepdims=True)).T, 1e-4, 1e-6)


def test_threads_run_at_once(gpus: list[ephost.OrtEpDevice]) -> None:
    sessions = [softmax_on(gpus) for _ in range(3)]

    def work(i: int) -> None:
        for k in range(20):
            check_softmax(sessions[(i + k) % 3], 100 + (i * 7 + k) % 13, 100 * (1 + (i + k) % 4))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_a_full_gpu_is_an_error_and_the_session_goes_on(gpus: list[ephost.OrtEpDevice]) -> None:
    session = softmax_on(gpus, memory_limit="64M")
    check_softmax(session, 100, 100)
    for _ in range(2):
        with pytest.raises(OnnxRuntimeException, match=r"64\.0 MiB|67108864"):
            session.run(None, {"x": np.zeros((1000, 10_000), np.float32)})
        check_softmax(session, 100, 100)


def test_more_than_the_gpu_has_is_refused(gpus: list[ephost.OrtEpDevice]) -> None:
    too_much = int(gpus[0].ep_metadata["memory"]) * 16  # by far: others may be on the GPU
    with pytest.raises(OnnxRuntimeException, match=r"no [0-9]+ bytes of ephost_cuda memory"):
        ephost.OrtValue.ortvalue_from_shape_and_type([too_much], np.float32, "gpu", 0, 0x10DE)
    assert ephost.OrtValue.ortvalue_from_numpy(np.ones(4, np.float32), "gpu", 0, 0x10DE).numpy().sum() == 4
