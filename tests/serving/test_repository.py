"""Loading, unloading and replacing the models of a folder, and the server's own beginning and end."""

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from ephost.errors import InvalidArgument
from ephost.options import SessionOptions
from ephost.serving.config import parse_config
from ephost.serving.errors import BadRequest, Unavailable, UnknownModel
from ephost.serving.sessions import warm_up_feed
from ephost.serving.signature import Signature, TensorSpec
from onnx import TensorProto, helper
from served import Served, endless, identity, make_model, save, scaled

FEED = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}


def no_default(options: SessionOptions) -> None:
    """Models run on what every session has."""


def repository(folder: Path) -> Any:
    from ephost.serving.metrics import Metrics
    from ephost.serving.repository import Repository

    return Repository(folder, no_default, Metrics().observer)


def first(server: Served, model: str = "m") -> Any:
    status, body, _ = server.ask(f"/v2/models/{model}/infer", FEED)
    return body["outputs"][0]["data"][0] if status == 200 else status


def test_a_model_is_loaded_unloaded_and_loaded_again(tmp_path: Path) -> None:
    save(tmp_path, "m", scaled(2))
    with Served(tmp_path) as server:
        assert first(server) == 2
        assert server.ask("/v2/repository/models/m/unload", {})[0] == 200
        assert first(server) == 503
        assert server.ask("/v2/models/m/ready")[0] == 503
        assert server.ask("/v2/repository/index", {})[1] == [
            {"name": "m", "version": "", "state": "UNAVAILABLE", "reason": "unloaded"}
        ]
        assert server.ask("/v2/repository/index", {"ready": True})[1] == []
        save(tmp_path, "m", scaled(3))
        save(tmp_path, "n", scaled(4))
        assert server.ask("/v2/repository/models/m/load", {})[0] == 200
        assert first(server) == 3
        assert first(server, "n") == 404
        assert server.ask("/v2/repository/models/n/load", {})[0] == 200
        assert first(server, "n") == 4
        assert server.ask("/v2/repository/models/nothing/load", {})[0] == 404
        assert server.ask("/v2/repository/models/nothing/unload", {})[0] == 404


def test_to_load_a_model_looks_into_no_other_models_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(30):
        save(tmp_path, f"m{at}", scaled(at))
    listed: list[str] = []
    of_system = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(str(path)) or of_system(path))
    loaded = repository(tmp_path)
    assert loaded.load_all() == {}
    loaded.close()
    assert all(listed.count(str(tmp_path / f"m{at}")) <= 5 for at in range(30))


def test_what_cannot_be_loaded_leaves_the_rest_and_what_was_there(tmp_path: Path) -> None:
    save(tmp_path, "m", scaled(2))
    (tmp_path / "broken" / "1").mkdir(parents=True)
    (tmp_path / "broken" / "1" / "model.onnx").write_bytes(b"no model")
    with Served(tmp_path) as server:
        assert first(server) == 2
        assert server.ask("/v2/health/ready")[0] == 503
        _, index, _ = server.ask("/v2/repository/index", {})
        assert (
            index[0]["name"] == "broken"
            and index[0]["state"] == "UNAVAILABLE"
            and "model.onnx" in index[0]["reason"]
        )
        (tmp_path / "m" / "1" / "model.onnx").write_bytes(b"no model")
        status, answer, _ = server.ask("/v2/repository/models/m/load", {})
        assert status == 400 and "model 'm' cannot be loaded" in answer["error"]
        assert first(server) == 2


def test_no_request_fails_while_a_model_is_loaded_again(tmp_path: Path) -> None:
    save(tmp_path, "m", scaled(2), config="[batching]\nmax_size = 4\n")
    with Served(tmp_path) as server:
        done = threading.Event()

        def ask() -> list[Any]:
            found = []
            while not done.is_set():
                found.append(first(server))
            return found

        with ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(ask) for _ in range(4)]
            for factor in (3, 2, 3, 2, 5):
                save(tmp_path, "m", scaled(factor))
                assert server.ask("/v2/repository/models/m/load", {})[0] == 200
            time.sleep(0.1)
            done.set()
            found = [each for one in asking for each in one.result(60)]
        assert set(found) <= {2, 3, 5} and 5 in found


