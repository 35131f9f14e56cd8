"""The REST protocol, asked by plain requests: what a client library would never send is among them."""

import asyncio
import contextlib
import http.client
import json
import math
import socket
import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from served import KINDS, Served

DTYPES = {"FP16": np.float16, "BF16": ml_dtypes.bfloat16}
HEADER = "Inference-Header-Content-Length"


def tensor(
    data: Any, name: str = "x", datatype: str = "FP32", shape: Any = (1, 4), **more: Any
) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": list(shape), "data": data, **more}


def infer(server: Served, model: str, *inputs: Any, **more: Any) -> tuple[int, Any]:
    status, body, _ = server.ask(f"/v2/models/{model}/infer", {"inputs": list(inputs), **more})
    return status, body


def is_well(server: Served) -> bool:
    """Whether the server still answers as it should."""
    status, body = infer(server, "versions", tensor([1, 2, 3, 4]))
    return status == 200 and body["outputs"][0]["data"] == [10, 20, 30, 40]


def test_answers_of_two_packets_go_at_once() -> None:
    """Held back, the second one waits for the client's acknowledgement of the first, for 40 ms."""
    from ephost.serving.server import _listen

    async def taken() -> int:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[int] = loop.create_future()

        class Taken(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                connection = transport.get_extra_info("socket")
                found.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

        with _listen("127.0.0.1", 0) as listening:
            listening.setblocking(False)
            server = await loop.create_server(Taken, sock=listening)
            _, writer = await asyncio.open_connection(*listening.getsockname())
            nodelay = await found
            writer.close()
            server.close()
        return nodelay

    assert asyncio.run(taken())


def test_the_server_says_what_it_is(server: Served) -> None:
    assert server.ask("/v2/health/live")[:2] == (200, {"live": True})
    assert server.ask("/v2/health/ready")[0] == 200
    status, body, _ = server.ask("/v2")
    assert status == 200 and body["name"] == "ephost"
    assert {"binary_tensor_data", "model_repository", "model_configuration", "statistics"} <= set(
        body["extensions"]
    )


def test_metadata_names_inputs_outputs_and_versions(server: Served) -> None:
    _, body, _ = server.ask("/v2/models/two")
    floats = {"datatype": "FP32", "shape": [-1, 4]}
    assert body == {
        "name": "two",
        "versions": ["1"],
        "platform": "onnx_onnxv1",
        "inputs": [{"name": "a", **floats}, {"name": "b", **floats}],
        "outputs": [{"name": "sum", **floats}, {"name": "difference", **floats}],
    }


def test_the_highest_version_answers_unless_one_is_named(server: Served) -> None:
    assert server.ask("/v2/models/versions")[1]["versions"] == ["1", "2", "10"]
    for path, factor in (("versions", 10), ("versions/versions/2", 2), ("versions/versions/1", 1)):
        status, body = infer(server, path, tensor([1, 2, 3, 4]))
        assert status == 200 and body["outputs"][0]["data"] == [factor * n for n in (1, 2, 3, 4)]
    status, body = infer(server, "versions/versions/3", tensor([1, 2, 3, 4]))
    assert status == 404 and "no version '3'" in body["error"]
    assert server.ask("/v2/models/versions/versions/3/ready")[0] == 404
    assert server.ask("/v2/models/versions/versions/2/ready")[0] == 200


@pytest.mark.parametrize("datatype", KINDS)
def test_every_datatype_comes_back_as_binary_data(server: Served, datatype: str) -> None:
    if datatype == "BYTES":
        texts = [b"", "grün".encode(), b"a" * 300, b"\x00b", b"c", b"d"]
        data = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    else:
        dtype = np.dtype(
            DTYPES.get(datatype, {"BOOL": np.bool_}.get(datatype, datatype.lower().replace("fp", "float")))
        )
        data = np.array([0, 1, 1, 0, 1, 1]).astype(dtype).tobytes()
    item = {"name": "x", "datatype": datatype, "shape": [2, 3], "parameters": {"binary_data_size": len(data)}}
    # An odd length of the header: tensors must not have to be aligned.
    header = json.dumps({"inputs": [item], "parameters": {"binary_data_output": True}}).encode()
    header += b" " * (1 - len(header) % 2)
    assert len(header) % 2
    status, body, headers = server.ask(
        f"/v2/models/same_{datatype}/infer", header + data, {HEADER: str(len(header))}
    )
    length = int(headers[HEADER])
    assert status == 200
    output = json.loads(body[:length])["outputs"][0]
    assert output == {**item, "name": "y"}
    assert body[length:] == data


@pytest.mark.parametrize("datatype", [name for name in KINDS if name not in DTYPES])
def test_datatypes_come_back_as_json_nested_or_flat(server: Served, datatype: str) -> None:
    flat: list[Any] = {"BOOL": [True, False], "BYTES": ["", "grün"]}.get(datatype, [1, 0]) * 2
    for data in (flat, [flat[:2], flat[2:]]):
        status, body = infer(
            server, f"same_{datatype}", tensor(data, datatype=datatype, shape=[2, 2]), id="42"
        )
        assert status == 200 and body["id"] == "42"
        assert body["outputs"] == [{"name": "y", "datatype": datatype, "shape": [2, 2], "data": flat}]


def test_sixteen_bit_floats_have_no_json_and_say_so(server: Served) -> None:
    for datatype in DTYPES:
        status, body = infer(server, f"same_{datatype}", tensor([1, 2, 3, 4], datatype=datatype))
        assert status == 400 and "binary data" in body["error"]


def test_values_that_are_not_finite_have_no_json_and_say_so(server: Served) -> None:
    data = struct.pack("<4f", 1, math.inf, 2, math.nan)
    item = {"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": {"binary_data_size": 16}}
    header = json.dumps({"inputs": [item]}).encode()
    status, body, _ = server.ask("/v2/models/same_FP32/infer", header + data, {HEADER: str(len(header))})
    assert status == 400 and "output 'y'" in body["error"] and "binary" in body["error"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "1e39"])
