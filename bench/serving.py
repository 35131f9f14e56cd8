"""What the model server costs and what its batches give, over gRPC.

Three servers with the same code, each a process of its own, take turns: one with batches, one without, and
one whose sessions are onnxruntime's; and a fourth of grpcio alone, which looks at no request and gives the
same answer to each: no server in Python on grpcio can do more. Sixteen clients ask the orientation model of
rapidocr with one image each; then one client asks a small model, whose latency stands beside that of
``session.run`` in this process. What batches can give at most is seen where the session runs them without a
server.

    python bench/serving.py [--seconds 3] [--rounds 5] [--save]
    python bench/serving.py --soak 600 [--share 0.8]

The second one asks for so many seconds at a share of what the server can do, and says how its memory grew and
what failed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import importlib.util
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
from harness.machine import ROOT, load
from harness.models import adds
from harness.results import begin

sys.path.insert(0, str(ROOT / "host"))
import ephost
from ephost.serving.grpc_messages import MESSAGES, SERVICE

CLIENTS = 16
IMAGE = (1, 3, 48, 192)
BATCHING = "[batching]\nmax_size = 16\ndelay_milliseconds = 1.0\n"
SIZES = (1, CLIENTS)  # of batches without a server
VARIANTS = ("batches", "no batches", "onnxruntime, batches", "grpcio alone")
ENGINES = {"onnxruntime, batches": "onnxruntime", "grpcio alone": "grpcio"}


async def serve_nothing() -> None:
    """Be a server that gives every request the same answer, which is about as long as the models' are."""

    async def answer(data: bytes, context: Any) -> bytes:
        return bytes(64)

    handlers = {"ModelInfer": grpc.unary_unary_rpc_method_handler(answer)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"ready: http on port 0, grpc on port {port}", file=sys.stderr, flush=True)
    await server.wait_for_termination()


def serve(folder: str, engine: str) -> None:
    """Be a server, on sessions of either host, until SIGTERM."""
    if engine == "grpcio":
        asyncio.run(serve_nothing())
        return
    import logging

    from ephost.serving import sessions
    from ephost.serving.server import Server, Settings

    if engine == "onnxruntime":
        import onnxruntime

        class Session(onnxruntime.InferenceSession):  # type: ignore[misc]
            """One that can be opened and closed as the server does it."""

            def __init__(self, path: str, *arguments: Any, **keywords: Any) -> None:
                super().__init__(path, providers=["CPUExecutionProvider"])

            def run(self, output_names: Any, input_feed: Any, run_options: Any = None) -> list[Any]:
                """Without options, which are ephost's."""
                return list(super().run(output_names, input_feed))

            def close(self) -> None:
                """Nothing: the last reference closes it."""

        sessions.InferenceSession = Session  # type: ignore[misc]
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    Server(Path(folder), Settings(http_port=0, grpc_port=0), lambda options: None).run()


class Served:
    """A server in a process of its own."""

    def __init__(self, folder: Path, engine: str = "ephost") -> None:
        command = [sys.executable, __file__, "--serve", str(folder), "--engine", engine]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if found := re.match(r"ready: http on port (\d+), grpc on port (\d+)", line):
                self.http_port, self.target = int(found[1]), f"127.0.0.1:{found[2]}"
                return
        raise SystemExit("a server did not start:\n" + "".join(lines))

    def memory(self) -> int:
        """Bytes that it has in memory."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def end(self) -> None:
        """Tell it to end, and wait."""
        self.process.terminate()
        self.process.communicate(timeout=60)


def request(model: str, inputs: dict[str, np.ndarray]) -> bytes:
    """A request's bytes, made once: what clients cost is not measured."""
    message = MESSAGES["ModelInferRequest"](
        model_name=model,
        inputs=[{"name": name, "datatype": "FP32", "shape": array.shape} for name, array in inputs.items()],
        raw_input_contents=[array.tobytes() for array in inputs.values()],
    )
    data: bytes = message.SerializeToString()
    return data


