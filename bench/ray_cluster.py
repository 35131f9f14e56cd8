"""What holds on a cluster of Ray: results when a node is killed, and replicas that come and go with the load.

Three nodes of this machine, each a process of Ray's own with one processor; one is killed after a third of
the images. `make develop` installs what it needs (rapidocr-onnxruntime's text recognition, ephost[ray]).

    python bench/ray_cluster.py [--images 2000]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ephost
import ephost.ray
import numpy as np
import ray
from PIL import Image, ImageDraw, ImageFont
from ray import data, serve
from ray.cluster_utils import Cluster

HEIGHT = 48  # of the images that the model was trained on


def model_file() -> Path:
    """Rapidocr's text recognition."""
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("rapidocr-onnxruntime is not installed")
    (file,) = Path(spec.submodule_search_locations[0]).glob("models/*rec*.onnx")
    return file


def draw(folder: Path, count: int) -> None:
    """Images of numbers, of three widths."""
    font = ImageFont.load_default(28)
    for at in range(count):
        image = Image.new("RGB", (96 + 32 * (at % 3), HEIGHT), "white")
        ImageDraw.Draw(image).text((8, HEIGHT // 2), str(10000 + at), "black", font, anchor="lm")
        image.save(folder / f"{at:05}.png")


def prepared(image: np.ndarray) -> np.ndarray:
    """An image (48, width, 3) of bytes as the model takes it: float32 (3, 48, width) from -1 to 1."""
    return np.ascontiguousarray((image.astype(np.float32) / 127.5 - 1).transpose(2, 0, 1))


def prepare(batch: dict[str, Any]) -> dict[str, Any]:
    """The images of a batch as rows of the model's input, and what they are called."""
    rows = np.empty(len(batch["image"]), object)
    for at, image in enumerate(batch["image"]):
        rows[at] = prepared(np.asarray(image))
    return {"x": rows, "name": np.array([Path(path).name for path in batch["path"]])}


def read(batch: dict[str, Any]) -> dict[str, Any]:
    """The classes that the model sees in each row, as text: they compare as one."""
    best = [" ".join(map(str, np.asarray(row).argmax(-1).tolist())) for row in batch["y"]]
    return {"name": batch["name"], "text": np.array(best, object)}


def alone(images: Path) -> dict[str, str]:
    """Every image by one session of one process."""
    session = ephost.InferenceSession(str(model_file()), providers=["CPUExecutionProvider"])
    (x,), (y,) = session.get_inputs(), session.get_outputs()
    found = {}
    for path in sorted(images.glob("*.png")):
        image = prepared(np.asarray(Image.open(path)))[None]
        found |= {
            path.name: read({"y": session.run([y.name], {x.name: image})[0], "name": [path.name]})["text"][0]
        }
    return found


def on_the_cluster(images: Path, cluster: Cluster, victim: Any, count: int) -> tuple[dict[str, str], int]:
    """The same by Ray Data; and after how many images the victim was killed."""
    session = ephost.InferenceSession(str(model_file()), providers=["CPUExecutionProvider"])
    (x,), (y,) = session.get_inputs(), session.get_outputs()
    # In blocks of few images: what a node loses is done again elsewhere.
    dataset = data.read_images(str(images), include_paths=True, mode="RGB", override_num_blocks=40)
    results = (
        dataset.map_batches(prepare, batch_format="numpy", batch_size=16)
        .map_batches(
            ephost.ray.Predictor,
            fn_constructor_args=[str(model_file())],
            fn_constructor_kwargs={"columns": {x.name: "x"}, "outputs": {y.name: "y"}},
            batch_format="numpy",
            batch_size=16,
            compute=data.ActorPoolStrategy(min_size=1, max_size=2),
            max_restarts=-1,
            max_task_retries=-1,
        )
        .map_batches(read, batch_format="numpy", batch_size=16)
    )
    found: dict[str, str] = {}
    killed = 0
    for row in results.iter_rows():
        found[str(row["name"])] = str(row["text"])
        if not killed and len(found) >= count // 3:
            killed = len(found)
            cluster.remove_node(victim, allow_graceful=False)
    return found, killed


def replicas(name: str) -> int:
    """How many replicas of the application run."""
    deployments = serve.status().applications[name].deployments
    return sum(each.replica_states.get("RUNNING", 0) for each in deployments.values())


def scaled(folder: Path) -> tuple[int, int, int]:
    """Replicas at rest, under load, and at rest again."""
    scaling = {
        "min_replicas": 1,
        "max_replicas": 3,
        "target_ongoing_requests": 1,
        "upscale_delay_s": 1,
        "downscale_delay_s": 5,
    }
    lent = {"num_cpus": 0.3}
    served = ephost.ray.deployment(
        str(model_file()), name="ocr", autoscaling_config=scaling, ray_actor_options=lent
    )
    serve.start(http_options={"host": "127.0.0.1", "port": 0})
    handle = serve.run(served, name="ocr", route_prefix="/v2/models/ocr")
    first = replicas("ocr")
    image = prepared(np.asarray(Image.open(min(folder.glob("*.png")))))[None]
    session = ephost.InferenceSession(str(model_file()), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    stop, failed = threading.Event(), []

    def ask() -> None:
        while not stop.is_set():
            try:
                handle.infer.remote({name: image}).result(timeout_s=120)
            except Exception as error:
                failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for each in threads:
        each.start()
    most = wait_for(lambda: replicas("ocr") >= 3, "ocr")
    stop.set()
    for each in threads:
        each.join()
    last = wait_for(lambda: replicas("ocr") <= 1, "ocr")
    if failed:
        raise SystemExit(f"{len(failed)} requests failed: {failed[0]}")
    return first, most, last


def wait_for(condition: Any, name: str, seconds: float = 180) -> int:
    """The number of replicas when the condition holds, or the time is over."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.5)
    return replicas(name)


def main() -> None:
    """Print what was found, and end with 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=2000)
    count = parser.parse_args().images
    with tempfile.TemporaryDirectory() as temporary:
        images = Path(temporary)
        draw(images, count)
        started = time.perf_counter()
        expected = alone(images)
        seconds = time.perf_counter() - started
        print(f"one process:    {count} images in {seconds:.1f} s")
        node = {"num_cpus": 1, "object_store_memory": 200 << 20}
        cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        cluster.add_node(**node)
        victim = cluster.add_node(**node)
        ray.init(address=cluster.address, log_to_driver=False)
        started = time.perf_counter()
        found, killed = on_the_cluster(images, cluster, victim, count)
        seconds = time.perf_counter() - started
        same = sum(expected[name] == text for name, text in found.items())
        print(
            f"three nodes:    {len(found)} images in {seconds:.1f} s, a node killed after {killed}; "
            f"{same} are as one process has them"
        )
        cluster.add_node(**node)
        first, most, last = scaled(images)
        print(f"replicas:       {first} at rest, {most} under load, {last} afterwards")
        ray.shutdown()
        cluster.shutdown()
    if (len(found), same, first, most, last) != (count, count, 1, 3, 1) or not killed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
