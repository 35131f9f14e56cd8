"""Models on Ray: the smallest cluster there is, of this machine alone."""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser

for needed in ("starlette", "prometheus_client"):
    pytest.importorskip(needed, reason="the extra ephost[serve] is not installed")
ray = pytest.importorskip("ray", reason="the extra ephost[ray] is not installed")

# Ray starts processes of its own and waits for them as long as it takes; what it calls old is its own.
pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::DeprecationWarning")]
MODEL = """<ir_version: 8, opset_import: ["": 17]> g (float[N, W] x) => (float[N, W] y, int64[1] rows) {
    y = Neg(x)
    rows = Shape<start = 0, end = 1>(x) }"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "negative"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.onnx").write_bytes(parser.parse_model(MODEL).SerializeToString())
    return str(folder)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patched.setenv("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False)
        try:
            yield
        finally:
            ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_a_dataset_goes_through_a_model(model: str) -> None:
    from ephost.ray import Predictor
    from ray import data

    rows = np.arange(256, dtype=np.float32).reshape(64, 4)
    dataset = data.from_items([{"x": row, "id": at} for at, row in enumerate(rows)])
    made = dataset.map_batches(
        Predictor,
        fn_constructor_args=[model],
        fn_constructor_kwargs={"outputs": {"y": "minus"}},
        batch_format="numpy",
        batch_size=16,
        compute=data.ActorPoolStrategy(size=1),
    ).take_all()
    assert sorted(row["id"] for row in made) == list(range(64))
    for row in made:
        np.testing.assert_array_equal(row["minus"], -rows[row["id"]])


def ask(url: str, body: Any = None) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(
            url, None if body is None else json.dumps(body).encode(), timeout=120
        ) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def x_of(*rows: list[float]) -> dict[str, Any]:
    data = [value for row in rows for value in row]
    return {"inputs": [{"name": "x", "shape": [len(rows), len(rows[0])], "datatype": "FP32", "data": data}]}


@pytest.mark.usefixtures("cluster")
def test_a_deployment_answers_the_protocol_and_batches(model: str, tmp_path: Path) -> None:
    from ephost.ray import deployment
    from ray import serve

    folder = tmp_path / "batched"
    (folder / "1").mkdir(parents=True)
    text = MODEL.replace(", int64[1] rows", ", float[N] rows").replace(
        "rows = Shape<start = 0, end = 1>(x)",
        "s = Shape<start = 0, end = 1>(x) c = Cast<to = 1>(s) rows = Expand(c, s)",
    )
    (folder / "1" / "model.onnx").write_bytes(parser.parse_model(text).SerializeToString())
    (folder / "config.toml").write_text("[batching]\nmax_size = 4\ndelay_milliseconds = 20000\n")
    serve.start(http_options={"host": "127.0.0.1", "port": 0})
    try:
        lent = {"num_cpus": 0.1}
        served = deployment(model, name="negative", ray_actor_options=lent)
        handle = serve.run(served, name="negative", route_prefix="/v2/models/negative")
        made = handle.infer.remote({"x": np.ones((2, 3), np.float32)}).result(timeout_s=120)
        np.testing.assert_array_equal(made["y"], np.full((2, 3), -1))
        assert made["rows"].tolist() == [2]

        batched = serve.run(
            deployment(str(folder), name="b", ray_actor_options=lent), name="b", route_prefix="/b"
        )
        # Four requests fill a batch; without one they would wait for 20 s.
        answers = [batched.infer.remote({"x": np.full((1, 2), at, np.float32)}) for at in range(4)]
        for at, pending in enumerate(answers):
            result = pending.result(timeout_s=120)
            assert result["y"].tolist() == [[-at, -at]] and result["rows"].tolist() == [4]
    finally:
        serve.shutdown()


@pytest.mark.usefixtures("cluster")
def test_a_deployment_speaks_http(model: str) -> None:
    from ephost.ray import deployment
    from ray import serve
    from ray.serve.config import HTTPOptions

    port = free_port()
    serve.start(http_options=HTTPOptions(host="127.0.0.1", port=port))
    try:
        served = deployment(model, name="negative", ray_actor_options={"num_cpus": 0.1})
        serve.run(served, name="negative", route_prefix="/v2/models/negative")
        url = f"http://127.0.0.1:{port}/v2/models/negative"
        status, described = ask(url)
        assert (status, described["name"], described["versions"]) == (200, "negative", ["1"])
        assert described["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, -1]}]
        assert ask(f"{url}/ready") == (200, {"name": "negative", "ready": True})
        status, answer = ask(f"{url}/infer", {"id": "7", **x_of([1, 2], [3, 4])})
        assert (status, answer["id"], answer["model_version"]) == (200, "7", "1")
        assert answer["outputs"][0]["data"] == [-1, -2, -3, -4]
        status, answer = ask(f"{url}/infer", {"inputs": [{**x_of([1])["inputs"][0], "name": "z"}]})
        assert status == 400 and "no input 'z'" in answer["error"]
        assert ask(f"{url}/load", {})[0] == 404
    finally:
        serve.shutdown()


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def test_several_instances_are_replicas_here(model: str) -> None:
    from ephost.errors import InvalidArgument
    from ephost.ray import deployment

    config = Path(model) / "config.toml"
    config.write_text("instances = 2\n")
    try:
        with pytest.raises(InvalidArgument, match=r"instances = 2.*num_replicas"):
            deployment(model, name="negative")
    finally:
        config.unlink()


def replica(folder: Path, config: str, **given: Any) -> Any:
    """A replica's object, without Ray around it; its model is a product, which the sample plugin takes."""
    from ephost.ray import served
    from ephost.ray.opened import Source

    (folder / "1").mkdir(parents=True)
    text = MODEL.replace(", int64[1] rows", "").replace("rows = Shape<start = 0, end = 1>(x)", "")
    (folder / "1" / "model.onnx").write_bytes(
        parser.parse_model(text.replace("Neg(x)", "Mul(x, x)")).SerializeToString()
    )
    (folder / "config.toml").write_text(config)
    return served._Served(Source(str(folder), **given), "m")


