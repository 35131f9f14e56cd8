"""The gRPC protocol: calls that a client library would never make, and tritonclient's, written by others."""

import asyncio
import queue
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from google.protobuf import json_format
from served import KINDS, Served, endless, save, scaled

grpc = pytest.importorskip("grpc", reason="the extra ephost[serve] is not installed")
from ephost.serving import grpc_service  # noqa: E402
from ephost.serving.core import Core  # noqa: E402
from ephost.serving.grpc_messages import MESSAGES, SERVICE  # noqa: E402

SECONDS = 60.0
LISTS = {"BOOL": "bool", "FP32": "fp32", "FP64": "fp64", "UINT64": "uint64", "INT64": "int64"}


def parameters_of(map_of: Any, parameters: dict[str, dict[str, Any]]) -> None:
    """Fill a map of messages: protobuf 5 takes no plain dict for one."""
    for name, fields in parameters.items():
        for field, value in fields.items():
            setattr(map_of[name], field, value)


def request_of(message: str, **fields: Any) -> Any:
    """A request, whose parameters and those of its inputs are plain dicts."""
    parameters = fields.pop("parameters", {})
    inputs = [dict(each) for each in fields.pop("inputs", [])]
    of_inputs = [each.pop("parameters", {}) for each in inputs]
    made = MESSAGES[message](**fields, **({"inputs": inputs} if inputs else {}))
    parameters_of(made.parameters, parameters)
    for item, given in zip(made.inputs if inputs else (), of_inputs, strict=True):
        parameters_of(item.parameters, given)
    return made