def test_inputs_that_are_not_finite_have_no_json_either(server: Served, number: str) -> None:
    body = f'{{"inputs":[{{"name":"x","datatype":"FP32","shape":[1,1],"data":[{number}]}}]}}'
    status, answer, _ = server.ask("/v2/models/same_FP32/infer", body.encode())
    assert status == 400 and answer["error"].startswith(("the request is no JSON", "input 'x' of FP32"))


@pytest.mark.parametrize(
    ("datatype", "number"),
    [("UINT8", 300), ("UINT8", -1), ("INT8", -129), ("UINT64", -1), ("UINT64", 1 << 64), ("INT64", 1 << 63)],
)
def test_integers_beyond_the_range_are_refused(server: Served, datatype: str, number: int) -> None:
    item = tensor([number], datatype=datatype, shape=[1, 1])
    status, body = infer(server, f"same_{datatype}", item)
    assert status == 400 and f"input 'x' of {datatype}: " in body["error"]


def test_outputs_are_those_asked_for_in_that_order(server: Served) -> None:
    inputs = tensor([1, 2, 3, 4], "a"), tensor([4, 3, 2, 1], "b")
    _, body = infer(server, "two", *inputs, outputs=[{"name": "difference"}])
    assert [(each["name"], each["data"]) for each in body["outputs"]] == [("difference", [-3, -1, 1, 3])]
    _, body = infer(server, "two", *inputs, outputs=[{"name": "difference"}, {"name": "sum"}])
    assert [each["name"] for each in body["outputs"]] == ["difference", "sum"]


def test_one_output_may_be_binary_and_another_not(server: Served) -> None:
    request = {
        "inputs": [tensor([1, 2, 3, 4], "a"), tensor([4, 3, 2, 1], "b")],
        "outputs": [{"name": "sum", "parameters": {"binary_data": True}}, {"name": "difference"}],
    }
    status, body, headers = server.ask("/v2/models/two/infer", request)
    length = int(headers[HEADER])
    outputs = json.loads(body[:length])["outputs"]
    assert status == 200 and outputs[0]["parameters"] == {"binary_data_size": 16}
    assert outputs[1]["data"] == [-3, -1, 1, 3]
    assert struct.unpack("<4f", body[length:]) == (5, 5, 5, 5)