def test_control_of_the_repository_can_be_switched_off(tmp_path: Path) -> None:
    save(tmp_path, "m", scaled(2))
    with Served(tmp_path, "--no-repository-control") as server:
        for verb in ("load", "unload"):
            assert server.ask(f"/v2/repository/models/m/{verb}", {})[0] == 403
        assert "model_repository" not in server.ask("/v2")[1]["extensions"]
        assert first(server) == 2


def test_requests_that_were_accepted_are_answered_when_the_server_ends(tmp_path: Path) -> None:
    save(tmp_path, "slow", endless())
    with Served(tmp_path) as server:
        body = {"inputs": [{"name": "rounds", "shape": [1], "datatype": "INT64", "data": [30000]}]}
        with ThreadPoolExecutor(5) as pool:
            asking = [pool.submit(server.ask, "/v2/models/slow/infer", body) for _ in range(5)]

            def waiting() -> int:
                line = 'ephost_queue_requests{model="slow",version="1"} '
                text = server.ask("/metrics")[1].decode()
                return int(float(text.partition(line)[2].partition("\n")[0]))

            while waiting() < 4 and not any(each.done() for each in asking):
                time.sleep(0.01)
            assert server.end() == 0
            assert [each.result(60)[0] for each in asking] == [200] * 5
    assert [each["event"] for each in server.logged if "event" in each] == ["ready", "draining", "ended"]


def metrics(server: Served) -> str:
    text: str = server.ask("/metrics")[1].decode()
    return text


def counting(rounds: int, **parameters: Any) -> dict[str, Any]:
    item = {"name": "rounds", "shape": [1], "datatype": "INT64", "data": [rounds]}
    return {"inputs": [item], "parameters": parameters}


def test_a_run_whose_time_is_over_leaves_the_instance_to_others(tmp_path: Path) -> None:
    save(tmp_path, "slow", endless())
    with Served(tmp_path) as server:
        # An hour's run.
        assert server.ask("/v2/models/slow/infer", counting(1 << 40, timeout=200_000))[0] == 504
        status, body, _ = server.ask("/v2/models/slow/infer", counting(7, timeout=30_000_000))
        assert status == 200 and body["outputs"][0]["data"] == [7]


def test_a_run_whose_client_has_gone_leaves_the_instance_to_others(tmp_path: Path) -> None:
    save(tmp_path, "slow", endless())
    with Served(tmp_path) as server:
        body = json.dumps(counting(1 << 40)).encode()
        with socket.create_connection(("127.0.0.1", server.http_port), 60) as connection:
            head = b"POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            connection.sendall(head + body)
            while 'ephost_instances_busy{model="slow",version="1"} 1.0' not in metrics(server):
                time.sleep(0.01)
        status, answer, _ = server.ask("/v2/models/slow/infer", counting(7, timeout=30_000_000))
        assert status == 200 and answer["outputs"][0]["data"] == [7]


def test_what_still_runs_when_the_time_to_drain_is_over_is_stopped(tmp_path: Path) -> None:
    save(tmp_path, "slow", endless())
    with Served(tmp_path, "--drain-seconds", "0.2") as server, ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(server.ask, "/v2/models/slow/infer", counting(1 << 40)) for _ in range(2)]
        while 'ephost_queue_requests{model="slow",version="1"} 1.0' not in metrics(server):
            time.sleep(0.01)
        assert server.end() == 0
        for each in asking:
            status, body, _ = each.result(60)
            assert status == 503 and "the server ends" in body["error"]
    assert [each["event"] for each in server.logged if "event" in each] == ["ready", "draining", "ended"]


