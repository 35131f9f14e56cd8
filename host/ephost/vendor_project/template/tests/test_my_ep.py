"""What the execution provider promises, in each host that is installed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from typing import Any

import my_ep
import numpy as np
import onnx.parser
import pytest

HEAD = '<ir_version: 8, opset_import: ["": 17]>'
FUSED = """g (float[n, 4] a, float[4] b) => (float[n, 4] y) <float half = {0.5}> {
  sum = Add(a, b)  scaled = Mul(sum, half)  y = Relu(scaled)
}"""
# Nobody can run the two Relus as one: Exp has to run in between.
DETOUR = "g (float[4] a) => (float[4] y) { r = Relu(a)  e = Exp(r)  s = Add(r, e)  y = Relu(s) }"


@pytest.fixture(params=["ephost", "onnxruntime"], scope="module")
def host(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A host in which the library is registered."""
    module = pytest.importorskip(request.param)
    module.register_execution_provider_library("my_ep", my_ep.get_library_path())
    yield module
    module.unregister_execution_provider_library("my_ep")


def open_session(host: Any, graph: str, **ep_options: str) -> Any:
    """A session of a graph in ONNX's text format; errors of the plugin are raised."""
    options = host.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.graph_optimization_level = host.GraphOptimizationLevel.ORT_DISABLE_ALL
    devices = [device for device in host.get_ep_devices() if device.ep_name == my_ep.get_ep_name()]
    options.add_provider_for_devices(devices, ep_options)
    model = onnx.parser.parse_model(HEAD + graph)
    return host.InferenceSession(model.SerializeToString(), options, enable_fallback=0)


def taken(session: Any) -> list[list[str]]:
    """The operators of each group that the execution provider runs."""
    groups = session.get_provider_graph_assignment_info()
    return [
        sorted(node.op_type for node in group.get_nodes()) for group in groups if group.ep_name == "my_ep"
    ]


def test_it_offers_a_device_with_its_version_and_options(host: Any) -> None:
    offered = [device for device in host.get_ep_devices() if device.ep_name == "my_ep"]
    assert offered
    assert offered[0].ep_metadata["version"] == metadata.version("my-ep")  # from the factory
    assert offered[0].ep_options["min_group"] == "1"


@pytest.mark.parametrize("rows", [1, 3, 0])
def test_neighbours_become_one_group_and_compute_what_numpy_does(host: Any, rows: int) -> None:
    session = open_session(host, FUSED)
    assert taken(session) == [["Add", "Mul", "Relu"]]
    a = np.linspace(-2, 2, rows * 4, dtype=np.float32).reshape(rows, 4)
    b = np.arange(4, dtype=np.float32)
    (y,) = session.run(None, {"a": a, "b": b})
    np.testing.assert_allclose(y, np.maximum((a + b) * 0.5, 0), rtol=1e-6)


def test_what_it_does_not_know_is_left_to_others_and_never_encircled(host: Any) -> None:
    session = open_session(host, DETOUR)
    assert sorted(taken(session)) == [["Add", "Relu"], ["Relu"]]
    a = np.array([-1, 0, 1, 2], np.float32)
    (y,) = session.run(None, {"a": a})
    r = np.maximum(a, 0)
    np.testing.assert_allclose(y, r + np.exp(r), rtol=1e-6)


def test_small_groups_are_left_where_the_option_says_so(host: Any) -> None:
    assert taken(open_session(host, DETOUR, min_group="2")) == [["Add", "Relu"]]


@pytest.mark.parametrize("value", ["0", "-1", "many", "", "1.5"])
def test_a_wrong_option_is_refused_by_its_name(host: Any, value: str) -> None:
    with pytest.raises(Exception, match=f"min_group is '{value}'"):
        open_session(host, FUSED, min_group=value)


def test_shapes_that_do_not_fit_are_an_error_and_the_session_goes_on(host: Any) -> None:
    session = open_session(host, "g (float[n] a, float[m] b) => (float[k] y) { y = Add(a, b) }")
    assert taken(session) == [["Add"]]
    two, three = np.ones(2, np.float32), np.ones(3, np.float32)
    with pytest.raises(Exception, match=r"shapes \(2\) and \(3\) do not fit"):
        session.run(None, {"a": two, "b": three})
    assert session.run(None, {"a": two, "b": two})[0].tolist() == [2, 2]