async def ask(
    target: str, data: bytes, clients: int, seconds: float, rate: float = 0.0
) -> tuple[list[float], int]:
    """The seconds that requests took, and how many failed.

    Args:
        target: the server.
        data: the request.
        clients: each with a connection of its own, asking again when it has its answer.
        seconds: for how long.
        rate: requests per second of all clients together; 0: as many as they can.
    """
    taken: list[float] = []
    failed = 0
    end = time.perf_counter() + seconds

    async def client(at: int) -> None:
        nonlocal failed
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(target, options=options) as channel:
            stub = channel.unary_unary(f"/{SERVICE}/ModelInfer")
            pace = clients / rate if rate else 0.0
            due = time.perf_counter() + pace * at / clients
            while (now := time.perf_counter()) < end:
                if pace and due > now:
                    await asyncio.sleep(due - now)
                due += pace
                started = time.perf_counter()
                try:
                    await stub(data, timeout=60)
                    taken.append(time.perf_counter() - started)
                except grpc.RpcError:
                    failed += 1

    await asyncio.gather(*(client(at) for at in range(clients)))
    return taken, failed


def ask_alone(target: str, data: bytes, seconds: float) -> list[float]:
    """The seconds that the requests of one client took that does nothing else."""
    taken = []
    with grpc.insecure_channel(target) as channel:
        stub = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        end = time.perf_counter() + seconds
        while (started := time.perf_counter()) < end:
            stub(data)
            taken.append(time.perf_counter() - started)
    return taken


def ask_over_rest(port: int, model: str, inputs: dict[str, np.ndarray], seconds: float) -> list[float]:
    """The same over REST, with tensors as JSON, on a connection that stays open."""
    tensors = [
        {"name": name, "datatype": "FP32", "shape": array.shape, "data": array.ravel().tolist()}
        for name, array in inputs.items()
    ]
    body = json.dumps({"inputs": tensors}).encode()
    taken = []
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        end = time.perf_counter() + seconds
        while (started := time.perf_counter()) < end:
            connection.request("POST", f"/v2/models/{model}/infer", body)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise SystemExit(f"a request over REST failed: {answer.status}")
            taken.append(time.perf_counter() - started)
    return taken


@contextlib.contextmanager
def servers(folder: Path, orientation: Path) -> Iterator[dict[str, Served]]:
    """A server for each variant, on folders that are alike but for the configuration."""
    made: dict[str, Served] = {}
    try:
        for at, variant in enumerate(VARIANTS):
            models = folder / str(at)
            for name, path in (
                ("orientation", orientation),
                ("small", Path(adds(folder, "small", shape=(1, 4)))),
            ):
                (models / name / "1").mkdir(parents=True)
                (models / name / "1" / "model.onnx").write_bytes(path.read_bytes())
            if variant != "no batches":
                (models / "orientation" / "config.toml").write_text(BATCHING)
            made[variant] = Served(models, ENGINES.get(variant, "ephost"))
        yield made
    finally:
        for server in made.values():
            server.end()


def direct(model: Path, feed: dict[str, np.ndarray], seconds: float) -> list[float]:
    """The seconds that ``session.run`` takes."""
    session = ephost.InferenceSession(str(model))
    session.run(None, feed)  # what is only done once
    taken = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        session.run(None, feed)
        taken.append(time.perf_counter() - started)
    return taken