GOOD = tensor([1, 2, 3, 4])
WRONG = {
    "no list of inputs": ({"inputs": GOOD}, "inputs are no list"),
    "no inputs": ({}, "inputs are no list"),
    "an input that is missing": ({"inputs": []}, "inputs are missing: x"),
    "another input": ({"inputs": [{**GOOD, "name": "X"}]}, "did you mean 'x'"),
    "an input twice": ({"inputs": [GOOD, GOOD]}, "twice"),
    "an input without a name": ({"inputs": [{"shape": [1]}]}, "no object with a name"),
    "a name that is no string": ({"inputs": [{**GOOD, "name": 3}]}, "no object with a name"),
    "another datatype": ({"inputs": [{**GOOD, "datatype": "FP64"}]}, "input 'x' is FP32, not FP64"),
    "a datatype that is a list": ({"inputs": [{**GOOD, "datatype": ["FP32"]}]}, "input 'x' is FP32"),
    "no datatype": ({"inputs": [{"name": "x", "shape": [1, 4], "data": [1] * 4}]}, "not None"),
    "another rank": ({"inputs": [{**GOOD, "shape": [4]}]}, "not [4]"),
    "another dimension": ({"inputs": [{**GOOD, "shape": [2, 2]}]}, "not [2, 2]"),
    "a dimension below 0": ({"inputs": [{**GOOD, "shape": [-1, 4]}]}, "-1, which is no size"),
    "a dimension that is true": ({"inputs": [{**GOOD, "shape": [True, 4]}]}, "no size"),
    "a dimension with a fraction": ({"inputs": [{**GOOD, "shape": [1.0, 4]}]}, "no size"),
    "a shape that is no list": ({"inputs": [{**GOOD, "shape": 4}]}, "no list of numbers"),
    "a shape beyond 63 bits": ({"inputs": [{**GOOD, "shape": [1 << 63, 4]}]}, "no size"),
    "a huge shape": ({"inputs": [{**GOOD, "shape": [1 << 61, 4]}]}, "but 4 were sent"),
    "a rank beyond numpy's": ({"inputs": [{**GOOD, "shape": [1] * 100}]}, "at most 32"),
    "too few elements": ({"inputs": [{**GOOD, "data": [1, 2, 3]}]}, "but 3 were sent"),
    "lists nested otherwise": ({"inputs": [{**GOOD, "data": [[1, 2], [3, 4]]}]}, "not nested"),
    "lists nested deeper": ({"inputs": [{**GOOD, "data": [[[1], [2], [3], [4]]]}]}, "type array"),
    "a string among numbers": ({"inputs": [{**GOOD, "data": [1, 2, 3, "4"]}]}, "type string"),
    "null among numbers": ({"inputs": [{**GOOD, "data": [1, 2, 3, None]}]}, "type null"),
    "data that is no list": ({"inputs": [{**GOOD, "data": "abcd"}]}, "no list"),
    "neither data nor a size": ({"inputs": [{**GOOD, "data": None} | {"data": None}]}, "no list"),
    "binary data that is not there": (
        {
            "inputs": [
                {"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": {"binary_data_size": 16}}
            ]
        },
        "0 are left",
    ),
    "both": ({"inputs": [{**GOOD, "parameters": {"binary_data_size": 16}}]}, "both"),
    "parameters that are no object": ({"inputs": [{**GOOD, "parameters": 3}]}, "no object"),
    "another output": ({"inputs": [GOOD], "outputs": [{"name": "Y"}]}, "did you mean 'y'"),
    "an output twice": ({"inputs": [GOOD], "outputs": [{"name": "y"}] * 2}, "twice"),
    "an id that is no string": ({"inputs": [GOOD], "id": 3}, "no string"),
    "a flag that is none": ({"inputs": [GOOD], "parameters": {"binary_data_output": 1}}, "true or false"),
    "an extension that is not there": (
        {"inputs": [GOOD], "outputs": [{"name": "y", "parameters": {"classification": 3}}]},
        "extension",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_gets_the_protocols_error_and_disturbs_nothing(server: Served, case: str) -> None:
    body, part = WRONG[case]
    status, answer, _ = server.ask("/v2/models/versions/infer", body)
    assert status == 400 and list(answer) == ["error"]
    assert part in answer["error"]
    assert is_well(server)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b"[" * 50000,
        b'{"inputs": ' + b"9" * 9000 + b"}",
        b'{"id": "\xed\xa0\x80"}',
        b'{"id": "\\ud800"}',
        b'{"inputs": [{"name": "\\uDC00\\uD800", "shape": [1], "datatype": "FP32", "data": [1]}]}',
    ],
    ids=[
        "empty",
        "cut",
        "list",
        "string",
        "no UTF-8",
        "deep",
        "long number",
        "a surrogate's bytes",
        "half a pair",
        "halves in the wrong order",
    ],
)
def test_what_is_no_request_is_refused(server: Served, body: bytes) -> None:
    status, answer, _ = server.ask("/v2/models/versions/infer", body, method="POST")
    assert status == 400 and answer["error"]
    assert is_well(server)


