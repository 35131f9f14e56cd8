"""A model server on a folder of models, asked over REST and over gRPC (extra: ephost[serve])."""

import json
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from ephost.serving.grpc_messages import MESSAGES, SERVICE
from onnx import parser

MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["": 17]>
    g (float[N, 4] x) => (float[N, 4] y) <float two = {2}> { y = Mul(x, two) }"""
)


def ask(port: int, path: str, body: Any = None) -> Any:
    """A request over REST: what any HTTP client does."""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data) as answer:
        return json.load(answer)


def ask_grpc(port: int, x: np.ndarray) -> np.ndarray:
    """One over gRPC. With the generated code of the protocol, or tritonclient, it looks alike."""
    request = MESSAGES["ModelInferRequest"](
        model_name="scale",
        inputs=[{"name": "x", "datatype": "FP32", "shape": x.shape}],
        raw_input_contents=[x.tobytes()],
    )
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = channel.unary_unary(
            f"/{SERVICE}/ModelInfer",
            request_serializer=MESSAGES["ModelInferRequest"].SerializeToString,
            response_deserializer=MESSAGES["ModelInferResponse"].FromString,
        )
        answer = stub(request, timeout=60)
    return np.frombuffer(answer.raw_output_contents[0], np.float32).reshape(answer.outputs[0].shape)


def main(folder: Path) -> None:
    """Serve a folder, ask, and end the server."""
    (folder / "scale" / "1").mkdir(parents=True)
    (folder / "scale" / "1" / "model.onnx").write_bytes(MODEL.SerializeToString())
    (folder / "scale" / "config.toml").write_text("[batching]\nmax_size = 8\n")
    ports = ["--http-port", "0", "--grpc-port", "0"]  # any that are free
    command = [sys.executable, "-m", "ephost", "serve", str(folder), *ports]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        events = (json.loads(line) for line in server.stderr)
        ready = next(event for event in events if event.get("event") == "ready")
        http_port = ready["http_port"]

        (x,) = ask(http_port, "/v2/models/scale")["inputs"]
        print(f"scale takes {x['name']} {x['datatype']} {x['shape']}")
        tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
        answer = ask(http_port, "/v2/models/scale/infer", {"inputs": [tensor]})
        print("over REST, as JSON:  ", answer["outputs"][0]["data"])
        y = ask_grpc(ready["grpc_port"], np.array([[1, 2, 3, 4]], np.float32))
        print("over gRPC, as bytes: ", y[0].tolist())
        try:
            ask(http_port, "/v2/models/scale/infer", {"inputs": [{**tensor, "datatype": "INT64"}]})
        except urllib.error.HTTPError as error:
            print("a wrong request:     ", error.code, json.load(error)["error"])
        server.terminate()  # it answers what it has accepted, and ends


with tempfile.TemporaryDirectory() as name:
    main(Path(name))
