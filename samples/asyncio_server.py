"""A web handler that awaits its runs: 64 requests at once on one session, and a free event loop."""

import asyncio
import json
import time

import ephost as ort
import numpy as np
from ephost.plugins import sample_kernels
from onnx import parser

MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["": 17]>
    g (float[N, 64] x) => (float[N, 64] y) { a = Add(x, x)  y = Relu(a) }"""
)
REQUESTS = 64

ort.register_execution_provider_library("bundled", sample_kernels.get_library_path())
session = ort.InferenceSession(MODEL.SerializeToString(), providers=["sample_kernels"])


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection: a line of JSON with a list of numbers in, a line with the model's answer out."""
    numbers = json.loads(await reader.readline())
    x = np.resize(np.asarray(numbers, np.float32), (1, 64))
    (y,) = await session.run_asyncio(None, {"x": x})
    writer.write(json.dumps(y[0, : len(numbers)].tolist()).encode() + b"\n")
    await writer.drain()
    writer.close()


async def ask(port: int, numbers: list[float]) -> list[float]:
    """A client's request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(json.dumps(numbers).encode() + b"\n")
    reply = json.loads(await reader.readline())
    writer.close()
    return list(reply)


async def main() -> None:
    """Serve, and be the clients too."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    started = time.perf_counter()
    replies = await asyncio.gather(*(ask(port, [number, -number]) for number in range(REQUESTS)))
    seconds = time.perf_counter() - started
    assert replies == [[2 * number, 0] for number in range(REQUESTS)]
    print(f"{REQUESTS} requests at once, {REQUESTS} right replies, {seconds * 1000:.0f} ms")
    server.close()


asyncio.run(main())