def test_an_id_beyond_the_basic_plane_comes_back(server: Served) -> None:
    body = {
        "id": "\U0001f600 \\ud83d",
        "inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1] * 4}],
    }
    status, answer, _ = server.ask("/v2/models/versions/infer", json.dumps(body).encode(), method="POST")
    assert (status, answer["id"]) == (200, body["id"])


def test_sizes_of_binary_data_that_lie_are_refused(server: Served) -> None:
    def ask(size: Any, data: bytes, length: str | None = None, shape: Any = (1, 4)) -> tuple[int, str]:
        item = {
            "name": "x",
            "datatype": "FP32",
            "shape": list(shape),
            "parameters": {"binary_data_size": size},
        }
        header = json.dumps({"inputs": [item]}).encode()
        headers = {HEADER: str(len(header)) if length is None else length}
        status, answer, _ = server.ask("/v2/models/versions/infer", header + data, headers)
        return status, answer.get("error", "") if status != 200 else ""

    assert ask(16, bytes(16)) == (200, "")
    for size, data, part in (
        (16, bytes(15), "15 are left"),
        (12, bytes(16), "has 16 bytes, but 12"),
        (16, bytes(17), "1 bytes of binary data that are no input's"),
        (-1, bytes(16), "-1 bytes"),
        ("16", bytes(16), "'16' bytes"),
        (1 << 70, bytes(16), "16 are left"),
    ):
        status, error = ask(size, data)
        assert status == 400 and part in error, (size, error)
    for length in ("-1", "1e3", "99999999", "9" * 30, "٣"):
        try:
            assert ask(16, bytes(16), length)[0] == 400
        except UnicodeEncodeError:  # a header that urllib does not send
            continue
    assert ask(0, b"", shape=(0, 4)) == (200, "")
    assert is_well(server)


def test_strings_whose_lengths_lie_are_refused(server: Served) -> None:
    def ask(data: bytes, shape: list[int]) -> tuple[int, Any]:
        item = {
            "name": "x",
            "datatype": "BYTES",
            "shape": shape,
            "parameters": {"binary_data_size": len(data)},
        }
        header = json.dumps({"inputs": [item]}).encode()
        status, answer, _ = server.ask(
            "/v2/models/same_BYTES/infer", header + data, {HEADER: str(len(header))}
        )
        return status, answer

    assert ask(b"\1\0\0\0a", [1, 1])[0] == 200
    for data, shape, part in (
        (b"\2\0\0\0a", [1, 1], "says that it has 2 bytes"),
        (b"\xff\xff\xff\xffa", [1, 1], "says that it has 4294967295 bytes"),
        (b"\1\0\0", [1, 1], "only 3 bytes"),
        (b"\1\0\0\0ab", [1, 1], "1 bytes behind its last string"),
        (b"\1\0\0\0a", [1, 2], "only 5 bytes"),
        (b"\4\0\0\0abcd", [1, 2], "beyond the bytes"),
        (b"\0\0\0\0", [1 << 40, 1 << 20], "only 4 bytes"),
        (b"\1\0\0\0\xff", [1, 1], "not UTF-8"),
    ):
        status, answer = ask(data, shape)
        assert status == 400 and part in answer["error"], answer


def test_a_request_that_is_too_large_is_refused_before_it_is_read(server: Served) -> None:
    status, answer, _ = server.ask("/v2/models/versions/infer", b" " * 100001)
    assert status == 413 and "100000 bytes" in answer["error"]
    assert server.http_port is not None
    # So is one that does not say how long it is.
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
    try:
        connection.request(
            "POST",
            "/v2/models/versions/infer",
            iter([b" " * 50000] * 3),
            encode_chunked=True,
            headers={"Transfer-Encoding": "chunked"},
        )
        assert connection.getresponse().status == 413
    finally:
        connection.close()
    assert is_well(server)


