"""``ephost compare``: how near a whole model is."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import ephost
import numpy as np
import onnx
import onnx.parser
import pytest
from ephost.bisection.comparing import Comparison, Distances
from ephost.bisection.targets import Library, Target, named_target, plugin_target
from ephost.cli.inputs import describe
from ephost.errors import InvalidArgument
from ephost.plugins import sample_kernels
from plugin_harness import python_path
from searched_models import chain_model

pytestmark = [pytest.mark.usefixtures("cpu_plugin_as_default")]


def test_a_wrong_plugin_is_further_off_than_a_right_one(
    faulty_plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target("faulty", libraries=(Library("faulty", str(faulty_plugin)),))
    cpu = named_target("cpu")
    assert cpu is not None
    found = {}
    for fault in ("", "negatives@n4"):
        monkeypatch.setenv("EPHOST_FAULT", fault)
        (found[fault],) = ephost.compare(chain_model(6), target, cpu, count=20).outputs
        assert len(found[fault].largest) == 20
    assert max(found[""].largest) < 1e-5 < 1e-2 < min(found["negatives@n4"].largest)
    assert set(found[""].agreed) == {1.0}
    assert min(found["negatives@n4"].cosine) < 0.999 < min(found[""].cosine)


def test_the_command_prints_and_draws(tmp_path: Path) -> None:
    onnx.save(chain_model(4), tmp_path / "model.onnx")
    done = subprocess.run(
        [
            sys.executable, "-m", "ephost", "compare", str(tmp_path / "model.onnx"), "cpu", "reference",
            "--count", "3", "--json", "--html", str(tmp_path / "page.html"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": python_path()},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["inputs"] == 3
    assert [output["name"] for output in told["outputs"]] == ["v3"]
    assert "v3: errors" in (tmp_path / "page.html").read_text()


@pytest.mark.filterwarnings("error")
def test_the_largest_and_smallest_numbers_have_distances_that_json_can_hold() -> None:
    made = Distances("y")
    made.add(np.array([1.7e308, 1e200]), np.array([1.7e308, 1e200]))
    made.add(np.array([1.7e308, 0.0]), np.array([-1.7e308, 0.0]))
    made.add(np.array([1e-300, 2e-300]), np.array([1e-300, -2e-300]))
    made.add(np.array([1.7e308, 1.0]), np.array([1e-310, 1.0e-310]))
    assert made.largest == [0, 2, 2, math.inf]
    np.testing.assert_allclose(made.cosine[:3], [1, -1, -0.6])
    told = json.dumps(Comparison("m", "a", "b", 4, [made]).to_dict(), allow_nan=False)
    assert json.loads(told)["outputs"][0]["largest"] == [0, 2, 2, "inf"]


@pytest.mark.filterwarnings("error")
def test_the_mean_of_the_largest_numbers_is_one() -> None:
    assert describe(np.full(3, 1.7e308))["mean"] == pytest.approx(1.7e308)


def test_texts_are_compared_and_the_largest_is_looked_for_where_there_is_more_than_one() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        texts (float[1, 5] x, string[2] t) => (string[2] u, float[1, 5, 1] y) {
            u = Identity(t)
            axis = Constant<value_ints = [2]>()
            y = Unsqueeze(x, axis)
        }"""
    )
    cpu, reference = named_target("cpu"), named_target("reference")
    assert cpu is not None and reference is not None
    found = ephost.compare(model, cpu, reference, count=2)
    assert found.same == {"u": [True, True]}
    assert "u (no numbers): the same for 2 of 2 inputs" in str(found)
    assert [output.agreed for output in found.outputs] == [[1.0, 1.0]]


def test_a_plugin_is_named_as_commands_name_it(tmp_path: Path) -> None:
    for name in ("sample_kernels", "sample-kernels", "ephost.plugins.sample_kernels"):
        assert plugin_target(name).libraries[0].path == sample_kernels.get_library_path()
    with pytest.raises(InvalidArgument, match=r"'onnxruntme' is neither a file nor .* 'onnxruntime'"):
        plugin_target("onnxruntme")
    with pytest.raises(InvalidArgument, match=r"there is no library '.*libnone\.so'"):
        plugin_target(str(tmp_path / "libnone.so"))
    with pytest.raises(InvalidArgument, match="the package 'json' has no get_library_path"):
        plugin_target("json")