def measure(folder: Path, orientation: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of the report: the variants take turns in each round, and the median of the rounds is taken."""
    image = request("orientation", {"x": np.random.default_rng(1).random(IMAGE, np.float32)})
    rates: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    latencies: dict[str, list[float]] = {variant: [] for variant in (*VARIANTS, "REST", "session.run")}
    images: dict[int, list[float]] = {size: [] for size in SIZES}
    rng = np.random.default_rng(1)
    with servers(folder, orientation) as made:
        stub = MESSAGES["ModelMetadataRequest"](name="small").SerializeToString()
        with grpc.insecure_channel(made["batches"].target) as channel:
            data = channel.unary_unary(f"/{SERVICE}/ModelMetadata")(stub)
        names = [each.name for each in MESSAGES["ModelMetadataResponse"].FromString(data).inputs]
        feed = {name: np.ones((1, 4), np.float32) for name in names}
        small = request("small", feed)
        for server in made.values():  # what is only done once
            asyncio.run(ask(server.target, image, CLIENTS, 0.5))
            ask_alone(server.target, small, 0.2)
        for _ in range(options.rounds):
            for variant, server in made.items():
                taken, failed = asyncio.run(ask(server.target, image, CLIENTS, options.seconds))
                if failed:
                    raise SystemExit(f"{failed} requests failed: {variant}")
                rates[variant].append(len(taken) / options.seconds)
                latencies[variant].append(
                    statistics.median(ask_alone(server.target, small, options.seconds / 4))
                )
            over_rest = ask_over_rest(made["batches"].http_port, "small", feed, options.seconds / 4)
            latencies["REST"].append(statistics.median(over_rest))
            small_model = folder / "0" / "small" / "1" / "model.onnx"
            latencies["session.run"].append(statistics.median(direct(small_model, feed, options.seconds / 4)))
            for size, found in images.items():
                batch = {"x": rng.random((size, *IMAGE[1:]), np.float32)}
                found.append(statistics.median(direct(orientation, batch, options.seconds / 4)) / size)
    rows = [
        {"name": f"{CLIENTS} clients, {variant}", "requests_per_second": statistics.median(found)}
        for variant, found in rates.items()
    ]
    rows += [
        {"name": f"one client, {variant}", "milliseconds": 1e3 * statistics.median(found)}
        for variant, found in latencies.items()
        if variant != "no batches"  # which is the same for a model without
    ]
    rows += [
        {
            "name": f"no server, {size} image{'s' * (size > 1)} a run",
            "milliseconds_per_image": 1e3 * statistics.median(found),
        }
        for size, found in images.items()
    ]
    return rows


def soak(folder: Path, orientation: Path, seconds: float, share: float) -> int:
    """Ask at a share of what can be done, and look at the server's memory."""
    image = request("orientation", {"x": np.random.default_rng(1).random(IMAGE, np.float32)})
    with servers(folder, orientation) as made:
        for variant in VARIANTS[1:]:
            made.pop(variant).end()
        server = made[VARIANTS[0]]
        asyncio.run(ask(server.target, image, CLIENTS, 2.0))
        most = len(asyncio.run(ask(server.target, image, CLIENTS, 5.0))[0]) / 5.0
        memory = []
        total = lost = 0
        for _ in range(10):
            taken, failed = asyncio.run(ask(server.target, image, CLIENTS, seconds / 10, share * most))
            total, lost = total + len(taken), lost + failed
            memory.append(server.memory() / (1 << 20))
            print(f"{total} requests, {lost} failed, {memory[-1]:.1f} MB in memory", flush=True)
    growth = memory[-1] - memory[1]
    print(
        f"{seconds:g} s at {share * most:.0f} requests per second: memory grew by {growth:.1f} MB since "
        "the second tenth"
    )
    return int(lost > 0 or growth > 16.0)


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of a variant in a round (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="ask so long, at a share of capacity")
    parser.add_argument("--share", type=float, default=0.8, help="of capacity, for --soak (%(default)s)")
    parser.add_argument("--save", action="store_true", help="keep the figures in bench/results")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--engine", default="ephost", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.engine)
        return 0
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    if spec is None or spec.origin is None:
        raise SystemExit("rapidocr_onnxruntime, whose model is asked, is not installed")
    orientation = Path(spec.origin).parent / "models" / "ch_ppocr_mobile_v2.0_cls_infer.onnx"
    with tempfile.TemporaryDirectory() as name:
        if options.soak:
            return soak(Path(name), orientation, options.soak, options.share)
        kept = begin("serving")
        kept.rows = measure(Path(name), orientation, options)
    for row in kept.rows:
        name, (unit, value) = row["name"], list(row.items())[1]
        print(f"{name:40} {value:10.3f} {unit.replace('_', ' ')}")
    print(f"load of the machine: {load():.1f}")
    if options.json:
        kept.write(Path(options.json))
    if options.save:
        kept.keep()
    return 0


if __name__ == "__main__":
    sys.exit(main())