def test_a_client_that_goes_away_disturbs_nothing(server: Served) -> None:
    assert server.http_port is not None
    for text in (
        b"POST /v2/models/versions/infer HTTP/1.1\r\nContent-Length: 100\r\n\r\n{",
        b"\0\1\2",
        b"GET",
    ):
        with socket.create_connection(("127.0.0.1", server.http_port), 60) as connection:
            connection.sendall(text)
    assert is_well(server)


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../secret",
        "..%2Fsecret",
        "%2Fetc",
        "versions%2F1",
        "versions/versions/..",
        "secret.onnx",
        "",
        "a%00b",
    ],
)
def test_no_path_comes_from_a_request(server: Served, path: str) -> None:
    for method, url in (
        ("POST", f"/v2/models/{path}/infer"),
        ("GET", f"/v2/models/{path}"),
        ("POST", f"/v2/repository/models/{path}/load"),
    ):
        body = b"{}" if method == "POST" else None
        status, answer, _ = server.ask(url, body, method=method)
        assert status in (404, 405) and "/tmp" not in str(answer)


def test_a_model_gets_no_contents_from_a_request_to_load_it(server: Served) -> None:
    for parameters in ({"config": "{}"}, {"file:1/model.onnx": "AAAA"}):
        status, answer, _ = server.ask("/v2/repository/models/versions/load", {"parameters": parameters})
        assert status == 400 and "not taken" in answer["error"]
    for parameters in ([[1]], 5, "config", None):
        status, answer, _ = server.ask("/v2/repository/models/versions/load", {"parameters": parameters})
        assert status == 400 and "no object" in answer["error"]


@pytest.mark.parametrize(
    "head", [b"X: " + b"a" * 300_000, b"X: y\r\n" * 50_000, b"a" * 300_000], ids=["value", "many", "name"]
)
def test_the_head_of_a_request_has_an_end(server: Served, head: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=30) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\n" + head)
        with contextlib.suppress(ConnectionError):
            assert connection.recv(100).startswith(b"HTTP/1.1 4")
    assert is_well(server)
    status, _, _ = server.ask("/v2", headers={"X": "a" * 50_000})
    assert status == 200


def test_compressed_requests_are_refused(server: Served) -> None:
    status, answer, _ = server.ask("/v2/models/versions/infer", b"x", {"Content-Encoding": "gzip"})
    assert status == 400 and "gzip" in answer["error"]
    body = json.dumps({"inputs": [tensor([1, 2, 3, 4])]}).encode()
    assert server.ask("/v2/models/versions/infer", body, {"Content-Encoding": "Identity"})[0] == 200


def test_a_run_that_fails_is_an_error_that_names_the_node(server: Served) -> None:
    status, body = infer(server, "table", tensor([7], "index", "INT64", [1]))
    assert status in (400, 500) and body["error"]
    assert infer(server, "table", tensor([2], "index", "INT64", [1]))[1]["outputs"][0]["data"] == [4, 5]


def test_metrics_count_requests_by_model(server: Served) -> None:
    def count() -> float:
        text = server.ask("/metrics")[1].decode()
        label = 'ephost_requests_total{model="versions",outcome="succeeded",version="10"} '
        return sum(float(line.removeprefix(label)) for line in text.splitlines() if line.startswith(label))

    before = count()
    assert is_well(server)
    assert count() == before + 1


def test_large_outputs_become_json_in_pieces_between_which_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ephost.serving.datatypes import to_json

    sizes: list[int] = []
    dumps = json.dumps
    monkeypatch.setattr(json, "dumps", lambda value, **how: sizes.append(len(value)) or dumps(value, **how))
    numbers = np.arange(100_000, dtype=np.float32).reshape(2, -1) / 3
    texts = np.array([f'"{at}\u2013' for at in range(40_000)], object)
    assert json.loads(to_json("y", "FP32", numbers)) == numbers.ravel().tolist()
    assert json.loads(to_json("y", "BYTES", texts)) == texts.tolist()
    assert to_json("y", "INT8", np.empty((0, 3), np.int8)) == "[]"
    assert to_json("y", "BOOL", np.array(True)) == "[true]"
    assert max(sizes) <= 1 << 14