def test_a_server_ends_while_it_loads(tmp_path: Path) -> None:
    save(tmp_path, "a", scaled(2))
    save(tmp_path, "b", scaled(2), config="[[warm_up]]\ncount = 1_000_000\nshapes.x = [100_000, 4]\n")
    save(tmp_path, "c", scaled(2))
    command = [sys.executable, "-m", "ephost", "serve", str(tmp_path), "--http-port", "0", "--grpc-port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            while "model 'a' version 1 is ready" not in (line := process.stderr.readline()):
                assert line
            process.terminate()
            _, rest = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    logged = [json.loads(line) for line in rest.splitlines()]
    assert [each["event"] for each in logged if "event" in each] == ["draining", "ended"]
    assert not [each for each in logged if each["level"] == "error" or each.get("model") == "c"]


def test_a_token_is_asked_for_but_not_by_questions_of_health(tmp_path: Path) -> None:
    save(tmp_path / "models", "m", scaled(2))
    (tmp_path / "token").write_text("secret\n")
    with Served(tmp_path / "models", "--token-file", str(tmp_path / "token")) as server:
        assert server.ask("/v2/health/ready")[0] == server.ask("/v2/models/m/ready")[0] == 200
        for path in ("/v2", "/v2/models/m", "/metrics"):
            assert server.ask(path)[0] == 401
            assert server.ask(path, headers={"Authorization": "Bearer wrong"})[0] == 401
            assert server.ask(path, headers={"Authorization": "Bearer secret"})[0] == 200
        assert server.ask("/v2/models/m/infer", FEED)[0] == 401
        assert server.ask("/v2/repository/models/m/unload", {})[0] == 401
        assert server.ask("/v2/models/m/infer", FEED, {"Authorization": "Bearer secret"})[0] == 200


def test_the_configuration_reaches_the_session_and_the_warm_up_runs(tmp_path: Path) -> None:
    config = """
        instances = 2
        providers = [{ name = "CPUExecutionProvider", options = {} }]
        [batching]
        max_size = 16
        delay_milliseconds = 0.5
        [queue]
        size = 7
        [session]
        intra_op_num_threads = 1
        entries = { "session.disable_prepacking" = "1" }
        [[warm_up]]
        count = 2
        shapes = { x = [16, 4] }
    """
    save(tmp_path, "m", scaled(2), config=config)
    models = repository(tmp_path)
    models.load("m")
    try:
        version = models.get("m")
        assert version.config.batching.max_size == 16 and version.config.queue.size == 7
        assert version.config.instances == 2
    finally:
        models.close()
    save(
        tmp_path, "m", scaled(2), config='[session]\nentries = { "session.disable_cpu_ep_fallback" = "1" }\n'
    )
    with pytest.raises(BadRequest, match="disable_cpu_ep_fallback"):
        models.load("m")
    save(tmp_path, "m", scaled(2), config="[[warm_up]]\nshapes = { x = [16, 5] }\n")
    with pytest.raises(BadRequest, match=r"shapes.x is \[16, 5\]"):
        models.load("m")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ({"instanzes": 1}, "did you mean 'instances'"),
        ({"instances": 0}, "instances is a whole number from 1"),
        ({"instances": True}, "not True"),
        ({"batching": {"max_size": "8"}}, "batching.max_size"),
        ({"batching": {"delay": 3}}, "no key batching.delay"),
        ({"batching": 3}, "batching is a table"),
        ({"queue": {"timeout_milliseconds": -1}}, "queue.timeout_milliseconds"),
        ({"versions": "newest"}, "versions is 'latest'"),
        ({"versions": []}, "versions"),
        ({"policy": "PREFER_GPUS"}, "did you mean 'PREFER_GPU'"),
        ({"policy": "PREFER_GPU", "providers": ["X"]}, "exclude each other"),
        ({"providers": "X"}, "providers is a list"),
        ({"providers": [{"name": "X", "option": {}}]}, "providers[0]"),
        ({"providers": [{"name": "X", "options": {"a": 1}}]}, "providers[0].options"),
        ({"session": {"entries": {"a": 1}}}, "session.entries"),
        ({"session": {"graph_optimization_level": "all"}}, "graph_optimization_level"),
        ({"warm_up": {}}, "warm_up is a list"),
        ({"warm_up": [{"shapes": {"x": 3}}]}, "warm_up[0].shapes"),
    ],
)
def test_a_configuration_that_is_wrong_names_the_key(text: dict[str, Any], part: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        parse_config(text)
    assert part in str(raised.value)


def test_an_error_of_a_configuration_names_the_file(tmp_path: Path) -> None:
    for text in ("instances = 0", "instances ="):
        save(tmp_path, "m", scaled(2), config=text)
        with pytest.raises(BadRequest, match=r"m/config\.toml"):
            repository(tmp_path).load("m")


def test_versions_are_numbers_and_those_that_are_wanted(tmp_path: Path) -> None:
    for version in (1, 2, 11):
        save(tmp_path, "m", scaled(version), version)
    for name in ("01", "x", "0", "²"):
        (tmp_path / "m" / name).mkdir()
        (tmp_path / "m" / name / "model.onnx").write_bytes(b"")
    (tmp_path / ".hidden" / "1").mkdir(parents=True)
    (tmp_path / ".hidden" / "1" / "model.onnx").write_bytes(b"")
    models = repository(tmp_path)
    for config, wanted in (
        ("", ["11"]),
        ('versions = "all"', ["1", "2", "11"]),
        ("versions = [2, 1]", ["1", "2"]),
    ):
        save(tmp_path, "m", scaled(1), config=config or " ")
        models.load("m")
        assert models.versions("m") == wanted and models.get("m").version == wanted[-1]
    with pytest.raises(UnknownModel):
        models.get("m", "01")
    save(tmp_path, "m", scaled(1), config="versions = [3]")
    with pytest.raises(BadRequest, match=r"no m/3/model\.onnx"):
        models.load("m")
    assert models.names() == ["m"]
    models.close()
    with pytest.raises(Unavailable):
        models.get("m")


def test_a_folder_that_is_no_model_is_said_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "model.onnx").write_bytes(b"")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "README").write_text("of the folder")
    assert repository(tmp_path).load_all() == {}
    wanted = "VERSION/model.onnx, where VERSION is a number from 1 on"
    assert caplog.messages == [
        f"the folder {tmp_path / 'flat'} is no model: it has no {wanted}",
        f"there are no models in {tmp_path}: each is NAME/{wanted}",
    ]
    caplog.clear()
    save(tmp_path, "m", scaled(2))
    models = repository(tmp_path)
    assert models.load_all() == {}
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        f"the folder {tmp_path / 'flat'} is no model: it has no {wanted}"
    ]
    models.close()