class Raw:
    """Calls with whatever bytes."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel

    def call(self, method: str, data: Any, timeout: float = SECONDS, metadata: Any = None) -> Any:
        """The answer, or the status and its text."""
        kind = MESSAGES[f"{method}Response"]
        stub = self.channel.unary_unary(f"/{SERVICE}/{method}", response_deserializer=kind.FromString)
        data = data if isinstance(data, bytes) else data.SerializeToString()
        try:
            return stub(data, timeout=timeout, metadata=metadata)
        except grpc.RpcError as error:
            return error.code().name, error.details()

    def infer(self, **fields: Any) -> Any:
        return self.call("ModelInfer", request_of("ModelInferRequest", **fields))


@pytest.fixture(scope="module")
def raw(server: Served) -> Iterator[Raw]:
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        yield Raw(channel)


def x(**fields: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": "FP32", "shape": [1, 4], **fields}


FLOATS = struct.pack("<4f", 1, 2, 3, 4)


def is_well(raw: Raw) -> bool:
    answer = raw.infer(model_name="versions", inputs=[x()], raw_input_contents=[FLOATS])
    return not isinstance(answer, tuple) and answer.raw_output_contents[0] == struct.pack(
        "<4f", 10, 20, 30, 40
    )


def test_tensors_may_be_lists_of_numbers(raw: Raw) -> None:
    for datatype in KINDS:
        if datatype in ("FP16", "BF16"):
            continue
        name = (
            "bytes" if datatype == "BYTES" else LISTS.get(datatype, "uint" if datatype[0] == "U" else "int")
        )
        values = {"BYTES": ["grün".encode(), b""], "BOOL": [True, False]}.get(datatype, [1, 0])
        item = {"name": "x", "datatype": datatype, "shape": [1, 2], "contents": {f"{name}_contents": values}}
        answer = raw.infer(model_name=f"same_{datatype}", id="7", inputs=[item])
        assert not isinstance(answer, tuple), answer
        assert answer.id == "7" and answer.outputs[0].datatype == datatype
        assert list(answer.outputs[0].shape) == [1, 2]
        if datatype == "BYTES":
            assert answer.raw_output_contents[0] == b"\5\0\0\0gr\xc3\xbcn\0\0\0\0"
        else:
            data = answer.raw_output_contents[0]
            assert data[0] or data[: len(data) // 2].strip(b"\0")
            assert not data[len(data) // 2 :].strip(b"\0")


@pytest.mark.parametrize(
    ("datatype", "field", "number"),
    [("UINT8", "uint", 300), ("INT8", "int", -300), ("UINT16", "uint", 1 << 16), ("INT16", "int", 1 << 15)],
)
def test_numbers_beyond_the_range_are_refused(raw: Raw, datatype: str, field: str, number: int) -> None:
    item = {
        "name": "x",
        "datatype": datatype,
        "shape": [1, 2],
        "contents": {f"{field}_contents": [1, number]},
    }
    status, text = raw.infer(model_name=f"same_{datatype}", inputs=[item])
    assert status == "INVALID_ARGUMENT" and f"{number} out of bounds for {datatype.lower()}" in text


def test_the_ends_of_ranges_are_taken(raw: Raw) -> None:
    for datatype in (name for name in KINDS if "INT" in name):
        limits = np.iinfo(datatype.lower())
        name = LISTS.get(datatype, "uint" if datatype[0] == "U" else "int")
        contents = {f"{name}_contents": [int(limits.min), int(limits.max)]}
        item = {"name": "x", "datatype": datatype, "shape": [1, 2], "contents": contents}
        answer = raw.infer(model_name=f"same_{datatype}", inputs=[item])
        assert answer.raw_output_contents[0] == np.array([limits.min, limits.max], limits.dtype).tobytes()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an input that is missing": ({}, "inputs are missing: x"),
    "another input": ({"inputs": [x(name="X")], "raw_input_contents": [FLOATS]}, "did you mean 'x'"),
    "an input twice": ({"inputs": [x(), x()], "raw_input_contents": [FLOATS] * 2}, "twice"),
    "another datatype": ({"inputs": [x(datatype="INT32")], "raw_input_contents": [FLOATS]}, "is FP32"),
    "another shape": ({"inputs": [x(shape=[4])], "raw_input_contents": [FLOATS]}, "not [4]"),
    "a dimension below 0": ({"inputs": [x(shape=[-1, 4])], "raw_input_contents": [FLOATS]}, "no size"),
    "a huge shape": ({"inputs": [x(shape=[1 << 61, 4])], "raw_input_contents": [FLOATS]}, "but 16 were sent"),
    "too few bytes": ({"inputs": [x()], "raw_input_contents": [FLOATS[:-1]]}, "but 15 were sent"),
    "more contents than inputs": ({"inputs": [x()], "raw_input_contents": [FLOATS] * 2}, "has 2"),
    "no contents": ({"inputs": [x()]}, "0 were sent"),
    "both contents": (
        {"inputs": [x(contents={"fp32_contents": [1] * 4})], "raw_input_contents": [FLOATS]},
        "beside raw_input_contents",
    ),
    "another list": ({"inputs": [x(contents={"fp64_contents": [1] * 4})]}, "not in fp64_contents"),
    "two lists": (
        {"inputs": [x(contents={"fp32_contents": [1] * 4, "int_contents": [1]})]},
        "not in int_contents",
    ),
    "another output": (
        {"inputs": [x()], "raw_input_contents": [FLOATS], "outputs": [{"name": "Y"}]},
        "did you mean 'y'",
    ),
    "shared memory": (
        {"inputs": [x(parameters={"shared_memory_region": {"string_param": "a"}})]},
        "extension",
    ),
    "a timeout that is text": (
        {"inputs": [x()], "raw_input_contents": [FLOATS], "parameters": {"timeout": {"string_param": "1"}}},
        "microseconds",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_an_invalid_argument_and_disturbs_nothing(raw: Raw, case: str) -> None:
    fields, part = WRONG[case]
    status, text = raw.infer(model_name="versions", **fields)
    assert status == "INVALID_ARGUMENT" and part in text, text
    assert is_well(raw)


def test_what_is_no_message_is_an_invalid_argument(raw: Raw) -> None:
    for data in (b"\xff" * 10, b"\x0a\xff\xff\xff\xff\x0f", b"\x3a\x05a"):
        status, text = raw.call("ModelInfer", data)
        assert status == "INVALID_ARGUMENT" and "ModelInferRequest" in text
    assert is_well(raw)


def test_what_is_not_there_is_not_found_and_what_is_too_large_is_refused(raw: Raw) -> None:
    assert raw.infer(model_name="nothing")[0] == "NOT_FOUND"
    assert raw.infer(model_name="../secret")[0] == "NOT_FOUND"
    assert raw.infer(model_name="versions", model_version="3")[0] == "NOT_FOUND"
    assert raw.call("ModelMetadata", MESSAGES["ModelMetadataRequest"](name="nothing"))[0] == "NOT_FOUND"
    parameters = {"file:1/model.onnx": {"bytes_param": b"x"}}
    load = request_of("RepositoryModelLoadRequest", model_name="versions", parameters=parameters)
    assert raw.call("RepositoryModelLoad", load)[0] == "INVALID_ARGUMENT"
    assert raw.infer(model_name="versions", raw_input_contents=[bytes(100001)])[0] == "RESOURCE_EXHAUSTED"
    assert is_well(raw)


@pytest.mark.parametrize("character", ["a", "%", "\u2013"])
def test_a_long_error_keeps_its_status(raw: Raw, character: str) -> None:
    status, text = raw.infer(model_name=character * 20_000)
    assert status == "NOT_FOUND"
    assert text.startswith(f"there is no model '{character * 400}") and text.endswith(f"{character}...")
    assert is_well(raw)


def test_connections_that_carry_nothing_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_service, "_HANDSHAKE_SECONDS", 1)
    monkeypatch.setattr(grpc_service, "_IDLE_SECONDS", 1)

    async def test() -> None:
        server, port = grpc_service.make_server(
            Core(None, None),  # type: ignore[arg-type]
            max_request_bytes=1 << 20,
            token=None,
            certificate=None,
            address="127.0.0.1:0",
        )
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while await asyncio.wait_for(reader.read(1 << 10), 20):
            pass  # what a server of HTTP/2 begins with
        writer.close()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            ask = channel.unary_unary(f"/{SERVICE}/ServerLive")
            assert await ask(b"")
            assert channel.get_state() == grpc.ChannelConnectivity.READY
            await asyncio.wait_for(channel.wait_for_state_change(grpc.ChannelConnectivity.READY), 20)
            assert await ask(b"")  # on another connection
        await server.stop(None)

    asyncio.run(test())


def test_connections_beyond_a_bound_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_service, "most_connections", lambda: 8)

    async def test() -> None:
        server, port = grpc_service.make_server(
            Core(None, None),  # type: ignore[arg-type]
            max_request_bytes=4 << 30,  # more than grpcio's number holds
            token=None,
            certificate=None,
            address="127.0.0.1:0",
        )
        await server.start()
        writers, is_open = [], []
        for _ in range(8):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            try:
                is_open.append(bool(await asyncio.wait_for(reader.read(1), 20)))
            except ConnectionResetError:
                is_open.append(False)
        assert is_open == [True] * 4 + [False] * 4
        for writer in writers:
            writer.close()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert await channel.unary_unary(f"/{SERVICE}/ServerLive")(b"", wait_for_ready=True, timeout=20)
        await server.stop(None)

    asyncio.run(test())


def test_a_full_queue_a_deadline_and_a_cancelled_call(tmp_path: Path) -> None:
    save(tmp_path, "slow", endless(), config="[queue]\nsize = 1\n")
    with Served(tmp_path) as server, grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        rounds = 50_000
        while not _try_queue(server, channel, rounds):
            rounds *= 4  # the run that the others wait for was over too soon


def _try_queue(server: Served, channel: Any, rounds: int) -> bool:
    stub = channel.unary_unary(
        f"/{SERVICE}/ModelInfer", response_deserializer=MESSAGES["ModelInferResponse"].FromString
    )

    def request(rounds: int, **fields: Any) -> bytes:
        contents = {"int64_contents": [rounds]}
        item = {"name": "rounds", "datatype": "INT64", "shape": [1], "contents": contents}
        made = request_of("ModelInferRequest", model_name="slow", inputs=[item], **fields)
        data: bytes = made.SerializeToString()
        return data

    def metric(name: str, *parts: str) -> int:
        lines = server.ask("/metrics")[1].decode().splitlines()
        found = [
            line for line in lines if line.startswith(name + "{") and all(part in line for part in parts)
        ]
        return int(float(found[0].rpartition(" ")[2])) if found else 0

    def wait_for(wanted: int, name: str, *parts: str) -> None:
        while metric(name, *parts) != wanted:
            time.sleep(0.01)

    ended = metric("ephost_requests_total", 'outcome="cancelled"')
    runs = metric("ephost_run_seconds_count")
    late_ones = metric("ephost_requests_total", 'outcome="failed"')
    busy = stub.future(request(rounds), timeout=SECONDS)
    wait_for(1, "ephost_instances_busy")
    late = stub.future(request(1, parameters={"timeout": {"int64_param": 1000}}), timeout=SECONDS)
    wait_for(late_ones + 1, "ephost_requests_total", 'outcome="failed"')
    body = {
        "inputs": [{"name": "rounds", "shape": [1], "datatype": "INT64", "data": [1]}],
        "parameters": {"timeout": 1000},
    }
    status = server.ask("/v2/models/slow/infer", body)[0]
    cancelled = stub.future(request(1), timeout=SECONDS)
    wait_for(1, "ephost_queue_requests")
    refused = stub.future(request(1), timeout=SECONDS)
    refused_as = refused.code(), refused.details()
    assert cancelled.cancel()
    wait_for(ended + 1, "ephost_requests_total", 'outcome="cancelled"')
    if busy.done():
        return False
    assert late.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert status == 504
    assert refused_as[0] == grpc.StatusCode.RESOURCE_EXHAUSTED and "full" in refused_as[1]
    assert busy.result(SECONDS).raw_output_contents[0] == struct.pack("<q", rounds)
    wait_for(runs + 1, "ephost_run_seconds_count")
    return True


def test_a_token_is_asked_for_over_grpc(tmp_path: Path) -> None:
    save(tmp_path / "models", "m", scaled(2))
    (tmp_path / "token").write_text("secret\n")
    with (
        Served(tmp_path / "models", "--token-file", str(tmp_path / "token")) as server,
        grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel,
    ):
        raw = Raw(channel)
        ask = MESSAGES["ServerMetadataRequest"]()
        assert raw.call("ServerReady", MESSAGES["ServerReadyRequest"]()).ready
        for metadata in (None, [("authorization", "Bearer no")]):
            assert raw.call("ServerMetadata", ask, metadata=metadata)[0] == "UNAUTHENTICATED"
        assert raw.call("ServerMetadata", ask, metadata=[("authorization", "Bearer secret")]).name == "ephost"


# ---- tritonclient ----


@pytest.fixture(scope="module", params=["http", "grpc"])
def triton(request: pytest.FixtureRequest, server: Served) -> Iterator[tuple[Any, Any]]:
    """A client, and its module."""
    module = pytest.importorskip(f"tritonclient.{request.param}", reason="tritonclient is not installed")
    port = server.http_port if request.param == "http" else server.grpc_port
    client = module.InferenceServerClient(f"127.0.0.1:{port}")
    yield module, client
    client.close()


def given(module: Any, name: str, array: np.ndarray, datatype: str = "FP32") -> Any:
    made = module.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


def test_tritonclient_asks_what_there_is(triton: tuple[Any, Any]) -> None:
    _, client = triton
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("two")
    assert client.is_model_ready("versions", "2")
    for found in (client.get_server_metadata(), client.get_model_metadata("two")):
        assert (found["name"] if isinstance(found, dict) else found.name) in ("ephost", "two")
    assert client.get_model_repository_index()
    client.load_model("versions")
    client.unload_model("same_INT8")
    assert not client.is_model_ready("same_INT8")
    client.load_model("same_INT8")
    assert client.is_model_ready("same_INT8")


def as_json(found: Any) -> Any:
    """A message as the client for HTTP gives it."""
    return (
        found
        if isinstance(found, dict)
        else json_format.MessageToDict(found, preserving_proto_field_name=True)
    )


def test_tritonclient_reads_configurations(triton: tuple[Any, Any]) -> None:
    _, client = triton
    config = as_json(client.get_model_config("table"))
    config = config.get("config", config)
    assert (config["name"], config["max_batch_size"]) == ("table", 8)
    assert int(config["dynamic_batching"]["max_queue_delay_microseconds"]) == 50_000
    config = as_json(client.get_model_config("same_BYTES"))
    config = config.get("config", config)
    assert config.get("max_batch_size", 0) == 0 and "dynamic_batching" not in config
    (taken,) = config["input"]
    assert (taken["name"], taken["data_type"], list(map(int, taken["dims"]))) == (
        "x",
        "TYPE_STRING",
        [-1, -1],
    )


def test_tritonclient_reads_statistics(triton: tuple[Any, Any]) -> None:
    module, client = triton

    def counted() -> dict[str, int]:
        (found,) = as_json(client.get_inference_statistics("two"))["model_stats"]
        times = {name: int(each.get("count", 0)) for name, each in found.get("inference_stats", {}).items()}
        return {"rows": int(found.get("inference_count", 0)), **times}

    x = np.ones((2, 4), np.float32)
    before = counted()
    client.infer("two", [given(module, "a", x), given(module, "b", x)])
    with pytest.raises(Exception, match="no input"):
        client.infer("two", [given(module, "z", x)])
    after = counted()
    for name in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert after[name] - before.get(name, 0) == 1, name
    names = [each["name"] for each in as_json(client.get_inference_statistics())["model_stats"]]
    assert {"two", "table"} <= set(names) and names.count("versions") == 3


@pytest.mark.parametrize("datatype", KINDS)
def test_tritonclient_sends_and_gets_every_datatype(triton: tuple[Any, Any], datatype: str) -> None:
    module, client = triton
    if datatype == "BYTES":
        array = np.array([[b"", "grün".encode()], [b"a" * 1000, b"c"]], dtype=object)
    elif datatype == "BF16":
        array = np.array([[1, -2], [0.5, 0]], dtype=ml_dtypes.bfloat16)
    else:
        dtype = "bool" if datatype == "BOOL" else datatype.lower().replace("fp", "float")
        array = np.array([[1, 0], [0, 1]]).astype(dtype)
    result = client.infer(f"same_{datatype}", [given(module, "x", array, datatype)]).as_numpy("y")
    assert result.shape == array.shape
    assert result.tolist() == array.tolist()


def test_tritonclient_has_several_inputs_and_outputs_and_asks_at_once(triton: tuple[Any, Any]) -> None:
    module, client = triton
    rng = np.random.default_rng(3)

    def once(at: int) -> None:
        a, b = (rng.standard_normal((at % 5 + 1, 4)).astype(np.float32) for _ in "ab")
        inputs = [given(module, "a", a), given(module, "b", b)]
        outputs = [module.InferRequestedOutput(name) for name in ("difference", "sum")]
        result = client.infer("two", inputs, outputs=outputs, request_id=str(at))
        np.testing.assert_array_equal(result.as_numpy("sum"), a + b)
        np.testing.assert_array_equal(result.as_numpy("difference"), a - b)

    for at in range(8):
        once(at)


def test_tritonclient_asks_asynchronously_and_batches_mix_nothing(server: Served) -> None:
    module = pytest.importorskip("tritonclient.grpc", reason="tritonclient is not installed")
    with module.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for at in range(60):
            index = np.array([at % 3] * (at % 4 + 1), np.int64)
            client.async_infer(
                "table",
                [given(module, "index", index, "INT64")],
                lambda result, error, at=at: answers.put((at, result, error)),
            )
        for _ in range(60):
            at, result, error = answers.get(timeout=SECONDS)
            assert error is None
            row = [2.0 * (at % 3), 2.0 * (at % 3) + 1]
            assert result.as_numpy("y").tolist() == [row] * (at % 4 + 1)


def test_a_stream_answers_each_request_and_an_error_ends_only_its_own(server: Served) -> None:
    module = pytest.importorskip("tritonclient.grpc", reason="tritonclient is not installed")
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with module.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        ones = given(module, "x", np.ones((1, 4), np.float32))
        for model in ("versions", "nothing", "versions"):
            client.async_stream_infer(model, [ones])
        found = [answers.get(timeout=SECONDS) for _ in range(3)]
        client.stop_stream()
    assert [error is None for _, error in found] == [True, False, True]
    assert "nothing" in str(found[1][1])
    assert found[2][0].as_numpy("y").tolist() == [[10] * 4]


def test_tritonclients_errors_are_the_protocols(triton: tuple[Any, Any]) -> None:
    from tritonclient.utils import InferenceServerException

    module, client = triton
    for model, shape, part in (("versions", (1, 5), "not [1, 5]"), ("nothing", (1, 4), "no model 'nothing'")):
        with pytest.raises(InferenceServerException) as raised:
            client.infer(model, [given(module, "x", np.ones(shape, np.float32))])
        assert part in str(raised.value)


def test_both_protocols_are_asked_at_once_by_many(server: Served) -> None:
    http = pytest.importorskip("tritonclient.http", reason="tritonclient is not installed")
    rpc = pytest.importorskip("tritonclient.grpc", reason="tritonclient is not installed")
    failed: list[BaseException] = []
    barrier = threading.Barrier(8)

    def ask(at: int) -> None:
        module, port = ((http, server.http_port), (rpc, server.grpc_port))[at % 2]
        try:
            with module.InferenceServerClient(f"127.0.0.1:{port}") as client:
                barrier.wait(SECONDS)
                for number in range(20):
                    array = np.full((1, 4), at * 100 + number, np.float32)
                    result = client.infer("versions", [given(module, "x", array)])
                    assert (result.as_numpy("y") == 10 * array).all()
        except BaseException as error:
            failed.append(error)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    assert failed == []


def test_fields_are_numbered_as_a_published_client_numbers_them() -> None:
    module = pytest.importorskip("tritonclient.grpc.service_pb2", reason="tritonclient is not installed")
    configs = pytest.importorskip("tritonclient.grpc.model_config_pb2")
    # Of configurations and statistics there is only what this server has.
    in_part = {"ModelConfig", "ModelInput", "ModelOutput", "ModelInstanceGroup", "ModelDynamicBatching"}
    in_part |= {"ModelStatistics", "InferStatistics"}
    theirs = {**module.DESCRIPTOR.message_types_by_name, **configs.DESCRIPTOR.message_types_by_name}

    def fields(kind: Any) -> dict[str, Any]:
        return {
            each.name: (
                each.number,
                each.TYPE_INT32 if each.type == each.TYPE_ENUM else each.type,  # written alike
                each.is_repeated,
                each.containing_oneof and each.containing_oneof.name,
                each.message_type and each.message_type.full_name,
            )
            for each in kind.fields
        }

    for name, made in MESSAGES.items():
        mine = fields(made.DESCRIPTOR)
        if name == "ModelMetadataResponse":
            assert mine.pop("properties")[0] == 6  # of the protocol's, but not of this client
        wanted = fields(theirs[name])
        if name in in_part:
            assert set(mine) <= set(wanted), name
            wanted = {each: (*wanted[each][:3], None, wanted[each][4]) for each in mine}
        assert mine == wanted, name
        for inner in made.DESCRIPTOR.nested_types:
            if inner.name != "PropertiesEntry":
                assert fields(inner) == fields(theirs[name].nested_types_by_name[inner.name]), inner.full_name
