"""A model server whose plugin lives in another process, which is killed while requests are in it; and TLS."""

import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from ephost.plugins import sample_compiler
from onnx import TensorProto, helper
from served import Served, make_model, save, scaled

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="plugins are isolated on Linux alone")
SECONDS = 120.0


def product(dims: Any = ("n", 4)) -> Any:
    """y = x * x, which the sample plugin takes."""
    return make_model(
        [helper.make_node("Mul", ["x", "x"], ["y"])],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)],
    )


def workers(server: Served) -> list[psutil.Process]:
    """The processes of isolated plugins."""
    found = psutil.Process(server.process.pid).children(recursive=True)
    return [each for each in found if "sandbox.py" in " ".join(each.cmdline())]


@pytest.mark.in_process("the test isolates the plugin itself, and ends its process")
def test_a_killed_worker_costs_the_requests_in_it_alone_and_the_model_comes_back(tmp_path: Path) -> None:
    save(tmp_path, "m", product(), config="[batching]\nmax_size = 4\n")
    plugin = f"sample={sample_compiler.get_library_path()}"
    with Served(tmp_path, "--ep", plugin, "--isolated") as server:
        body = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
        answers: list[tuple[int, Any]] = []
        done = threading.Event()

        def ask() -> None:
            while not done.is_set():
                answers.append(server.ask("/v2/models/m/infer", body)[:2])

        def crashes() -> int:
            lines = server.ask("/metrics")[1].decode().splitlines()
            found = [line for line in lines if line.startswith("ephost_plugin_crashes_total{")]
            assert all('library="sample"' in line and 'model="m"' in line for line in found)
            return sum(int(float(line.rpartition(" ")[2])) for line in found)

        assert server.ask("/v2/models/m/infer", body)[0] == 200
        assert workers(server)
        with ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(ask) for _ in range(4)]
            try:
                for kills in range(1, 4):
                    for worker in workers(server):
                        os.kill(worker.pid, signal.SIGKILL)
                    limit = time.monotonic() + SECONDS
                    while crashes() < kills and time.monotonic() < limit:
                        time.sleep(0.02)
                    seen = len(answers)
                    while not any(status == 200 for status, _ in answers[seen:]) and time.monotonic() < limit:
                        time.sleep(0.02)
            finally:
                done.set()
            for each in asking:
                each.result(SECONDS)
        failed = [answer for status, answer in answers if status != 200]
        assert 3 <= len(failed) <= 3 * 4, failed  # batches have up to four requests
        assert all(
            "isolated plugin 'sample'" in each["error"] and "SIGKILL" in each["error"] for each in failed
        )
        right = [answer["outputs"][0]["data"] for status, answer in answers if status == 200]
        assert right and all(each == [1, 4, 9, 16] for each in right)
        assert server.ask("/v2/models/m/ready")[0] == server.ask("/v2/health/ready")[0] == 200
        assert crashes() == 3
        assert server.end() == 0


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for this machine, signed by itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    folder = tmp_path_factory.mktemp("tls")
    made = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", made[0], "-keyout", made[1]],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return made


def test_a_certificate_without_its_key_is_refused_by_name(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    pem, key = map(str, certificate)
    locked = str(tmp_path / "locked.pem")
    command = ["openssl", "rsa", "-in", key, "-aes128", "-passout", "pass:word", "-out", locked]
    subprocess.run(command, check=True, capture_output=True)
    for wrong in (pem, locked):
        done = subprocess.run(
            [sys.executable, "-m", "ephost", "serve", tmp_path, "--tls-certificate", pem, "--tls-key", wrong],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == 1, done.stderr
        assert f"TLS cannot be served with the certificate {pem} and the key {wrong}: " in done.stderr


def test_both_protocols_speak_tls(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    import urllib.request

    rpc = pytest.importorskip("tritonclient.grpc", reason="tritonclient is not installed")
    save(tmp_path, "m", scaled(2))
    pem, key = map(str, certificate)
    with Served(tmp_path, "--tls-certificate", pem, "--tls-key", key) as server:
        context = ssl.create_default_context(cafile=pem)
        url = f"https://127.0.0.1:{server.http_port}/v2/health/ready"
        with urllib.request.urlopen(url, timeout=SECONDS, context=context) as answer:
            assert answer.status == 200
        target = f"localhost:{server.grpc_port}"
        with rpc.InferenceServerClient(target, ssl=True, root_certificates=pem) as client:
            made = rpc.InferInput("x", [1, 4], "FP32")
            made.set_data_from_numpy(np.ones((1, 4), np.float32))
            assert client.infer("m", [made]).as_numpy("y").tolist() == [[2] * 4]
        with pytest.raises(OSError):
            server.ask("/v2/health/ready")