def test_a_folder_that_vanishes_is_said_and_what_is_loaded_goes_on(tmp_path: Path) -> None:
    save(tmp_path / "models", "m", scaled(2))
    models = repository(tmp_path / "models")
    models.load_all()
    (tmp_path / "models").rename(tmp_path / "away")
    for ask in (models.index, lambda: models.load("m"), lambda: models.load("new")):
        with pytest.raises(Unavailable, match=r"^the folder of models cannot be read: No such file"):
            ask()
    assert models.loaded() == ["m"] and models.get("m").version == "1"
    models.close()


@pytest.mark.skipif(sys.platform == "win32", reason="such files are POSIX's")
@pytest.mark.timeout(30)
def test_special_files_and_names_without_characters_keep_no_other_model_from_being_loaded(
    tmp_path: Path,
) -> None:
    for name in ("pipe", "loop", "good", os.fsdecode(b"odd\xff")):
        save(tmp_path, name, scaled(2))
    os.mkfifo(tmp_path / "pipe" / "config.toml")
    (tmp_path / "loop" / "1" / "model.onnx").unlink()
    (tmp_path / "loop" / "1" / "model.onnx").symlink_to("model.onnx")
    models = repository(tmp_path)
    failed = models.load_all()
    assert list(failed) == ["pipe"] and "config.toml is a pipe" in failed["pipe"]
    assert models.loaded() == ["good"]
    models.close()


def test_what_the_protocol_has_no_type_for_is_said_when_it_is_loaded(tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    nodes = [helper.make_node("SequenceConstruct", ["x"], ["y"])]
    save(
        tmp_path,
        "m",
        make_model(nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])], [sequence]),
    )
    with pytest.raises(BadRequest, match=r"output 'y' is seq\(tensor\(float\)\)"):
        repository(tmp_path).load("m")


def test_batching_wants_open_first_axes(tmp_path: Path) -> None:
    save(tmp_path, "m", identity(TensorProto.FLOAT, (2, "n")), config="[batching]\nmax_size = 2\n")
    with pytest.raises(BadRequest, match="first axis of input 'x'"):
        repository(tmp_path).load("m")


def test_a_warm_up_feeds_every_input_that_a_run_needs() -> None:
    specs = [
        TensorSpec("a", "FP16", (-1, 3)),
        TensorSpec("b", "BYTES", (2,)),
        TensorSpec("c", "INT8", (), False),
    ]
    signature = Signature({each.name: each for each in specs}, {})
    (warm_up,) = parse_config({"warm_up": [{"shapes": {"a": [5, 3]}}]}).warm_up
    feed = warm_up_feed(signature, warm_up, "warm_up[0]")
    assert {name: (value.shape, value.dtype) for name, value in feed.items()} == {
        "a": ((5, 3), np.dtype(np.float16)),
        "b": ((2,), np.dtype(object)),
    }


