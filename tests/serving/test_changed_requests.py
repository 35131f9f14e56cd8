"""Requests with a part changed get an answer or the protocol's error, not a fault of the server."""

from __future__ import annotations

import copy
import json
import random
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from served import KINDS, Served

HEADER = "Inference-Header-Content-Length"
# What takes the place of a part of a request.
ODD = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**400, 1e308, -0.0),
    *(float("nan"), float("inf"), "", "x", "\ud800", "é\0", "a" * 1000, "FP64", "BYTES"),
    *(
        [],
        {},
        [[]],
        [None],
        {"a": 1},
        [1, [2, [3]]],
        [2**40, 2**40],
        [0],
        [-1, 2],
        ["2", 2],
        [2.0, 2],
        [True] * 4,
    ),
]
BLOBS = [
    b"",
    b"\0",
    bytes(range(200, 208)),
    b"\xff" * 16,
    struct.pack("<I", 1) + b"\xff",
    b"\xff\xff\xff\xffa",
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to the parts of a request, itself first."""
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*path, key))


def changed(request: Any, random: random.Random) -> Any:
    """The request with one part of it another, or missing."""
    *path, last = random.choice(list(places(request))[1:] or [("inputs",)])
    owner = request
    for key in path:
        owner = owner[key]
    if random.random() < 0.1:
        del owner[last]
    else:
        owner[last] = copy.deepcopy(random.choice(ODD))
    return request


def made(random: random.Random) -> tuple[str, bytes, dict[str, str]]:
    """A model, a body and the header for it."""
    datatype = random.choice(list(KINDS))
    data: list[Any] = {"BOOL": [True, False], "BYTES": ["", "grün"]}.get(datatype, [1, 0]) * 2
    item = {"name": "x", "datatype": datatype, "shape": [2, 2], "data": data}
    request: Any = {"id": "a", "inputs": [item], "outputs": [{"name": "y"}], "parameters": {"timeout": 10**7}}
    blob, headers = b"", {}
    if random.random() < 0.4:
        blob = random.choice(BLOBS)
        del item["data"]
        item["parameters"] = {"binary_data_size": len(blob)}
        request["parameters"]["binary_data_output"] = True
    for _ in range(random.randint(0, 3)):
        request = changed(request, random)
    header = json.dumps(request, ensure_ascii=random.random() < 0.5).encode(errors="surrogatepass")
    if random.random() < 0.2:
        at = random.randint(0, len(header))
        header = header[:at] + random.randbytes(random.randint(0, 4)) + header[at + random.randint(0, 4) :]
    if blob or random.random() < 0.2:
        lengths = [str(len(header))] * 8 + ["0", "-1", str(10**9), str(len(header) + 5), "x", "1e3", ""]
        headers[HEADER] = random.choice(lengths)
    return f"same_{datatype}", header + blob, headers


@pytest.mark.parametrize("seed", range(8))
def test_changed_requests_are_answered_or_refused(server: Served, seed: int) -> None:
    source = random.Random(seed)
    seen = set()
    for number in range(150):
        model, body, headers = made(source)
        status, answer, _ = server.ask(f"/v2/models/{model}/infer", body, headers)
        seen.add(status)
        if status != 200:
            said = answer["error"]
            assert status in (400, 504), (number, body, headers, said)
    assert {200, 400} <= seen
