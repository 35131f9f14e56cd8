"""Rows of Ray Data through a model; what calls it is Ray's business, and not needed here."""

import sys
from collections.abc import Iterator
from pathlib import Path

import ephost
import numpy as np
import psutil
import pytest
from ephost.plugins import sample_kernels
from ephost.ray import Predictor, labels, opened
from ephost.ray.opened import Source
from onnx import parser

HEADER = '<ir_version: 8, opset_import: ["": 17]>'
SUMS = f"""{HEADER} g (float[N, W] x) => (float[N] sum, float[N, W] minus) {{
    one = Constant<value_ints = [1]>()
    sum = ReduceSum<keepdims = 0>(x, one)
    minus = Neg(x) }}"""


def saved(folder: Path, text: str, config: str = "", version: int = 1) -> str:
    (folder / str(version)).mkdir(parents=True, exist_ok=True)
    (folder / str(version) / "model.onnx").write_bytes(parser.parse_model(text).SerializeToString())
    if config:
        (folder / "config.toml").write_text(config)
    return str(folder)


def objects(*rows: object) -> np.ndarray:
    column = np.empty(len(rows), object)
    column[:] = rows
    return column


@pytest.fixture
def sums(tmp_path: Path) -> str:
    return saved(tmp_path / "sums", SUMS)


def test_columns_become_inputs_and_outputs_columns(sums: str) -> None:
    predictor = Predictor(sums, columns={"x": "pixels"}, outputs={"sum": "score"})
    made = predictor({"pixels": np.ones((3, 4), np.float32), "id": np.arange(3)})
    assert list(made) == ["id", "score"]
    np.testing.assert_array_equal(made["score"], [4, 4, 4])
    np.testing.assert_array_equal(made["id"], [0, 1, 2])
    assert list(Predictor(sums, keep=["x"])({"x": np.ones((1, 2), np.float32), "id": np.zeros(1)})) == [
        "x",
        "sum",
        "minus",
    ]


def test_rows_of_several_shapes_keep_their_places(sums: str) -> None:
    rows = [np.full(width, at, np.float32) for at, width in enumerate((2, 3, 2, 1, 3))]
    made = Predictor(sums)({"x": objects(*rows)})
    np.testing.assert_array_equal(made["sum"], [0, 3, 4, 3, 12])
    assert made["sum"].dtype == np.float32 and made["minus"].dtype == object
    for row, minus in zip(rows, made["minus"], strict=True):
        np.testing.assert_array_equal(minus, -row)


def test_lists_are_of_the_inputs_type_and_arrays_are_held_to_it(sums: str) -> None:
    made = Predictor(sums)({"x": objects([1.0, 2.0], [3.0, 4.0])})
    np.testing.assert_array_equal(made["minus"], np.float32([[-1, -2], [-3, -4]]))
    with pytest.raises(ephost.errors.InvalidArgument, match="x"):
        Predictor(sums)({"x": np.ones((2, 2))})


def test_no_rows_give_no_rows(sums: str) -> None:
    made = Predictor(sums)({"x": np.empty((0, 4), np.float32)})
    assert made["sum"].shape == (0,) and made["sum"].dtype == np.float32


def test_a_model_of_a_fixed_number_of_rows_gets_that_many(tmp_path: Path) -> None:
    model = saved(tmp_path / "m", f"{HEADER} g (float[2, W] x) => (float[2, W] y) {{ y = Neg(x) }}")
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    np.testing.assert_array_equal(Predictor(model)({"x": x})["y"], -x)


def test_runs_are_no_longer_than_the_configuration_says(tmp_path: Path) -> None:
    text = f"""{HEADER} g (float[N] x) => (float[N] y) {{
        count = Shape(x)
        rows = Cast<to = 1>(count)
        y = Add(x, rows) }}"""
    model = saved(tmp_path / "m", text, "[batching]\nmax_size = 3\n")
    made = Predictor(model)({"x": np.zeros(7, np.float32)})
    np.testing.assert_array_equal(made["y"], [3, 3, 3, 3, 3, 3, 1])


def test_constants_are_the_same_in_each_run(tmp_path: Path) -> None:
    text = f"{HEADER} g (float[N, W] x, float factor) => (float[N, W] y) {{ y = Mul(x, factor) }}"
    model = saved(tmp_path / "m", text)
    with pytest.raises(ephost.errors.InvalidArgument, match=r"'factor'.*no axis for rows.*constants"):
        Predictor(model)
    made = Predictor(model, constants={"factor": np.float32(3)})({"x": np.ones((2, 2), np.float32)})
    np.testing.assert_array_equal(made["y"], np.full((2, 2), 3))


def test_texts_are_rows_too(tmp_path: Path) -> None:
    model = saved(tmp_path / "m", f"{HEADER} g (string[N] x) => (string[N] y) {{ y = Identity(x) }}")
    assert Predictor(model)({"x": objects("a", "bc")})["y"].tolist() == ["a", "bc"]