def jobs_of(replica: Any, *rows: int) -> list[Any]:
    from ephost.serving.batching import Job, fit

    made = [Job({"x": np.full((count, 2), at, np.float32)}, ("y",)) for at, count in enumerate(rows)]
    for job in made:
        fit(job, replica._most, replica._label)
    return made


def test_a_replica_s_runs_have_no_more_rows_than_the_configuration_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = replica(tmp_path, "[batching]\nmax_size = 4\n")
    session, sizes = made._opened.session, []
    run = session.run
    monkeypatch.setattr(
        session, "run", lambda names, feed, _=None: (sizes.append(len(feed["x"])), run(names, feed))[1]
    )
    results = made._run_all(jobs_of(made, 3, 2, 2, 4))
    assert sizes == [3, 4, 4] and [result[0][0, 0] for result in results] == [0, 1, 4, 9]


@pytest.mark.in_process("the test isolates the plugin itself, and ends its process")
@pytest.mark.skipif(sys.platform != "linux", reason="plugins are isolated on Linux alone")
def test_a_replica_comes_back_behind_a_crash_or_says_that_it_does_not(tmp_path: Path) -> None:
    import ephost
    from ephost.ray import opened
    from ephost.serving.errors import RunFailed, Unavailable
    from test_ray_predictor import end_workers

    given = {"libraries": {"served": "ephost.plugins.sample_compiler"}, "isolated": True}
    try:
        made = replica(tmp_path, "", **given)
        assert made._run_all(jobs_of(made, 1))[0][0].tolist() == [[0, 0]]
        end_workers()
        (failed,) = made._run_all(jobs_of(made, 1))
        assert isinstance(failed, RunFailed) and "SIGKILL" in str(failed)
        assert made._run_all(jobs_of(made, 1))[0][0].tolist() == [[0, 0]]
        made.check_health()

        (tmp_path / "1" / "model.onnx").unlink()
        end_workers()
        assert isinstance(made._run_all(jobs_of(made, 1))[0], RunFailed)
        (refused,) = made._run_all(jobs_of(made, 1))
        assert isinstance(refused, Unavailable) and "cannot be opened again" in str(refused)
        with pytest.raises(RuntimeError, match="cannot be opened again"):
            made.check_health()
    finally:
        made._opened.session.close()
        ephost.unregister_execution_provider_library("served")
        del opened._registered["served"]