def test_logs_are_objects_with_what_they_are_about(tmp_path: Path) -> None:
    from ephost.serving.logs import JsonFormatter

    record = logging.LogRecord("ephost.serving", logging.WARNING, "", 0, "a\n%s", ("b",), None)
    record.model = "m"
    line = JsonFormatter().format(record)
    assert "\n" not in line
    data = json.loads(line)
    assert data["message"] == "a\nb" and data["level"] == "warning" and data["model"] == "m"
    assert data["time"].endswith("Z")


def test_an_input_with_a_default_may_be_left_out(tmp_path: Path) -> None:
    model = make_model(
        [helper.make_node("Mul", ["x", "factor"], ["y"])],
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4]),
            helper.make_tensor_value_info("factor", TensorProto.FLOAT, [1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor("factor", TensorProto.FLOAT, (1,), [7])],
    )
    onnx.checker.check_model(model)
    save(tmp_path, "m", model)
    with Served(tmp_path) as server:
        assert first(server) == 7
        factor = {"name": "factor", "shape": [1], "datatype": "FP32", "data": [9]}
        status, body, _ = server.ask("/v2/models/m/infer", {"inputs": [*FEED["inputs"], factor]})
        assert status == 200 and body["outputs"][0]["data"][0] == 9


def test_a_request_for_a_version_is_never_anothers(tmp_path: Path) -> None:
    from ephost.serving.core import Core
    from ephost.serving.metrics import Metrics

    save(tmp_path, "m", scaled(2), 1)
    models = repository(tmp_path)
    models.load("m")
    core = Core(models, Metrics())
    feed = {"x": np.ones((1, 4), np.float32)}
    old = models.get("m", "1")
    save(tmp_path, "m", scaled(3), 2)
    models.load("m")  # and version 1 is gone
    result = asyncio.run(core.infer(old, feed, (), None))
    assert result.version == "2" and result.outputs[0].array.tolist() == [[3] * 4]
    with pytest.raises(UnknownModel, match="no version '1'"):
        asyncio.run(core.infer(old, feed, (), None, wanted="1"))
    models.close()


def test_a_server_is_ready_from_its_loading_to_its_end(tmp_path: Path) -> None:
    from ephost.serving.core import Core
    from ephost.serving.metrics import Metrics

    core = Core(repository(tmp_path), Metrics())
    assert not core.is_ready
    core.is_loaded = True
    assert core.is_ready
    core.is_draining = True
    assert not core.is_ready


def test_both_protocols_end_at_once() -> None:
    from ephost.serving.server import _end_all

    async def end_both() -> None:
        # Each waits until the other has begun to end.
        barrier = asyncio.Barrier(2)

        async def end() -> None:
            await barrier.wait()

        await asyncio.wait_for(_end_all([end, end]), 60)

    asyncio.run(end_both())


def test_loads_that_take_long_do_not_hold_up_what_else_threads_do() -> None:
    async def test() -> None:
        from ephost.serving.core import Core

        ends = threading.Event()

        def load(name: str) -> None:
            ends.wait(60)

        core = Core(None, None)  # type: ignore[arg-type]
        changes = [asyncio.ensure_future(core.change(load, "m")) for _ in range(64)]
        try:
            await asyncio.sleep(0)
            assert await asyncio.wait_for(asyncio.to_thread(int, "7"), 10) == 7
            assert not any(each.done() for each in changes)
        finally:
            ends.set()
        await asyncio.gather(*changes)

    asyncio.run(test())


def test_counters_are_read_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ephost.serving.core import Core
    from ephost.serving.grpc_messages import MESSAGES
    from ephost.serving.grpc_service import _Service
    from ephost.serving.metrics import Metrics
    from ephost.serving.rest import _Rest
    from prometheus_client import CollectorRegistry

    readers: list[threading.Thread] = []
    collect = CollectorRegistry.collect

    def read(registry: Any) -> Any:
        readers.append(threading.current_thread())
        return collect(registry)

    monkeypatch.setattr(CollectorRegistry, "collect", read)
    core = Core(repository(tmp_path), Metrics())
    rest, service = _Rest(core, 1), _Service(core)
    request: Any = SimpleNamespace(path_params={})
    asked = MESSAGES["ModelStatisticsRequest"]()
    asyncio.run(rest.metrics(request))
    asyncio.run(rest.statistics(request))
    asyncio.run(service.model_statistics(asked, request))
    assert len(readers) == 3 and threading.main_thread() not in readers