def test_texts_stay_texts_where_several_runs_give_them(tmp_path: Path) -> None:
    text = f"{HEADER} g (string[N] x) => (string[N] y) {{ y = Identity(x) }}"
    model = saved(tmp_path / "m", text, "[batching]\nmax_size = 2\n")
    made = Predictor(model)({"x": objects("a", "bc", "")})["y"]
    assert made.dtype == object and made.tolist() == ["a", "bc", ""]


@pytest.mark.in_process("the test isolates the plugin itself, and ends its process")
@pytest.mark.skipif(sys.platform != "linux", reason="plugins are isolated on Linux alone")
def test_a_crash_costs_its_batch_alone(tmp_path: Path, libraries: dict[str, str]) -> None:
    squares = f"{HEADER} g (float[N] x) => (float[N] y) {{ y = Mul(x, x) }}"
    libraries["rayed"] = "ephost.plugins.sample_compiler"
    predictor = Predictor(saved(tmp_path / "m", squares), libraries=libraries, isolated=True)
    batch = {"x": np.arange(3, dtype=np.float32)}
    assert predictor(batch)["y"].tolist() == [0, 1, 4]
    end_workers()
    with pytest.raises(ephost.PluginCrashed, match="SIGKILL"):
        predictor(batch)
    assert predictor(batch)["y"].tolist() == [0, 1, 4]
    predictor._opened.session.close()


def test_what_is_wrong_is_named(sums: str, tmp_path: Path) -> None:
    x = np.ones((2, 2), np.float32)
    with pytest.raises(ephost.errors.InvalidArgument, match=r"columns: .* no 'y'.*it has x"):
        Predictor(sums, columns={"y": "x"})
    with pytest.raises(ephost.errors.InvalidArgument, match=r"outputs: .* no 'summ'.*did you mean"):
        Predictor(sums, outputs={"summ": "x"})
    with pytest.raises(ephost.errors.InvalidArgument, match=r"no column 'x'.*it has z"):
        Predictor(sums)({"z": x})
    with pytest.raises(ephost.errors.InvalidArgument, match="'sum' is the batch's and an output's"):
        Predictor(sums)({"x": x, "sum": x})
    text = f"{HEADER} g (float[N, W] x) => (float[M] y) {{ y = ReduceSum<keepdims = 0>(x) }}"
    model = saved(tmp_path / "m", text)
    with pytest.raises(ephost.errors.Fail, match=r"output 'y'.*no row for each"):
        Predictor(model)({"x": x})


def test_a_version_is_the_highest_or_the_one_that_is_named(tmp_path: Path) -> None:
    for version in (2, 10):
        text = f"{HEADER} g (float[N] x) => (float[N] y) <float k = {{{version}}}> {{ y = Mul(x, k) }}"
        model = saved(tmp_path / "m", text, version=version)
    x = {"x": np.ones(1, np.float32)}
    assert Predictor(model)(x)["y"][0] == 10 and Predictor(model, version=2)(x)["y"][0] == 2
    assert Predictor(f"{model}/2/model.onnx")(x)["y"][0] == 2
    with pytest.raises(ephost.errors.NoSuchFile, match=r"3/model.onnx"):
        Predictor(model, version=3)
    with pytest.raises(ephost.errors.NoSuchFile, match=r"no model .*nowhere"):
        Predictor(str(tmp_path / "nowhere"))
    with pytest.raises(ephost.errors.InvalidArgument, match="has no versions"):
        Source(f"{model}/2/model.onnx", 2).file()


def end_workers() -> None:
    """Kill the processes of isolated plugins that are this process's."""
    for each in psutil.Process().children(recursive=True):
        if "sandbox.py" in " ".join(each.cmdline()):
            each.kill()


@pytest.fixture
def libraries() -> Iterator[dict[str, str]]:
    yield {"rayed": "ephost.plugins.sample_kernels"}
    ephost.unregister_execution_provider_library("rayed")
    del opened._registered["rayed"]


def test_it_runs_on_the_devices_of_its_libraries(sums: str, libraries: dict[str, str]) -> None:
    predictor = Predictor(sums, libraries=libraries, devices={"type": "CPU"})
    assert "sample_kernels" in " ".join(predictor._opened.session.get_providers())
    assert labels(libraries) == {"ephost.rayed": "CPU"}
    with pytest.raises(ephost.errors.Fail, match=r"'rayed'.*no device of {'type': 'NPU'}.*it offers"):
        Predictor(sums, libraries=libraries, devices={"type": "NPU"})
    with pytest.raises(ephost.errors.InvalidArgument, match=r"'rayed' is .*, and cannot be"):
        Predictor(sums, libraries={"rayed": sample_kernels.get_library_path()})
    with pytest.raises(ephost.errors.InvalidArgument, match="neither a file nor an installed Python package"):
        Predictor(sums, libraries={"other": "no_such_package"})
